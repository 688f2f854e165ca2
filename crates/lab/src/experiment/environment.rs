//! env.json: the machine, as far as it affects the measurements.

use std::path::Path;
use std::time::Duration;

use serde_json::{Value, json};

use crate::observe::{Device, Observed, Sample, memory_bytes, processors};
use crate::target::control_groups::ControlGroups;
use crate::target::managed::free_bytes;

/// `root`: where managed servers keep their data.
pub fn environment(root: &Path) -> Value {
    // It may be made only when the first server starts.
    let root = root.ancestors().find(|directory| directory.exists()).unwrap_or(root);
    json!({
        "processors": processors(),
        "processor": processor(),
        "memory_bytes": memory_bytes(),
        "kernel": first_line("/proc/sys/kernel/osrelease"),
        "host": first_line("/proc/sys/kernel/hostname"),
        "busy_share": busy_share(),
        "load_average": first_line("/proc/loadavg"),
        "swappiness": first_line("/proc/sys/vm/swappiness"),
        "governor": first_line("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor"),
        "transparent_huge_pages": first_line("/sys/kernel/mm/transparent_hugepage/enabled"),
        "data_root": root.display().to_string(),
        "device": Device::below(root).and_then(Device::name),
        "device_model": Device::below(root).and_then(Device::model),
        "filesystem": filesystem(root),
        "free_bytes": free_bytes(root).ok(),
        "memory_can_be_limited": ControlGroups::may_limit_memory(),
    })
}

/// Returns the disk and the file system of a directory, in a line.
pub(super) fn disk_of(root: &Path) -> String {
    let root = root.ancestors().find(|directory| directory.exists()).unwrap_or(root);
    let device = Device::below(root);
    let facts = [device.and_then(Device::name), device.and_then(Device::model), filesystem(root)];
    facts.into_iter().flatten().collect::<Vec<_>>().join(", ")
}

/// The time for which the processors are watched before a run.
const WATCHED: Duration = Duration::from_millis(200);

/// Returns the part of all processors that was in use, 0 to 1; this process itself only waits meanwhile.
fn busy_share() -> Option<f64> {
    let sample = || Sample::take(&Observed::default()).ok();
    let before = sample()?;
    std::thread::sleep(WATCHED);
    let usage = sample()?.since(&before);
    Some((usage.user_percent + usage.system_percent) / 100.0)
}

fn first_line(path: &str) -> Option<String> {
    let text = std::fs::read_to_string(path).ok()?;
    text.lines().next().map(|line| line.trim().to_owned())
}

fn processor() -> Option<String> {
    let text = std::fs::read_to_string("/proc/cpuinfo").ok()?;
    let line = text.lines().find(|line| line.starts_with("model name"))?;
    line.split_once(':').map(|(_, name)| name.trim().to_owned())
}

/// Returns the type and mount options of the longest mount point above the directory.
fn filesystem(directory: &Path) -> Option<String> {
    let directory = directory.canonicalize().ok()?;
    let mounts = std::fs::read_to_string("/proc/mounts").ok()?;
    let fields = mounts.lines().map(|line| line.split(' ').collect::<Vec<&str>>());
    let below = fields.filter(|fields| fields.len() > 3 && directory.starts_with(fields[1]));
    let longest = below.max_by_key(|fields| fields[1].len())?;
    Some(format!("{} ({})", longest[2], longest[3]))
}
