//! Retention of the log as `local.oplog.rs`.

use std::path::Path;
use std::time::Duration;

use arbor_disk::{Disk, RealDisk};
use arbor_txn::Retention;

use crate::config::OplogSettings;

/// MongoDB's default: a twentieth of the free space, within bounds.
const BYTES_MIN: u64 = 990 << 20;
const BYTES_MAX: u64 = 50 << 30;

/// More than anybody keeps.
const TIME_MAX: Duration = Duration::from_secs(u32::MAX as u64);

/// For those who open a directory without being the member of a set: everything, when the directory is that of a member, which
/// would miss it.
pub(crate) fn retention_of_directory(directory: &Path) -> Option<Retention> {
    arbor_repl::was_initiated(directory).then_some(Retention { bytes: u64::MAX, time: Duration::ZERO })
}

pub(crate) fn retention(settings: &OplogSettings, directory: &Path) -> Retention {
    let free = RealDisk.free_bytes(directory).unwrap_or(0);
    retention_of(settings, free)
}

fn retention_of(settings: &OplogSettings, free_bytes: u64) -> Retention {
    let bytes = match (settings.megabytes, settings.hours_max) {
        (Some(megabytes), _) => megabytes << 20,
        // time alone decides
        (None, Some(_)) => 0,
        (None, None) => (free_bytes / 20).clamp(BYTES_MIN, BYTES_MAX),
    };
    let hours = settings.hours_min.unwrap_or(0.0).max(settings.hours_max.map_or(0.0, |max| max.max(0.0)));
    let time = Duration::try_from_secs_f64(hours * 3600.0).map_or(TIME_MAX, |time| time.min(TIME_MAX));
    Retention { bytes, time }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn size_and_time() {
        let hour = Duration::from_secs(3600);
        let none = OplogSettings::default();
        let some = |megabytes, hours_min, hours_max| OplogSettings { megabytes, hours_min, hours_max };
        for (settings, free, bytes, time) in [
            (none, 0, 990 << 20, Duration::ZERO),
            (none, 100 << 30, 5 << 30, Duration::ZERO),
            (none, 4 << 40, 50 << 30, Duration::ZERO),
            (some(Some(64), None, None), 100 << 30, 64 << 20, Duration::ZERO),
            (some(Some(64), Some(1.5), None), 0, 64 << 20, hour * 3 / 2),
            (some(None, None, Some(24.0)), 100 << 30, 0, hour * 24),
            (some(None, Some(f64::MAX), None), 0, 990 << 20, TIME_MAX),
        ] {
            assert_eq!(retention_of(&settings, free), Retention { bytes, time }, "{settings:?}");
        }
    }
}
