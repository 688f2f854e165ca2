//! The log on a healthy disk: appending, reading, rolling, trimming, reopening.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use arbor_base::Position;
use arbor_disk::{FaultyDisk, RealDisk};
use arbor_log::{Error, Log, LogOptions};

const DIR: &str = "/log";

fn quiet(segment_bytes: u64) -> LogOptions {
    LogOptions { segment_bytes, commit_interval: Duration::MAX, ..LogOptions::default() }
}

fn open(disk: &FaultyDisk, segment_bytes: u64) -> Log {
    Log::open(Arc::new(disk.clone()), Path::new(DIR), quiet(segment_bytes)).unwrap()
}

fn payload(position: u64) -> Vec<u8> {
    vec![position as u8; position as usize % 90]
}

fn append(log: &Log, positions: std::ops::RangeInclusive<u64>) {
    let payloads: Vec<Vec<u8>> = positions.map(payload).collect();
    log.append(&payloads.iter().map(Vec::as_slice).collect::<Vec<_>>()).unwrap();
}

fn check_read(log: &Log, from: u64, last: u64) {
    let records: Vec<_> = log.read(Position(from)).map(Result::unwrap).collect();
    let expect: Vec<_> = (from..=last).map(|position| (Position(position), payload(position))).collect();
    assert_eq!(records, expect, "from {from}");
}

#[test]
fn what_was_appended_is_read_back_from_any_position() {
    let disk = FaultyDisk::new();
    for segment_bytes in [1, 200, 1000, 1 << 20] {
        let log =
            Log::open(Arc::new(disk.clone()), &Path::new(DIR).join(segment_bytes.to_string()), quiet(segment_bytes))
                .unwrap();
        assert_eq!((log.first(), log.appended(), log.durable()), (Position(1), Position(0), Position(0)));
        assert!(log.read(Position(1)).next().is_none());
        for group in 0..10 {
            append(&log, group * 7 + 1..=group * 7 + 7);
        }
        assert_eq!(log.append(&[]).unwrap(), Position(70));
        (1..=70).for_each(|from| check_read(&log, from, 70));
        check_read(&log, 71, 70);
    }
}

#[test]
fn a_reopened_log_goes_on_where_it_ended() {
    let disk = FaultyDisk::new();
    for round in 0..8 {
        let log = open(&disk, 300);
        assert_eq!(log.appended(), Position(round * 5));
        assert_eq!(log.durable(), log.appended());
        append(&log, round * 5 + 1..=round * 5 + 5);
        check_read(&log, 1, round * 5 + 5);
        if round % 2 == 0 {
            log.close().unwrap();
            assert!(matches!(log.append(&[b"x"]), Err(Error::Closed)));
            check_read(&log, 1, round * 5 + 5);
        }
    }
}

#[test]
fn readers_follow_a_growing_log() {
    let log = open(&FaultyDisk::new(), 150);
    let mut reader = log.read(Position(2));
    assert!(reader.next().is_none());
    for position in 1..=60 {
        append(&log, position..=position);
        if position > 1 {
            assert_eq!(reader.next().unwrap().unwrap(), (Position(position), payload(position)));
        }
        assert!(reader.next().is_none());
    }
}

#[test]
fn trimming_removes_whole_segments_and_never_the_last_record() {
    let disk = FaultyDisk::new();
    let log = open(&disk, 250);
    (1..=50).for_each(|position| append(&log, position..=position));
    let segments = log.stats().segments;
    let mut reader = log.read(Position(1));
    reader.next().unwrap().unwrap();
    log.trim(Position(20)).unwrap();
    assert_eq!(log.first(), Position(1), "nothing later is durable");
    log.wait_durable(Position(50)).unwrap();
    log.trim(Position(20)).unwrap();
    let first = log.first();
    assert!(first > Position(1) && first <= Position(20), "{first}");
    check_read(&log, first.0, 50);
    assert!(matches!(log.read(Position(1)).next(), Some(Err(Error::Trimmed { .. }))));
    log.trim(Position(1000)).unwrap();
    assert!(log.stats().segments < segments);
    assert!(log.first() <= Position(50));
    drop(log);
    assert_eq!(open(&disk.crash(3), 250).appended(), Position(50));
}

