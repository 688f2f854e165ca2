//! ObjectIds as a driver makes them: seconds, five random bytes of the process, a counter.

use std::time::{SystemTime, UNIX_EPOCH};

use arbor_bson::ObjectId;

#[derive(Clone, Debug)]
pub(super) struct ObjectIds {
    process: [u8; 5],
    counter: u32,
}

impl Default for ObjectIds {
    fn default() -> ObjectIds {
        let random: [u8; 8] = rand::random();
        let [a, b, c, d, e, f, g, h] = random;
        ObjectIds { process: [a, b, c, d, e], counter: u32::from_be_bytes([0, f, g, h]) }
    }
}

impl ObjectIds {
    pub(super) fn next(&mut self) -> ObjectId {
        let seconds = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |time| time.as_secs() as u32);
        self.counter = self.counter.wrapping_add(1);
        let ([s0, s1, s2, s3], [p0, p1, p2, p3, p4]) = (seconds.to_be_bytes(), self.process);
        let [_, c0, c1, c2] = self.counter.to_be_bytes();
        ObjectId([s0, s1, s2, s3, p0, p1, p2, p3, p4, c0, c1, c2])
    }
}
