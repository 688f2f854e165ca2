//! The log on a disk that fails, fills up, loses power or rots.

use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use arbor_base::Position;
use arbor_disk::{Disk, Fault, FaultyDisk, testkit::fail_at_each};
use arbor_log::{Error, Log, LogOptions};

use crate::crash_run;

const DIR: &str = "/log";

fn options(segment_bytes: u64) -> LogOptions {
    LogOptions { segment_bytes, commit_interval: Duration::MAX, ..LogOptions::default() }
}

fn open(disk: &FaultyDisk, segment_bytes: u64) -> Result<Log, Error> {
    Log::open(Arc::new(disk.clone()), Path::new(DIR), options(segment_bytes))
}

fn payload(position: u64) -> Vec<u8> {
    format!("payload of {position} {}", "#".repeat(position as usize % 50)).into_bytes()
}

/// Each record in a group of its own.
fn append(log: &Log, positions: RangeInclusive<u64>) {
    for position in positions {
        log.append(&[&payload(position)]).unwrap();
    }
}

/// All records, or the first error; panics when a record is not the one that belongs there.
fn read_all(log: &Log) -> Result<u64, Error> {
    let mut last = log.first().0 - 1;
    for record in log.read(log.first()) {
        let (position, bytes) = record?;
        assert_eq!((position.0, bytes), (last + 1, payload(last + 1)));
        last += 1;
    }
    Ok(last)
}

/// Seeds that found something: a new epoch without a handle of its segment; an emptied log that gave positions twice; the length of a
/// segment that a killed process had cut, without being able to sync it.
const FOUND: &[u64] = &[5_001_759, 1_795_644_407_560_101_064, 1_795_645_173_824_481_523];

#[test]
fn acknowledged_records_survive_random_crashes() {
    let mut coverage = crash_run::Coverage::default();
    // These seeds notice each sync and rewrite of the recovery when it is left out.
    (500_000..501_600).for_each(|seed| coverage.add(crash_run::run(seed)));
    FOUND.iter().for_each(|seed| coverage.add(crash_run::run(*seed)));
    println!("{coverage:?}");
    assert!(coverage.records_acknowledged > 1000 && coverage.records_lost > 100, "{coverage:?}");
    assert!(coverage.poisoned > 10 && coverage.out_of_space > 10 && coverage.trims > 10, "{coverage:?}");
    assert!(coverage.cuts > 1000 && coverage.records_cut > 1000 && coverage.epochs > 1000, "{coverage:?}");
}

/// The process had continued with the segment before one that it could not open, and a later start refused the log.
#[test]
fn a_segment_that_cannot_be_opened_does_not_damage_the_log() {
    crash_run::run(5_001_759);
}

/// Each call of `begin_epoch` fails once: what is acknowledged afterwards is there after a crash, in its epoch.
#[test]
fn a_failed_new_epoch_loses_nothing_that_is_acknowledged_later() {
    for (records, nth) in [0, 3].into_iter().flat_map(|records| (0..12).map(move |nth| (records, nth))) {
        let disk = FaultyDisk::new();
        let log = open(&disk, 300).unwrap();
        append(&log, 1..=records);
        disk.fail_nth(nth, Fault::Io);
        let begun = log.begin_epoch(7);
        disk.fail_nth(1 << 40, Fault::Io);
        let appended = log.append(&[&payload(records + 1)]).and_then(|last| log.wait_durable(last));
        let poisoned = matches!(appended, Err(Error::Poisoned { .. }));
        assert!(appended.is_ok() || poisoned && begun.is_err(), "call {nth}: {begun:?}, {appended:?}");
        let epoch = if begun.is_ok() { 7 } else { 1 };
        drop(log);
        let log = open(&disk.crash(nth), 300).unwrap();
        let expect = records + u64::from(appended.is_ok());
        assert!(poisoned || read_all(&log).unwrap() == expect, "call {nth}: {begun:?}, {appended:?}");
        assert!(poisoned || log.epoch_at(Position(expect)) == Some(epoch), "call {nth}: {begun:?}");
    }
}

