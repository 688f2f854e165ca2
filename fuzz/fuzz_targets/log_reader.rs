//! Any bytes as the segment files of a log: refused, or a log that reads without a panic, takes another record and
//! keeps it. The input is cut into up to four files; checksums are made right in some of them, so that the run gets
//! behind the first check.
#![no_main]

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use arbor_disk::FaultyDisk;
use arbor_log::{Log, LogOptions};
use libfuzzer_sys::fuzz_target;

const HEADER_BYTES: usize = 64;
const RECORD_BYTES: usize = 28;

fuzz_target!(|bytes: &[u8]| {
    let Some((&[shape, sizes], rest)) = bytes.split_first_chunk::<2>() else { return };
    let disk = FaultyDisk::new();
    let mut rest = rest;
    for number in 1..=u64::from(shape % 4) + 1 {
        let length = rest.len() * (1 + usize::from(sizes >> number & 3)) / 4;
        let (file, after) = rest.split_at(length);
        let mut file = file.to_vec();
        if shape & 0x80 != 0 {
            mend(&mut file, number);
        }
        disk.plant(&path(number), &file);
        rest = after;
    }
    let options = LogOptions { segment_bytes: 4096, commit_interval: Duration::MAX, ..LogOptions::default() };
    let open = |disk: &FaultyDisk| Log::open(Arc::new(disk.clone()), Path::new("/log"), options.clone());
    let Ok(log) = open(&disk) else { return };
    let readable = log.read(log.first()).take_while(Result::is_ok).count() as u64;
    assert!(readable <= bytes.len() as u64 / RECORD_BYTES as u64);
    let Ok(position) = log.append(&[b"one more"]) else { return };
    log.wait_durable(position).expect("a sound disk");
    drop(log);
    let log = open(&disk.crash(u64::from(shape))).expect("what was recovered once is recovered again");
    assert_eq!(log.appended(), position);
    let last = log.read(position).next().expect("the last record").expect("is readable");
    assert_eq!(last, (position, b"one more".to_vec()));
});

fn path(number: u64) -> PathBuf {
    Path::new("/log").join(format!("{number:012}.log"))
}

/// Makes the fixed fields and the checksums of the header and of a run of records right; lengths, kinds, positions,
/// chains and payloads stay what the input says, positions cut down to small numbers.
fn mend(file: &mut [u8], number: u64) {
    let Some((header, mut rest)) = file.split_first_chunk_mut::<HEADER_BYTES>() else { return };
    header[..8].copy_from_slice(b"ARBORLOG");
    header[8..12].copy_from_slice(&1_u32.to_le_bytes());
    header[16..24].copy_from_slice(&number.to_le_bytes());
    header[25..32].fill(0);
    let checksum = crc32c::crc32c(&header[..60]);
    header[60..].copy_from_slice(&checksum.to_le_bytes());
    let salt = u32::from_le_bytes([header[12], header[13], header[14], header[15]]);
    let mut position = u64::from(header[24]) + 1;
    let mut previous = 0;
    while let Some((record, payloads)) = rest.split_first_chunk_mut::<RECORD_BYTES>() {
        // One byte says how much of the record is made right.
        let liberties = record[0];
        let length = usize::from(record[12]).min(payloads.len());
        record[12..16].copy_from_slice(&(length as u32 | 1 << 28).to_le_bytes());
        if liberties & 1 == 0 {
            record[16..24].copy_from_slice(&position.to_le_bytes());
            record[25..28].fill(0);
        }
        if liberties & 2 == 0 {
            record[8..12].copy_from_slice(&u32::to_le_bytes(previous));
        }
        let (payload, after) = payloads.split_at_mut(length);
        record[4..8].copy_from_slice(&crc32c::crc32c(payload).to_le_bytes());
        if liberties & 4 != 0 {
            record[15] = 0x20;
        }
        previous = crc32c::crc32c_append(salt, &record[4..]);
        record[..4].copy_from_slice(&previous.to_le_bytes());
        position += 1;
        rest = after;
    }
}
