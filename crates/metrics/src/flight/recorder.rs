//! The files, as they are written. One thread owns the recorder.

use std::fs::{self, File};
use std::io::Write;
use std::path::{Path, PathBuf};

use arbor_bson::{DocBuf, ValueRef};

use super::chunk::{Chunk, SAMPLES_MAX};
use super::{INTERIM, PREFIX, reader};

/// Sizes that may change while the server runs.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    pub directory_bytes: u64,
    pub file_bytes: u64,
    pub samples_per_chunk: usize,
    /// Samples after which the interim file is replaced.
    pub samples_per_interim: usize,
}

#[derive(Debug)]
pub struct Recorder {
    directory: PathBuf,
    about: DocBuf,
    file: Option<(File, u64)>,
    chunk: Option<(i64, Chunk)>,
    /// Files with the time of one second differ by it.
    number: u32,
}

impl Recorder {
    /// Opens the directory; what an earlier process left in the interim file becomes the first chunk. `about` is at the head of
    /// each file.
    pub fn open(directory: &Path, about: DocBuf, now_ms: i64) -> std::io::Result<Recorder> {
        fs::create_dir_all(directory)?;
        let mut recorder = Recorder { directory: directory.to_owned(), about, file: None, chunk: None, number: 0 };
        let interim = directory.join(INTERIM);
        let left = match fs::read(&interim) {
            Ok(bytes) => reader::documents(&bytes).into_iter().next().map(|document| document.as_bytes().to_vec()),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(recorder),
            Err(error) => return Err(error),
        };
        if let Some(document) = left {
            recorder.append(&document, now_ms)?;
        }
        fs::remove_file(interim)?;
        Ok(recorder)
    }

    /// Adds a sample. After an error the samples in memory are kept, and the next call tries again.
    pub fn add(&mut self, sample: &DocBuf, now_ms: i64, limits: &Limits) -> std::io::Result<()> {
        let mut begun = false;
        let is_taken = match &mut self.chunk {
            Some((_, chunk)) => chunk.push(sample),
            None => false,
        };
        if !is_taken {
            let outcome = self.flush(now_ms, limits);
            // what cannot be written for long is given up: memory is bounded
            self.chunk = Some((now_ms, Chunk::new(sample.clone())));
            begun = true;
            outcome?;
        }
        let length = self.chunk.as_ref().map_or(0, |(_, chunk)| chunk.len());
        if length >= limits.samples_per_chunk.min(SAMPLES_MAX) {
            return self.flush(now_ms, limits);
        }
        if begun || length.is_multiple_of(limits.samples_per_interim.max(1)) {
            self.write_interim()?;
        }
        Ok(())
    }

    /// Writes what is in memory, at the end of the server too.
    pub fn flush(&mut self, now_ms: i64, limits: &Limits) -> std::io::Result<()> {
        let Some((begun_ms, chunk)) = &self.chunk else { return Ok(()) };
        let document = document(*begun_ms, chunk)?;
        self.append(document.as_bytes(), now_ms)?;
        self.chunk = None;
        match fs::remove_file(self.directory.join(INTERIM)) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        if self.file.as_ref().is_some_and(|(_, bytes)| *bytes >= limits.file_bytes) {
            self.file = None;
        }
        self.trim(limits)
    }

    fn write_interim(&self) -> std::io::Result<()> {
        let Some((begun_ms, chunk)) = &self.chunk else { return Ok(()) };
        let fresh = self.directory.join("interim.new");
        fs::write(&fresh, document(*begun_ms, chunk)?.as_bytes())?;
        fs::rename(fresh, self.directory.join(INTERIM))
    }

    fn append(&mut self, document: &[u8], now_ms: i64) -> std::io::Result<()> {
        if self.file.is_none() {
            let path = self.new_name(now_ms);
            let mut file = File::options().append(true).create_new(true).open(path)?;
            let about =
                DocBuf::new().with("_id", ValueRef::DateTime(now_ms)).with("type", 0i32).with("doc", &self.about);
            file.write_all(about.as_bytes())?;
            self.file = Some((file, about.as_bytes().len() as u64));
        }
        let Some((file, bytes)) = &mut self.file else { return Ok(()) };
        // a document that is written in part ends its file for readers, so the next one goes into another file
        if let Err(error) = file.write_all(document).and_then(|()| file.sync_data()) {
            self.file = None;
            return Err(error);
        }
        *bytes += document.len() as u64;
        Ok(())
    }

    /// Returns a name that is not taken, as MongoDB makes them: `metrics.2026-11-24T04-30-00Z-00000`.
    fn new_name(&mut self, now_ms: i64) -> PathBuf {
        loop {
            let name = format!("{PREFIX}{}-{:05}", time_name(now_ms), self.number);
            self.number = self.number.wrapping_add(1) % 100_000;
            let path = self.directory.join(name);
            if !path.exists() {
                return path;
            }
        }
    }

    /// Removes the oldest files beyond the limit, but never the one that is written.
    fn trim(&self, limits: &Limits) -> std::io::Result<()> {
        let files = reader::files(&self.directory)?;
        let mut total: u64 = files.iter().map(|(_, bytes)| bytes).sum();
        let keep = usize::from(self.file.is_some());
        for (path, bytes) in files.iter().take(files.len().saturating_sub(keep)) {
            if total <= limits.directory_bytes {
                break;
            }
            fs::remove_file(path)?;
            total -= bytes;
        }
        Ok(())
    }
}