#[test]
fn an_emptied_log_continues_behind_what_was_trimmed() {
    let disk = FaultyDisk::new();
    let log = open(&disk, 1 << 10).unwrap();
    let mut last = 0;
    while log.stats().segments < 2 {
        last += 1;
        append(&log, last..=last);
        // Half full, the segment has its successor prepared, whose header says that it follows the records so far.
        log.prepare_segment().unwrap();
    }
    log.wait_durable(Position(last)).unwrap();
    log.trim(Position(last)).unwrap();
    let first = log.first().0;
    assert!(first > 2, "records behind the header's were trimmed");
    log.cut_behind(Position(first - 1)).unwrap();
    assert_eq!((log.appended().0, log.first().0), (first - 1, first));
    drop(log);
    let log = open(&disk.crash(1), 1 << 10).unwrap();
    assert_eq!(log.appended().0, first - 1, "no position is given a second time");
    append(&log, first..=first);
    assert_eq!(read_all(&log).unwrap(), first);
}

/// Opens, appends over several segments, waits, trims, closes; notes what was acknowledged.
fn scenario(disk: &FaultyDisk, durable: &mut u64, appended: &mut u64) -> Result<(), Error> {
    let log = open(disk, 200)?;
    for group in 0..6 {
        let payloads: Vec<Vec<u8>> = (group * 3 + 1..=group * 3 + 3).map(payload).collect();
        *appended = group * 3 + 3;
        log.append(&payloads.iter().map(Vec::as_slice).collect::<Vec<_>>())?;
        if group % 2 == 1 {
            log.wait_durable(log.appended())?;
            *durable = *appended;
        }
    }
    log.trim(Position(5))?;
    log.begin_epoch(4)?;
    append_from(&log, 19)?;
    // From here on what is behind the cut may be gone.
    *durable = 10;
    *appended = 19;
    log.cut_behind(Position(10))?;
    *appended = 10;
    log.begin_epoch(5)?;
    *appended = 11;
    append_from(&log, 11)?;
    log.close()?;
    *durable = *appended;
    Ok(())
}

fn append_from(log: &Log, position: u64) -> Result<(), Error> {
    log.append(&[&payload(position)]).map(drop)
}

#[test]
fn every_failing_call_keeps_what_was_acknowledged() {
    for fault in [Fault::Io, Fault::OutOfSpace, Fault::ShortWrite] {
        let calls = fail_at_each(fault, |disk| {
            let (mut durable, mut appended) = (0, 0);
            let outcome = scenario(disk, &mut durable, &mut appended);
            assert!(outcome.is_ok() || disk.fault_triggered());
            for image in (0..8).map(|seed| disk.crash(seed)).chain([disk.kill_process()]) {
                let log = open(&image, 200).unwrap();
                let last = read_all(&log).unwrap();
                assert!(last >= durable && last <= appended, "{durable} <= {last} <= {appended}");
            }
        });
        assert!(calls > 40, "{calls} calls");
    }
}

#[test]
fn every_failing_call_while_recovering_leaves_a_log_that_recovers() {
    for (seed, stop) in (1..45).enumerate() {
        let disk = FaultyDisk::new();
        let (mut durable, mut appended) = (0, 0);
        disk.stop_after(stop);
        scenario(&disk, &mut durable, &mut appended).unwrap_err();
        for n in 0.. {
            let image = disk.crash(seed as u64);
            image.fail_nth(n, Fault::Io);
            let last = open(&image, 200).ok().map(|log| log.appended().0);
            let again = open(&image.crash(seed as u64 + n), 200).unwrap();
            assert!(read_all(&again).unwrap() >= last.unwrap_or(durable));
            if !image.fault_triggered() {
                break;
            }
        }
    }
}

