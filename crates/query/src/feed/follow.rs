//! The records of interest from a position on: from the feed, or from the log as long as the feed has forgotten them.

use std::sync::Arc;

use arbor_base::Position;
use arbor_txn::History;

use super::{Arrival, Feed, FeedBatch, Interest, Subscription, Woken};
use crate::Result;

pub struct Follow {
    subscription: Subscription,
    /// After everything that was handed out.
    position: Position,
    /// The time of the last record before the position.
    time: u64,
    taken: std::vec::IntoIter<Arc<Arrival>>,
    /// Position of the follower once `taken` is used up, and the time there.
    after_taken: (Position, Option<u64>),
    /// Reads what the feed has forgotten, or not yet read when the follower began.
    history: Option<History>,
    /// The end of the log when the batch began: it has everything before it, however far the feed is.
    begun_at: Position,
    /// The batch has something.
    has_some: bool,
}

/// Outcome of one step of a follower.
pub enum Next {
    Record(Arc<Arrival>),
    /// A record that is of no interest was skipped; more may follow.
    Passed,
    /// Nothing, now.
    Nothing,
}

impl Follow {
    /// `time` is that of the last record before `from`.
    pub fn new(feed: &Arc<Feed>, interest: Interest, from: Position, time: u64) -> Result<Follow> {
        let subscription = feed.subscribe(interest, from)?;
        let begun_at = feed.readable_end()?;
        Ok(Follow {
            subscription,
            position: from,
            time,
            taken: Vec::new().into_iter(),
            after_taken: (from, None),
            history: (from < begun_at).then(|| feed.transactions().history(from)),
            begun_at,
            has_some: false,
        })
    }

    /// Begins a batch. One with anything in it is to have all that was acknowledged before; `has_some`: it has something already.
    pub fn begin_batch(&mut self, has_some: bool) {
        self.has_some = has_some;
        self.begun_at = self.begun_at.max(self.feed().transactions().shown().next());
    }

    /// Everything that was committed up to this time has been examined.
    pub fn time(&self) -> u64 {
        self.time
    }

    /// Returns the position before which everything has been examined.
    pub fn position(&self) -> Position {
        self.position
    }

    pub fn feed(&self) -> &Arc<Feed> {
        &self.subscription.feed
    }

    pub fn woken(&self) -> Woken {
        self.subscription.woken().or_at_once(self.taken.len() > 0 || self.history.is_some())
    }

    /// The next record of interest, or one step towards it.
    pub fn advance(&mut self) -> Result<Next> {
        if let Some(record) = self.taken.next() {
            return Ok(self.hand_out(record));
        }
        self.move_to(self.after_taken.0, self.after_taken.1);
        if self.history.is_some() {
            return self.next_of_log();
        }
        match self.feed().take(&self.subscription.waiter, self.position)? {
            FeedBatch::Forgotten(from) => {
                self.move_to(from, None);
                self.history = Some(self.feed().transactions.history(from));
                self.next_of_log()
            }
            FeedBatch::Records { records, upto, time } => {
                self.taken = records.into_iter();
                self.after_taken = (upto, time);
                match self.taken.next() {
                    Some(record) => Ok(self.hand_out(record)),
                    None => {
                        self.move_to(upto, time);
                        let lacks = self.has_some && self.position < self.begun_at;
                        let is_read = lacks && self.feed().wait_until_read(self.begun_at);
                        Ok(if is_read { Next::Passed } else { Next::Nothing })
                    }
                }
            }
        }
    }

    fn hand_out(&mut self, record: Arc<Arrival>) -> Next {
        self.move_to(record.next, Some(record.last_time()));
        self.has_some = true;
        Next::Record(record)
    }

    fn move_to(&mut self, position: Position, time: Option<u64>) {
        self.position = self.position.max(position);
        self.time = self.time.max(time.unwrap_or(0));
    }

    fn next_of_log(&mut self) -> Result<Next> {
        let Some(history) = &mut self.history else { return Ok(Next::Nothing) };
        let Some((position, record)) = history.read()? else {
            // the end; what came since is in the feed
            self.history = None;
            return Ok(if self.feed().keeps(self.position) { Next::Passed } else { Next::Nothing });
        };
        let arrival = Arrival::new(position, history, record);
        self.after_taken = (arrival.next, Some(arrival.last_time()));
        if arrival.next >= self.begun_at && self.feed().keeps(arrival.next) {
            self.history = None;
        }
        if arrival.has_events() && self.subscription.waiter.interest.covers(&arrival) {
            return Ok(self.hand_out(Arc::new(arrival)));
        }
        self.move_to(arrival.next, Some(arrival.last_time()));
        Ok(Next::Passed)
    }
}
