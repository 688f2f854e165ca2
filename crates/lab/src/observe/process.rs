//! /proc/PID/stat and /proc/PID/io.

/// Bytes that this process caused to be read from and written to devices.
#[derive(Clone, Copy, Debug, Default, serde::Serialize, serde::Deserialize)]
pub struct DeviceBytes {
    pub read: u64,
    pub written: u64,
}

impl DeviceBytes {
    pub fn of_this_process() -> std::io::Result<DeviceBytes> {
        DeviceBytes::read("/proc/self/io")
    }

    /// Reads the counters of a process. Errors: the process belongs to another user.
    pub fn of_process(pid: u32) -> std::io::Result<DeviceBytes> {
        DeviceBytes::read(&format!("/proc/{pid}/io"))
    }

    /// Returns the difference from `earlier`. A restarted process with the same number counts from zero.
    pub fn since(self, earlier: DeviceBytes) -> DeviceBytes {
        DeviceBytes {
            read: self.read.saturating_sub(earlier.read),
            written: self.written.saturating_sub(earlier.written),
        }
    }

    fn read(path: &str) -> std::io::Result<DeviceBytes> {
        let text = std::fs::read_to_string(path)?;
        let field = |name: &str| {
            let line = text.lines().find_map(|line| line.strip_prefix(name));
            line.and_then(|value| value.trim().parse().ok()).unwrap_or(0)
        };
        Ok(DeviceBytes { read: field("read_bytes:"), written: field("write_bytes:") })
    }
}

impl std::ops::Add for DeviceBytes {
    type Output = DeviceBytes;

    fn add(self, other: DeviceBytes) -> DeviceBytes {
        DeviceBytes { read: self.read + other.read, written: self.written + other.written }
    }
}

/// Returns the processes that a process has started and that run.
pub fn children(pid: u32) -> Vec<u32> {
    let threads = std::fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten();
    let lists = threads.filter_map(|thread| std::fs::read_to_string(thread.path().join("children")).ok());
    lists.flat_map(|list| list.split_whitespace().filter_map(|pid| pid.parse().ok()).collect::<Vec<u32>>()).collect()
}

/// User and system CPU seconds of this process, finer than [`cpu_seconds`] counts.
pub fn own_cpu_seconds() -> f64 {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
    time.tv_sec as f64 + time.tv_nsec as f64 / 1e9
}

/// Resident memory of this process at most since it began, or since [`forget_peak_memory`].
pub fn peak_memory_bytes() -> std::io::Result<u64> {
    Ok(memory_bytes(&std::fs::read_to_string("/proc/self/status")?, "VmHWM:").unwrap_or(0))
}

/// Resident memory of a process.
pub fn resident_bytes(pid: u32) -> std::io::Result<u64> {
    Ok(memory_bytes(&std::fs::read_to_string(format!("/proc/{pid}/status"))?, "VmRSS:").unwrap_or(0))
}

/// Number of files that a process has open, sockets and pipes not counted. Errors: the process belongs to another user.
pub fn open_files(pid: u32) -> std::io::Result<u64> {
    let descriptors = std::fs::read_dir(format!("/proc/{pid}/fd"))?.flatten();
    let is_file = |path: std::path::PathBuf| path.is_absolute() && !path.starts_with("/dev");
    Ok(descriptors.filter(|each| std::fs::read_link(each.path()).is_ok_and(is_file)).count() as u64)
}

/// A line of /proc/PID/status, which counts in kB.
fn memory_bytes(status: &str, name: &str) -> Option<u64> {
    let value = status.lines().find_map(|line| line.strip_prefix(name))?;
    value.trim().trim_end_matches("kB").trim().parse::<u64>().ok().map(|kilobytes| kilobytes * 1024)
}

/// Resets the peak of resident memory. If the system does not allow that, it remains the peak since the process began.
pub fn forget_peak_memory() {
    let _ = std::fs::write("/proc/self/clear_refs", "5");
}

/// User and system CPU seconds of a process since it started, its ended children not included.
pub fn cpu_seconds(pid: u32) -> std::io::Result<f64> {
    let text = std::fs::read_to_string(format!("/proc/{pid}/stat"))?;
    let ticks = cpu_ticks(&text).ok_or_else(|| std::io::Error::other("unknown format of /proc/PID/stat"))?;
    Ok(ticks as f64 / rustix::param::clock_ticks_per_second() as f64)
}

/// Returns true if a process is running: an ended one that was not waited for is not.
pub fn is_running(pid: u32) -> bool {
    let text = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    text.rsplit_once(')').is_some_and(|(_, fields)| !fields.trim_start().starts_with(['Z', 'X']))
}

/// Returns the sum of fields 14 and 15. The name in field 2 may contain blanks and brackets, so counting starts after the last bracket.
fn cpu_ticks(text: &str) -> Option<u64> {
    let (_, fields) = text.rsplit_once(')')?;
    let mut fields = fields.split_whitespace().skip(11);
    let user: u64 = fields.next()?.parse().ok()?;
    let system: u64 = fields.next()?.parse().ok()?;
    Some(user + system)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_with_brackets_do_not_confuse() {
        let text = "42 (a) b (c)) S 1 42 42 0 -1 4194304 100 0 0 0 7 5 0 0 20 0 1 0 99 1 1";
        assert_eq!(cpu_ticks(text), Some(12));
        assert_eq!(cpu_ticks("42 (a) S 1"), None);
    }

    #[test]
    fn memory_is_counted_in_kilobytes() {
        assert_eq!(memory_bytes("VmHWM:\t  10 kB\nVmRSS:\t 7 kB\n", "VmRSS:"), Some(7 * 1024));
        assert_eq!(memory_bytes("VmHWM:\t  10 kB\n", "VmRSS:"), None);
        assert!(resident_bytes(std::process::id()).unwrap() > 1 << 20);
    }

    #[test]
    fn children_are_found() {
        let mut child = std::process::Command::new("sleep").arg("60").spawn().unwrap();
        assert!(children(std::process::id()).contains(&child.id()));
        child.kill().unwrap();
        child.wait().unwrap();
        assert!(!children(std::process::id()).contains(&child.id()));
    }

    #[test]
    fn a_child_that_ended_runs_no_more() {
        assert!(is_running(std::process::id()) && !is_running(u32::MAX));
        let mut child = std::process::Command::new("true").spawn().unwrap();
        let begun = std::time::Instant::now();
        while is_running(child.id()) {
            assert!(begun.elapsed().as_secs() < 20);
        }
        child.wait().unwrap();
    }

    #[test]
    fn this_process_has_used_some() {
        assert!(cpu_seconds(std::process::id()).unwrap() >= 0.0);
        assert!(cpu_seconds(u32::MAX).is_err());
    }

    #[test]
    fn files_are_counted_and_sockets_are_not() {
        let before = open_files(std::process::id()).unwrap();
        let file = tempfile::tempfile().unwrap();
        let _socket = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        // other tests open and close files meanwhile
        let counted = (0..100).any(|_| open_files(std::process::id()).unwrap() > 0);
        assert!(counted && before < 10_000);
        let pid = std::process::id();
        use std::os::fd::AsRawFd;
        let link = std::fs::read_link(format!("/proc/{pid}/fd/{}", file.as_raw_fd())).unwrap();
        assert!(link.is_absolute(), "{link:?}");
    }
}
