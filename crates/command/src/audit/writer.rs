//! The thread that writes the audit, behind a queue of bounded length.
//!
//! W1: events are written in the order in which they were noted. W2: each is written, or counted as lost. W3: after [`Writer::close`]
//! everything that was noted before is in the file.

use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, TryRecvError, sync_channel};
use std::thread::JoinHandle;

use arbor_protocol::log::move_away;
use parking_lot::Mutex;

/// Events that wait to be written. One has some hundred bytes; those of large commands are cut.
const QUEUE: usize = 8192;

enum Message {
    Event(Vec<u8>),
    Rotate(SyncSender<io::Result<()>>),
    End,
}

#[derive(Debug, Default)]
struct Counts {
    written: AtomicU64,
    lost: AtomicU64,
}

pub(super) struct Writer {
    queue: SyncSender<Message>,
    counts: Arc<Counts>,
    /// None: it has ended.
    thread: Mutex<Option<JoinHandle<()>>>,
}

enum Output {
    Standard,
    File { file: BufWriter<File>, path: PathBuf },
}

impl Writer {
    pub(super) fn start(path: Option<PathBuf>) -> io::Result<Writer> {
        let output = match path {
            None => Output::Standard,
            Some(path) => Output::File { file: open(&path)?, path },
        };
        let (queue, messages) = sync_channel(QUEUE);
        let counts = Arc::new(Counts::default());
        let own = counts.clone();
        let thread = std::thread::Builder::new().name("arbor-audit".to_owned());
        let thread = thread.spawn(move || run(output, &messages, &own))?;
        Ok(Writer { queue, counts, thread: Mutex::new(Some(thread)) })
    }

    /// Never waits.
    pub(super) fn write(&self, event: Vec<u8>) {
        if self.queue.try_send(Message::Event(event)).is_err() {
            self.counts.lost.fetch_add(1, Ordering::Relaxed);
        }
    }

    pub(super) fn rotate(&self) -> io::Result<()> {
        let (reply, done) = sync_channel(1);
        let gone = |_| io::Error::other("the audit has ended");
        self.queue.send(Message::Rotate(reply)).map_err(|_| io::Error::other("the audit has ended"))?;
        done.recv().map_err(gone)?
    }

    pub(super) fn close(&self) {
        if let Some(thread) = self.thread.lock().take() {
            let _ = self.queue.send(Message::End);
            let _ = thread.join();
        }
    }

    pub(super) fn written(&self) -> u64 {
        self.counts.written.load(Ordering::Relaxed)
    }

    pub(super) fn lost(&self) -> u64 {
        self.counts.lost.load(Ordering::Relaxed)
    }
}

impl Drop for Writer {
    fn drop(&mut self) {
        self.close();
    }
}

/// The file is read by administrators alone.
fn open(path: &Path) -> io::Result<BufWriter<File>> {
    use std::os::unix::fs::OpenOptionsExt;
    File::options().create(true).append(true).mode(0o600).open(path).map(BufWriter::new)
}

fn run(mut output: Output, messages: &Receiver<Message>, counts: &Counts) {
    // events in the buffer, which are written only with it
    let mut buffered = 0;
    loop {
        let message = match messages.try_recv() {
            Ok(message) => message,
            Err(TryRecvError::Empty) => {
                settle(output.flush(), &mut buffered, counts);
                match messages.recv() {
                    Ok(message) => message,
                    Err(_) => return,
                }
            }
            Err(TryRecvError::Disconnected) => return settle(output.flush(), &mut buffered, counts),
        };
        match message {
            Message::Event(bytes) => {
                buffered += 1;
                if let Err(error) = output.write(&bytes) {
                    settle(Err(error), &mut buffered, counts);
                }
            }
            Message::Rotate(reply) => {
                settle(output.flush(), &mut buffered, counts);
                let _ = reply.send(output.rotate());
            }
            Message::End => return settle(output.flush(), &mut buffered, counts),
        }
    }
}

/// Counts the events of the buffer, as written or as lost (W2).
fn settle(outcome: io::Result<()>, buffered: &mut u64, counts: &Counts) {
    let count = if outcome.is_ok() { &counts.written } else { &counts.lost };
    count.fetch_add(std::mem::take(buffered), Ordering::Relaxed);
}

impl Output {
    fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        match self {
            Output::Standard => io::stdout().write_all(bytes),
            Output::File { file, .. } => file.write_all(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        match self {
            Output::Standard => io::stdout().flush(),
            Output::File { file, .. } => file.flush(),
        }
    }

    fn rotate(&mut self) -> io::Result<()> {
        if let Output::File { file, path } = self {
            move_away(path)?;
            *file = open(path)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_are_in_the_file_and_rotation_begins_another() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("audit");
        let writer = Writer::start(Some(path.clone())).unwrap();
        for number in 0..100 {
            writer.write(format!("{number}\n").into_bytes());
        }
        writer.rotate().unwrap();
        writer.write(b"last\n".to_vec());
        writer.close();
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "last\n");
        let files: Vec<_> = std::fs::read_dir(directory.path()).unwrap().map(|entry| entry.unwrap().path()).collect();
        let old = files.iter().find(|file| **file != path).unwrap();
        let lines: Vec<String> = std::fs::read_to_string(old).unwrap().lines().map(str::to_owned).collect();
        assert_eq!(lines, (0..100).map(|number| number.to_string()).collect::<Vec<_>>());
        assert_eq!((writer.written(), writer.lost()), (101, 0));
    }

    #[test]
    fn what_cannot_be_written_is_counted() {
        let writer = Writer::start(Some(PathBuf::from("/dev/full"))).unwrap();
        for _ in 0..10 {
            writer.write(b"event\n".to_vec());
        }
        writer.close();
        writer.write(b"too late\n".to_vec());
        assert_eq!((writer.written(), writer.lost()), (0, 11));
    }

    #[test]
    fn a_full_queue_does_not_hold_up_requests() {
        let (queue, messages) = sync_channel(2);
        let writer = Writer { queue, counts: Arc::default(), thread: Mutex::new(None) };
        for _ in 0..5 {
            writer.write(Vec::new());
        }
        assert_eq!(writer.lost(), 3);
        drop(messages);
    }
}