#[test]
fn a_mark_in_the_middle_is_no_obstacle_wherever_reading_begins() {
    let disk = FaultyDisk::new();
    for position in 1..=6 {
        let log = open(&disk, 64 << 20);
        log.append(&[&vec![position; 300_000]]).unwrap();
        log.close().unwrap();
    }
    let log = open(&disk, 64 << 20);
    for from in 1..=6 {
        let read: Vec<_> = log.read(Position(from)).map(|record| record.unwrap().1[0]).collect();
        assert_eq!(read, (from as u8..=6).collect::<Vec<_>>());
    }
}

#[test]
fn the_next_segment_may_be_created_ahead() {
    let disk = FaultyDisk::new();
    let log = open(&disk, 200);
    log.prepare_segment().unwrap();
    for position in 1..=40 {
        append(&log, position..=position);
        log.prepare_segment().unwrap();
        log.wait_durable(log.appended()).unwrap();
        let before = disk.counts();
        append(&log, position..=position);
        let now = disk.counts();
        assert_eq!(now.writes, before.writes + 1);
        assert_eq!(
            (now.syncs, now.directory_syncs),
            (before.syncs, before.directory_syncs),
            "an append waits for no sync"
        );
        assert!(now.calls <= before.calls + 2, "an append is one write, and in a new segment the cut of the full one");
    }
    check_read_twice(&log, 40);
    drop(log);
    let log = open(&disk.kill_process(), 200);
    assert_eq!(log.first(), Position(1));
    check_read_twice(&log, 40);
}

/// Each payload is there two times.
fn check_read_twice(log: &Log, last: u64) {
    let read: Vec<_> = log.read(Position(1)).map(|record| record.unwrap().1).collect();
    let expect: Vec<_> = (1..=last).flat_map(|position| [payload(position), payload(position)]).collect();
    assert_eq!(read, expect);
}

#[test]
fn a_reader_overtaken_by_trimming_gets_an_error() {
    let log = open(&FaultyDisk::new(), 250);
    append(&log, 1..=2);
    let mut reader = log.read(Position(1));
    assert_eq!(reader.next().unwrap().unwrap().0, Position(1));
    (3..=50).for_each(|position| append(&log, position..=position));
    log.wait_durable(Position(50)).unwrap();
    log.trim(Position(50)).unwrap();
    let first = log.first();
    let mut last = Position(1);
    let error = loop {
        match reader.next().expect("records or an error") {
            Ok((position, _)) => last = position,
            Err(error) => break error,
        }
    };
    assert!(last < first);
    assert!(matches!(error, Error::Trimmed { position, .. } if position == last.next()), "{error}");
    assert!(reader.next().is_none());
}

#[test]
fn a_new_log_may_begin_at_a_later_position() {
    let disk = FaultyDisk::new();
    let options = LogOptions { first_position: Position(1001), ..quiet(100) };
    let log = Log::open(Arc::new(disk.clone()), Path::new(DIR), options.clone()).unwrap();
    assert_eq!((log.first(), log.appended()), (Position(1001), Position(1000)));
    log.close().unwrap();
    drop(log);
    let log = Log::open(Arc::new(disk), Path::new(DIR), options).unwrap();
    assert_eq!(log.append(&[b"x"]).unwrap(), Position(1001));
    assert!(matches!(log.read(Position(7)).next(), Some(Err(Error::Trimmed { .. }))));
}

