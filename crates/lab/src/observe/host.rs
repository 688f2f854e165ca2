//! /proc/stat.

/// Ticks since boot, and context switches.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct HostCounters {
    /// user + nice: vmstat's us.
    pub user: u64,
    /// system + irq + softirq: vmstat's sy.
    pub system: u64,
    /// All states, idle and stolen time included.
    pub total: u64,
    pub context_switches: u64,
}

impl HostCounters {
    pub(super) fn read() -> std::io::Result<HostCounters> {
        HostCounters::parse(&std::fs::read_to_string("/proc/stat")?)
            .ok_or_else(|| std::io::Error::other("unknown format of /proc/stat"))
    }

    fn parse(text: &str) -> Option<HostCounters> {
        let line = |name: &str| text.lines().find_map(|line| line.strip_prefix(name));
        let ticks: Vec<u64> = line("cpu ")?.split_whitespace().map_while(|word| word.parse().ok()).collect();
        let [user, nice, system, idle, iowait, irq, softirq, steal, ..] = ticks[..] else { return None };
        Some(HostCounters {
            user: user + nice,
            system: system + irq + softirq,
            // Guest time is counted within user already.
            total: user + nice + system + idle + iowait + irq + softirq + steal,
            context_switches: line("ctxt ")?.trim().parse().ok()?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kernels_form() {
        let text = "cpu  10 1 20 100 5 2 3 4 9 0\ncpu0 1 1 1 1 1 1 1 1 0 0\nintr 5 4\nctxt 987654\nbtime 1\n";
        let expected = HostCounters { user: 11, system: 25, total: 145, context_switches: 987_654 };
        assert_eq!(HostCounters::parse(text), Some(expected));
        assert_eq!(HostCounters::parse("cpu  1 2 3\nctxt 1\n"), None);
        assert_eq!(HostCounters::parse(""), None);
    }

    #[test]
    fn this_host_counts() {
        let (first, second) = (HostCounters::read().unwrap(), HostCounters::read().unwrap());
        assert!(first.total > 0 && second.context_switches >= first.context_switches);
    }
}
