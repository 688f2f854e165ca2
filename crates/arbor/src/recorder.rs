//! The thread of the flight recorder: a sample of all statistics per period, into `diagnostic.data/`.
//!
//! It is a thread of its own that takes no lock of a statement for longer than a reader of statistics does. Errors (a full disk) are logged
//! when they begin and when they end; they never reach a client.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use arbor_bson::DocBuf;
use arbor_command::{Commands, Recording};
use arbor_metrics::flight::{DIRECTORY, Limits, Recorder};
use arbor_protocol::log::{Log, events, now_ms};
use arbor_server::Stop;

use crate::failure::Failure;

/// Interval at which the thread checks for a stop.
const TICK: Duration = Duration::from_millis(50);

struct Flight {
    commands: Arc<Commands>,
    log: Arc<Log>,
    directory: PathBuf,
    recorder: Option<Recorder>,
    failing: bool,
}

/// Starts the thread. It writes what it holds when the server stops.
pub(crate) fn start(
    commands: Arc<Commands>,
    log: Arc<Log>,
    dbpath: &Path,
    stop: Stop,
) -> Result<JoinHandle<()>, Failure> {
    let directory = dbpath.join(DIRECTORY);
    let mut flight = Flight { commands, log, directory, recorder: None, failing: false };
    let record = move || {
        let mut next = Instant::now();
        while !stop.is_stopping() {
            if Instant::now() < next {
                std::thread::sleep(TICK);
                continue;
            }
            let recording = flight.commands.recording();
            let period = recording.map_or(Duration::from_secs(1), |recording| recording.period);
            flight.turn(recording);
            // a pause of the machine is not made up for
            next = (next + period).max(Instant::now());
        }
        flight.turn(None);
    };
    std::thread::Builder::new().name("arbor-recorder".to_owned()).spawn(record).map_err(Failure::cannot_start)
}

impl Flight {
    /// Takes a sample, or ends the recording that is no longer asked for.
    fn turn(&mut self, recording: Option<Recording>) {
        let outcome = match recording {
            Some(recording) => self.sample(&limits(&recording)),
            None => self.recorder.take().map_or(Ok(()), |mut recorder| {
                let recording = self.commands.recording();
                let keep_all = Limits {
                    directory_bytes: u64::MAX,
                    file_bytes: u64::MAX,
                    samples_per_chunk: 1,
                    samples_per_interim: 1,
                };
                recorder.flush(now_ms(), &recording.as_ref().map_or(keep_all, limits))
            }),
        };
        let attributes = || DocBuf::new().with("directory", &*self.directory.to_string_lossy());
        match outcome {
            Err(error) if !self.failing => {
                self.failing = true;
                self.log.warn(events::RECORDER_FAILS, "recorder", attributes().with("error", &error.to_string()));
            }
            Ok(()) if self.failing => {
                self.failing = false;
                self.log.info(events::RECORDER_WORKS, "recorder", attributes());
            }
            _ => {}
        }
    }

    fn sample(&mut self, limits: &Limits) -> std::io::Result<()> {
        // a section that cannot be read is a fault of the moment, as that of a disk is
        let sample = self.commands.diagnostic_data().map_err(|error| std::io::Error::other(error.to_string()))?;
        let recorder = match &mut self.recorder {
            Some(recorder) => recorder,
            none => none.insert(Recorder::open(&self.directory, self.commands.diagnostic_constants(), now_ms())?),
        };
        recorder.add(&sample, now_ms(), limits)
    }
}

fn limits(recording: &Recording) -> Limits {
    Limits {
        directory_bytes: recording.directory_bytes,
        file_bytes: recording.file_bytes,
        samples_per_chunk: recording.samples_per_chunk,
        samples_per_interim: recording.samples_per_interim,
    }
}
