//! Bytes of a folder, as du counts them.

use std::os::unix::fs::MetadataExt;
use std::path::Path;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DiskUse {
    /// Blocks that are allotted (du).
    pub actual_bytes: u64,
    /// Lengths of files (du --apparent-size).
    pub apparent_bytes: u64,
}

/// Files that vanish meanwhile are passed over: the server is running.
pub fn disk_use(folder: &Path) -> DiskUse {
    let mut sum = DiskUse::default();
    let mut folders = vec![folder.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(&folder).into_iter().flatten().flatten() {
            match entry.metadata() {
                Ok(meta) if meta.is_dir() => folders.push(entry.path()),
                Ok(meta) => {
                    sum.actual_bytes += meta.blocks() * 512;
                    sum.apparent_bytes += meta.len();
                }
                Err(_) => {}
            }
        }
    }
    sum
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn holes_count_only_as_apparent() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::create_dir(folder.path().join("sub")).unwrap();
        std::fs::write(folder.path().join("sub/a"), vec![7; 10_000]).unwrap();
        std::fs::File::create(folder.path().join("hole")).unwrap().set_len(1 << 30).unwrap();
        let disk_use = disk_use(folder.path());
        assert_eq!(disk_use.apparent_bytes, (1 << 30) + 10_000);
        assert!(disk_use.actual_bytes < 1 << 20, "{disk_use:?}");
        assert_eq!(super::disk_use(&folder.path().join("missing")), DiskUse::default());
    }
}
