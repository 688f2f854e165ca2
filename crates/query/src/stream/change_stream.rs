//! The source of a change stream's cursor.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::{Duration, Instant};

use arbor_bson::DocBuf;
use arbor_lang::Code;
use arbor_store::Namespace;

use super::event::{EventBuilder, StreamEvent};
use super::images::Images;
use super::options::Options;
use super::pipeline::Stages;
use super::start::{Start, trimmed};
use super::target::Target;
use super::token::Token;
use crate::cursor::{Filler, RowSource};
use crate::feed::{Arrival, Follow, Next, Woken, damaged};
use crate::{Database, Error, Interrupt, Result};

/// A batch looks for events no longer than this, and then returns those that it has.
const SEARCH_MAX: Duration = Duration::from_secs(1);
/// Records or events skipped between two checks of the clock.
const STEPS_PER_CHECK: u32 = 64;

pub struct ChangeStream {
    follow: Follow,
    builder: EventBuilder,
    stages: Stages,
    /// Everything up to here was seen.
    after: Token,
    /// The event of `after` has still to come by.
    awaits_event: bool,
    /// That event does not come: the stream cannot continue.
    lost: bool,
    /// The first batch was made.
    begun: bool,
    /// A record, and which of its changes is next.
    current: Option<(Arc<Arrival>, usize)>,
    ready: VecDeque<DocBuf>,
    /// The invalidate event is made: nothing follows.
    ended: bool,
    /// Position from which a resumed stream misses nothing.
    resume: Token,
}

impl RowSource for ChangeStream {
    fn fill(&mut self, filler: &mut Filler, _: &Namespace, interrupt: &Interrupt) -> Result<bool> {
        let interrupt = interrupt.without_deadline();
        let until = Instant::now() + SEARCH_MAX;
        self.follow.begin_batch(self.current.is_some() || !self.ready.is_empty());
        let settled = self.follow.feed().transactions().settled_time();
        let filled = filler.fill(|| self.next(&interrupt, until));
        let is_first = !std::mem::replace(&mut self.begun, true);
        // COMPAT: the reply that opens the stream does not fail for it, the one to the first getMore does
        if is_first && self.lost {
            return Ok(false);
        }
        filled?;
        if let Some(id) = filler.last().and_then(|last| last.get("_id")) {
            self.resume = Token::parse("resumeAfter", id)?;
        }
        if filler.has_waiting() || !self.ready.is_empty() {
            return Ok(false);
        }
        if self.current.is_none() && !self.ended {
            // where nothing happens, time passes as well: a router that merges the streams of several shards waits for it
            let settled = settled.filter(|(position, _)| self.follow.position() >= *position);
            let time = self.follow.time().max(settled.map_or(0, |(_, time)| time));
            self.resume = self.resume.max(Token::end_of(time, self.after.deployment));
        }
        Ok(self.ended)
    }

    /// `postBatchResumeToken` of the last batch.
    fn resume_token(&self) -> Option<DocBuf> {
        Some(self.resume.to_doc())
    }

    /// Resolves once the next batch may have events.
    fn woken(&self) -> Option<Woken> {
        Some(self.follow.woken().or_at_once(self.current.is_some() || !self.ready.is_empty()))
    }

    fn await_for(&mut self, _patience: Option<Duration>) -> bool {
        true
    }
}

impl ChangeStream {
    pub fn new(
        database: &Database,
        target: Target,
        options: Options,
        stages: Stages,
        start: Start,
    ) -> Result<ChangeStream> {
        let follow = Follow::new(&database.feed, target.interest(), start.position, start.time)?;
        let images = Images { store: database.store.clone(), expiry: database.images_expiry.clone() };
        Ok(ChangeStream {
            follow,
            builder: EventBuilder { target, options, images },
            stages,
            after: start.after,
            awaits_event: start.is_event,
            lost: false,
            begun: false,
            current: None,
            ready: VecDeque::new(),
            ended: false,
            resume: start.after,
        })
    }

    /// None: there is nothing now, or the time is up.
    fn next(&mut self, interrupt: &Interrupt, until: Instant) -> Result<Option<DocBuf>> {
        let mut steps = 0u32;
        loop {
            if let Some(ready) = self.ready.pop_front() {
                return Ok(Some(ready));
            }
            if self.lost {
                return Err(not_found());
            }
            if self.ended {
                return Ok(None);
            }
            steps += 1;
            if steps.is_multiple_of(STEPS_PER_CHECK) {
                interrupt.check()?;
                if Instant::now() >= until {
                    return Ok(None);
                }
            }
            if self.current.is_some() {
                self.step()?;
                continue;
            }
            match self.follow.advance().map_err(trimmed)? {
                Next::Record(arrival) => self.current = Some((arrival, 0)),
                Next::Passed => {}
                Next::Nothing => {
                    self.lost = self.awaits_event && self.follow.time() >= self.after.time;
                    return if self.lost { Err(not_found()) } else { Ok(None) };
                }
            }
        }
    }

    /// Emits the next change of the current record.
    fn step(&mut self) -> Result<()> {
        let Some((arrival, at)) = self.current.take() else { return Ok(()) };
        let Some(event) = arbor_oplog::event_at(arrival.record(), at).map_err(damaged)? else { return Ok(()) };
        let (time, index) = match event.is_of_transaction() {
            true => (arrival.last_time(), at as u32),
            false => (arrival.record().stamp.time + at as u64, 0),
        };
        let token = Token::of_event(time, index, self.after.deployment);
        let events = match self.is_seen(token) {
            true => Vec::new(),
            false => self.builder.build(token, &event)?,
        };
        for event in events {
            self.take(event)?;
        }
        self.current = Some((arrival, at + 1));
        Ok(())
    }

    /// Returns true if all events of the change come before what was seen.
    fn is_seen(&self, token: Token) -> bool {
        let last = Token { of_invalidate: true, fragment: u16::MAX, ..token };
        last <= self.after
    }

    fn take(&mut self, event: StreamEvent) -> Result<()> {
        if self.awaits_event {
            if event.token.is_same_event(&self.after) {
                self.awaits_event = false;
            } else if event.token > self.after {
                self.lost = true;
                return Err(not_found());
            }
        }
        let whole_was_seen = event.token.is_same_event(&self.after) && self.after.fragment == 0;
        if whole_was_seen || (event.token < self.after && !event.token.is_same_event(&self.after)) {
            self.ended |= event.is_last && !whole_was_seen;
            return Ok(());
        }
        let pieces = self.stages.run(event.token, event.doc)?;
        let after = self.after;
        if !pieces.is_empty()
            && after.fragment > 0
            && event.token.is_same_event(&after)
            && pieces.len() < usize::from(after.fragment)
        {
            return Err(not_split());
        }
        self.ready.extend(pieces.into_iter().filter(|(token, _)| *token > after).map(|(_, doc)| doc));
        self.ended |= event.is_last;
        Ok(())
    }
}

fn not_found() -> Error {
    let message = "cannot resume stream; the resume token was not found.";
    Error::new(Code::CHANGE_STREAM_FATAL_ERROR, message)
}

fn not_split() -> Error {
    let message = "Attempting to resume a change stream from a fragment of an event that is not split; the pipeline \
                   must be the same, with $changeStreamSplitLargeEvent";
    Error::new(Code::CHANGE_STREAM_FATAL_ERROR, message)
}
