//! The time of the member's last write.

use arbor_base::Position;
use arbor_bson::DocBuf;
use arbor_protocol::cluster_time::timestamp;
use parking_lot::Mutex;

/// The time of a write and what the system's clock showed.
#[derive(Clone, Copy, Debug, Default)]
pub struct OpTime {
    pub time: u64,
    pub wall: i64,
}

impl OpTime {
    pub fn to_doc(self, term: i64) -> DocBuf {
        DocBuf::new().with("ts", timestamp(self.time)).with("t", term)
    }
}

/// The last position that was looked at, and what was there: monitors ask again and again.
#[derive(Default)]
pub(crate) struct LastSeen(Mutex<Option<(Position, OpTime)>>);

impl LastSeen {
    /// Returns the time of the last write at or before a position that is on the disk. `read` is asked for it, with the time
    /// that was seen last, when the position is newer than the last one that was asked for.
    pub(crate) fn at(&self, position: Position, read: impl FnOnce(Option<OpTime>) -> OpTime) -> OpTime {
        let mut seen = self.0.lock();
        match *seen {
            Some((at, time)) if at >= position => time,
            before => {
                let time = read(before.map(|(_, time)| time));
                *seen = Some((position, time));
                time
            }
        }
    }
}
