//! Any bytes as a record of the log, compressed or not: refused, or a record that is read again as it was, and no larger than a record may be.
#![no_main]

use arbor_txn::chain::{Assembler, Part, times_of};
use arbor_txn::record::Record;
use libfuzzer_sys::fuzz_target;

/// Versions of plain records, of those that refer to loads, of links, of compressed records.
const VERSIONS: [u8; 4] = [2, 4, 3, 5];

fuzz_target!(|bytes: &[u8]| {
    let Some((version, rest)) = bytes.split_first() else { return };
    let payload = [&[VERSIONS[usize::from(version % 4)]], rest].concat();
    let times = times_of(&payload);
    let Ok(Part::Record(record)) = Assembler::default().take(&payload) else { return };
    let (stamp, last_time) = times.expect("what decodes has times");
    assert_eq!(stamp, record.stamp);
    // a link has the time of its record's last note in its head, for which nothing is checked
    assert!(last_time == record.last_time() || payload[0] == 3);
    let encoded = record.encode();
    assert!(encoded.len() <= payload.len() * 256 + 64, "{} bytes of {}", encoded.len(), payload.len());
    assert_eq!(Record::decode(&encoded), Ok(record));
});
