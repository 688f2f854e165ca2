//! Settings and limits of the kernel, and the clock.

use std::process::Command;

use super::{Finding, Machine};
use crate::descriptors;

const HUGE_PAGES: &str = "sys/kernel/mm/transparent_hugepage/enabled";

pub(super) fn settings(machine: &Machine) -> Vec<Finding> {
    vec![huge_pages(machine), swappiness(machine), overcommit(machine), zone_reclaim(machine)]
}

fn huge_pages(machine: &Machine) -> Finding {
    const CHECK: &str = "huge pages";
    match machine.read(HUGE_PAGES) {
        Some(text) if text.contains("[always]") => Finding::warning(
            CHECK,
            "transparent huge pages are always on: memory is taken and released in units of 2 MB",
            format!("echo madvise > /{HUGE_PAGES}, at each start of the machine"),
        ),
        Some(text) => {
            let chosen = text.split(['[', ']']).nth(1).unwrap_or("unknown").to_owned();
            Finding::good(CHECK, format!("transparent huge pages: {chosen}"))
        }
        None => Finding::good(CHECK, "the kernel has no transparent huge pages"),
    }
}

fn swappiness(machine: &Machine) -> Finding {
    const CHECK: &str = "swappiness";
    let swap = machine.read("proc/meminfo").unwrap_or_default();
    let has_swap = swap.lines().any(|line| line.starts_with("SwapTotal:") && !line.ends_with(" 0 kB"));
    match machine.number("proc/sys/vm/swappiness") {
        Some(value) if has_swap && value > 1 => Finding::warning(
            CHECK,
            format!("vm.swappiness is {value} and there is swap: caches may be written to disk to be read again"),
            "sysctl vm.swappiness=1, and a line in /etc/sysctl.d",
        ),
        Some(_) if !has_swap => Finding::good(CHECK, "there is no swap"),
        Some(value) => Finding::good(CHECK, format!("vm.swappiness is {value}")),
        None => Finding::note(CHECK, "vm.swappiness cannot be read"),
    }
}

fn overcommit(machine: &Machine) -> Finding {
    const CHECK: &str = "overcommit";
    match machine.number("proc/sys/vm/overcommit_memory") {
        Some(2) => Finding::warning(
            CHECK,
            "vm.overcommit_memory is 2: LMDB's map of its whole file counts as memory, and the start may fail",
            "sysctl vm.overcommit_memory=0, or a vm.overcommit_ratio that covers --memoryLimit and the files of LMDB",
        ),
        Some(value) => Finding::good(CHECK, format!("vm.overcommit_memory is {value}")),
        None => Finding::note(CHECK, "vm.overcommit_memory cannot be read"),
    }
}

fn zone_reclaim(machine: &Machine) -> Finding {
    const CHECK: &str = "zone reclaim";
    match machine.number("proc/sys/vm/zone_reclaim_mode") {
        Some(0) | None => Finding::good(CHECK, "vm.zone_reclaim_mode is off"),
        Some(value) => Finding::warning(
            CHECK,
            format!(
                "vm.zone_reclaim_mode is {value}: memory of other nodes stays free while pages of files are thrown away"
            ),
            "sysctl vm.zone_reclaim_mode=0",
        ),
    }
}

pub(super) fn limits(machine: &Machine) -> Vec<Finding> {
    let limits = machine.read("proc/self/limits").unwrap_or_default();
    // the server raises the soft limit to the hard one by itself
    let hard = |name: &str| {
        let line = limits.lines().find_map(|line| line.strip_prefix(name))?;
        let text = line.split_whitespace().nth(1)?;
        Some(if text == "unlimited" { u64::MAX } else { text.parse().ok()? })
    };
    let shown = |limit: u64| if limit == u64::MAX { "unlimited".to_owned() } else { limit.to_string() };
    let one = |check: &'static str, name: &str, least: u64, advice: &str| match hard(name) {
        Some(limit) if limit < least => {
            Finding::warning(check, format!("at most {limit}, where {least} are recommended"), advice)
        }
        Some(limit) => Finding::good(check, format!("at most {}", shown(limit))),
        None => Finding::note(check, "the limit cannot be read"),
    };
    vec![
        one(
            "open files",
            "Max open files",
            descriptors::RECOMMENDED,
            "LimitNOFILE=64000 in the unit, or a `nofile` line in /etc/security/limits.d; connections are limited until then",
        ),
        one(
            "processes",
            "Max processes",
            4096,
            "LimitNPROC=64000 in the unit: each operation that runs at the same time may need a thread",
        ),
    ]
}

pub(super) fn clock(machine: &Machine) -> Vec<Finding> {
    // the kernel's own word, by systemd, to which each time daemon reports
    let asked = Command::new("timedatectl").args(["show", "--property=NTPSynchronized", "--value"]).output();
    let word = asked.ok().map(|output| String::from_utf8_lossy(&output.stdout).trim().to_owned());
    let synchronised = match word.as_deref() {
        Some("yes") => Finding::good("clock", "the clock is synchronised"),
        _ => time_daemon(machine),
    };
    [synchronised].into_iter().chain(clock_source(machine)).collect()
}

/// Looks for a program that keeps the clock.
pub(super) fn time_daemon(machine: &Machine) -> Finding {
    const DAEMONS: &[&str] = &["chronyd", "ntpd", "systemd-timesyn", "openntpd", "ptp4l", "phc2sys"];
    let processes = std::fs::read_dir(machine.0.join("proc")).into_iter().flatten().flatten();
    let mut names = processes.filter_map(|entry| std::fs::read_to_string(entry.path().join("comm")).ok());
    match names.find(|name| DAEMONS.contains(&name.trim())) {
        Some(name) => Finding::good("clock", format!("{} runs", name.trim())),
        None => Finding::warning(
            "clock",
            "nothing that is known to synchronise the clock runs here",
            "install chrony: times of the oplog, of TTL indexes and of certificates are those of the clock (in a container that of its host)",
        ),
    }
}

pub(super) fn clock_source(machine: &Machine) -> Option<Finding> {
    const CHECK: &str = "clock source";
    const QUICK: &[&str] = &["tsc", "kvm-clock", "arch_sys_counter", "hyperv_clocksource_tsc_page", "xen"];
    let source = machine.read("sys/devices/system/clocksource/clocksource0/current_clocksource")?;
    Some(match QUICK.contains(&source.as_str()) {
        true => Finding::good(CHECK, source),
        false => Finding::warning(
            CHECK,
            format!("{source}: reading it is a system call, and each operation reads it a few times"),
            "find out why the kernel did not choose tsc (dmesg | grep -i clocksource)",
        ),
    })
}