fn document(begun_ms: i64, chunk: &Chunk) -> std::io::Result<DocBuf> {
    let data = chunk.encode()?;
    let data = ValueRef::Binary { subtype: 0, bytes: &data };
    Ok(DocBuf::new().with("_id", ValueRef::DateTime(begun_ms)).with("type", 1i32).with("data", data))
}

/// Returns `2026-11-24T04-30-00Z`.
fn time_name(ms: i64) -> String {
    let time = jiff::Timestamp::from_millisecond(ms).unwrap_or(jiff::Timestamp::UNIX_EPOCH);
    time.strftime("%Y-%m-%dT%H-%M-%SZ").to_string()
}

#[cfg(test)]
mod tests {
    use super::super::{Record, read};
    use super::*;

    const LIMITS: Limits =
        Limits { directory_bytes: 1 << 30, file_bytes: 1 << 20, samples_per_chunk: 30, samples_per_interim: 10 };

    fn sample(n: i64) -> DocBuf {
        DocBuf::new().with("start", ValueRef::DateTime(n)).with("n", n).with("square", n * n)
    }

    fn recorded(directory: &Path) -> Vec<i64> {
        let mut all = Vec::new();
        read(directory, &mut |record| {
            if let Record::Chunk(chunk) = record {
                all.extend(chunk.series(1));
            }
        })
        .unwrap();
        all
    }

    fn directory(name: &str) -> PathBuf {
        let path = std::env::temp_dir().join(format!("arbor-flight-{name}-{}", std::process::id()));
        let _ = fs::remove_dir_all(&path);
        path
    }

    #[test]
    fn names_are_dates() {
        for (ms, name) in [
            (0, "1970-01-01T00-00-00Z"),
            (951_782_400_000, "2000-02-29T00-00-00Z"),
            (1_795_494_600_999, "2026-11-24T04-30-00Z"),
            (4_102_444_799_000, "2099-12-31T23-59-59Z"),
        ] {
            assert_eq!(time_name(ms), name);
        }
    }

    #[test]
    fn a_process_that_dies_loses_what_the_interim_file_had_not() {
        let path = directory("dies");
        let mut recorder = Recorder::open(&path, DocBuf::new(), 0).unwrap();
        for n in 0..75 {
            recorder.add(&sample(n), n, &LIMITS).unwrap();
        }
        drop(recorder);
        assert_eq!(recorded(&path), (0..70).collect::<Vec<_>>(), "the interim file is read as well");
        let mut recorder = Recorder::open(&path, DocBuf::new(), 0).unwrap();
        assert!(!path.join(INTERIM).exists());
        for n in 100..140 {
            recorder.add(&sample(n), n, &LIMITS).unwrap();
        }
        recorder.flush(140, &LIMITS).unwrap();
        assert_eq!(recorded(&path), (0..70).chain(100..140).collect::<Vec<_>>());
        // a torn tail, and damage in the middle: what is before it is read
        let (last, bytes) = reader::files(&path).unwrap().pop().unwrap();
        let whole = fs::read(&last).unwrap();
        assert_eq!(whole.len() as u64, bytes);
        fs::write(&last, &whole[..whole.len() - 5]).unwrap();
        let torn = recorded(&path);
        assert!(torn.len() >= 70 && (0..70).chain(100..140).collect::<Vec<_>>().starts_with(&torn), "{torn:?}");
        fs::remove_dir_all(&path).unwrap();
    }

    #[test]
    fn the_directory_is_bounded() {
        let path = directory("bounded");
        let limits = Limits { directory_bytes: 4000, file_bytes: 1000, ..LIMITS };
        let mut recorder = Recorder::open(&path, DocBuf::new(), 0).unwrap();
        for n in 0..20_000i64 {
            recorder.add(&sample(n.wrapping_mul(0x9e37_79b9_7f4a_7c15_u64 as i64) >> 33), n, &limits).unwrap();
            let bytes: u64 = reader::files(&path).unwrap().iter().map(|(_, bytes)| bytes).sum();
            assert!(bytes <= 6000, "{bytes}");
        }
        assert!(reader::files(&path).unwrap().len() >= 2);
        fs::remove_dir_all(&path).unwrap();
    }

    #[test]
    fn another_structure_begins_a_chunk() {
        let path = directory("structure");
        let mut recorder = Recorder::open(&path, DocBuf::new().with("version", "1"), 0).unwrap();
        for n in 0..9 {
            let sample = if n < 5 { sample(n) } else { sample(n).with("more", 1i32) };
            recorder.add(&sample, n, &LIMITS).unwrap();
        }
        recorder.flush(9, &LIMITS).unwrap();
        let mut lengths = Vec::new();
        read(&path, &mut |record| match record {
            Record::About(about) => assert!(about.get("version").is_some()),
            Record::Chunk(chunk) => lengths.push(chunk.len()),
        })
        .unwrap();
        assert_eq!(lengths, [5, 4]);
        fs::remove_dir_all(&path).unwrap();
    }
}
