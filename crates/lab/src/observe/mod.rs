//! What the machine did meanwhile: CPU and context switches of the host as vmstat counts them, CPU of server and
//! generator, bytes on disk. All from /proc, on one clock.

mod disk_use;
mod host;
mod process;

use std::time::Instant;

pub use disk_use::{DiskUse, disk_use};
pub use host::HostCounters;
pub use process::{DeviceBytes, cpu_seconds, forget_peak_memory, own_cpu_seconds, peak_memory_bytes};

/// Counters at one moment.
#[derive(Clone, Copy, Debug)]
pub struct Sample {
    at: Instant,
    host: HostCounters,
    server_cpu_s: Option<f64>,
    client_cpu_s: f64,
}

/// What happened between two samples.
#[derive(Clone, Copy, Debug, Default)]
pub struct Usage {
    pub seconds: f64,
    /// Percent of the whole host, as vmstat's us and sy.
    pub user_percent: f64,
    pub system_percent: f64,
    pub context_switches: f64,
    /// CPU seconds of the server's process; `None` when it is not known.
    pub server_cpu_s: Option<f64>,
    /// CPU seconds of this process.
    pub client_cpu_s: f64,
}

impl Sample {
    /// Takes a sample; `server` is the process of the system under test.
    pub fn take(server: Option<u32>) -> std::io::Result<Sample> {
        Ok(Sample {
            at: Instant::now(),
            host: HostCounters::read()?,
            // A server that died meanwhile has no figure; the run notices by itself.
            server_cpu_s: server.and_then(|pid| process::cpu_seconds(pid).ok()),
            client_cpu_s: own_cpu_seconds(),
        })
    }

    pub fn at(&self) -> Instant {
        self.at
    }

    pub fn since(&self, earlier: &Sample) -> Usage {
        let ticks = (self.host.total - earlier.host.total).max(1) as f64;
        let percent = |later: u64, earlier: u64| later.saturating_sub(earlier) as f64 / ticks * 100.0;
        Usage {
            seconds: self.at.duration_since(earlier.at).as_secs_f64(),
            user_percent: percent(self.host.user, earlier.host.user),
            system_percent: percent(self.host.system, earlier.host.system),
            context_switches: self.host.context_switches.saturating_sub(earlier.host.context_switches) as f64,
            server_cpu_s: self.server_cpu_s.zip(earlier.server_cpu_s).map(|(later, earlier)| later - earlier),
            client_cpu_s: self.client_cpu_s - earlier.client_cpu_s,
        }
    }
}

/// Logical processors of the host.
pub fn processors() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}
