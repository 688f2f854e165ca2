//! Epochs and cuts on a healthy disk: what is cut off, who notices, what a log of an earlier release becomes.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use arbor_base::Position;
use arbor_disk::{Disk, FaultyDisk};
use arbor_log::{Error, Log, LogOptions, Matching};

const DIR: &str = "/log";

fn open(disk: &FaultyDisk, segment_bytes: u64) -> Log {
    let options = LogOptions { segment_bytes, commit_interval: Duration::MAX, ..LogOptions::default() };
    Log::open(Arc::new(disk.clone()), Path::new(DIR), options).unwrap()
}

fn append(log: &Log, texts: &[&str]) {
    log.append(&texts.iter().map(|text| text.as_bytes()).collect::<Vec<_>>()).unwrap();
}

fn texts(log: &Log) -> Vec<String> {
    log.read(log.first()).map(|read| String::from_utf8(read.unwrap().1).unwrap()).collect()
}

/// Epoch of each position from the one before the first on.
fn epochs(log: &Log) -> Vec<Option<u64>> {
    (log.first().0 - 1..=log.appended().0).map(|position| log.epoch_at(Position(position))).collect()
}

#[test]
fn every_record_keeps_the_epoch_in_which_it_was_appended() {
    let disk = FaultyDisk::new();
    let log = open(&disk, 1 << 20);
    append(&log, &["a", "b"]);
    log.begin_epoch(1).unwrap();
    log.begin_epoch(3).unwrap();
    log.begin_epoch(4).unwrap();
    append(&log, &["c"]);
    assert!(matches!(log.begin_epoch(3), Err(Error::StaleEpoch { epoch: 3, current: 4 })));
    log.begin_epoch(9).unwrap();
    append(&log, &["d", "e"]);
    let expect = [0, 1, 1, 4, 9, 9].map(Some);
    assert_eq!(epochs(&log), expect);
    log.wait_durable(log.appended()).unwrap();
    drop(log);
    let log = open(&disk.crash(1), 1 << 20);
    assert_eq!(epochs(&log), expect);
    assert_eq!(texts(&log), ["a", "b", "c", "d", "e"]);
    log.trim(Position(4)).unwrap();
    assert_eq!(epochs(&log), [4, 9, 9].map(Some), "the epoch before the first record is kept");
    assert_eq!(log.compare(Position(3), 4), Matching::Same);
    assert_eq!(log.compare(Position(2), 1), Matching::Trimmed);
}

#[test]
fn a_segment_that_was_prepared_is_not_used_for_another_epoch() {
    let disk = FaultyDisk::new();
    let log = open(&disk, 100);
    append(&log, &["a", "b"]);
    log.prepare_segment().unwrap();
    assert_eq!(disk.list(Path::new(DIR)).unwrap().len(), 2);
    log.begin_epoch(2).unwrap();
    append(&log, &["c", "d"]);
    append(&log, &["e"]);
    assert_eq!(epochs(&log), [0, 1, 1, 2, 2, 2].map(Some));
    drop(log);
    assert_eq!(epochs(&open(&disk, 100)), [0, 1, 1, 2, 2, 2].map(Some));
}

#[test]
fn a_begun_epoch_without_a_record_is_forgotten() {
    let disk = FaultyDisk::new();
    let log = open(&disk, 1 << 20);
    append(&log, &["a"]);
    log.begin_epoch(7).unwrap();
    drop(log);
    let log = open(&disk, 1 << 20);
    log.begin_epoch(5).unwrap();
    append(&log, &["b"]);
    assert_eq!(epochs(&log), [0, 1, 5].map(Some));
}

#[test]
fn an_empty_log_takes_the_epoch_of_its_first_record() {
    let disk = FaultyDisk::new();
    let log = open(&disk, 1 << 20);
    let mut reader = log.read(Position(1));
    assert!(reader.next().is_none());
    [6, 2, 5].into_iter().for_each(|epoch| log.begin_epoch(epoch).unwrap());
    append(&log, &["a"]);
    assert_eq!(reader.next().unwrap().unwrap().1, b"a", "the reader follows into the segment that replaced the first");
    assert_eq!(epochs(&log), [0, 5].map(Some));
}

