//! A bound on the memory of a process with its page cache: a memory cgroup, of version 1 or 2, where this user may make one.

use std::path::{Path, PathBuf};

use crate::{Error, Result};

/// A cgroup that is removed when this is dropped; the processes in it must have ended.
#[derive(Debug)]
pub(crate) struct MemoryLimit {
    path: PathBuf,
}

impl MemoryLimit {
    /// `None` where there are no such groups.
    pub(crate) fn new(name: &str, bytes: u64) -> Option<MemoryLimit> {
        MemoryLimit::version_1(Path::new("/sys/fs/cgroup/memory"), name, bytes)
            .or_else(|| MemoryLimit::version_2(Path::new("/sys/fs/cgroup"), name, bytes))
    }

    fn version_1(root: &Path, name: &str, bytes: u64) -> Option<MemoryLimit> {
        root.join("memory.limit_in_bytes").is_file().then_some(())?;
        MemoryLimit::make(root, name, "memory.limit_in_bytes", bytes)
    }

    fn version_2(root: &Path, name: &str, bytes: u64) -> Option<MemoryLimit> {
        let controllers = std::fs::read_to_string(root.join("cgroup.controllers")).ok()?;
        controllers.split_whitespace().find(|controller| *controller == "memory")?;
        // It may be there already; if not, the limit's file is missing below.
        let _ = std::fs::write(root.join("cgroup.subtree_control"), "+memory");
        MemoryLimit::make(root, name, "memory.max", bytes)
    }

    fn make(root: &Path, name: &str, limit: &str, bytes: u64) -> Option<MemoryLimit> {
        let group = MemoryLimit { path: root.join(name) };
        std::fs::create_dir(&group.path).ok()?;
        std::fs::write(group.path.join(limit), bytes.to_string()).ok()?;
        Some(group)
    }

    /// Returns true if this user may make such groups here.
    pub(crate) fn possible() -> bool {
        MemoryLimit::new(&format!("arbor-lab-{}", std::process::id()), 1 << 30).is_some()
    }

    /// The kernel has ended a process of it for want of memory.
    pub(crate) fn has_killed(&self) -> bool {
        let read = |name: &str| std::fs::read_to_string(self.path.join(name)).ok();
        // Version 2 has the one, version 1 the other.
        let events = read("memory.events").or_else(|| read("memory.oom_control")).unwrap_or_default();
        let counted = events.lines().find_map(|line| line.strip_prefix("oom_kill "));
        counted.is_some_and(|count| count.trim() != "0")
    }

    pub(crate) fn add(&self, process: u32) -> Result<()> {
        let path = self.path.join("cgroup.procs");
        std::fs::write(&path, process.to_string()).map_err(Error::file(&path))
    }
}

impl Drop for MemoryLimit {
    fn drop(&mut self) {
        // An ended process may be in the group for a moment more.
        for _ in 0..20 {
            if std::fs::remove_dir(&self.path).is_ok() {
                return;
            }
            std::thread::sleep(std::time::Duration::from_millis(20));
        }
    }
}
