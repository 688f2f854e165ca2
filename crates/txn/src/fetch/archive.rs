//! The log on its way to an archive.

use std::time::{Duration, Instant};

use arbor_base::Position;

use super::log_block::LogBlockWriter;
use super::source::{PeerError, Source, failed};
use crate::error::log_error;
use crate::{CommitRule, Error, Follower, Result, Transactions};

/// The log behind the end of an archive.
#[derive(Debug, PartialEq, Eq)]
pub enum LogReply {
    /// A [block](super::LogBlock), which may have no records. `hold` names the place up to which the log is held for the archive.
    Block { hold: u64, block: Vec<u8> },
    /// There is nothing, now.
    Nothing { hold: u64 },
    /// The log begins later.
    Trimmed { first: Position },
    /// The log has another record at the end of the archive, or ends before it: it is not the one that was archived.
    Differs,
}

/// The part of the log that is held for an archive.
pub(super) struct LogHold {
    follower: Follower,
    used: Instant,
}

impl LogHold {
    pub(super) fn is_used(&self, idle: Duration) -> bool {
        self.used.elapsed() < idle
    }
}

impl Source {
    /// Returns records behind `after`, up to the last one that is visible at the call, and holds the log from there on for the next request with `hold`. `epoch`: that of the record at
    /// `after`, if the archive has it.
    pub fn log_behind(&self, hold: Option<u64>, after: Position, epoch: Option<u64>) -> Result<LogReply, PeerError> {
        let transactions = self.transactions();
        let held = hold.and_then(|hold| self.take_log(hold));
        let mut follower = held.map_or_else(|| transactions.hold_log(), |held| held.follower);
        follower.begin_after(after);
        let log = transactions.log();
        if log.first() > after.next() {
            return Ok(LogReply::Trimmed { first: log.first() });
        }
        let is_other = epoch.is_some_and(|epoch| log.epoch_at(after).is_some_and(|own| own != epoch));
        if is_other || (after > log.appended() && transactions.is_leading()) {
            return Ok(LogReply::Differs);
        }
        // A commit that is acknowledged is visible. In a set of several it is on the disk then, else it may not be yet.
        let visible = transactions.path.published();
        transactions.make_durable(Some(visible)).map_err(failed)?;
        assert!(transactions.shown() >= visible, "the log of an archive ends at the last acknowledged commit");
        let block = transactions.log_block(after).map_err(failed)?;
        let hold = self.hold_log(hold, LogHold { follower, used: Instant::now() });
        Ok(block.map_or(LogReply::Nothing { hold }, |block| LogReply::Block { hold, block }))
    }
}

impl Transactions {
    fn log_block(&self, after: Position) -> Result<Option<Vec<u8>>> {
        let (log, shown, first) = (self.log(), self.shown(), after.next());
        let mut block: Option<LogBlockWriter> = None;
        let mut reader = log.read(first);
        while reader.position() <= shown && block.as_ref().is_none_or(|block| !block.is_full()) {
            let Some(read) = reader.next() else { break };
            let (position, payload) = read.map_err(log_error)?;
            let epoch = reader.epoch();
            let own = block.get_or_insert_with(|| LogBlockWriter::new(position, epoch, 0));
            if own.epoch() != epoch {
                break;
            }
            assert_eq!(own.next(), position, "the log has every position");
            own.push(&payload).map_err(|reason| Error::CorruptRecord { position, reason })?;
        }
        let block = match (block, self.quiet_time(after)) {
            (Some(block), _) => block,
            (None, Some(time)) => LogBlockWriter::new(first, log.epoch_at(after).unwrap_or(0), time),
            (None, None) => return Ok(None),
        };
        let refused = |error| Error::Refused { reason: format!("a block does not compress: {error}") };
        block.finish().map(Some).map_err(refused)
    }

    /// Returns a time that all commits behind `after` are going to be after. `None`: there are some, or other members commit.
    fn quiet_time(&self, after: Position) -> Option<u64> {
        // Times are allotted under the commit lock, where records are appended as well.
        let committed = self.path.lock();
        if committed.rule != CommitRule::Own || committed.term().is_none() || self.log().appended() != after {
            return None;
        }
        let seconds = (self.path.clock().system_ms().max(0) / 1000) as u64;
        // The system's clock may go back.
        self.path.clock().advance(seconds << 32);
        Some(self.path.clock().last())
    }
}
