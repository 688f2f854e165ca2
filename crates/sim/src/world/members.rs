//! The members: their starts and crashes, and the actions of their state machines.

use std::collections::VecDeque;

use arbor_base::{Position, Random};
use arbor_repl::isr::{Action, Input, Machine};

use super::{Event, World};
use crate::data::Data;
use crate::member::{Member, Write};
use crate::operation::Operation;
use crate::oracle::Finding;

impl<D: Data> World<D> {
    pub(super) fn restart(&mut self, member: usize) -> Result<(), Finding> {
        let (now, plan) = (self.now, self.plan.clone());
        let one = self.member(member);
        if one.machine.is_some() {
            return Ok(());
        }
        one.start(now, &plan);
        let incarnation = one.incarnation;
        let (loads, missing) = (one.data.loads(), one.data.load_missing(one.data.applied()));
        self.schedule(1, Event::Tick { member, incarnation });
        self.input(member, Input::Loads(loads))?;
        self.input(member, Input::LoadMissing(missing))
    }

    /// Ends a member's process, by a power failure.
    pub fn crash(&mut self, member: usize) {
        let mut random = Random::new(self.random.next_u64());
        self.forget(member);
        let one = self.member(member);
        one.machine = None;
        one.data.crash(&mut random);
        self.counts.crashes += 1;
    }

    /// Drops a member's writes; their clients do not know the outcome.
    pub(super) fn forget(&mut self, member: usize) {
        let one = self.member(member);
        let writes: Vec<Operation> = one.writes.iter().map(|write| write.operation).collect();
        one.forget();
        if D::RETRIES {
            self.unsettled.extend(writes.into_iter().filter(|operation| operation.value().is_some()));
        }
    }

    /// Gives an input to a member that is up, and carries out what it does.
    pub fn input(&mut self, member: usize, input: Input) -> Result<(), Finding> {
        let mut inputs = VecDeque::from([input]);
        while let Some(input) = inputs.pop_front() {
            let now = self.now;
            let one = self.member(member);
            let clock = one.clock(now);
            let Some(machine) = &mut one.machine else { return Ok(()) };
            let mut actions = Vec::new();
            machine.step(clock, input, &mut actions);
            for action in actions {
                if self.traced {
                    self.note(format!("    {member} {action:?}"));
                }
                self.act(member, action, &mut inputs)?;
                if self.member(member).machine.is_none() {
                    return Ok(());
                }
            }
        }
        Ok(())
    }

    pub(super) fn act(&mut self, member: usize, action: Action, inputs: &mut VecDeque<Input>) -> Result<(), Finding> {
        let one = self.member(member);
        match action {
            Action::SaveEpoch(epoch) => one.data.save_epoch(epoch),
            Action::Cut(behind) => one.data.cut_behind(behind),
            Action::Append { epoch, after, payloads } => {
                assert_eq!(one.data.end(), after, "the log is where the machine thinks");
                match one.data.append(epoch, &payloads) {
                    true => self.appended(member, inputs),
                    false => inputs.push_back(Input::LogEnds(one.data.end())),
                }
            }
            Action::Lead(epoch) => match one.data.lead(epoch) {
                true => self.appended(member, inputs),
                false => {
                    // No space for the empty record: the process ends
                    one.machine = None;
                    self.forget(member);
                    self.member(member).data.end_process();
                    self.schedule(200_000, Event::Restart { member });
                }
            },
            Action::Commit(commit) => {
                self.commit(member, commit)?;
                self.appended_itself(member, inputs);
            }
            Action::Serve(_) => {
                one.data.set_paused(false);
                one.reads_from = one.machine.as_ref().map_or(Position::ZERO, Machine::commit);
            }
            Action::Resync { .. } => {}
            Action::Changed(outcome) => self.counts.changes += u64::from(outcome.is_ok()),
            Action::Retire => {
                // One that hands over leads until its successor does
                if let Some(machine) = one.machine.as_ref().filter(|machine| !machine.is_primary()) {
                    let end = machine.log_end();
                    one.data.stop_leading();
                    // What a change of the catalogue has logged since
                    if one.data.end() > end {
                        one.data.cut_behind(end);
                    }
                }
                self.forget(member);
            }
            Action::Send { to, message } => self.send(member, to, message),
            Action::Ship(shipment) => {
                let payloads = one.data.read(shipment.after, shipment.last);
                let to = shipment.to;
                let message = shipment.with(payloads);
                self.send(member, to, message);
            }
            Action::Read { ticket } => self.ask(member, ticket, None),
            Action::Replace { ticket, expected, next } => self.ask(member, ticket, Some((expected, next))),
        }
        Ok(())
    }

