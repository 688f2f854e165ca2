//! The processors that this process may use, and how much of them is idle.
//!
//! Two kinds of bounds are known, and the least counts: the processors that it may run on (`taskset`, a cpuset), and the quotas of its control groups
//! (`docker run --cpus`, `CPUQuota=`). Under a quota a processor that is idle is of no use once the group has used its time.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::control_group::{ControlGroup, control_groups};

#[derive(Debug)]
pub(super) struct Processors {
    bounds: Vec<Bound>,
}

/// One of the bounds, with the reading of the last time.
#[derive(Debug)]
struct Bound {
    processors: f64,
    kind: Kind,
    before: Option<Duration>,
}

#[derive(Debug)]
enum Kind {
    /// The processors of these numbers: the file says how long each was idle.
    Allowed { stat: PathBuf, numbers: Vec<usize> },
    /// A group with a quota: the file says how much time it has used.
    Quota(Usage),
}

#[derive(Debug)]
enum Usage {
    /// `cpu.stat` of version 2.
    Stat(PathBuf),
    /// `cpuacct.usage` of version 1.
    Nanoseconds(PathBuf),
}

impl Processors {
    /// `root`: the directory that contains `proc` and `sys`.
    pub(super) fn of(root: &Path) -> Processors {
        let allowed = allowed(root);
        let number = match allowed.len() {
            0 => std::thread::available_parallelism().map_or(1, |number| number.get()),
            some => some,
        };
        let kind = Kind::Allowed { stat: root.join("proc/stat"), numbers: allowed };
        let mut bounds = vec![Bound { processors: number as f64, kind, before: None }];
        bounds.extend(control_groups(root, "cpu").into_iter().filter_map(|group| quota(root, &group)));
        bounds.iter_mut().for_each(|bound| bound.before = bound.kind.read());
        Processors { bounds }
    }

    /// The number that it may use, which may be a fraction.
    pub(super) fn number(&self) -> f64 {
        self.bounds.iter().map(|bound| bound.processors).fold(f64::INFINITY, f64::min)
    }

    /// Returns how many of them were idle in the time since the last call. Zero where the system does not say.
    pub(super) fn idle(&mut self, elapsed: Duration) -> f64 {
        let idle = self.bounds.iter_mut().map(|bound| bound.idle(elapsed.as_secs_f64()));
        idle.fold(f64::INFINITY, f64::min).clamp(0.0, self.number())
    }
}

impl Bound {
    fn idle(&mut self, elapsed: f64) -> f64 {
        let now = self.kind.read();
        let (Some(before), Some(now)) = (std::mem::replace(&mut self.before, now), now) else { return 0.0 };
        let part = now.saturating_sub(before).as_secs_f64() / elapsed;
        match self.kind {
            Kind::Allowed { .. } => part,
            Kind::Quota(_) => self.processors - part,
        }
    }
}

impl Kind {
    fn read(&self) -> Option<Duration> {
        match self {
            Kind::Allowed { stat, numbers } => idle_time(&fs::read_to_string(stat).ok()?, numbers),
            Kind::Quota(Usage::Stat(file)) => {
                let text = fs::read_to_string(file).ok()?;
                let used = text.lines().find_map(|line| line.strip_prefix("usage_usec "))?;
                used.trim().parse().ok().map(Duration::from_micros)
            }
            Kind::Quota(Usage::Nanoseconds(file)) => {
                fs::read_to_string(file).ok()?.trim().parse().ok().map(Duration::from_nanos)
            }
        }
    }
}

/// Time that these processors together were idle, or waited for a disk; of all if none is named.
fn idle_time(stat: &str, numbers: &[usize]) -> Option<Duration> {
    let (mut ticks, mut any) = (0u64, false);
    for line in stat.lines() {
        let mut fields = line.split_whitespace();
        let Some(name) = fields.next().and_then(|name| name.strip_prefix("cpu")) else { continue };
        let is_meant = match name.parse::<usize>() {
            Ok(number) => numbers.contains(&number),
            Err(_) => name.is_empty() && numbers.is_empty(),
        };
        if is_meant {
            any = true;
            ticks += fields.skip(3).take(2).filter_map(|field| field.parse::<u64>().ok()).sum::<u64>();
        }
    }
    // USER_HZ is 100 wherever Linux runs.
    any.then(|| Duration::from_millis(ticks * 10))
}

