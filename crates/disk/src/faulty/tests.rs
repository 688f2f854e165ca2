use std::collections::BTreeSet;
use std::path::Path;

use super::*;
use crate::testkit::fail_at_each;

fn disk_with(name: &str) -> (FaultyDisk, Box<dyn File>) {
    let disk = FaultyDisk::new();
    disk.create_dir_all(Path::new("/d")).unwrap();
    let file = disk.open(&Path::new("/d").join(name), OpenMode::Create).unwrap();
    (disk, file)
}

/// All different contents of `/d/f` over many crashes; `None` when the file is not there.
fn outcomes(disk: &FaultyDisk) -> BTreeSet<Option<Vec<u8>>> {
    (0..400).map(|seed| disk.crash(seed).contents(Path::new("/d/f")).ok()).collect()
}

#[test]
fn synced_bytes_and_names_always_survive() {
    let (disk, file) = disk_with("f");
    file.write_at(&[1; 700], 0).unwrap();
    file.sync_data().unwrap();
    disk.sync_dir(Path::new("/d")).unwrap();
    assert_eq!(outcomes(&disk), BTreeSet::from([Some(vec![1; 700])]));
}

#[test]
fn an_unsynced_name_may_vanish_though_its_bytes_were_synced() {
    let (disk, file) = disk_with("f");
    file.write_at(&[1], 0).unwrap();
    file.sync_data().unwrap();
    assert_eq!(outcomes(&disk), BTreeSet::from([None, Some(vec![1])]));
}

#[test]
fn unsynced_sectors_vanish_tear_and_reorder() {
    let (disk, file) = disk_with("f");
    file.write_at(&[1; 1024], 0).unwrap();
    file.sync_data().unwrap();
    disk.sync_dir(Path::new("/d")).unwrap();
    file.write_at(&[2; 512], 0).unwrap();
    file.write_at(&[3; 512], 512).unwrap();
    file.write_at(&[4; 512], 0).unwrap();
    let sectors = |image: &Option<Vec<u8>>| image.as_ref().map(|bytes| (bytes[0], bytes[512]));
    let seen: BTreeSet<_> = outcomes(&disk).iter().filter_map(sectors).collect();
    assert_eq!(seen, BTreeSet::from([(1, 1), (1, 3), (2, 1), (2, 3), (4, 1), (4, 3)]));
    assert_eq!(disk.crash(7).contents(Path::new("/d/f")).unwrap(), disk.crash(7).contents(Path::new("/d/f")).unwrap());
}

#[test]
fn a_lost_sector_before_a_surviving_one_reads_as_zeros() {
    let (disk, file) = disk_with("f");
    disk.sync_dir(Path::new("/d")).unwrap();
    file.write_at(&[5; 1000], 0).unwrap();
    let torn = [vec![0; 512], vec![5; 488]].concat();
    assert!(outcomes(&disk).contains(&Some(torn)));
    assert!(outcomes(&disk).contains(&Some(vec![])));
}

#[test]
fn unsynced_cuts_renames_and_removes_may_or_may_not_survive() {
    let (disk, file) = disk_with("f");
    file.write_at(b"old", 0).unwrap();
    file.sync_data().unwrap();
    disk.sync_dir(Path::new("/d")).unwrap();
    file.set_len(1).unwrap();
    assert_eq!(outcomes(&disk), BTreeSet::from([Some(b"old".to_vec()), Some(b"o".to_vec())]));
    file.sync_data().unwrap();
    let new = disk.open(Path::new("/d/new"), OpenMode::CreateNew).unwrap();
    new.write_at(b"new", 0).unwrap();
    new.sync_data().unwrap();
    disk.rename(Path::new("/d/new"), Path::new("/d/f")).unwrap();
    assert_eq!(outcomes(&disk), BTreeSet::from([Some(b"o".to_vec()), Some(b"new".to_vec())]));
    disk.sync_dir(Path::new("/d")).unwrap();
    disk.remove(Path::new("/d/f")).unwrap();
    assert_eq!(outcomes(&disk), BTreeSet::from([None, Some(b"new".to_vec())]));
}

#[test]
fn a_failed_sync_is_not_repaired_by_the_next() {
    let (disk, file) = disk_with("f");
    disk.sync_dir(Path::new("/d")).unwrap();
    file.write_at(&[6; 512 * 64], 0).unwrap();
    disk.fail_nth(0, Fault::Io);
    assert!(file.sync_data().is_err());
    file.sync_data().unwrap();
    let mut seen = [0; 512 * 64];
    file.read_exact_at(&mut seen, 0).unwrap();
    assert_eq!(seen, [6; 512 * 64], "readers still see it");
    assert!(!outcomes(&disk).contains(&Some(seen.to_vec())));
}

