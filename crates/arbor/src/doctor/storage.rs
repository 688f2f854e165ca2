//! The file system and the disk of the data directory.

use std::fs::File;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::Instant;

use super::{Finding, Machine, existing, size};

/// Fewer bytes are too few for a checkpoint and the log behind it.
const FREE_BYTES: u64 = 5 << 30;
const FREE_SHARE: f64 = 0.1;
const FSYNCS: usize = 30;
const BLOCK: [u8; 4096] = [0x5a; 4096];
/// An fsync of a block by a disk that can be relied on: less is faster than what there is; more makes commits slow.
const FSYNC_US_MIN: u64 = 15;
const FSYNC_US_MAX: u64 = 30_000;

pub(super) fn directory(dbpath: &Path) -> Vec<Finding> {
    const CHECK: &str = "data directory";
    let shown = dbpath.display();
    if !dbpath.is_dir() {
        return vec![Finding::problem(
            CHECK,
            format!("{shown} is not there"),
            format!("mkdir -p {shown}, owned by the user of the server"),
        )];
    }
    let mut findings = vec![match crate::directory::engine_of(dbpath) {
        Some(engine) => Finding::good(CHECK, format!("{shown}, made with the engine {engine}")),
        None => match std::fs::read_dir(dbpath).map(|mut entries| entries.next().is_none()) {
            Ok(true) => Finding::good(CHECK, format!("{shown}, empty")),
            Ok(false) => Finding::warning(
                CHECK,
                format!("{shown} has files, and none of Arbor's identity"),
                "use an empty directory; data of MongoDB is copied by mongodump and mongorestore",
            ),
            Err(error) => Finding::problem(CHECK, format!("{shown}: {error}"), "give the user of the server access"),
        },
    }];
    // the lock says more than the file: it is released when its process ends
    if let Ok(owner) = std::fs::read_to_string(dbpath.join("arbor.lock"))
        && Path::new("/proc").join(owner.trim()).is_dir()
    {
        findings.push(Finding::note("running", format!("process {} works on it", owner.trim())));
    }
    findings
}

/// A line of `/proc/self/mountinfo`.
#[derive(Clone, Debug)]
pub(super) struct Mount {
    point: PathBuf,
    kind: String,
    source: String,
    options: String,
    /// `254:1`
    device: String,
}

/// Returns the mount that a path is on.
pub(super) fn mount_of(mounts: &str, path: &Path) -> Option<Mount> {
    let parsed = mounts.lines().filter_map(|line| {
        let (before, after) = line.split_once(" - ")?;
        let before: Vec<&str> = before.split(' ').collect();
        let after: Vec<&str> = after.split(' ').collect();
        Some(Mount {
            point: PathBuf::from(before.get(4)?.replace("\\040", " ")),
            kind: (*after.first()?).to_owned(),
            source: (*after.get(1)?).to_owned(),
            options: format!("{},{}", before.get(5)?, after.get(2)?),
            device: (*before.get(2)?).to_owned(),
        })
    });
    // of several on one point the last is seen
    parsed.filter(|mount| path.starts_with(&mount.point)).max_by_key(|mount| mount.point.components().count())
}

pub(super) fn judge(mount: &Mount) -> Finding {
    const CHECK: &str = "file system";
    let seen = format!("{} ({}) on {}", mount.kind, mount.source, mount.point.display());
    let without_barriers =
        ["nobarrier", "barrier=0"].into_iter().find(|option| mount.options.split(',').any(|of| of == *option));
    if let Some(option) = without_barriers {
        let text = format!("{seen}, mounted with {option}: an fsync does not reach the disk");
        return Finding::problem(
            CHECK,
            text,
            "mount it without that option: what was acknowledged is lost when the power fails",
        );
    }
    match mount.kind.as_str() {
        "ext4" | "xfs" | "btrfs" | "zfs" => Finding::good(CHECK, seen),
        "tmpfs" | "ramfs" => Finding::problem(
            CHECK,
            format!("{seen}: it is memory, and empty after a restart"),
            "use a file system on a disk",
        ),
        kind if kind.starts_with("nfs")
            || kind.starts_with("fuse")
            || ["cifs", "smb3", "9p", "virtiofs"].contains(&kind) =>
        {
            Finding::warning(
                CHECK,
                format!("{seen}: locks and fsyncs are as good as the other side makes them"),
                "use a local ext4 or xfs",
            )
        }
        "overlay" => Finding::warning(
            CHECK,
            format!("{seen}: the data is in the layer of a container, and goes with it"),
            "use a volume",
        ),
        _ => Finding::note(CHECK, format!("{seen}: not tested; ext4 and xfs are")),
    }
}

