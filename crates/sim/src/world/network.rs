//! Messages and loads between members.

use std::collections::VecDeque;

use arbor_repl::isr::{Envelope, Input, Message};
use arbor_repl::{MemberId, StoreId};

use super::{Event, Phase, World};
use crate::data::Data;
use crate::member::Member;
use crate::oracle::Finding;

impl<D: Data> World<D> {
    pub(super) fn send(&mut self, from: usize, to: MemberId, message: Message) {
        let envelope = Envelope { from: MemberId(from as u32), to, message };
        let bytes = envelope.encode();
        let copies = if self.happens(self.plan.duplicated) { 2 } else { 1 };
        for _ in 0..copies {
            if self.happens(self.plan.lost) {
                continue;
            }
            let mut delay = 20 + self.random.below(self.plan.delay_us);
            if self.happens(self.plan.late) {
                delay += self.random.below(400_000);
            }
            self.schedule(delay, Event::Deliver { to: to.0 as usize, bytes: bytes.clone() });
        }
    }

    /// Returns true for an injected failure, which the later phases do not have.
    pub(super) fn happens(&mut self, per_mille: u64) -> bool {
        self.phase == Phase::Faults && per_mille > 0 && self.random.chance(per_mille, 1_000)
    }

    pub(super) fn deliver(&mut self, to: usize, bytes: &[u8]) -> Result<(), Finding> {
        let envelope = Envelope::decode(bytes).ok_or("a message is not read as it was written")?;
        if to >= self.members.len() || self.cut_links.contains(&(envelope.from.0 as usize, to)) {
            return Ok(());
        }
        self.counts.relayed +=
            u64::from(matches!(&envelope.message, Message::Relayed(records) if !records.payloads.is_empty()));
        let loads = match &envelope.message {
            Message::Records(records) => records.loads.clone(),
            _ => Vec::new(),
        };
        for load in loads {
            let store = self.member(to).data.store();
            let has_it = !D::HAVE_TREES && self.member(to).data.has_load(load);
            if !has_it && self.random.one_in(3) {
                let delay = 500 + self.random.below(30_000);
                self.schedule(delay, Event::LoadArrives { member: to, store, load });
            }
        }
        self.input(to, Input::Received { from: envelope.from, message: envelope.message })
    }

    pub(super) fn load_arrives(&mut self, member: usize, store: StoreId, load: u64) -> Result<(), Finding> {
        let one = self.member(member);
        if one.machine.is_none() || one.data.store() != store {
            return Ok(());
        }
        match D::HAVE_TREES {
            true => self.fetch(member, load)?,
            false => one.data.add_load(load),
        }
        let one = self.member(member);
        let (loads, missing) = (one.data.loads(), one.data.load_missing(one.data.applied()));
        self.input(member, Input::Loads(loads))?;
        self.input(member, Input::LoadMissing(missing))?;
        self.appended(member, &mut VecDeque::new());
        Ok(())
    }

    /// Fetches an offered load, and those that are missing, from the primary that the member knows.
    pub(super) fn fetch(&mut self, member: usize, load: u64) -> Result<(), Finding> {
        let primary = self.member(member).machine.as_ref().and_then(|machine| machine.status().primary);
        let Some(from) = primary.map(|id| id.0 as usize).filter(|from| *from != member) else { return Ok(()) };
        let is_cut = [(from, member), (member, from)].iter().any(|link| self.cut_links.contains(link));
        let is_up = |one: &Member<D>| one.machine.is_some() && one.paused_until <= self.now;
        if is_cut || !self.members.get(from).is_some_and(is_up) {
            return Ok(());
        }
        let Some(peer) = self.member(from).data.peer() else { return Ok(()) };
        self.member(member).data.fetch(&[load], &*peer);
        self.apply_rest(member)
    }

    /// Reports loads, as a member does again and again: those that are here and those that the others should get.
    pub(super) fn give_loads(&mut self, member: usize) -> Result<(), Finding> {
        if !D::HAVE_TREES {
            return Ok(());
        }
        let one = self.member(member);
        let (own, open, store) = (one.data.loads(), one.data.open_loads(), one.data.store());
        let missing = one.data.load_missing(one.data.applied());
        self.input(member, Input::Loads(own))?;
        self.input(member, Input::LoadMissing(missing))?;
        self.input(member, Input::OpenLoads(open.clone()))?;
        if missing.is_some() && self.random.one_in(3) {
            self.schedule(1_000, Event::LoadArrives { member, store, load: 0 });
        }
        let one = self.member(member);
        let is_everywhere = |load: &u64| {
            one.machine.as_ref().is_some_and(|machine| machine.serves().is_some() && machine.is_load_everywhere(*load))
        };
        let everywhere: Vec<u64> = open.into_iter().filter(is_everywhere).collect();
        everywhere.into_iter().for_each(|load| one.data.set_everywhere(load));
        let mut inputs = VecDeque::new();
        self.appended_itself(member, &mut inputs);
        inputs.into_iter().try_for_each(|input| self.input(member, input))
    }
}