#[test]
fn capacity_and_short_writes_do_a_part() {
    let (disk, file) = disk_with("f");
    disk.set_capacity(Some(10));
    file.write_at(b"123456", 0).unwrap();
    assert_eq!(disk.free_bytes(Path::new("/d")).unwrap(), 4);
    assert!(file.write_at(b"abcdef", 6).unwrap_err().is_out_of_space());
    assert_eq!(disk.contents(Path::new("/d/f")).unwrap(), b"123456abcd");
    file.write_at(b"xy", 0).unwrap();
    disk.set_capacity(None);
    disk.fail_nth(0, Fault::ShortWrite);
    assert!(file.write_at(b"PQRS", 10).unwrap_err().is_out_of_space());
    assert_eq!(disk.contents(Path::new("/d/f")).unwrap(), b"xy3456abcdPQ");
}

#[test]
fn holes_take_no_space() {
    let (disk, file) = disk_with("f");
    let free = || disk.free_bytes(Path::new("/d")).unwrap();
    disk.set_capacity(Some(20));
    file.write_at(&[1; 20], 0).unwrap();
    file.punch_hole(2, 4).unwrap();
    file.punch_hole(4, 6).unwrap();
    assert_eq!(free(), 8);
    disk.set_capacity(Some(17));
    assert!(file.write_at(&[2; 10], 1).unwrap_err().is_out_of_space());
    assert_eq!(disk.contents(Path::new("/d/f")).unwrap()[..8], [1, 2, 2, 2, 2, 2, 2, 0]);
    file.set_len(9).unwrap();
    assert_eq!(free(), 17 - 7);
}

#[test]
fn a_power_cut_stops_everything_and_a_killed_process_loses_nothing() {
    let (disk, file) = disk_with("f");
    file.write_at(b"a", 0).unwrap();
    disk.stop_after(1);
    file.write_at(b"b", 1).unwrap();
    assert!(file.write_at(b"c", 2).is_err());
    assert!(file.sync_data().is_err());
    assert!(disk.open(Path::new("/d/f"), OpenMode::Read).is_err());
    let image = disk.kill_process();
    assert_eq!(image.contents(Path::new("/d/f")).unwrap(), b"ab");
    assert!(outcomes(&image).len() > 1, "still unsynced");
}

#[test]
fn locks_exclude_and_do_not_outlive_a_crash() {
    let (disk, _) = disk_with("f");
    let lock = disk.lock(Path::new("/d/lock")).unwrap();
    assert!(matches!(disk.lock(Path::new("/d/lock")), Err(Error::Locked { .. })));
    disk.crash(1).lock(Path::new("/d/lock")).unwrap();
    drop(lock);
    disk.lock(Path::new("/d/lock")).unwrap();
}

#[test]
fn every_call_of_a_scenario_is_made_to_fail_once() {
    let mut failures = 0;
    let calls = fail_at_each(Fault::Io, |disk| {
        let run = || -> Result<()> {
            disk.create_dir_all(Path::new("/d"))?;
            let file = disk.open(Path::new("/d/f"), OpenMode::Create)?;
            file.write_at(b"x", 0)?;
            file.sync_data()?;
            disk.sync_dir(Path::new("/d"))
        };
        failures += u64::from(run().is_err());
    });
    assert_eq!((calls, failures), (5, 5));
}

#[test]
fn zeros_follow_what_was_appended_until_they_are_released() {
    let disk = FaultyDisk::new();
    let path = Path::new("/d/f");
    disk.create_dir_all(Path::new("/d")).unwrap();
    let file = disk.open_appended(path, OpenMode::CreateNew).unwrap();
    file.write_at(b"ab", 0).unwrap();
    file.sync_data().unwrap();
    disk.sync_dir(Path::new("/d")).unwrap();
    assert_eq!(file.len().unwrap(), 2);
    let lengths = || (0..200).map(|seed| disk.crash(seed).contents(path).unwrap().len()).collect::<BTreeSet<_>>();
    assert!(disk.kill_process().contents(path).unwrap().starts_with(b"ab\0"));
    assert!(lengths().contains(&2) && lengths().len() > 10);
    file.release_reserved().unwrap();
    assert_eq!(disk.kill_process().contents(path).unwrap(), b"ab");
    assert!(lengths().len() > 10, "the new length is not durable yet");
    file.sync_data().unwrap();
    assert_eq!(lengths(), BTreeSet::from([2]));
}
