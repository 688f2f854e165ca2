//! Statistics of the process and the machine, read from `/proc` on request.

use std::fs;
use std::path::Path;

use arbor_base::memory::machine;
use arbor_bson::DocBuf;

#[derive(Clone, Copy, Debug, Default)]
pub struct Memory {
    pub resident_bytes: u64,
    pub virtual_bytes: u64,
}

/// Returns the memory of this process; zeros if `/proc` does not report it.
pub fn memory() -> Memory {
    let status = read("/proc/self/status");
    Memory { resident_bytes: kilobytes(&status, "VmRSS:"), virtual_bytes: kilobytes(&status, "VmSize:") }
}

/// Memory of the machine in bytes.
pub fn machine_memory() -> u64 {
    machine::machine_memory(Path::new("/")).unwrap_or(0)
}

/// The smaller of the machine's memory and what the control group allows.
pub fn memory_limit() -> u64 {
    machine::memory_limit(Path::new("/")).unwrap_or(0)
}

pub fn cores() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}

pub fn host_name() -> String {
    let name = read("/proc/sys/kernel/hostname");
    let name = name.trim();
    if name.is_empty() { "localhost".to_owned() } else { name.to_owned() }
}

/// `extra_info` of serverStatus.
pub fn extra_info() -> DocBuf {
    let stat = read("/proc/self/stat");
    // The name in parentheses may hold spaces; fields are counted behind it.
    let fields: Vec<&str> = stat.rsplit(')').next().unwrap_or_default().split_whitespace().collect();
    let field = |number: usize| fields.get(number).and_then(|text| text.parse::<i64>().ok()).unwrap_or(0);
    let ticks_us = 1_000_000 / 100;
    let status = read("/proc/self/status");
    DocBuf::new()
        .with("note", "fields vary by platform")
        .with("page_faults", field(9))
        .with("minor_page_faults", field(7))
        .with("user_time_us", field(11) * ticks_us)
        .with("system_time_us", field(12) * ticks_us)
        .with("voluntary_context_switches", number(&status, "voluntary_ctxt_switches:"))
        .with("involuntary_context_switches", number(&status, "nonvoluntary_ctxt_switches:"))
        .with("threads", number(&status, "Threads:"))
}

/// Memory of the machine, time of its CPUs and its load, as `getDiagnosticData` has them.
pub fn system_metrics() -> DocBuf {
    let memory = read("/proc/meminfo");
    let mut of_memory = DocBuf::new();
    for name in ["MemTotal", "MemFree", "MemAvailable", "Buffers", "Cached", "Dirty", "SwapTotal", "SwapFree"] {
        of_memory.append(&format!("{name}_kb"), number(&memory, &format!("{name}:")));
    }
    let stat = read("/proc/stat");
    let mut of_cpus = DocBuf::new().with("num_cpus", cores() as i32);
    let ticks = stat.lines().next().unwrap_or_default().split_whitespace().skip(1);
    let names = ["user_ms", "nice_ms", "system_ms", "idle_ms", "iowait_ms", "irq_ms", "softirq_ms", "steal_ms"];
    for (name, ticks) in names.iter().zip(ticks) {
        // a tick is a hundredth of a second
        of_cpus.append(name, ticks.parse::<i64>().unwrap_or(0) * 10);
    }
    of_cpus.append("ctxt", number(&stat, "ctxt ")).append("processes", number(&stat, "processes "));
    DocBuf::new().with("cpu", &of_cpus).with("memory", &of_memory)
}

/// `hostInfo`.
pub fn host_info(doc: &mut DocBuf) {
    let kernel = read("/proc/sys/kernel/osrelease");
    let release = read("/etc/os-release");
    let named = |key: &str| {
        let value = release.lines().find_map(|line| line.strip_prefix(key)?.strip_prefix('='));
        value.unwrap_or("unknown").trim_matches('"').to_owned()
    };
    let megabytes = |bytes: u64| (bytes >> 20) as i64;
    let system = DocBuf::new()
        .with("currentTime", arbor_bson::ValueRef::DateTime(crate::log::now_ms()))
        .with("hostname", &host_name())
        .with("cpuAddrSize", usize::BITS as i32)
        .with("memSizeMB", megabytes(machine_memory()))
        .with("memLimitMB", megabytes(memory_limit()))
        .with("numCores", cores() as i32)
        .with("numCoresAvailableToProcess", cores() as i32)
        .with("cpuArch", std::env::consts::ARCH);
    let os =
        DocBuf::new().with("type", "Linux").with("name", &named("PRETTY_NAME")).with("version", &named("VERSION_ID"));
    let extra = DocBuf::new()
        .with("versionString", read("/proc/version").trim())
        .with("kernelVersion", kernel.trim())
        .with("maxOpenFiles", open_files_max());
    doc.append("system", &system).append("os", &os).append("extra", &extra);
}

fn open_files_max() -> i64 {
    let limits = read("/proc/self/limits");
    let line = limits.lines().find(|line| line.starts_with("Max open files")).unwrap_or_default();
    line.split_whitespace().nth(3).and_then(|text| text.parse().ok()).unwrap_or(0)
}

fn read(path: &str) -> String {
    fs::read_to_string(path).unwrap_or_default()
}

fn kilobytes(text: &str, key: &str) -> u64 {
    number(text, key).max(0) as u64 * 1024
}

fn number(text: &str, key: &str) -> i64 {
    let line = text.lines().find_map(|line| line.strip_prefix(key));
    line.and_then(|rest| rest.split_whitespace().next()?.parse().ok()).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn proc_is_read() {
        let memory = memory();
        assert!(memory.resident_bytes > 100_000 && memory.virtual_bytes >= memory.resident_bytes, "{memory:?}");
        assert!(machine_memory() > memory.resident_bytes && memory_limit() <= machine_memory());
        assert!(cores() > 0 && open_files_max() > 0);
        let extra = extra_info();
        assert!(matches!(extra.get("threads"), Some(arbor_bson::ValueRef::Int64(n)) if n > 0), "{extra:?}");
    }
}
