//! Bounds on a process by control groups, of version 1 or 2, where this user may make them: on its memory with its page cache, and on what it
//! may read and write of a disk.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::process::behind;
use crate::observe::Device;
use crate::{Error, Result};

/// The root of version 2, or the parent of the controllers of version 1.
const VERSION_2: &str = "/sys/fs/cgroup";

/// Bounds on the reads, and on the writes, of a disk in a second.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct DiskLimits {
    pub operations: Option<u64>,
    pub megabytes: Option<u64>,
}

impl DiskLimits {
    /// Reads `200iops` or `40mb` into it. Returns false if the text is neither.
    pub fn read(&mut self, text: &str) -> bool {
        let number = |unit: &str| text.strip_suffix(unit)?.parse::<u64>().ok().filter(|number| *number > 0);
        match (number("iops"), number("mb")) {
            (Some(operations), _) => self.operations = Some(operations),
            (_, Some(megabytes)) => self.megabytes = Some(megabytes),
            _ => return false,
        }
        true
    }

    pub fn is_none(&self) -> bool {
        *self == DiskLimits::default()
    }
}

impl std::fmt::Display for DiskLimits {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let of = |number: Option<u64>, unit: &str| number.map(|number| format!("{number} {unit} per second"));
        let parts = [of(self.operations, "operations"), of(self.megabytes, "MB")];
        write!(f, "{}", parts.into_iter().flatten().collect::<Vec<_>>().join(" and "))
    }
}

/// The groups of one process. They are removed when this is dropped; the processes in them must have ended.
#[derive(Debug)]
pub(crate) struct ControlGroups {
    name: String,
    /// One of version 2, or one of version 1 for each kind of limit.
    paths: Vec<PathBuf>,
}

impl ControlGroups {
    pub(crate) fn new(name: String) -> ControlGroups {
        ControlGroups { name, paths: Vec::new() }
    }

    /// Limits memory and page cache. Returns false where this is not possible.
    pub(crate) fn limit_memory(&mut self, bytes: u64) -> bool {
        let bytes = bytes.to_string();
        self.write_1("memory", &[("memory.limit_in_bytes", bytes.clone())])
            || self.write_2("memory", ("memory.max", bytes))
    }

    /// Limits reads and writes of the disk below a device. Version 1 does not delay writes that the kernel makes later from its page cache.
    /// Returns false where this is not possible.
    pub(crate) fn limit_disk(&mut self, device: Device, limits: &DiskLimits) -> bool {
        let Some(disk) = device.disk() else { return false };
        let bytes = limits.megabytes.map(|megabytes| megabytes << 20);
        let (mut of_1, mut of_2) = (Vec::new(), disk.clone());
        for (kind, unit, limit) in [
            ("read", "iops", limits.operations),
            ("write", "iops", limits.operations),
            ("read", "bps", bytes),
            ("write", "bps", bytes),
        ] {
            let Some(limit) = limit else { continue };
            of_1.push((format!("blkio.throttle.{kind}_{unit}_device"), format!("{disk} {limit}")));
            of_2 += &format!(" {}{unit}={limit}", kind.get(..1).unwrap_or_default());
        }
        let of_1: Vec<(&str, String)> = of_1.iter().map(|(file, value)| (file.as_str(), value.clone())).collect();
        self.write_1("blkio", &of_1) || self.write_2("io", ("io.max", of_2))
    }

    /// Makes a group of version 1.
    fn write_1(&mut self, controller: &str, values: &[(&str, String)]) -> bool {
        let root = Path::new(VERSION_2).join(controller);
        let usable = values.iter().all(|(file, _)| root.join(file).is_file());
        usable && values.iter().all(|(file, value)| self.write(&root, file, value))
    }

    /// Makes a group of version 2, which may be there for another limit already.
    fn write_2(&mut self, controller: &str, (file, value): (&str, String)) -> bool {
        let root = Path::new(VERSION_2);
        let controllers = std::fs::read_to_string(root.join("cgroup.controllers")).unwrap_or_default();
        if !controllers.split_whitespace().any(|found| found == controller) {
            return false;
        }
        // It may be there already; if not, the limit's file is missing below.
        let _ = std::fs::write(root.join("cgroup.subtree_control"), format!("+{controller}"));
        self.write(root, file, &value)
    }

    fn write(&mut self, root: &Path, file: &str, value: &str) -> bool {
        let path = root.join(&self.name);
        if !self.paths.contains(&path) {
            if std::fs::create_dir(&path).is_err() {
                return false;
            }
            self.paths.push(path.clone());
        }
        std::fs::write(path.join(file), value).is_ok()
    }

