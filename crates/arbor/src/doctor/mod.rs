//! `arbor doctor`: checks of the machine and of the settings of a server, each finding with what to do about it.
//!
//! It takes the flags and the configuration file of `arbor serve`, so it examines what that server will use. Nothing is changed but for a
//! file of a few kilobytes in the data directory, which measures fsync and is deleted.
//!
//! | file | what |
//! |---|---|
//! | `kernel` | settings and limits of the kernel, the clock |
//! | `storage` | the file system and the disk of the data directory |
//! | `files` | certificates, keys, etcd, versions |

mod files;
mod kernel;
mod storage;

use std::path::{Path, PathBuf};

use clap::{Arg, ArgAction, ArgMatches, Command};

use crate::config::{self, Settings};
use crate::failure::{BAD_OPTIONS, Failure};

/// Exit codes: something should be changed; a server would lose data or not start.
const WARNED: u8 = 1;
const FAILED: u8 = 3;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Level {
    Good,
    /// It could not be checked, or is of no importance here.
    Note,
    Warning,
    Problem,
}

impl Level {
    fn name(self) -> &'static str {
        match self {
            Level::Good => "ok",
            Level::Note => "note",
            Level::Warning => "warning",
            Level::Problem => "problem",
        }
    }
}

/// One check and its outcome.
#[derive(Clone, Debug)]
pub(super) struct Finding {
    pub check: &'static str,
    pub level: Level,
    /// The state that was seen.
    pub seen: String,
    /// The remedy; empty where nothing is to be done.
    pub advice: String,
}

impl Finding {
    fn good(check: &'static str, seen: impl Into<String>) -> Finding {
        Finding { check, level: Level::Good, seen: seen.into(), advice: String::new() }
    }

    fn note(check: &'static str, seen: impl Into<String>) -> Finding {
        Finding { level: Level::Note, ..Finding::good(check, seen) }
    }

    fn warning(check: &'static str, seen: impl Into<String>, advice: impl Into<String>) -> Finding {
        Finding { level: Level::Warning, advice: advice.into(), ..Finding::good(check, seen) }
    }

    fn problem(check: &'static str, seen: impl Into<String>, advice: impl Into<String>) -> Finding {
        Finding { level: Level::Problem, ..Finding::warning(check, seen, advice) }
    }
}

/// The directory that contains `proc` and `sys`: the root, but for tests.
struct Machine(PathBuf);

impl Machine {
    /// Returns the trimmed text of a file. `None`: it is not there, or may not be read.
    fn read(&self, file: &str) -> Option<String> {
        let text = std::fs::read_to_string(self.0.join(file)).ok()?;
        Some(text.trim().to_owned())
    }

    fn number(&self, file: &str) -> Option<i64> {
        self.read(file)?.parse().ok()
    }
}

pub(crate) fn command() -> Command {
    let json =
        Arg::new("json").long("json").action(ArgAction::SetTrue).help("Prints the findings as one JSON document");
    config::doctor_command().arg(json)
}

/// Prints the findings; the exit code is that of the worst one.
pub(crate) fn run(matches: &ArgMatches) -> Result<(), Failure> {
    let settings =
        config::read_command_line(matches).map_err(|refused| Failure::new(BAD_OPTIONS, refused.to_string()))?;
    let findings = examine(&settings, &Machine(PathBuf::from("/")));
    if matches.get_flag("json") {
        println!("{}", json(&findings));
    } else {
        print!("{}", text(&findings));
    }
    let count = |level| findings.iter().filter(|finding| finding.level == level).count();
    let summary = format!("{} problems, {} warnings", count(Level::Problem), count(Level::Warning));
    match findings.iter().map(|finding| finding.level).max() {
        Some(Level::Problem) => Err(Failure::new(FAILED, summary)),
        Some(Level::Warning) => Err(Failure::new(WARNED, summary)),
        _ => Ok(()),
    }
}

