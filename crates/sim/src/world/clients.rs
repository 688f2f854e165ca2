//! Clients: reads, writes, and writes whose outcome they do not know.

use std::collections::VecDeque;

use arbor_repl::isr::Input;

use super::{Event, Phase, SESSIONS, World};
use crate::data::{Data, Written};
use crate::member::{Member, Write};
use crate::operation::{KEYS, Operation};
use crate::oracle::Finding;

impl<D: Data> World<D> {
    pub(super) fn client(&mut self) -> Result<(), Finding> {
        if self.phase == Phase::Quiet {
            return Ok(());
        }
        let pause = 100 + self.random.below(self.plan.pause_of_clients_us);
        self.schedule(pause, Event::Client);
        let serving: Vec<usize> = (0..self.members.len()).filter(|at| self.may_write(*at)).collect();
        if serving.is_empty() {
            return Ok(());
        }
        let member = *self.random.pick(&serving);
        if D::RETRIES && !self.unsettled.is_empty() && self.random.one_in(3) {
            return self.retry(member);
        }
        if D::HAVE_CATALOGUE && self.random.one_in(20) {
            return self.change(member);
        }
        match self.random.below(100) {
            0..40 => self.read(member),
            40..45 if D::HAVE_TREES => self.change(member),
            40..45 => self.load(member),
            45..80 => {
                let value = self.new_value();
                let operation = Operation::Put { key: self.random.below(KEYS), value };
                self.write_new(member, operation)
            }
            _ => {
                let value = self.new_value();
                let key = self.random.below(KEYS);
                let expected = self.member(member).data.documents().get(key);
                self.write_new(member, Operation::CompareAndSet { key, expected, value })
            }
        }
    }

    /// Changes the catalogue, or begins to.
    pub(super) fn change(&mut self, member: usize) -> Result<(), Finding> {
        let choice = self.random.next_u64();
        self.member(member).data.change(choice);
        let mut inputs = VecDeque::new();
        self.appended_itself(member, &mut inputs);
        inputs.into_iter().try_for_each(|input| self.input(member, input))
    }

    /// Returns a value that no write had. Its lowest bits are its session, where sessions matter.
    pub(super) fn new_value(&mut self) -> u64 {
        self.values += 1;
        match D::RETRIES {
            true => self.values * SESSIONS + self.random.below(SESSIONS),
            false => self.values,
        }
    }

    /// A session has one write at a time.
    pub(super) fn write_new(&mut self, member: usize, operation: Operation) -> Result<(), Finding> {
        let session = |operation: &Operation| operation.value().map(|value| value % SESSIONS);
        let in_flight = self.members.iter().flat_map(|member| &member.writes).map(|write| &write.operation);
        if D::RETRIES && in_flight.chain(&self.unsettled).any(|other| session(other) == session(&operation)) {
            return Ok(());
        }
        self.write(member, operation)
    }

    /// Requests a write again whose outcome is not known.
    pub(super) fn retry(&mut self, member: usize) -> Result<(), Finding> {
        let Some(operation) = self.unsettled.pop_front() else { return Ok(()) };
        self.counts.retries += 1;
        self.write(member, operation)?;
        if self.member(member).writes.iter().all(|write| write.operation != operation) {
            // Refused, or done: the client that is not sure asks once more
            if self.random.one_in(2) {
                self.unsettled.push_back(operation);
            }
        }
        Ok(())
    }

    pub(super) fn may_write(&self, member: usize) -> bool {
        let up = |member: &&Member<D>| member.paused_until <= self.now;
        self.members.get(member).filter(up).is_some_and(|member| member.serves().is_some())
    }

    pub(super) fn write(&mut self, member: usize, operation: Operation) -> Result<(), Finding> {
        let floor = self.oracle.floor();
        let now = self.now;
        let jump = self.jumps.one_in(300).then(|| self.jumps.below(20_000_000) as i64 - 10_000_000);
        let one = self.member(member);
        one.wall_off_ms = jump.unwrap_or(one.wall_off_ms);
        one.data.set_wall(one.wall(now));
        let Some(epoch) = one.serves() else { return Ok(()) };
        if one.writes.len() > 40 {
            return Ok(());
        }
        match one.data.write(epoch, operation) {
            Written::Logged(position) => {
                one.writes.push(Write { position, operation, floor });
                self.sync(member);
                self.input(member, Input::Appended(position))
            }
            Written::Before => self.oracle.was_done(operation),
            Written::Refused | Written::Never => {
                // A large write may have left a part of itself, which is void
                let mut inputs = VecDeque::new();
                self.appended_itself(member, &mut inputs);
                inputs.into_iter().try_for_each(|input| self.input(member, input))
            }
        }
    }

    pub(super) fn read(&mut self, member: usize) -> Result<(), Finding> {
        let floor = self.oracle.floor();
        let now = self.now;
        let key = self.random.below(KEYS);
        let one = self.member(member);
        let clock = one.clock(now);
        let (applied, value) = (one.data.applied(), one.data.documents().get(key));
        // As the server: a member whose engine has no space may lead, and shows nothing until it has applied all of it
        if !one.data.is_readable()
            || applied < one.reads_from
            || !one.machine.as_ref().is_some_and(|machine| machine.may_read(clock))
        {
            return Ok(());
        }
        let late = one.serves() < Some(self.recorded.epoch);
        self.counts.late_reads += u64::from(late);
        self.oracle.read(floor, applied, key, value)
    }

    /// Opens a load, or logs the open one once every member has it.
    pub(super) fn load(&mut self, member: usize) -> Result<(), Finding> {
        self.values += 1;
        let load = self.values;
        let one = self.member(member);
        match one.open_load {
            None => {
                one.open_load = Some(load);
                one.data.add_load(load);
                let loads = one.data.loads();
                self.input(member, Input::Loads(loads))?;
                self.input(member, Input::OpenLoads(vec![load]))
            }
            Some(open) if one.machine.as_ref().is_some_and(|machine| machine.is_load_everywhere(open)) => {
                one.open_load = None;
                self.write(member, Operation::Loaded { load: open })
            }
            Some(_) => Ok(()),
        }
    }
}