    /// Returns true if this user may limit memory here.
    pub(crate) fn may_limit_memory() -> bool {
        ControlGroups::new(format!("arbor-lab-{}", std::process::id())).limit_memory(1 << 30)
    }

    /// The kernel has ended a process of it for want of memory.
    pub(crate) fn has_killed(&self) -> bool {
        let killed = |path: &PathBuf| {
            let read = |name: &str| std::fs::read_to_string(path.join(name)).ok();
            // Version 2 has the one, version 1 the other.
            let events = read("memory.events").or_else(|| read("memory.oom_control")).unwrap_or_default();
            events.lines().filter_map(|line| line.strip_prefix("oom_kill ")).any(|count| count.trim() != "0")
        };
        self.paths.iter().any(killed)
    }

    /// Returns a command that enters the groups before it becomes `command`, which so finds its limits when it starts.
    pub(crate) fn entered(&self, command: &Command) -> Command {
        let enter = r#"while [ "$1" != -- ]; do echo $$ > "$1" 2>/dev/null; shift; done; shift; exec "$@""#;
        let members = self.paths.iter().map(|path| path.join("cgroup.procs").into_os_string());
        let arguments: Vec<OsString> =
            ["-c", enter, "sh"].map(OsString::from).into_iter().chain(members).chain([OsString::from("--")]).collect();
        behind("/bin/sh", &arguments, command)
    }

    pub(crate) fn add(&self, process: u32) -> Result<()> {
        self.paths.iter().try_for_each(|path| {
            let path = path.join("cgroup.procs");
            std::fs::write(&path, process.to_string()).map_err(Error::file(&path))
        })
    }
}

impl Drop for ControlGroups {
    fn drop(&mut self) {
        for path in &self.paths {
            // An ended process may be in the group for a moment more.
            for _ in 0..20 {
                if std::fs::remove_dir(path).is_ok() {
                    break;
                }
                std::thread::sleep(std::time::Duration::from_millis(20));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;
    use std::process::{Command, Stdio};
    use std::time::{Duration, Instant};

    use super::*;

    #[test]
    fn a_program_is_in_its_groups_from_the_start() {
        let mut groups = ControlGroups::new(format!("arbor-lab-entered-{}", std::process::id()));
        let limited = groups.limit_memory(64 << 20);
        let mut shows = Command::new("sh");
        shows.args(["-c", "cat /proc/self/cgroup; echo \"$0 $1 $NAME\"", "one word", "*"]).env("NAME", "value");
        let output = groups.entered(&shows).output().unwrap();
        let text = String::from_utf8(output.stdout).unwrap();
        assert!(text.ends_with("one word * value\n") && output.status.success(), "{text}");
        assert_eq!(text.contains(&groups.name), limited, "{text}");
    }

    #[test]
    fn limits_are_read_and_shown() {
        let mut limits = DiskLimits::default();
        assert!(
            limits.is_none() && !limits.read("x") && !limits.read("0mb") && !limits.read("iops") && limits.is_none()
        );
        assert!(limits.read("200iops") && limits.read("40mb"));
        assert_eq!(limits.to_string(), "200 operations per second and 40 MB per second");
    }

    #[test]
    fn a_slowed_disk_is_slow() {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("data");
        std::fs::write(&file, vec![1; 60 * 4096]).unwrap();
        std::fs::File::open(&file).unwrap().sync_all().unwrap();
        let mut groups = ControlGroups::new(format!("arbor-lab-disk-{}", std::process::id()));
        let limits = DiskLimits { operations: Some(30), megabytes: Some(100) };
        if !Device::below(directory.path()).is_some_and(|device| groups.limit_disk(device, &limits)) {
            eprintln!("NOTE: no disk can be slowed here");
            return;
        }
        let read = "read begin; exec dd if=\"$1\" of=/dev/null bs=4096 iflag=direct status=none";
        let mut command = Command::new("sh");
        command.args(["-c", read, "sh"]).arg(&file).stdin(Stdio::piped()).stderr(Stdio::null());
        let mut child = command.spawn().unwrap();
        groups.add(child.id()).unwrap();
        let begun = Instant::now();
        child.stdin.take().unwrap().write_all(b"\n").unwrap();
        if child.wait().unwrap().success() {
            assert!(begun.elapsed() > Duration::from_secs(1), "60 reads took {:?}", begun.elapsed());
        }
    }
}