#[test]
fn a_full_disk_refuses_appends_and_goes_on_when_space_returns() {
    let disk = FaultyDisk::new();
    let log = open(&disk, 300).unwrap();
    let mut last = 0;
    for capacity in (100..2000).step_by(37) {
        disk.set_capacity(Some(capacity));
        loop {
            match log.append(&[&payload(last + 1), &payload(last + 2)]) {
                Ok(position) => last = position.0,
                Err(Error::OutOfSpace { .. }) => break,
                Err(error) => panic!("{error}"),
            }
        }
        assert_eq!(read_all(&log).unwrap(), last);
        log.wait_durable(log.appended()).unwrap();
        assert_eq!(read_all(&open(&disk.crash(capacity), 300).unwrap()).unwrap(), last);
    }
    assert!(last > 20);
}

#[test]
fn after_a_failed_sync_nothing_is_written_or_acknowledged_again() {
    let disk = FaultyDisk::new();
    let log = open(&disk, 1 << 20).unwrap();
    log.append(&[&payload(1)]).unwrap();
    log.wait_durable(Position(1)).unwrap();
    log.append(&[&payload(2)]).unwrap();
    disk.fail_nth(1, Fault::Io);
    log.append(&[&payload(3)]).unwrap();
    assert!(matches!(log.wait_durable(Position(2)), Err(Error::Poisoned { .. })));
    assert!(matches!(log.wait_durable(Position(3)), Err(Error::Poisoned { .. })));
    assert!(matches!(log.append(&[&payload(4)]), Err(Error::Poisoned { .. })));
    assert!(matches!(log.close(), Err(Error::Poisoned { .. })));
    log.wait_durable(Position(1)).unwrap();
    assert_eq!(log.durable(), Position(1));
    assert_eq!(read_all(&log).unwrap(), 3, "reading continues");
}

fn segment_files(disk: &FaultyDisk) -> Vec<PathBuf> {
    disk.list(Path::new(DIR)).unwrap().iter().map(|name| Path::new(DIR).join(name)).collect()
}

fn closed_log() -> FaultyDisk {
    let disk = FaultyDisk::new();
    let log = open(&disk, 400).unwrap();
    append(&log, 1..=30);
    log.close().unwrap();
    disk
}

#[test]
fn a_damaged_byte_anywhere_in_a_closed_log_is_never_taken_for_a_torn_tail() {
    let disk = closed_log();
    let files = segment_files(&disk);
    assert!(files.len() >= 4);
    for file in &files {
        let length = disk.contents(file).unwrap().len() as u64;
        let mark = if Some(file) == files.last() { length - 28 } else { length };
        for offset in 0..length {
            let image = disk.kill_process();
            image.damage(file, offset).unwrap();
            match open(&image, 400).and_then(|log| read_all(&log)) {
                Ok(last) => assert!(last == 30 && offset >= mark, "{} {offset}: ends at {last}", file.display()),
                Err(Error::Corrupt { segment, .. }) => assert_eq!(&segment, file, "offset {offset}"),
                Err(Error::NewerVersion { .. }) => assert!((8..12).contains(&offset)),
                Err(error) => panic!("{error}"),
            }
        }
    }
}

#[test]
fn a_hole_two_segments_before_the_last_records_is_damage_even_without_waiters() {
    let disk = FaultyDisk::new();
    append(&open(&disk, 1).unwrap(), 1..=3);
    let files = segment_files(&disk);
    let outcome = |file: usize| {
        let image = disk.kill_process();
        image.damage(&files[file], 70).unwrap();
        open(&image, 1).map(|log| log.appended().0)
    };
    assert!(matches!(outcome(0), Err(Error::Corrupt { .. })));
    assert_eq!(outcome(1).unwrap(), 1);
    assert_eq!(outcome(2).unwrap(), 2);
}

