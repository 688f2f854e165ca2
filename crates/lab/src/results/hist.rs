//! hist.hlog: an HdrHistogram V2 interval log, as HdrHistogram's own tools read it.
//!
//! A tag names what a histogram is of: `system/step/kind`, with `/response` behind it for times from when an operation
//! was due. Values are nanoseconds; interval times are on the run's clock, its begin is `StartTime` and `BaseTime`.

use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::Path;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use hdrhistogram::Histogram;
use hdrhistogram::serialization::interval_log::{IntervalLogIterator, LogEntry};
use hdrhistogram::serialization::{Deserializer, Serializer, V2DeflateSerializer};

use super::lines;
use super::record::Clock;
use crate::{Error, Result};

/// The log shows maxima in milliseconds by custom.
const NANOSECONDS_PER_UNIT: f64 = 1e6;

/// One histogram of the log.
#[derive(Clone, Debug)]
pub struct Recorded {
    pub system: String,
    pub step: String,
    pub kind: String,
    pub clock: Clock,
    pub begin_s: f64,
    pub seconds: f64,
    pub histogram: Histogram<u64>,
}

/// The log as it is written.
pub struct HistogramLog {
    file: BufWriter<File>,
    serializer: V2DeflateSerializer,
    bytes: Vec<u8>,
}

impl std::fmt::Debug for HistogramLog {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("HistogramLog").field("file", &self.file).finish_non_exhaustive()
    }
}

/// Blanks, commas and slashes separate.
fn word(text: &str) -> String {
    text.chars().map(|c| if c.is_whitespace() || c == ',' || c == '/' { '_' } else { c }).collect()
}

impl HistogramLog {
    pub fn create(path: &Path) -> Result<HistogramLog> {
        let file = File::create(path).map_err(Error::file(path))?;
        let mut log =
            HistogramLog { file: BufWriter::new(file), serializer: V2DeflateSerializer::new(), bytes: Vec::new() };
        log.header().map_err(Error::file(path))?;
        Ok(log)
    }

    fn header(&mut self) -> std::io::Result<()> {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs_f64();
        writeln!(self.file, "#[Latencies of arbor lab, nanoseconds; tags are system/step/kind]")?;
        writeln!(self.file, "#[Histogram log format version 1.3]")?;
        writeln!(self.file, "#[StartTime: {now:.3} (seconds since epoch)]")?;
        writeln!(self.file, "#[BaseTime: {now:.3} (seconds since epoch)]")?;
        writeln!(
            self.file,
            "\"StartTimestamp\",\"Interval_Length\",\"Interval_Max\",\"Interval_Compressed_Histogram\""
        )?;
        self.file.flush()
    }

    /// Appends one histogram; empty ones are left out.
    pub fn append(
        &mut self,
        [system, step, kind]: [&str; 3],
        clock: Clock,
        begin_s: f64,
        seconds: f64,
        histogram: &Histogram<u64>,
    ) -> std::io::Result<()> {
        if histogram.is_empty() {
            return Ok(());
        }
        self.bytes.clear();
        self.serializer.serialize(histogram, &mut self.bytes).map_err(std::io::Error::other)?;
        let response = if clock == Clock::Response { "/response" } else { "" };
        writeln!(
            self.file,
            "Tag={}/{}/{}{response},{begin_s:.3},{seconds:.3},{:.3},{}",
            word(system),
            word(step),
            word(kind),
            histogram.max() as f64 / NANOSECONDS_PER_UNIT,
            STANDARD.encode(&self.bytes),
        )
    }

    pub fn flush(&mut self) -> std::io::Result<()> {
        self.file.flush()
    }
}

/// The column names, which other writers leave out or quote; the parser of the format takes neither.
const COLUMNS: &str = "\"StartTimestamp\"";

pub(super) fn read(path: &Path) -> Result<Vec<Recorded>> {
    let text = super::text(path)?;
    let mut all = Vec::new();
    let mut deserializer = Deserializer::new();
    for (n, line) in lines(&text).filter(|(_, line)| !line.starts_with(COLUMNS)) {
        let wrong = || Error::results(path, format!("line {n} is not a histogram"));
        let line = format!("{line}\n");
        for entry in IntervalLogIterator::new(line.as_bytes()) {
            if let LogEntry::Interval(interval) = entry.map_err(|_| wrong())? {
                let bytes = STANDARD.decode(interval.encoded_histogram()).map_err(|_| wrong())?;
                let histogram = deserializer.deserialize(&mut bytes.as_slice()).map_err(|_| wrong())?;
                let tag = interval.tag().map_or("", |tag| tag.as_str());
                let times = (interval.start_timestamp(), interval.duration());
                all.push(recorded(tag, times, histogram).ok_or_else(wrong)?);
            }
        }
    }
    Ok(all)
}

fn recorded(tag: &str, (begin, length): (Duration, Duration), histogram: Histogram<u64>) -> Option<Recorded> {
    let (tag, clock) = match tag.strip_suffix("/response") {
        Some(tag) => (tag, Clock::Response),
        None => (tag, Clock::Service),
    };
    let mut words = tag.splitn(3, '/').map(str::to_owned);
    Some(Recorded {
        system: words.next()?,
        step: words.next()?,
        kind: words.next()?,
        clock,
        begin_s: begin.as_secs_f64(),
        seconds: length.as_secs_f64(),
        histogram,
    })
}

/// `None` when there are none.
pub(super) fn merged<'a>(recorded: impl Iterator<Item = &'a Recorded>) -> Option<Histogram<u64>> {
    let mut sum: Option<Histogram<u64>> = None;
    for each in recorded {
        match &mut sum {
            None => {
                let mut first = each.histogram.clone();
                first.auto(true);
                sum = Some(first);
            }
            // It grows as needed, so adding cannot fail.
            Some(sum) => {
                let _ = sum.add(&each.histogram);
            }
        }
    }
    sum
}