fn examine(settings: &Settings, machine: &Machine) -> Vec<Finding> {
    let mut findings = files::versions(machine);
    findings.extend(kernel::settings(machine));
    findings.extend(kernel::limits(machine));
    findings.extend(kernel::clock(machine));
    findings.extend(storage::directory(&settings.dbpath));
    findings.extend(storage::file_system(machine, &settings.dbpath));
    findings.extend(storage::fsyncs(machine, &settings.dbpath));
    findings.extend(files::etcd(settings));
    findings.extend(files::certificates(settings, jiff::Timestamp::now().as_second()));
    findings
}

fn text(findings: &[Finding]) -> String {
    let mut text = String::new();
    for finding in findings {
        text.push_str(&format!("{:<8} {:<20} {}\n", finding.level.name(), finding.check, finding.seen));
        if !finding.advice.is_empty() {
            text.push_str(&format!("{:<30}-> {}\n", "", finding.advice));
        }
    }
    text
}

fn json(findings: &[Finding]) -> String {
    let one = |finding: &Finding| {
        serde_json::json!({
            "check": finding.check, "level": finding.level.name(), "seen": finding.seen, "advice": finding.advice,
        })
    };
    let all: Vec<_> = findings.iter().map(one).collect();
    serde_json::json!({ "version": crate::version::VERSION, "findings": all }).to_string()
}

/// Returns a size in the largest unit in which it is at least one.
fn size(bytes: u64) -> String {
    let units = [(1u64 << 40, "TB"), (1 << 30, "GB"), (1 << 20, "MB"), (1 << 10, "KB")];
    let unit = units.into_iter().find(|(unit, _)| bytes >= *unit);
    unit.map_or_else(|| format!("{bytes} bytes"), |(unit, name)| format!("{:.1} {name}", bytes as f64 / unit as f64))
}