    /// Has new records synced, and gets the loads to which they refer.
    pub(super) fn appended(&mut self, member: usize, inputs: &mut VecDeque<Input>) {
        let one = self.member(member);
        let missing = one.data.load_missing(one.data.applied());
        let store = one.data.store();
        if missing.is_some() {
            inputs.push_back(Input::LoadMissing(missing));
            let operation = missing.and_then(|at| one.data.operation_at(at));
            if let Some(Operation::Loaded { load }) = operation {
                let delay = 1_000 + self.random.below(60_000);
                self.schedule(delay, Event::LoadArrives { member, store, load });
            }
        }
        self.sync(member);
    }

    /// Reports records that the data have appended by themselves, at the beginning of a term.
    pub(super) fn appended_itself(&mut self, member: usize, inputs: &mut VecDeque<Input>) {
        let one = self.member(member);
        let end = one.data.end();
        let is_behind = |machine: &Machine| machine.serves().is_some() && machine.log_end() < end;
        if one.machine.as_ref().is_some_and(is_behind) {
            inputs.push_back(Input::Appended(end));
            self.sync(member);
        }
    }

    /// Applies what had no space when it was committed.
    pub(super) fn apply_rest(&mut self, member: usize) -> Result<(), Finding> {
        let one = self.member(member);
        let Some(commit) = one.machine.as_ref().map(Machine::commit) else { return Ok(()) };
        if !D::RETRIES || one.data.applied() >= commit {
            return Ok(());
        }
        self.commit(member, commit)?;
        let mut inputs = VecDeque::new();
        self.appended_itself(member, &mut inputs);
        inputs.into_iter().try_for_each(|input| self.input(member, input))
    }

    /// Begins a sync of all that is in the log, unless one is under way: that one is followed by another.
    pub(super) fn sync(&mut self, member: usize) {
        let (now, normal) = (self.now, self.plan.sync_us);
        let delay = 10 + self.random.below(normal);
        let slow = self.random.below(300_000);
        let one = self.member(member);
        if one.syncing > Position::ZERO {
            return;
        }
        let (position, incarnation) = (one.data.end(), one.incarnation);
        one.syncing = position;
        let delay = if one.slow_until > now { delay + slow } else { delay };
        self.schedule(delay, Event::Synced { member, incarnation, position });
    }

    pub(super) fn synced(&mut self, member: usize, position: Position) -> Result<(), Finding> {
        let one = self.member(member);
        one.data.sync(position);
        one.syncing = Position::ZERO;
        let durable = one.data.durable();
        if one.data.end() > durable {
            self.sync(member);
        }
        self.input(member, Input::Synced(durable))
    }

    pub(super) fn commit(&mut self, member: usize, commit: Position) -> Result<(), Finding> {
        let wiped = self.counts.wipes > 0;
        let Some(one) = self.members.get_mut(member) else { return Ok(()) };
        let Some(status) = one.machine.as_ref().map(|machine| machine.status()) else { return Ok(()) };
        if status.is_primary {
            self.oracle.commits(one.id, status.epoch, &one.data, commit)?;
        }
        let done = one.data.apply_until(commit);
        for (position, _) in &done {
            if let Some(Operation::Loaded { load }) = one.data.operation_at(*position)
                && !one.data.has_load(load)
            {
                return Err(format!(
                    "R10: {:?} applies a record that refers to load {load}, which it does not have",
                    one.id
                ));
            }
        }
        let applied = one.data.applied();
        let (finished, open): (Vec<Write>, Vec<Write>) =
            std::mem::take(&mut one.writes).into_iter().partition(|write| write.position <= applied);
        one.writes = open;
        for write in finished {
            let result = done.iter().find(|(position, _)| *position == write.position);
            let (_, took_effect) = result.ok_or("O5: a write waits for a position that was applied before")?;
            self.oracle.wrote(write.floor, write.position, write.operation, *took_effect)?;
        }
        let minimum = status.known.map_or(0, |(_, agreement)| agreement.min_in_sync);
        let held = |member: &&Member<D>| self.oracle.is_held_by(&member.data, commit);
        let copies = self.members.iter().filter(held).count();
        if status.is_primary && !wiped && copies < minimum {
            return Err(format!("O6: {commit:?} is committed with {copies} copies, {minimum} are the minimum"));
        }
        Ok(())
    }
}