pub(super) fn file_system(machine: &Machine, dbpath: &Path) -> Vec<Finding> {
    let path = existing(dbpath);
    let mounts = machine.read("proc/self/mountinfo").unwrap_or_default();
    let mut findings = vec![match mount_of(&mounts, &path) {
        Some(mount) => judge(&mount),
        None => Finding::note("file system", "the mounts cannot be read"),
    }];
    findings.push(match rustix::fs::statvfs(&path) {
        Ok(space) => {
            let (free, all) = (space.f_bavail * space.f_frsize, space.f_blocks * space.f_frsize);
            let seen = format!("{} of {}", size(free), size(all));
            match free < FREE_BYTES || (free as f64) < FREE_SHARE * all as f64 {
                true => Finding::warning(
                    "free space",
                    seen,
                    "make space or use a larger disk: without any, writes are refused",
                ),
                false => Finding::good("free space", seen),
            }
        }
        Err(error) => Finding::note("free space", error.to_string()),
    });
    findings
}

/// Measures fsyncs in the data directory, and reads whether the disk has a cache that they must empty.
pub(super) fn fsyncs(machine: &Machine, dbpath: &Path) -> Vec<Finding> {
    let mut findings = Vec::new();
    let preloaded = std::env::var("LD_PRELOAD").unwrap_or_default();
    if preloaded.contains("eatmydata") {
        findings.push(Finding::problem(
            "fsync",
            "libeatmydata is loaded: no fsync is done",
            "start without LD_PRELOAD",
        ));
    }
    findings.push(match measure(dbpath) {
        Ok(mut micros) => {
            micros.sort_unstable();
            let median = micros.get(micros.len() / 2).copied().unwrap_or(0);
            judge_fsyncs(median, micros.last().copied().unwrap_or(0))
        }
        Err(error) => Finding::problem(
            "fsync",
            format!("no file can be written into {}: {error}", dbpath.display()),
            "give the user of the server the right to write there",
        ),
    });
    findings.extend(write_cache(machine, &existing(dbpath)));
    findings
}

pub(super) fn judge_fsyncs(median_us: u64, longest_us: u64) -> Finding {
    let seen = format!("{FSYNCS} fsyncs of 4 KB took {median_us} us in the median, {longest_us} us at most");
    if median_us < FSYNC_US_MIN {
        let advice = "make sure that the disk keeps what it acknowledges: this is faster than a disk without a protected cache can be";
        return Finding::warning("fsync", seen, advice);
    }
    if median_us > FSYNC_US_MAX {
        return Finding::warning(
            "fsync",
            seen,
            "use a faster disk, or one that is not shared: each `j: true` waits for one",
        );
    }
    Finding::good("fsync", seen)
}

fn measure(dbpath: &Path) -> std::io::Result<Vec<u64>> {
    let path = dbpath.join(format!("arbor.doctor.{}", std::process::id()));
    let mut file = File::options().write(true).create_new(true).open(&path)?;
    let measured = (0..FSYNCS).map(|_| {
        file.write_all(&BLOCK)?;
        let begun = Instant::now();
        file.sync_data()?;
        Ok(begun.elapsed().as_micros() as u64)
    });
    let measured = measured.collect();
    std::fs::remove_file(&path)?;
    measured
}

/// Reports how the kernel treats the cache of the disk: without flushes, an fsync is a promise of the disk alone.
fn write_cache(machine: &Machine, path: &Path) -> Option<Finding> {
    const CHECK: &str = "write cache";
    let mounts = machine.read("proc/self/mountinfo")?;
    let device = mount_of(&mounts, path)?.device;
    let block = machine.0.join("sys/dev/block").join(device);
    // a partition has the queue of its disk
    let queue = [block.join("queue"), block.join("../queue")];
    let cache = queue.iter().find_map(|queue| std::fs::read_to_string(queue.join("write_cache")).ok())?;
    Some(match cache.trim() {
        "write back" => Finding::good(CHECK, "write back: the kernel flushes the cache of the disk at each fsync"),
        other => Finding::note(
            CHECK,
            format!(
                "{other}: the disk says that it has no cache that can be lost; true of protected caches and of some virtual disks only"
            ),
        ),
    })
}
