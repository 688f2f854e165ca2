//! /proc/diskstats: what the device below a directory read and wrote, as iostat counts it.

use std::os::unix::fs::MetadataExt;
use std::path::Path;

/// A block device by its numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Device {
    major: u32,
    minor: u32,
}

/// Counters since boot.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct DeviceCounters {
    pub reads: u64,
    pub read_bytes: u64,
    pub writes: u64,
    pub write_bytes: u64,
}

impl DeviceCounters {
    pub fn since(self, earlier: DeviceCounters) -> DeviceCounters {
        DeviceCounters {
            reads: self.reads.saturating_sub(earlier.reads),
            read_bytes: self.read_bytes.saturating_sub(earlier.read_bytes),
            writes: self.writes.saturating_sub(earlier.writes),
            write_bytes: self.write_bytes.saturating_sub(earlier.write_bytes),
        }
    }
}

/// Whatever the device's own sectors are, the kernel counts these.
const SECTOR_BYTES: u64 = 512;

impl Device {
    /// Returns `None` if the directory is on no block device that the kernel counts: tmpfs, overlays, network.
    pub fn below(directory: &Path) -> Option<Device> {
        let number = std::fs::metadata(directory).ok()?.dev();
        let device = Device { major: rustix::fs::major(number), minor: rustix::fs::minor(number) };
        device.counters().ok().map(|_| device)
    }

    pub fn counters(self) -> std::io::Result<DeviceCounters> {
        let text = std::fs::read_to_string("/proc/diskstats")?;
        find(&text, self).ok_or_else(|| std::io::Error::other("the device is not in /proc/diskstats"))
    }

    /// Returns the numbers of the whole disk, as `254:0`.
    pub fn disk(self) -> Option<String> {
        let link = std::fs::canonicalize(format!("/sys/dev/block/{}:{}", self.major, self.minor)).ok()?;
        // a partition is below its disk
        let disk = link.ancestors().find(|directory| directory.join("queue").is_dir())?;
        Some(std::fs::read_to_string(disk.join("dev")).ok()?.trim().to_owned())
    }

    /// Returns the kernel's name: `sda2`.
    pub fn name(self) -> Option<String> {
        let text = std::fs::read_to_string("/proc/diskstats").ok()?;
        line(&text, self).and_then(|mut words| words.next()).map(str::to_owned)
    }

    /// Returns what the disk says of itself: maker, model, size, and whether it turns.
    pub fn model(self) -> Option<String> {
        let link = std::fs::canonicalize(format!("/sys/dev/block/{}:{}", self.major, self.minor)).ok()?;
        // a partition is below its disk
        let disk = link.ancestors().find(|directory| directory.join("queue").is_dir())?;
        let text = |name: &str| {
            let text = std::fs::read_to_string(disk.join(name)).ok()?;
            Some(text.trim().to_owned()).filter(|text| !text.is_empty())
        };
        let size = text("size").and_then(|sectors| sectors.parse::<u64>().ok());
        // virtual disks have a number for a maker, no model, and say that they rotate
        let model = text("device/model");
        let rotates = text("queue/rotational").filter(|_| model.is_some());
        let facts = [
            text("device/vendor").filter(|vendor| !vendor.starts_with("0x")),
            model,
            size.map(|sectors| format!("{:.0} GB", (sectors * SECTOR_BYTES) as f64 / 1e9)),
            rotates.map(|turns| if turns == "1" { "rotating" } else { "not rotating" }.to_owned()),
        ];
        Some(facts.into_iter().flatten().collect::<Vec<_>>().join(" "))
    }
}

/// Returns the words after the device's numbers in /proc/diskstats.
fn line(text: &str, device: Device) -> Option<impl Iterator<Item = &str>> {
    text.lines().find_map(|line| {
        let mut words = line.split_whitespace();
        let numbers = (words.next()?.parse().ok()?, words.next()?.parse().ok()?);
        (numbers == (device.major, device.minor)).then_some(words)
    })
}

/// name, reads, reads merged, sectors read, ms, writes, writes merged, sectors written, ...
fn find(text: &str, device: Device) -> Option<DeviceCounters> {
    let fields: Vec<u64> = line(text, device)?.skip(1).map_while(|word| word.parse().ok()).collect();
    let [reads, _, sectors_read, _, writes, _, sectors_written, ..] = fields[..] else { return None };
    let (read_bytes, write_bytes) = (sectors_read * SECTOR_BYTES, sectors_written * SECTOR_BYTES);
    Some(DeviceCounters { reads, read_bytes, writes, write_bytes })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kernels_form() {
        let text = "   7       0 loop0 0 0 0 0 0 0 0 0 0 0 0\n 254       0 vda 267 5 816 23 51 20 193 60 0 312 85\n";
        let counters = find(text, Device { major: 254, minor: 0 }).unwrap();
        assert_eq!(counters, DeviceCounters { reads: 267, read_bytes: 816 * 512, writes: 51, write_bytes: 193 * 512 });
        assert_eq!(find(text, Device { major: 8, minor: 0 }), None);
        assert_eq!(find("254 0 vda 1 2\n", Device { major: 254, minor: 0 }), None);
        assert_eq!(line(text, Device { major: 7, minor: 0 }).unwrap().next(), Some("loop0"));
    }

    #[test]
    fn a_path_on_no_device_has_no_counters() {
        assert_eq!(Device::below(Path::new("/proc")), None);
        assert_eq!(Device::below(Path::new("/nonexistent")), None);
    }
}