#[test]
fn a_cut_removes_what_is_behind_it_for_good() {
    for segment_bytes in [1, 150, 1 << 20] {
        for last in 0..=9 {
            let disk = FaultyDisk::new();
            let log = open(&disk, segment_bytes);
            let old: Vec<String> = (1..=9).map(|position| format!("old {position}")).collect();
            old.iter().for_each(|text| append(&log, &[text]));
            log.wait_durable(Position(9)).unwrap();
            log.cut_behind(Position(last)).unwrap();
            assert_eq!((log.appended(), log.durable()), (Position(last), Position(last)));
            let image = disk.crash(last);
            assert_eq!(texts(&open(&image, segment_bytes)), old[..last as usize]);
            log.begin_epoch(2).unwrap();
            append(&log, &["new"]);
            log.wait_durable(Position(last + 1)).unwrap();
            let expect = [&old[..last as usize], &["new".to_owned()]].concat();
            assert_eq!(texts(&log), expect);
            drop(log);
            let log = open(&disk.crash(last), segment_bytes);
            assert_eq!(texts(&log), expect, "after {last}, segments of {segment_bytes}");
            assert_eq!(log.epoch_at(Position(last + 1)), Some(2));
        }
    }
}

#[test]
fn a_cut_beyond_either_end_changes_nothing() {
    let disk = FaultyDisk::new();
    let log = open(&disk, 1);
    (0..5).for_each(|_| append(&log, &["x"]));
    log.wait_durable(Position(5)).unwrap();
    log.trim(Position(4)).unwrap();
    assert!(matches!(log.cut_behind(Position(6)), Err(Error::NotAppended { .. })));
    assert!(matches!(log.cut_behind(Position(2)), Err(Error::Trimmed { .. })));
    assert_eq!(texts(&log).len(), 2);
    log.cut_behind(Position(3)).unwrap();
    assert_eq!((log.first(), log.appended()), (Position(4), Position(3)));
    append(&log, &["y"]);
    drop(log);
    assert_eq!(texts(&open(&disk, 1)), ["y"]);
    let log = open(&disk, 1);
    log.close().unwrap();
    assert!(matches!(log.cut_behind(Position(3)), Err(Error::Closed)));
    assert!(matches!(log.begin_epoch(9), Err(Error::Closed)));
}

#[test]
fn a_reader_beyond_a_cut_gets_an_error_and_one_before_it_continues() {
    let log = open(&FaultyDisk::new(), 100);
    (1..=9).for_each(|n| append(&log, &[&format!("old {n}")]));
    let (mut behind, mut before, mut at) = (log.read(Position(1)), log.read(Position(1)), log.read(Position(5)));
    (0..6).for_each(|_| drop(behind.next().unwrap().unwrap()));
    (0..2).for_each(|_| drop(before.next().unwrap().unwrap()));
    log.cut_behind(Position(4)).unwrap();
    log.begin_epoch(2).unwrap();
    append(&log, &["new 5", "new 6", "new 7"]);
    assert!(matches!(behind.next(), Some(Err(Error::Cut { position: Position(6), .. }))));
    assert!(behind.next().is_none());
    assert_eq!(before.map(|read| read.unwrap().1).last().unwrap(), b"new 7");
    assert_eq!(at.next().unwrap().unwrap().1, b"new 5");
}

#[test]
fn waiting_for_a_record_that_is_cut_off_ends_with_an_error() {
    let log = Arc::new(open(&FaultyDisk::new(), 1 << 20));
    (1..=9).for_each(|_| append(&log, &["x"]));
    log.wait_durable(Position(5)).unwrap();
    let notified = Arc::new(std::sync::Mutex::new(Vec::new()));
    let notes = notified.clone();
    log.on_sync(Arc::new(move |durable| {
        notes.lock().unwrap().push(durable.0);
        false
    }));
    log.cut_behind(Position(3)).unwrap();
    assert!(matches!(log.wait_durable(Position(9)), Err(Error::NotAppended { .. })));
    append(&log, &["y"]);
    log.wait_durable(Position(4)).unwrap();
    assert_eq!(*notified.lock().unwrap(), [4]);
}

