//! Tailing the oplog.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::{Duration, Instant};

use arbor_bson::DocBuf;
use arbor_lang::Filter;
use arbor_store::Namespace;

use super::{Bounds, entries};
use crate::cursor::{Filler, RowSource};
use crate::feed::{Feed, Follow, Interest, Next, Woken};
use crate::operator::project;
use crate::plan::Query;
use crate::{Interrupt, Result};

/// A batch looks for entries no longer than this.
const SEARCH_MAX: Duration = Duration::from_secs(1);
/// Entries skipped between two checks of the clock.
const STEPS_PER_CHECK: u32 = 64;

pub struct OplogTail {
    follow: Follow,
    query: Query,
    /// Entries still to be skipped, and to be returned.
    skip: u64,
    left: Option<u64>,
    ready: VecDeque<DocBuf>,
    awaits: bool,
}

impl RowSource for OplogTail {
    /// Resolves once the next batch may have entries. None: the cursor does not wait.
    fn woken(&self) -> Option<Woken> {
        self.awaits.then(|| self.follow.woken().or_at_once(!self.ready.is_empty()))
    }

    fn fill(&mut self, filler: &mut Filler, _: &Namespace, interrupt: &Interrupt) -> Result<bool> {
        let interrupt = interrupt.without_deadline();
        let until = Instant::now() + SEARCH_MAX;
        self.follow.begin_batch(!self.ready.is_empty());
        filler.fill(|| self.next(&interrupt, until))?;
        Ok(self.left == Some(0))
    }

    fn await_for(&mut self, _patience: Option<Duration>) -> bool {
        self.awaits
    }
}

impl OplogTail {
    pub fn new(feed: &Arc<Feed>, bounds: Bounds, query: Query, awaits: bool) -> Result<OplogTail> {
        let transactions = feed.transactions();
        let from = match bounds.from {
            0 => transactions.log().first(),
            time => transactions.history_at(time)?.position(),
        };
        Ok(OplogTail {
            follow: Follow::new(feed, Interest::Everything, from, 0)?,
            skip: query.skip,
            left: query.limit,
            query,
            ready: VecDeque::new(),
            awaits,
        })
    }

    fn next(&mut self, interrupt: &Interrupt, until: Instant) -> Result<Option<DocBuf>> {
        let mut steps = 0u32;
        while self.left != Some(0) {
            steps += 1;
            if steps.is_multiple_of(STEPS_PER_CHECK) {
                interrupt.check()?;
                if Instant::now() >= until {
                    return Ok(None);
                }
            }
            if let Some(entry) = self.ready.pop_front() {
                if let Some(shown) = self.shown(entry)? {
                    return Ok(Some(shown));
                }
                continue;
            }
            match self.follow.advance()? {
                Next::Record(arrival) => self.ready.extend(entries(arrival.record(), arrival.epoch)?),
                Next::Passed => {}
                Next::Nothing => return Ok(None),
            }
        }
        Ok(None)
    }

    fn shown(&mut self, entry: DocBuf) -> Result<Option<DocBuf>> {
        let filter = &self.query.filter;
        if !filter.matches(entry.as_doc())? {
            return Ok(None);
        }
        if self.skip > 0 {
            self.skip -= 1;
            return Ok(None);
        }
        self.left = self.left.map(|left| left - 1);
        match &self.query.projection {
            Some(shown) => {
                let filter: Option<&Filter> = shown.projection.needs_position().then_some(filter);
                Ok(Some(project(&shown.projection, filter, entry.as_doc().into())?))
            }
            None => Ok(Some(entry)),
        }
    }
}
