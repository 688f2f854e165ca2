//! Everything that work below the trees needs: the data file, its space, the memory budget and the statistics.

use std::path::Path;
use std::sync::Arc;

use arbor_disk::{Disk, OpenMode};

use crate::cache::{Cache, chargeable};
use crate::counters::Counters;
use crate::file::{DataFile, map_error};
use crate::space::Space;
use crate::{Options, Result};

/// The name of the data file in its directory.
pub const DATA_FILE: &str = "ftree.data";

/// Shared as `Arc<Io>`.
pub struct Io {
    pub file: DataFile,
    pub space: Space,
    pub cache: Cache,
    pub counters: Counters,
}

impl Io {
    /// Opens the data file of a directory, creating both when they are missing. All of its space is free: recovery adopts
    /// what is in use.
    pub fn open(options: &Options, dir: &Path) -> Result<Arc<Io>> {
        let disk = &options.disk;
        let failed = |error| map_error("opening", 0, error);
        disk.create_dir_all(dir).map_err(failed)?;
        let path = dir.join(DATA_FILE);
        let is_new = !disk.exists(&path).map_err(failed)?;
        let file = DataFile::open(disk.as_ref(), &path, OpenMode::Create, options.direct_io)?;
        if is_new {
            disk.sync_dir(dir).map_err(failed)?;
        }
        Io::with_file(disk, dir, file, options.memory_bytes_max)
    }

    /// Opens an existing data file for reading only, for inspection tools.
    pub fn open_to_read(disk: &Arc<dyn Disk>, dir: &Path, memory_bytes_max: u64) -> Result<Arc<Io>> {
        let file = DataFile::open(disk.as_ref(), &dir.join(DATA_FILE), OpenMode::Read, false)?;
        Io::with_file(disk, dir, file, memory_bytes_max)
    }

    /// A data file in memory, for tests.
    #[doc(hidden)]
    pub fn scratch(memory_bytes_max: u64) -> Arc<Io> {
        let options = Options::new(Arc::new(arbor_disk::FaultyDisk::new()), memory_bytes_max);
        Io::open(&options, Path::new("/data")).expect("a fresh disk in memory does not fail")
    }

    fn with_file(disk: &Arc<dyn Disk>, dir: &Path, file: DataFile, memory_bytes_max: u64) -> Result<Arc<Io>> {
        let space = Space::new(disk.clone(), dir, file.len()?);
        Ok(Arc::new(Io { file, space, cache: Cache::new(chargeable(memory_bytes_max)), counters: Counters::default() }))
    }

    /// Returns all statistics by name.
    pub fn statistics(&self) -> Vec<(&'static str, u64)> {
        let mut statistics = self.counters.snapshot();
        statistics.extend(self.file.statistics().snapshot());
        statistics.push(("space used bytes", self.space.used_bytes()));
        statistics.push(("space free bytes", self.space.free_bytes()));
        statistics.push(("file bytes", self.space.file_bytes()));
        statistics.push(("cache used bytes", self.cache.used()));
        statistics.push(("cache limit bytes", self.cache.limit()));
        statistics.push(("cache pinned bytes", self.cache.pinned()));
        statistics.push(("cache resident bytes", self.cache.resident()));
        statistics.push(("cache peak bytes", self.cache.peak()));
        statistics
    }
}

#[cfg(test)]
mod tests {
    use arbor_disk::FaultyDisk;

    use super::*;

    #[test]
    fn a_new_file_survives_a_crash_and_opens_again() {
        let disk = FaultyDisk::new();
        let options = Options::new(Arc::new(disk.clone()), 1 << 20);
        let dir = Path::new("/a/b");
        assert!(Io::open_to_read(&options.disk, dir, 0).is_err());
        let io = Io::open(&options, dir).unwrap();
        let extent = io.space.allocate(5000).unwrap();
        io.file.write(extent.offset(), &[1; 5000]).unwrap();
        io.file.sync().unwrap();
        let crashed: Arc<dyn Disk> = Arc::new(disk.crash(1));
        let io = Io::open(&Options::new(crashed.clone(), 1 << 20), dir).unwrap();
        let adopted = io.space.adopt(extent.offset(), 5000).unwrap();
        assert_eq!(Vec::from(io.file.read(adopted.offset(), 5000).unwrap()), [1; 5000]);
        let statistics = io.statistics();
        let statistic = |name| statistics.iter().find(|(known, _)| *known == name).map(|(_, value)| *value);
        assert_eq!((statistic("space used bytes"), statistic("file reads")), (Some(8192), Some(1)));
        let reading = Io::open_to_read(&crashed, dir, 0).unwrap();
        assert!(reading.file.write(0, b"x").is_err());
    }
}
