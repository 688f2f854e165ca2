//! Resource usage of the machine: CPU and context switches of the host as vmstat counts them, CPU of server and
//! generator, reads and writes of the device and of the server's process, memory, bytes on disk. All from /proc, on one
//! clock.

mod device;
mod disk_use;
mod host;
mod port;
mod process;

use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

pub use device::{Device, DeviceCounters};
pub use disk_use::{DiskUse, disk_use};
pub use host::HostCounters;
pub use port::process_on_port;
pub use process::{
    DeviceBytes, children, cpu_seconds, forget_peak_memory, is_running, open_files, own_cpu_seconds, peak_memory_bytes,
    resident_bytes,
};

use serde::{Deserialize, Serialize};

use crate::agent::Agent;
use crate::target::Target;

/// Objects sampled in addition to the host: the server's process and the device below its data directory, if known.
#[derive(Clone, Debug, Default)]
pub struct Observed {
    pub process: Option<u32>,
    pub device: Option<Device>,
    /// All of it, the host as well, is what this one says.
    pub agent: Option<Arc<Agent>>,
}

impl Observed {
    pub fn of(process: Option<u32>, directory: Option<&Path>) -> Observed {
        Observed { process, device: directory.and_then(Device::below), agent: None }
    }

    pub fn of_target(target: &dyn Target) -> Observed {
        Observed { agent: target.agent(), ..Observed::of(target.process(), target.directory()) }
    }
}

/// Returns the bytes of a target's data directory, if somebody can read it.
pub fn disk_use_of(target: &dyn Target) -> Option<DiskUse> {
    match target.agent() {
        Some(agent) => agent.disk_use().ok().flatten(),
        None => target.directory().map(disk_use),
    }
}

/// Counters at one moment.
#[derive(Clone, Copy, Debug)]
pub struct Sample {
    at: Instant,
    counters: Counters,
    client_cpu_s: f64,
}

/// Counters of a host and of a server on it.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub struct Counters {
    pub host: HostCounters,
    pub processors: usize,
    pub device: Option<DeviceCounters>,
    /// `None` if the server died meanwhile; the run detects that by itself.
    pub server: Option<ServerCounters>,
}

impl Counters {
    /// Reads the counters of this host.
    pub fn read(observed: &Observed) -> std::io::Result<Counters> {
        Ok(Counters {
            host: HostCounters::read()?,
            processors: processors(),
            device: observed.device.and_then(|device| device.counters().ok()),
            server: observed.process.and_then(ServerCounters::read),
        })
    }
}

#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub struct ServerCounters {
    cpu_s: f64,
    resident_bytes: Option<u64>,
    open_files: Option<u64>,
    device: Option<DeviceBytes>,
}

impl ServerCounters {
    /// Reads the counters of a process and of those that it has started: the servers of a cluster.
    fn read(process: u32) -> Option<ServerCounters> {
        let mut all = ServerCounters::of(process)?;
        for child in children(process).into_iter().filter_map(ServerCounters::read) {
            all.cpu_s += child.cpu_s;
            all.resident_bytes = all.resident_bytes.zip(child.resident_bytes).map(|(all, own)| all + own);
            all.open_files = all.open_files.zip(child.open_files).map(|(all, own)| all + own);
            all.device = all.device.zip(child.device).map(|(all, own)| all + own);
        }
        Some(all)
    }

    fn of(process: u32) -> Option<ServerCounters> {
        Some(ServerCounters {
            cpu_s: cpu_seconds(process).ok()?,
            resident_bytes: resident_bytes(process).ok(),
            open_files: open_files(process).ok(),
            device: DeviceBytes::of_process(process).ok(),
        })
    }
}

/// Resource usage between two samples. `None`: not known.
#[derive(Clone, Copy, Debug, Default)]
pub struct Usage {
    pub seconds: f64,
    /// Percent of the whole host, as vmstat's us and sy.
    pub user_percent: f64,
    pub system_percent: f64,
    pub context_switches: f64,
    /// Counters of the device below the data directory.
    pub device: Option<DeviceCounters>,
    /// CPU seconds of the server's process.
    pub server_cpu_s: Option<f64>,
    /// Reads and writes that the server's process caused.
    pub server_device: Option<DeviceBytes>,
    /// Resident memory of the server's process, at the end.
    pub resident_bytes: Option<u64>,
    /// Files that the server's process has open, at the end.
    pub open_files: Option<u64>,
    /// CPU seconds of this process.
    pub client_cpu_s: f64,
    /// Logical processors of the server's host.
    pub processors: usize,
}

impl Sample {
    /// Errors: the agent does not reply; /proc has another form.
    pub fn take(observed: &Observed) -> std::io::Result<Sample> {
        let counters = match &observed.agent {
            Some(agent) => agent.counters()?,
            None => Counters::read(observed)?,
        };
        Ok(Sample { at: Instant::now(), counters, client_cpu_s: own_cpu_seconds() })
    }

    pub fn at(&self) -> Instant {
        self.at
    }

    pub fn since(&self, earlier: &Sample) -> Usage {
        let (now, before) = (&self.counters, &earlier.counters);
        let ticks = now.host.total.saturating_sub(before.host.total).max(1) as f64;
        let percent = |later: u64, earlier: u64| later.saturating_sub(earlier) as f64 / ticks * 100.0;
        let servers = now.server.zip(before.server);
        Usage {
            seconds: self.at.duration_since(earlier.at).as_secs_f64(),
            user_percent: percent(now.host.user, before.host.user),
            system_percent: percent(now.host.system, before.host.system),
            context_switches: now.host.context_switches.saturating_sub(before.host.context_switches) as f64,
            device: now.device.zip(before.device).map(|(later, earlier)| later.since(earlier)),
            server_cpu_s: servers.map(|(later, earlier)| (later.cpu_s - earlier.cpu_s).max(0.0)),
            server_device: servers
                .and_then(|(later, earlier)| later.device.zip(earlier.device))
                .map(|(later, earlier)| later.since(earlier)),
            resident_bytes: now.server.and_then(|server| server.resident_bytes),
            open_files: now.server.and_then(|server| server.open_files),
            client_cpu_s: self.client_cpu_s - earlier.client_cpu_s,
            processors: now.processors,
        }
    }
}

/// Memory of the host.
pub fn memory_bytes() -> Option<u64> {
    let text = std::fs::read_to_string("/proc/meminfo").ok()?;
    let kilobytes: u64 = text.lines().next()?.split_whitespace().nth(1)?.parse().ok()?;
    Some(kilobytes * 1024)
}

/// Logical processors of the host.
pub fn processors() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}
