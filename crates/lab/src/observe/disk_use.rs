//! Bytes of a directory, as du counts them.

use std::os::unix::fs::MetadataExt;
use std::path::Path;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct DiskUse {
    /// Blocks that are allotted (du).
    pub actual_bytes: u64,
    /// Lengths of files (du --apparent-size).
    pub apparent_bytes: u64,
}

/// Files that vanish meanwhile are passed over: the server is running.
pub fn disk_use(directory: &Path) -> DiskUse {
    let mut sum = DiskUse::default();
    let mut directories = vec![directory.to_owned()];
    while let Some(directory) = directories.pop() {
        for entry in std::fs::read_dir(&directory).into_iter().flatten().flatten() {
            match entry.metadata() {
                Ok(meta) if meta.is_dir() => directories.push(entry.path()),
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
        let directory = tempfile::tempdir().unwrap();
        std::fs::create_dir(directory.path().join("sub")).unwrap();
        std::fs::write(directory.path().join("sub/a"), vec![7; 10_000]).unwrap();
        std::fs::File::create(directory.path().join("hole")).unwrap().set_len(1 << 30).unwrap();
        let disk_use = disk_use(directory.path());
        assert_eq!(disk_use.apparent_bytes, (1 << 30) + 10_000);
        assert!(disk_use.actual_bytes < 1 << 20, "{disk_use:?}");
        assert_eq!(super::disk_use(&directory.path().join("missing")), DiskUse::default());
    }
}