/// Appends, syncs and cuts at the same time: a waiter gets a record that is there or an error.
#[test]
fn readers_and_waiters_survive_concurrent_cuts() {
    let log = Arc::new(open(&FaultyDisk::new(), 500));
    append(&log, &["base"]);
    let ends = std::sync::atomic::AtomicBool::new(false);
    std::thread::scope(|scope| {
        for _ in 0..2 {
            let (log, ends) = (&log, &ends);
            scope.spawn(move || {
                while !ends.load(std::sync::atomic::Ordering::Relaxed) {
                    match log.wait_durable(log.appended()) {
                        Ok(()) | Err(Error::Cut { .. } | Error::NotAppended { .. }) => {}
                        Err(error) => panic!("{error}"),
                    }
                    for read in log.read(Position(1)) {
                        match read {
                            Ok((Position(1), text)) => assert_eq!(text, b"base"),
                            Ok((position, text)) => assert!(text.starts_with(format!("{} ", position.0).as_bytes())),
                            Err(Error::Cut { .. }) => break,
                            Err(error) => panic!("{error}"),
                        }
                    }
                }
            });
        }
        for epoch in 2..200 {
            log.begin_epoch(epoch).unwrap();
            let from = log.appended().0;
            (1..=epoch % 17).for_each(|n| append(&log, &[&format!("{} {epoch}", from + n)]));
            let last = 1 + (log.appended().0 - 1) / 2;
            log.cut_behind(Position(last)).unwrap();
            assert!(log.durable() <= Position(last));
        }
        ends.store(true, std::sync::atomic::Ordering::Relaxed);
    });
}

#[test]
fn a_reset_log_continues_at_another_place() {
    let disk = FaultyDisk::new();
    let log = open(&disk, 100);
    (1..=9).for_each(|_| append(&log, &["x"]));
    let (mut reader, first) = (log.read(Position(1)), Position(501));
    reader.next().unwrap().unwrap();
    log.reset(first, 7).unwrap();
    assert_eq!((log.first(), log.appended(), log.durable()), (first, Position(500), Position(500)));
    assert_eq!(epochs(&log), [Some(7)], "the epoch of the record before is kept, for matching");
    assert!(matches!(reader.next(), Some(Err(Error::Cut { .. }))));
    assert!(matches!(log.begin_epoch(6), Err(Error::StaleEpoch { .. })));
    log.begin_epoch(8).unwrap();
    append(&log, &["y"]);
    log.wait_durable(first).unwrap();
    drop(log);
    let log = open(&disk.crash(1), 100);
    assert_eq!((texts(&log), epochs(&log)), (vec!["y".to_owned()], vec![Some(7), Some(8)]));
    log.reset(Position(1), 0).unwrap();
    append(&log, &["z"]);
    assert_eq!((texts(&log), epochs(&log)), (vec!["z".to_owned()], vec![Some(0), Some(1)]));
}

/// Written by the release of 2026-11-23 before format version 2: a server that ended cleanly.
const VERSION_1: &[u8] = include_bytes!("../fixtures/v1/000000000001.log");

#[test]
fn a_log_of_version_1_is_read_and_continues_in_version_2() {
    let disk = FaultyDisk::new();
    disk.create_dir_all(Path::new(DIR)).unwrap();
    disk.plant(&Path::new(DIR).join("000000000001.log"), VERSION_1);
    let log = open(&disk, 1 << 20);
    let last = log.appended();
    assert!(last > Position(10), "{last}");
    assert_eq!(log.read(Position(1)).map(Result::unwrap).count() as u64, last.0);
    assert_eq!((log.epoch_at(last), log.epoch_at(Position(1))), (Some(1), Some(1)));
    append(&log, &["in the old segment"]);
    log.begin_epoch(2).unwrap();
    append(&log, &["in the new one"]);
    drop(log);
    let log = open(&disk, 1 << 20);
    assert_eq!((log.epoch_at(last.next()), log.epoch_at(Position(last.0 + 2))), (Some(1), Some(2)));
    let versions = disk.list(Path::new(DIR)).unwrap();
    let versions = versions.iter().map(|name| disk.contents(&Path::new(DIR).join(name)).unwrap()[8]);
    assert_eq!(versions.collect::<Vec<_>>(), [1, 2]);
}

#[test]
fn a_log_of_a_later_version_is_refused_by_name() {
    let disk = FaultyDisk::new();
    disk.create_dir_all(Path::new(DIR)).unwrap();
    let mut later = VERSION_1.to_vec();
    later[8] = 3;
    disk.plant(&Path::new(DIR).join("000000000001.log"), &later);
    let error = Log::open(Arc::new(disk.clone()), Path::new(DIR), LogOptions::default()).unwrap_err();
    assert!(matches!(&error, Error::NewerVersion { version: 3, .. }), "{error}");
    assert!(error.to_string().ends_with("has format version 3, which is newer than this program"), "{error}");
}