#[test]
fn a_missing_or_shortened_segment_is_damage() {
    let disk = closed_log();
    let files = segment_files(&disk);
    for (number, file) in files.iter().enumerate().skip(1).take(files.len() - 2) {
        let image = disk.kill_process();
        image.remove(file).unwrap();
        assert!(matches!(open(&image, 400), Err(Error::Corrupt { .. })), "{}", file.display());
        let image = disk.kill_process();
        let bytes = disk.contents(file).unwrap();
        image.plant(file, &bytes[..bytes.len() - 30]);
        let outcome = open(&image, 400).and_then(|log| read_all(&log));
        assert!(matches!(outcome, Err(Error::Corrupt { .. })), "segment {number}: {outcome:?}");
    }
}

#[test]
fn a_torn_tail_is_cut_even_when_unsynced_records_follow_the_hole() {
    let disk = FaultyDisk::new();
    let log = open(&disk, 1 << 20).unwrap();
    append(&log, 1..=5);
    log.wait_durable(Position(5)).unwrap();
    let file = &segment_files(&disk)[0];
    let hole = disk.contents(file).unwrap().len() as u64;
    append(&log, 6..=9);
    let image = disk.kill_process();
    image.damage(file, hole + 3).unwrap();
    let reopened = open(&image, 1 << 20).unwrap();
    assert_eq!(read_all(&reopened).unwrap(), 5);

    // One more synced group later the same hole is damage: the next record says that 6 was durable.
    log.wait_durable(Position(9)).unwrap();
    log.append(&[&payload(10)]).unwrap();
    let image = disk.kill_process();
    image.damage(file, hole + 3).unwrap();
    match open(&image, 1 << 20) {
        Err(Error::Corrupt { segment, offset, .. }) => assert_eq!((&segment, offset), (file, hole)),
        other => panic!("{other:?}"),
    }
}

#[test]
fn stale_bytes_of_another_log_are_not_records() {
    let (disk, other) = (FaultyDisk::new(), FaultyDisk::new());
    for disk in [&disk, &other] {
        let log = open(disk, 1 << 20).unwrap();
        append(&log, 1..=8);
        log.close().unwrap();
    }
    let file = &segment_files(&disk)[0];
    let (ours, theirs) = (disk.contents(file).unwrap(), other.contents(file).unwrap());
    let third = 64 + (1..=3).map(|position| 28 + payload(position).len()).sum::<usize>();
    disk.plant(file, &[&ours[..third], &theirs[third..]].concat());
    assert_eq!(read_all(&open(&disk, 1 << 20).unwrap()).unwrap(), 3);
}

#[test]
fn a_record_chained_to_another_predecessor_is_not_taken() {
    let disk = FaultyDisk::new();
    let log = open(&disk, 1 << 20).unwrap();
    log.append(&[b"one", b"two"]).unwrap();
    drop(log);
    let file = &segment_files(&disk)[0];
    let stale = disk.contents(file).unwrap();
    disk.plant(file, &stale[..64]);
    let log = open(&disk, 1 << 20).unwrap();
    log.append(&[b"ONE"]).unwrap();
    drop(log);
    let fresh = disk.contents(file).unwrap();
    disk.plant(file, &[&fresh[..], &stale[fresh.len()..]].concat());
    let log = open(&disk, 1 << 20).unwrap();
    assert_eq!(log.read(Position(1)).map(Result::unwrap).collect::<Vec<_>>(), [(Position(1), b"ONE".to_vec())]);
}

#[test]
fn files_that_are_not_segments_are_left_alone_and_unfinished_ones_removed() {
    let disk = closed_log();
    disk.plant(&Path::new(DIR).join("notes.txt"), b"hello");
    disk.plant(&Path::new(DIR).join("000000000099.new"), b"half a hea");
    assert_eq!(read_all(&open(&disk, 400).unwrap()).unwrap(), 30);
    let names = disk.list(Path::new(DIR)).unwrap();
    assert!(names.contains(&"notes.txt".into()) && !names.iter().any(|name| name.ends_with(".new")));
}
