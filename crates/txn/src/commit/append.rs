//! Groups and chains on their way into the log.

use arbor_base::Position;
use arbor_engine::Batch;

use super::CommitPath;
use crate::chain::ChainWriter;
use crate::error::log_error;
use crate::group::{Committed, Draft};
use crate::{Result, Stamp, packed};

impl CommitPath {
    pub(super) fn append(&self, draft: &Draft) -> Result<Position> {
        let payloads: Vec<&[u8]> = draft.records.iter().map(Vec::as_slice).collect();
        let mut appended = self.log.append(&payloads);
        if matches!(appended, Err(arbor_log::Error::OutOfSpace { .. })) && self.space_exhausted() {
            appended = self.log.append(&payloads);
        }
        let last = appended.map_err(log_error)?;
        // I2: the leader is the only one that appends, so the positions are those that the batches carry.
        assert_eq!(Some(last), draft.batches.last().map(|batch| batch.position), "I2: consecutive positions");
        // What a recovery replays, whatever its records take in the log.
        self.count_logged(payloads.iter().map(|payload| packed::unpacked_bytes(payload) as u64).sum());
        Ok(last)
    }

    /// Requires a draft of one request. After an error an empty batch is pending in the place of the void links.
    pub(super) fn append_chain(&self, committed: &mut Committed, draft: &Draft, stamp: Stamp) -> Result<Position> {
        let ([record], [batch]) = (draft.records.as_slice(), draft.batches.as_slice()) else {
            unreachable!("a chain is alone in its group");
        };
        let before = self.log.appended();
        let piece_bytes = self.options.record_bytes_max;
        let writer = ChainWriter::new(&self.log, stamp, draft.last_time, piece_bytes);
        let written = writer.write(record, &batch.ops);
        let bytes = written.as_ref().map_or(0, |(_, bytes)| *bytes);
        self.count_logged(bytes);
        // C1: the commit lock is held from the first link to the last.
        if let Ok((last, _)) = &written {
            assert!(*last > before && *last == self.log.appended(), "C1: {last} ends the chain that follows {before}");
        }
        if written.is_err() && self.log.appended() > before {
            let (position, time) = (self.log.appended(), committed.last_time);
            committed.in_flight.push(Batch { position, ops: Vec::new() }, time, time);
        }
        written.map(|(last, _)| last).map_err(log_error)
    }
}