/// Returns the path, or the nearest directory above it that exists.
fn existing(path: &Path) -> PathBuf {
    let path = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
    let found = path.ancestors().find(|path| path.exists()).unwrap_or(Path::new("/"));
    found.canonicalize().unwrap_or_else(|_| found.to_owned())
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    fn machine(files: &[(&str, &str)]) -> (tempfile::TempDir, Machine) {
        let root = tempfile::tempdir().unwrap();
        for (path, text) in files {
            let path = root.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
        let machine = Machine(root.path().to_owned());
        (root, machine)
    }

    fn level(findings: &[Finding], check: &str) -> Level {
        let finding = findings.iter().find(|finding| finding.check == check);
        let finding = finding.unwrap_or_else(|| panic!("{check} is not in {findings:?}"));
        let needs_advice = finding.level >= Level::Warning;
        assert_eq!(!finding.advice.is_empty(), needs_advice, "{finding:?}");
        finding.level
    }

    #[test]
    fn a_good_machine_and_a_bad_one() {
        let (_root, good) = machine(&[
            ("sys/kernel/mm/transparent_hugepage/enabled", "always [madvise] never"),
            ("proc/sys/vm/swappiness", "60"),
            ("proc/sys/vm/overcommit_memory", "0"),
            ("proc/sys/vm/zone_reclaim_mode", "0"),
            ("proc/meminfo", "MemTotal: 8000000 kB\nSwapTotal:             0 kB\n"),
            ("proc/self/limits", "Max processes 60000 60000 processes\nMax open files 1024 1048576 files\n"),
            ("sys/devices/system/clocksource/clocksource0/current_clocksource", "tsc"),
            ("proc/77/comm", "chronyd"),
        ]);
        let (_root, bad) = machine(&[
            ("sys/kernel/mm/transparent_hugepage/enabled", "[always] madvise never"),
            ("proc/sys/vm/swappiness", "60"),
            ("proc/sys/vm/overcommit_memory", "2"),
            ("proc/sys/vm/zone_reclaim_mode", "1"),
            ("proc/meminfo", "SwapTotal:       2000 kB\n"),
            ("proc/self/limits", "Max processes 1000 1000 processes\nMax open files 1024 4096 files\n"),
            ("sys/devices/system/clocksource/clocksource0/current_clocksource", "acpi_pm"),
            ("proc/77/comm", "bash"),
        ]);
        let all = |machine: &Machine| -> Vec<Finding> {
            kernel::settings(machine)
                .into_iter()
                .chain(kernel::limits(machine))
                .chain(kernel::clock_source(machine))
                .chain([kernel::time_daemon(machine)])
                .collect()
        };
        for check in [
            "huge pages",
            "swappiness",
            "overcommit",
            "zone reclaim",
            "open files",
            "processes",
            "clock source",
            "clock",
        ] {
            assert_eq!(level(&all(&good), check), Level::Good, "{check}");
            assert_eq!(level(&all(&bad), check), Level::Warning, "{check}");
        }
        let (_root, empty) = machine(&[]);
        assert!(all(&empty).iter().all(|finding| finding.level <= Level::Warning));
    }

    #[test]
    fn mounts_decide_about_file_systems() {
        let mounts = "22 1 254:1 / / rw,relatime shared:1 - ext4 /dev/vda1 rw\n\
                      23 22 0:30 / /net rw - nfs4 host:/x rw\n\
                      24 22 0:31 / /quick rw - tmpfs tmpfs rw\n\
                      25 22 254:2 / /no\\040barrier rw - ext4 /dev/vdb rw,barrier=0\n";
        for (path, device, level) in [
            ("/data", "ext4", Level::Good),
            ("/net/db", "nfs4", Level::Warning),
            ("/quick", "tmpfs", Level::Problem),
            ("/no barrier/db", "barrier=0", Level::Problem),
            ("/network", "ext4", Level::Good),
        ] {
            let mount = storage::mount_of(mounts, Path::new(path)).unwrap();
            let finding = storage::judge(&mount);
            assert_eq!(finding.level, level, "{path}: {finding:?}");
            assert!(finding.seen.contains(device), "{path}: {finding:?}");
        }
    }

    #[test]
    fn fsyncs_are_judged_by_their_times() {
        for (median_us, level) in [(2000, Level::Good), (60_000, Level::Warning), (5, Level::Warning)] {
            assert_eq!(storage::judge_fsyncs(median_us, median_us * 2).level, level, "{median_us}");
        }
    }

    #[test]
    fn certificates_expire() {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("server.pem");
        let mut params = rcgen::CertificateParams::new(["localhost".to_owned()]).unwrap();
        params.not_before = rcgen::date_time_ymd(2026, 1, 1);
        params.not_after = rcgen::date_time_ymd(2027, 1, 1);
        let issued = params.self_signed(&rcgen::KeyPair::generate().unwrap()).unwrap();
        fs::write(&file, issued.pem()).unwrap();
        let mut settings = Settings::default();
        settings.tls.certificate_key_file = Some(file.clone());
        for (now, expected) in [
            (1_780_000_000, Level::Good),
            (1_798_000_000, Level::Warning),
            (1_800_000_000, Level::Problem),
            (1_700_000_000, Level::Problem),
        ] {
            assert_eq!(level(&files::certificates(&settings, now), "certificate"), expected, "{now}");
        }
        fs::write(&file, "no certificate").unwrap();
        assert_eq!(level(&files::certificates(&settings, 0), "certificate"), Level::Problem);
        fs::remove_file(&file).unwrap();
        assert_eq!(level(&files::certificates(&settings, 0), "certificate"), Level::Problem);
    }

    #[test]
    fn this_machine_can_be_examined() {
        let directory = tempfile::tempdir().unwrap();
        let settings = Settings { dbpath: directory.path().to_owned(), ..Settings::default() };
        let findings = examine(&settings, &Machine(PathBuf::from("/")));
        for check in ["version", "kernel", "data directory", "file system", "free space", "fsync", "etcd"] {
            level(&findings, check);
        }
        assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 0, "nothing is left there");
        let value: serde_json::Value = serde_json::from_str(&json(&findings)).unwrap();
        assert_eq!(value["findings"].as_array().unwrap().len(), findings.len());
        assert!(text(&findings).contains("data directory"));
    }
}
