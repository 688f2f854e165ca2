//! Requests to the coordinator, whose replies come late or never.

use arbor_repl::isr::{Input, ReadOutcome};
use arbor_repl::{Agreement, Coordinator as _, Replaced, Version};

use super::{Event, Reply, Request, World};
use crate::data::Data;
use crate::oracle::Finding;

impl<D: Data> World<D> {
    pub(super) fn ask(&mut self, member: usize, ticket: u64, replacement: Option<(Option<Version>, Agreement)>) {
        let incarnation = self.member(member).incarnation;
        self.sequence += 1;
        let id = self.sequence;
        self.requests.insert(id, Request { member, incarnation, ticket, replacement, replied: false });
        let mut delay = 50 + self.random.below(self.plan.delay_us);
        if self.happens(self.plan.late_requests) {
            delay += self.random.below(500_000);
        }
        self.schedule(delay, Event::Execute { request: id });
        let patience = 60_000 + self.random.below(60_000);
        let timeout = match self.requests.get(&id).is_some_and(|request| request.replacement.is_some()) {
            true => Reply::Replaced(Replaced::Unknown),
            false => Reply::Read(ReadOutcome::Failed),
        };
        self.schedule(patience, Event::Reply { request: id, outcome: timeout });
    }

    pub(super) fn execute(&mut self, id: u64) -> Result<(), Finding> {
        let Some(request) = self.requests.get(&id) else { return Ok(()) };
        let (member, expired) = (request.member, request.replied);
        if self.coordinator_down || self.without_coordinator.contains(&member) {
            self.forget_request(id, expired);
            return Ok(());
        }
        let failed = |error: std::io::Error| format!("the simulated coordinator failed: {error}");
        let outcome = match &request.replacement {
            None => match self.coordinator.read().map_err(failed)? {
                Some((version, agreement)) => Reply::Read(ReadOutcome::Found(version, agreement)),
                None => Reply::Read(ReadOutcome::Empty),
            },
            Some((expected, next)) => {
                let outcome = self.coordinator.replace(*expected, next).map_err(failed)?;
                if let Replaced::Done(_) = outcome {
                    self.recorded = next.clone();
                    self.note(format!("    agreed: {:?}", self.recorded));
                    for member in 0..self.members.len() {
                        let delay = self.random.below(200_000);
                        if self.random.one_in(2) {
                            self.schedule(delay, Event::Hint { member });
                        }
                    }
                }
                Reply::Replaced(outcome)
            }
        };
        let delay = 50 + self.random.below(self.plan.delay_us);
        if !expired && !self.happens(self.plan.lost_replies) {
            self.schedule(delay, Event::Reply { request: id, outcome });
        }
        self.forget_request(id, expired);
        Ok(())
    }

    /// Drops a request that was executed, or never will be, once its requester has its reply.
    pub(super) fn forget_request(&mut self, id: u64, replied: bool) {
        match self.requests.get_mut(&id) {
            Some(request) if !replied => request.replacement = None,
            _ => drop(self.requests.remove(&id)),
        }
    }

    pub(super) fn reply(&mut self, id: u64, outcome: Reply) -> Result<(), Finding> {
        let Some(request) = self.requests.get_mut(&id).filter(|request| !request.replied) else { return Ok(()) };
        request.replied = true;
        let (member, incarnation, ticket) = (request.member, request.incarnation, request.ticket);
        let open = request.replacement.is_some() && matches!(outcome, Reply::Replaced(Replaced::Unknown));
        if !open {
            self.requests.remove(&id);
        }
        if !self.is_up(member, incarnation) {
            return Ok(());
        }
        self.counts.unknown += u64::from(matches!(outcome, Reply::Replaced(Replaced::Unknown)));
        match outcome {
            Reply::Read(outcome) => self.input(member, Input::Read { ticket, outcome }),
            Reply::Replaced(outcome) => self.input(member, Input::Replaced { ticket, outcome }),
        }
    }
}
