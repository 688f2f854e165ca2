use arbor_disk::{Fault, FaultyDisk, RealDisk};

use super::*;

const U: usize = UNIT as usize;

fn disk() -> FaultyDisk {
    let disk = FaultyDisk::new();
    disk.create_dir_all(Path::new("/")).unwrap();
    disk
}

fn bytes(seed: u64, len: usize) -> Vec<u8> {
    arbor_base::Random::new(seed).bytes(len)
}

/// Writes and reads at odd places give the same with and without the page cache.
fn check_access(disk: &dyn Disk, path: &Path, direct: bool) -> DataFile {
    let file = DataFile::open(disk, path, OpenMode::Create, direct).unwrap();
    let mut model = vec![0; 4 << 20];
    let pieces = [
        (0, 1),
        (U, U),
        (4 * U, 3 * U + 1),
        (8 * U, 5 * U - 1),
        // An extent in several pieces, front to back.
        (20 * U, 100),
        (20 * U + 100, 2 * U),
        (22 * U + 100, 3),
        // More than one piece of the bounce buffer, from the middle of a unit.
        (100 * U, 10),
        (100 * U + 10, (2 << 20) + 77),
    ];
    let mut end = 0;
    for (nth, (offset, len)) in pieces.into_iter().enumerate() {
        let data = bytes(nth as u64, len);
        file.write(offset as u64, &data).unwrap();
        model[offset..offset + len].copy_from_slice(&data);
        end = offset + len;
    }
    file.sync().unwrap();
    for (offset, len) in pieces {
        assert_eq!(
            Vec::from(file.read(offset as u64, len as u64).unwrap()),
            model[offset..offset + len],
            "{offset}+{len}"
        );
    }
    assert_eq!(Vec::from(file.read(3, end as u64 - 3).unwrap()), model[3..end]);
    assert_eq!(Vec::from(file.read(end as u64, 0).unwrap()), []);
    let past = file.read(end as u64 - 1, UNIT + 2).unwrap_err();
    assert!(matches!(&past, Error::Corrupt { place, .. } if place.contains(&format!("at {}", end - 1))), "{past}");
    for (offset, len) in [(1 << 40, 1), (0, 1 << 40), (u64::MAX, 2), (0, u64::MAX)] {
        assert!(matches!(file.read(offset, len), Err(Error::Corrupt { .. })), "{offset} {len}");
    }
    file
}

#[test]
fn odd_places_are_read_and_written_buffered_and_direct() {
    let disk = disk();
    check_access(&disk, Path::new("/buffered"), false);
    assert!(check_access(&disk, Path::new("/direct"), true).is_direct());
    let dir = tempfile::tempdir().unwrap();
    check_access(&RealDisk, &dir.path().join("buffered"), false);
    let file = check_access(&RealDisk, &dir.path().join("direct"), true);
    let refused = file.statistics().direct_refused.load(Ordering::Relaxed);
    assert_eq!(file.is_direct(), refused == 0);
}

#[test]
fn other_ends_of_units_are_zeros_with_direct_writes() {
    let file = DataFile::open(&disk(), Path::new("/f"), OpenMode::Create, true).unwrap();
    file.write(0, &[9; 2 * U]).unwrap();
    file.write(0, &[1; U + 5]).unwrap();
    assert_eq!(Vec::from(file.read(U as u64, UNIT).unwrap()), [[1; 5].as_slice(), &[0; U - 5]].concat());
}

#[test]
fn after_a_failed_sync_all_writes_are_refused() {
    let disk = disk();
    let file = DataFile::open(&disk, Path::new("/f"), OpenMode::Create, false).unwrap();
    file.write(0, b"abc").unwrap();
    disk.fail_nth(0, Fault::Io);
    assert!(matches!(file.sync(), Err(Error::Io { .. })));
    assert!(file.is_poisoned());
    let check = |result: Result<()>| assert!(matches!(result, Err(Error::Poisoned { .. })), "{result:?}");
    check(file.write(0, b"abc"));
    check(file.sync());
    check(file.punch(0, UNIT));
    check(file.set_len(0));
    assert_eq!(Vec::from(file.read(0, 3).unwrap()), b"abc");
}

#[test]
fn errors_keep_out_of_space_apart() {
    let disk = disk();
    let file = DataFile::open(&disk, Path::new("/f"), OpenMode::Create, false).unwrap();
    disk.fail_nth(0, Fault::OutOfSpace);
    assert!(matches!(file.write(0, b"abc"), Err(Error::OutOfSpace { .. })));
    disk.fail_nth(0, Fault::Io);
    assert!(matches!(file.write(0, b"abc"), Err(Error::Io { .. })));
    file.write(0, b"abc").unwrap();
    disk.fail_nth(0, Fault::Io);
    assert!(matches!(file.read(0, 3), Err(Error::Io { .. })));
    let missing = DataFile::open(&disk, Path::new("/g"), OpenMode::Read, false);
    assert!(matches!(missing, Err(Error::CannotOpen { .. })));
}

/// Counts what a file is asked for.
#[derive(Debug)]
struct Spy {
    inner: Box<dyn File>,
    behind: std::sync::Arc<Mutex<Vec<(u64, u64)>>>,
}

impl File for Spy {
    fn path(&self) -> &Path {
        self.inner.path()
    }
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> arbor_disk::Result<usize> {
        self.inner.read_at(buffer, offset)
    }
    fn write_at(&self, bytes: &[u8], offset: u64) -> arbor_disk::Result<()> {
        self.inner.write_at(bytes, offset)
    }
    fn len(&self) -> arbor_disk::Result<u64> {
        self.inner.len()
    }
    fn set_len(&self, len: u64) -> arbor_disk::Result<()> {
        self.inner.set_len(len)
    }
    fn sync_data(&self) -> arbor_disk::Result<()> {
        self.inner.sync_data()
    }
    fn allocate(&self, offset: u64, len: u64) -> arbor_disk::Result<()> {
        self.inner.allocate(offset, len)
    }
    fn punch_hole(&self, offset: u64, len: u64) -> arbor_disk::Result<()> {
        self.inner.punch_hole(offset, len)
    }
    fn write_behind(&self, offset: u64, len: u64) -> arbor_disk::Result<()> {
        self.behind.lock().push((offset, len));
        Ok(())
    }
}

#[test]
fn writing_behind_starts_after_each_quarter_of_a_mebibyte() {
    let mut file = DataFile::open(&disk(), Path::new("/f"), OpenMode::Create, false).unwrap();
    let seen = std::sync::Arc::new(Mutex::new(Vec::new()));
    let inner = std::mem::replace(&mut file.file, disk().open(Path::new("/g"), OpenMode::Create).unwrap());
    file.file = Box::new(Spy { inner, behind: seen.clone() });
    let quarter = 64 << 10;
    for offset in [quarter, 7 * quarter, 0, 3 * quarter, 9 * quarter] {
        file.write(offset as u64, &vec![1; quarter]).unwrap();
    }
    assert_eq!(*seen.lock(), [(0, 8 * quarter as u64)]);
    file.write(20 << 20, &vec![1; 1 << 20]).unwrap();
    assert_eq!(seen.lock().len(), 2);
}