/// The numbers of the processors that the process may run on, which cpusets bound as well; none where the system does not say.
fn allowed(root: &Path) -> Vec<usize> {
    let status = fs::read_to_string(root.join("proc/self/status")).unwrap_or_default();
    let list = status.lines().find_map(|line| line.strip_prefix("Cpus_allowed_list:")).unwrap_or_default();
    let ranges = list.split(',').filter_map(|range| {
        let (first, last) = range.trim().split_once('-').unwrap_or((range.trim(), range.trim()));
        Some(first.parse::<usize>().ok()?..=last.parse::<usize>().ok()?.min(PROCESSORS_MAX))
    });
    ranges.flatten().collect()
}

/// More than any machine has.
const PROCESSORS_MAX: usize = 1 << 16;

/// `None`: the group has no quota.
fn quota(root: &Path, group: &ControlGroup) -> Option<Bound> {
    let number = |text: &str| text.trim().parse::<f64>().ok().filter(|number| *number > 0.0);
    let read = |file: &str| fs::read_to_string(group.directory.join(file)).ok();
    let (quota, period, usage) = match group.unified {
        true => {
            let text = read("cpu.max")?;
            let (quota, period) = text.trim().split_once(' ')?;
            (number(quota)?, number(period)?, Usage::Stat(group.directory.join("cpu.stat")))
        }
        false => {
            let within = group.directory.strip_prefix(root.join("sys/fs/cgroup/cpu")).ok()?;
            let usage = root.join("sys/fs/cgroup/cpuacct").join(within).join("cpuacct.usage");
            (number(&read("cpu.cfs_quota_us")?)?, number(&read("cpu.cfs_period_us")?)?, Usage::Nanoseconds(usage))
        }
    };
    Some(Bound { processors: quota / period, kind: Kind::Quota(usage), before: None })
}

#[cfg(test)]
mod tests {
    use super::*;

    const STATUS: (&str, &str) = ("proc/self/status", "Name:\tarbor\nCpus_allowed:\tf\nCpus_allowed_list:\t0-3\n");
    /// Four processors, one second apart: 1 s of idle time on the first, 0.5 s on the second, 0.25 s of waiting for the disk on the
    /// third.
    const STAT: &str = "cpu  1368050 165671 463837 932020 54813 0 87589 640 0 0\n\
        cpu0 673775 80830 221386 504800 20486 0 36994 320 0 0\n\
        cpu1 694275 84841 242450 427220 34327 0 50595 319 0 0\n\
        cpu2 100 0 0 100 100 0 0 0 0 0\n\
        cpu3 100 0 0 100 100 0 0 0 0 0\n\
        intr 66085501 0\n";
    const STAT_LATER: &str = "cpu  1368050 165671 463837 932170 54838 0 87589 640 0 0\n\
        cpu0 673775 80830 221386 504900 20486 0 36994 320 0 0\n\
        cpu1 694275 84841 242450 427270 34327 0 50595 319 0 0\n\
        cpu2 100 0 0 100 125 0 0 0 0 0\n\
        cpu3 200 0 0 100 100 0 0 0 0 0\n\
        intr 66085502 0\n";

    struct Root(tempfile::TempDir);

    impl Root {
        fn new(files: &[(&str, &str)]) -> Root {
            let root = Root(tempfile::tempdir().unwrap());
            root.write(files);
            root
        }

        fn write(&self, files: &[(&str, &str)]) {
            for (path, text) in files {
                let path = self.0.path().join(path);
                fs::create_dir_all(path.parent().unwrap()).unwrap();
                fs::write(path, text).unwrap();
            }
        }
    }

