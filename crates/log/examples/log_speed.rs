//! Measures the log on a real directory: `log_speed DIR [LOG_MB]`. Prints one line per measurement; needs a few hundred MB
//! more than LOG_MB (1024 by default) and removes what it wrote.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use arbor_base::Position;
use arbor_disk::{Disk, OpenMode, RealDisk, Result};
use arbor_log::{Log, LogOptions};

fn main() -> std::result::Result<(), Box<dyn std::error::Error>> {
    let mut arguments = std::env::args().skip(1);
    let dir = PathBuf::from(arguments.next().ok_or("usage: log_speed DIR [LOG_MB]")?).join("log_speed");
    let log_mb: u64 = arguments.next().map_or(Ok(1024), |mb| mb.parse())?;
    RealDisk.create_dir_all(&dir)?;
    for preparation in ["grows", "allocated", "written before"] {
        sync_latency(&dir, preparation)?;
    }
    for (payload_bytes, group) in [(200, 1), (200, 10), (1000, 1), (1000, 10), (10_000, 10)] {
        append_speed(&dir, payload_bytes, group)?;
    }
    for threads in [1, 8, 64] {
        commit_speed(&dir, threads)?;
    }
    for payload_bytes in [300, 4000] {
        recovery_speed(&dir, payload_bytes, log_mb)?;
    }
    std::fs::remove_dir_all(&dir)?;
    Ok(())
}

/// Is it worth while to prepare segment files? 1,000 times 4 KB and fdatasync.
fn sync_latency(dir: &Path, preparation: &str) -> Result<()> {
    const ROUNDS: u64 = 1000;
    let path = dir.join("probe");
    let file = RealDisk.open(&path, OpenMode::Create)?;
    match preparation {
        "allocated" => file.allocate(0, ROUNDS * 4096)?,
        "written before" => file.write_at(&vec![1; ROUNDS as usize * 4096], 0)?,
        _ => {}
    }
    file.sync_data()?;
    let mut micros: Vec<u128> = Vec::new();
    for round in 0..ROUNDS {
        let began = Instant::now();
        file.write_at(&[2; 4096], round * 4096)?;
        file.sync_data()?;
        micros.push(began.elapsed().as_micros());
    }
    micros.sort_unstable();
    let at = |part: usize| micros[micros.len() * part / 1000];
    println!("write+fdatasync, file {preparation}: median {} us, p99 {} us, max {} us", at(500), at(990), at(999));
    RealDisk.remove(&path)
}

fn new_log(dir: &Path, name: &str) -> arbor_log::Result<(PathBuf, Log)> {
    let dir = dir.join(name);
    let log = Log::open(Arc::new(RealDisk), &dir, LogOptions::default())?;
    Ok((dir, log))
}

fn append_speed(dir: &Path, payload_bytes: usize, group: usize) -> std::result::Result<(), Box<dyn std::error::Error>> {
    let (dir, log) = new_log(dir, "append")?;
    let payload = vec![7; payload_bytes];
    let payloads = vec![&payload[..]; group];
    let total = 300 << 20;
    let (began, mut slowest) = (Instant::now(), Duration::ZERO);
    for _ in 0..total / (payload_bytes * group) {
        let append_began = Instant::now();
        log.append(&payloads)?;
        slowest = slowest.max(append_began.elapsed());
    }
    let (seconds, stats) = (began.elapsed().as_secs_f64(), log.stats());
    println!(
        "append {payload_bytes} B x {group}, synced every 100 ms: {:.0} records/s, {:.0} MB/s, slowest append {} us, \
         {} fsyncs, longest {} us",
        stats.records as f64 / seconds,
        stats.bytes as f64 / seconds / 1e6,
        slowest.as_micros(),
        stats.fsyncs,
        stats.fsync_micros_max,
    );
    drop(log);
    Ok(std::fs::remove_dir_all(dir)?)
}

fn commit_speed(dir: &Path, threads: usize) -> std::result::Result<(), Box<dyn std::error::Error>> {
    let (dir, log) = new_log(dir, "commit")?;
    let began = Instant::now();
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                while began.elapsed() < Duration::from_secs(3) {
                    let position = log.append(&[&[7; 500]]).expect("append");
                    log.wait_durable(position).expect("sync");
                }
            });
        }
    });
    let (seconds, stats) = (began.elapsed().as_secs_f64(), log.stats());
    println!(
        "durable commits of 500 B, {threads} threads: {:.0} commits/s, {:.0} fsyncs/s, mean fsync {} us",
        stats.records as f64 / seconds,
        stats.fsyncs as f64 / seconds,
        stats.fsync_micros / stats.fsyncs.max(1),
    );
    drop(log);
    Ok(std::fs::remove_dir_all(dir)?)
}

fn recovery_speed(
    dir: &Path,
    payload_bytes: usize,
    log_mb: u64,
) -> std::result::Result<(), Box<dyn std::error::Error>> {
    let (dir, log) = new_log(dir, "recovery")?;
    let payload = vec![7; payload_bytes];
    let payloads = vec![&payload[..]; 20];
    while log.stats().bytes < log_mb << 20 {
        log.append(&payloads)?;
    }
    log.wait_durable(log.appended())?;
    drop(log);
    for round in ["first", "second"] {
        let began = Instant::now();
        let log = Log::open(Arc::new(RealDisk), &dir, LogOptions::default())?;
        let opened = began.elapsed();
        let (mut reader, mut records, mut bytes) = (log.read(Position(1)), 0_u64, 0_u64);
        while let Some(record) = reader.next_borrowed() {
            bytes += record?.1.len() as u64;
            records += 1;
        }
        let read = began.elapsed() - opened;
        println!(
            "{log_mb} MB log of {payload_bytes} B records, {round} time: opened in {} ms, all {records} records read in \
             {} ms ({:.0} MB/s)",
            opened.as_millis(),
            read.as_millis(),
            bytes as f64 / read.as_secs_f64() / 1e6,
        );
    }
    Ok(std::fs::remove_dir_all(dir)?)
}