#[test]
fn the_last_position_is_not_passed() {
    let disk = FaultyDisk::new();
    let options = LogOptions { first_position: Position(i64::MAX as u64 - 1), ..quiet(100) };
    let log = Log::open(Arc::new(disk.clone()), Path::new(DIR), options.clone()).unwrap();
    assert!(matches!(log.append(&[b"a", b"b", b"c"]), Err(Error::OutOfSpace { .. })));
    assert_eq!(log.append(&[b"a", b"b"]).unwrap(), Position(i64::MAX as u64));
    assert!(matches!(log.append(&[b"c"]), Err(Error::OutOfSpace { .. })));
    drop(log);
    let log = Log::open(Arc::new(disk), Path::new(DIR), options).unwrap();
    assert_eq!(log.appended(), Position(i64::MAX as u64));
    assert_eq!(log.read(log.first()).count(), 2);
}

#[test]
fn records_that_are_too_large_are_refused_and_harm_nothing() {
    let log = open(&FaultyDisk::new(), 1 << 20);
    let large = vec![0; arbor_log::PAYLOAD_BYTES_MAX + 1];
    assert!(matches!(log.append(&[b"a", &large]), Err(Error::TooLarge { .. })));
    assert_eq!(log.append(&[b"a"]).unwrap(), Position(1));
    let records: Vec<_> = log.read(Position(1)).map(Result::unwrap).collect();
    assert_eq!(records, [(Position(1), b"a".to_vec())]);
}

#[test]
fn waiting_for_what_was_not_appended_is_an_error() {
    let log = open(&FaultyDisk::new(), 1 << 20);
    assert!(matches!(log.wait_durable(Position(1)), Err(Error::NotAppended { .. })));
    append(&log, 1..=3);
    log.wait_durable(Position(2)).unwrap();
    assert_eq!(log.durable(), Position(3));
    let stats = log.stats();
    assert_eq!((stats.groups, stats.records, stats.fsyncs, stats.bytes), (1, 3, 1, 3 * 28 + 6));
    log.wait_durable(Position(3)).unwrap();
    assert_eq!(log.stats().fsyncs, 1);
}

#[test]
fn the_background_thread_syncs_after_the_interval_and_on_request() {
    let dir = tempfile::tempdir().unwrap();
    let wait = |log: &Log| {
        while log.durable() < log.appended() {
            std::thread::yield_now();
        }
    };
    let options = LogOptions { commit_interval: Duration::from_millis(5), ..LogOptions::default() };
    let log = Log::open(Arc::new(RealDisk), &dir.path().join("a"), options).unwrap();
    for position in 1..=5 {
        append(&log, position..=position);
        wait(&log);
    }
    let log = Log::open(Arc::new(RealDisk), &dir.path().join("b"), quiet(1000)).unwrap();
    append(&log, 1..=5);
    log.request_sync();
    wait(&log);
}

#[test]
fn many_threads_append_and_wait_together() {
    const THREADS: u64 = 8;
    const EACH: u64 = 40;
    let dir = tempfile::tempdir().unwrap();
    let options = LogOptions { segment_bytes: 5000, ..LogOptions::default() };
    let log = Log::open(Arc::new(RealDisk), dir.path(), options.clone()).unwrap();
    std::thread::scope(|scope| {
        for thread in 0..THREADS {
            let log = &log;
            scope.spawn(move || {
                for n in 0..EACH {
                    let position = log.append(&[&thread.to_le_bytes(), &n.to_le_bytes()]).unwrap();
                    log.wait_durable(position).unwrap();
                    assert!(log.durable() >= position);
                }
            });
        }
        let mut reader = log.read(Position(1));
        while reader.position().0 <= THREADS * EACH * 2 {
            match reader.next() {
                Some(record) => drop(record.unwrap()),
                None => std::thread::yield_now(),
            }
        }
    });
    assert!(log.stats().fsyncs <= THREADS * EACH);
    drop(log);
    let log = Log::open(Arc::new(RealDisk), dir.path(), options).unwrap();
    assert_eq!(log.read(Position(1)).count() as u64, THREADS * EACH * 2);
}
