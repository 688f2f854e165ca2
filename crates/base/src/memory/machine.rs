//! Memory sizes: of the machine, of the control group of this process, and of the process itself.

use std::fs;
use std::path::Path;

/// The memory of the machine or of the innermost control group that limits this process, whichever is less. `root` is
/// the directory that contains `proc` and `sys`.
pub fn memory_limit(root: &Path) -> Option<u64> {
    let own = fs::read_to_string(root.join("proc/self/cgroup")).unwrap_or_default();
    let groups = own.lines().filter_map(|line| limit_of_group(root, line));
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

/// A line of `/proc/self/cgroup`: `0::/path` (version 2) or `5:memory:/path` (version 1).
fn limit_of_group(root: &Path, line: &str) -> Option<u64> {
    let mut fields = line.splitn(3, ':');
    let (_, controllers, path) = (fields.next()?, fields.next()?, fields.next()?);
    let (base, file) = if controllers.is_empty() {
        ("sys/fs/cgroup", "memory.max")
    } else if controllers.split(',').any(|name| name == "memory") {
        ("sys/fs/cgroup/memory", "memory.limit_in_bytes")
    } else {
        return None;
    };
    let base = root.join(base);
    // Inside a container the path may be that of the host, while the container's own group is at the top.
    let directory = base.join(path.trim_start_matches('/'));
    let directories = directory.ancestors().take_while(|directory| directory.starts_with(&base));
    directories.filter_map(|directory| read_limit(&directory.join(file))).min()
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
