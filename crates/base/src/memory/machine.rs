//! Memory sizes: of the machine, of the control group of this process, and of the process itself.

use std::fs;
use std::path::Path;

use crate::control_group::{ControlGroup, control_groups};

/// The memory of the machine or of the innermost control group that limits this process, whichever is less. `root` is
/// the directory that contains `proc` and `sys`.
pub fn memory_limit(root: &Path) -> Option<u64> {
    let limit = |group: ControlGroup| {
        read_limit(&group.directory.join(if group.unified { "memory.max" } else { "memory.limit_in_bytes" }))
    };
    let groups = control_groups(root, "memory").into_iter().filter_map(limit);
    machine_memory(root).into_iter().chain(groups).min()
}

/// Returns the resident anonymous memory of this process, which a control group cannot reclaim; 0 if `/proc` does not have it.
pub fn resident_anonymous() -> u64 {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("RssAnon:"));
    let kib = line.and_then(|line| line.trim().strip_suffix("kB")?.trim().parse::<u64>().ok());
    kib.unwrap_or(0) * 1024
}

/// Memory of the machine in bytes.
pub fn machine_memory(root: &Path) -> Option<u64> {
    let text = fs::read_to_string(root.join("proc/meminfo")).ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix("MemTotal:"))?;
    let kib: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    kib.checked_mul(1024)
}

/// `max` and the huge number of version 1 mean that there is no limit.
fn read_limit(path: &Path) -> Option<u64> {
    let bytes: u64 = fs::read_to_string(path).ok()?.trim().parse().ok()?;
    (bytes < i64::MAX as u64 / 2).then_some(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: u64 = 1 << 20;
    const GIB: u64 = 1 << 30;

    fn check(files: &[(&str, &str)], expect: Option<u64>) {
        let root = tempfile::tempdir().unwrap();
        for (path, text) in files {
            let path = root.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
        assert_eq!(memory_limit(root.path()), expect, "{files:?}");
    }

    #[test]
    fn the_process_has_resident_memory() {
        let held = vec![7u8; 4 << 20];
        assert!(resident_anonymous() >= held.len() as u64);
    }

    #[test]
    fn the_least_of_machine_and_groups_counts() {
        let machine = ("proc/meminfo", "MemTotal:        8388608 kB\nMemFree: 1 kB\n");
        let v2 = ("proc/self/cgroup", "0::/a/b\n");
        let v1 = ("proc/self/cgroup", "12:cpu,cpuacct:/x\n5:memory:/docker/1\n");
        check(&[], None);
        check(&[("proc/meminfo", "nonsense")], None);
        check(&[machine], Some(8 * GIB));
        check(&[machine, v2], Some(8 * GIB));
        check(&[machine, v2, ("sys/fs/cgroup/a/b/memory.max", "max\n")], Some(8 * GIB));
        check(&[machine, v2, ("sys/fs/cgroup/a/b/memory.max", "1048576\n")], Some(MIB));
        check(&[machine, v2, ("sys/fs/cgroup/a/memory.max", "4194304\n")], Some(4 * MIB));
        check(&[machine, v2, ("sys/fs/cgroup/memory.max", "2097152\n")], Some(2 * MIB));
        let limit = ("sys/fs/cgroup/memory/docker/1/memory.limit_in_bytes", "3145728\n");
        check(&[machine, v1, limit], Some(3 * MIB));
        check(&[machine, v1, ("sys/fs/cgroup/memory/memory.limit_in_bytes", "3145728\n")], Some(3 * MIB));
        let none = ("sys/fs/cgroup/memory/docker/1/memory.limit_in_bytes", "9223372036854771712\n");
        check(&[machine, v1, none], Some(8 * GIB));
        check(&[v2, ("sys/fs/cgroup/a/b/memory.max", "1048576\n")], Some(MIB));
    }
}