    /// Checks the number of processors, and how many are idle after a second in which `later` was written.
    fn check(files: &[(&str, &str)], later: &[(&str, &str)], number: f64, idle: f64) {
        let root = Root::new(files);
        let mut processors = Processors::of(root.0.path());
        assert_eq!(processors.number(), number, "{files:?}");
        root.write(later);
        let found = processors.idle(Duration::from_secs(1));
        assert!((found - idle).abs() < 1e-6, "{found} idle, not {idle}: {files:?} {later:?}");
        assert_eq!(processors.idle(Duration::from_secs(1)), 0.0, "a reading counts once");
    }

    #[test]
    fn the_processors_that_the_process_may_run_on_count() {
        let (stat, later) = (("proc/stat", STAT), [("proc/stat", STAT_LATER)]);
        check(&[STATUS, stat], &later, 4.0, 1.75);
        check(&[("proc/self/status", "Cpus_allowed_list:\t1,3\n"), stat], &later, 2.0, 0.5);
        check(&[("proc/self/status", "Cpus_allowed_list:\t3\n"), stat], &later, 1.0, 0.0);
        // processors that are not listed, and no file at all
        check(&[("proc/self/status", "Cpus_allowed_list:\t7\n"), stat], &later, 1.0, 0.0);
        check(&[STATUS], &[], 4.0, 0.0);
    }

    #[test]
    fn under_a_quota_idle_is_what_the_group_has_not_used() {
        let (stat, own) = (("proc/stat", STAT), ("proc/self/cgroup", "0::/a/b\n"));
        let usage = |used: &'static str| ("sys/fs/cgroup/a/b/cpu.stat", used);
        let later = ("proc/stat", STAT_LATER);
        let of = |quota: &'static str| {
            [STATUS, stat, own, ("sys/fs/cgroup/a/b/cpu.max", quota), usage("usage_usec 5000000\n")]
        };
        // one and a half processors, of which 1.2 were used
        let used = usage("usage_usec 6200000\nuser_usec 1\nnr_periods 9\nnr_throttled 3\n");
        check(&of("150000 100000\n"), &[later, used], 1.5, 0.3);
        check(&of("50000 100000\n"), &[later, usage("usage_usec 5500000\n")], 0.5, 0.0);
        // the machine has less than what is left of the quota
        check(&of("300000 100000\n"), &[later, usage("usage_usec 5000000\n")], 3.0, 1.75);
        check(&of("max 100000\n"), &[later, used], 4.0, 1.75);
        // a group above has the quota
        let above = [("sys/fs/cgroup/a/cpu.max", "100000 100000\n"), ("sys/fs/cgroup/a/cpu.stat", "usage_usec 7\n")];
        let files: Vec<_> = of("max 100000\n").into_iter().chain(above).collect();
        check(&files, &[later, ("sys/fs/cgroup/a/cpu.stat", "usage_usec 900007\n")], 1.0, 0.1);
        // a quota without a reading leaves nothing
        check(&[STATUS, stat, own, ("sys/fs/cgroup/cpu.max", "100000 100000\n")], &[later], 1.0, 0.0);
    }

    #[test]
    fn version_1_has_quota_and_usage_in_two_hierarchies() {
        let own = ("proc/self/cgroup", "7:cpu,cpuacct:/x\n5:memory:/docker/1\n0::/\n");
        let directory =
            [("sys/fs/cgroup/cpu/x/cpu.cfs_period_us", "100000\n"), ("sys/fs/cgroup/cpuacct/x/cpuacct.usage", "70\n")];
        let quota = |quota: &'static str| ("sys/fs/cgroup/cpu/x/cpu.cfs_quota_us", quota);
        let later = [("proc/stat", STAT_LATER), ("sys/fs/cgroup/cpuacct/x/cpuacct.usage", "1800000070\n")];
        let files =
            |text: &'static str| [vec![STATUS, ("proc/stat", STAT), own, quota(text)], directory.to_vec()].concat();
        check(&files("200000\n"), &later, 2.0, 0.2);
        check(&files("-1\n"), &later, 4.0, 1.75);
    }

    #[test]
    fn this_machine_says_what_is_idle() {
        let processors = Processors::of(Path::new("/"));
        assert!(0.0 < processors.number() && processors.number() <= PROCESSORS_MAX as f64);
        assert!(processors.bounds.iter().all(|bound| bound.before.is_some()), "{processors:?}");
    }
}
