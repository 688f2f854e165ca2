//! The entries of the oplog within bounds, as rows.
//!
//! The log is read forwards only. Backwards it is read in pieces, the last one first; a piece is small at first, for those
//! who want nothing but the last entry, and each is larger than the one before, up to a bound of its records and bytes.

use std::collections::VecDeque;
use std::sync::Arc;

use arbor_base::Position;
use arbor_bson::DocBuf;
use arbor_txn::{History, Transactions};

use super::{Bounds, Direction, entries};
use crate::feed::Feed;
use crate::operator::{Detail, Operator, Row, Run, StageDoc, Tally};
use crate::{Error, Result};

const PIECE_MIN: u64 = 16;
const PIECE_MAX: u64 = 4096;
const PIECE_BYTES_MAX: usize = 32 << 20;

pub(super) struct OplogScan {
    transactions: Arc<Transactions>,
    direction: Direction,
    /// Range that is left to read: from here...
    from: Position,
    /// ...up to here, exclusive.
    to: Position,
    piece: u64,
    /// Reads forwards while a batch is made.
    history: Option<History>,
    ready: VecDeque<DocBuf>,
    tally: Tally,
}

impl OplogScan {
    pub(super) fn new(feed: &Arc<Feed>, bounds: Bounds, direction: Direction) -> Result<OplogScan> {
        let transactions = feed.transactions().clone();
        let at = |time: u64| transactions.history_at(time).map(|history| history.position());
        let end = feed.readable_end()?;
        let to = match bounds.to {
            u64::MAX => end,
            // the record of `to` may have later notes, and is read as well
            to => Position(at(to)?.0 + 1).min(end),
        };
        // a log without trimmed begin starts at 1
        let first = transactions.log().first().max(Position(1));
        let from = if bounds.from == 0 { first } else { at(bounds.from)? };
        Ok(OplogScan {
            direction,
            from,
            to: if bounds.from > bounds.to { from } else { to },
            piece: PIECE_MIN,
            history: None,
            ready: VecDeque::new(),
            tally: Tally::default(),
            transactions,
        })
    }

    /// Makes entries ready; returns true if there were records left.
    fn read(&mut self) -> Result<bool> {
        match self.direction {
            Direction::Forward => self.read_next(),
            Direction::Backward => self.read_piece(),
        }
    }

    fn read_next(&mut self) -> Result<bool> {
        if self.from >= self.to {
            return Ok(false);
        }
        let history = self.history.get_or_insert_with(|| self.transactions.history(self.from));
        let Some((position, record)) = history.read().map_err(lost)?.filter(|(position, _)| *position < self.to) else {
            self.from = self.to;
            return Ok(false);
        };
        self.from = position.next();
        self.ready.extend(entries(&record, history.epoch())?);
        Ok(true)
    }

    fn read_piece(&mut self) -> Result<bool> {
        if self.from >= self.to {
            return Ok(false);
        }
        let begin = self.from.max(Position(self.to.0.saturating_sub(self.piece)));
        let mut history = self.transactions.history(begin);
        let (mut kept, mut bytes) = (VecDeque::new(), 0usize);
        let mut kept_from = begin;
        while let Some((position, record)) = history.read().map_err(lost)? {
            if position >= self.to {
                break;
            }
            let own = entries(&record, history.epoch())?;
            let size: usize = own.iter().map(|entry| entry.as_bytes().len()).sum();
            bytes += size;
            kept.push_back((position, size, own));
            while bytes > PIECE_BYTES_MAX && kept.len() > 1 {
                let Some((position, size, _)) = kept.pop_front() else { break };
                bytes -= size;
                kept_from = position.next();
            }
        }
        self.to = kept_from;
        self.piece = (self.piece * 4).min(PIECE_MAX);
        self.ready.extend(kept.into_iter().rev().flat_map(|(_, _, own)| own.into_iter().rev()));
        Ok(true)
    }
}

/// The log was trimmed under the scan.
fn lost(error: arbor_txn::Error) -> Error {
    match error {
        arbor_txn::Error::Log(arbor_log::Error::Trimmed { .. }) => {
            let message = "CollectionScan died due to position in capped collection being deleted.";
            Error::new(arbor_lang::Code::CAPPED_POSITION_LOST, message)
        }
        other => other.into(),
    }
}

impl Operator for OplogScan {
    fn next(&mut self, run: &mut Run<'_>) -> Result<Option<Row>> {
        loop {
            run.tick()?;
            if let Some(entry) = self.ready.pop_front() {
                return Ok(self.tally.answer(Some(Row::of(entry))));
            }
            if !self.read()? {
                return Ok(self.tally.answer(None));
            }
        }
    }

    fn suspend(&mut self, _run: &mut Run<'_>) {
        self.history = None;
    }

    fn can_change_snapshot(&self) -> bool {
        true
    }

    fn explain(&self, detail: Detail) -> DocBuf {
        StageDoc::new("COLLSCAN", detail).tally(&self.tally).finish()
    }
}
