//! Faults, and their end.

use arbor_repl::isr::{Input, Machine, Reconfiguration};
use arbor_repl::{MemberId, Voter, majority_of};

use crate::data::Data;
use crate::oracle::Finding;
use crate::plan::Defect;
use crate::world::{Event, Healing, Phase, World, store_of};

#[derive(Clone, Copy, Debug)]
pub(crate) enum Fault {
    Crash,
    CrashAll,
    Isolate,
    Halves,
    OneWay,
    WithoutCoordinator,
    CoordinatorDown,
    Pause,
    FullDisk,
    SlowDisk,
    Wipe,
    StepDown,
    Reconfigure,
    Lost,
    /// The others lose the primary, and it does not know.
    Usurp,
}

/// In the order of the plan's weights.
pub(crate) const FAULTS: [Fault; 15] = [
    Fault::Crash,
    Fault::CrashAll,
    Fault::Isolate,
    Fault::Halves,
    Fault::OneWay,
    Fault::WithoutCoordinator,
    Fault::CoordinatorDown,
    Fault::Pause,
    Fault::FullDisk,
    Fault::SlowDisk,
    Fault::Wipe,
    Fault::StepDown,
    Fault::Reconfigure,
    Fault::Lost,
    Fault::Usurp,
];

impl<D: Data> World<D> {
    pub fn fault_now(&mut self) -> Result<(), Finding> {
        if self.phase != Phase::Faults {
            return Ok(());
        }
        let pause = 1_000 + self.random.below(2 * self.plan.fault_every_us);
        self.schedule(pause, Event::Fault);
        let total: u64 = self.plan.weights.iter().sum();
        let mut left = self.random.below(total);
        for (fault, weight) in FAULTS.into_iter().zip(self.plan.weights) {
            if left < weight {
                self.counts.faults += 1;
                self.note(format!("    fault: {fault:?}"));
                return self.inject(fault);
            }
            left -= weight;
        }
        Ok(())
    }

    fn inject(&mut self, fault: Fault) -> Result<(), Finding> {
        let count = self.members.len();
        let member = self.victim();
        let time = 5_000 + self.random.below(700_000);
        match fault {
            Fault::Crash => self.crash_for(member, time),
            Fault::CrashAll => (0..count).for_each(|member| self.crash_for(member, time)),
            Fault::Isolate => self.isolate(member, time),
            Fault::Halves => {
                let side: Vec<bool> = (0..count).map(|_| self.random.one_in(2)).collect();
                let pairs = (0..count).flat_map(|from| (0..count).map(move |to| (from, to)));
                self.cut_links.extend(pairs.filter(|(from, to)| side.get(*from) != side.get(*to)));
                self.schedule(time, Event::Heal(Healing::Links));
            }
            Fault::OneWay => {
                let to = self.random.below(count as u64) as usize;
                self.cut_links.insert((member, to));
                self.schedule(time, Event::Heal(Healing::Links));
            }
            Fault::WithoutCoordinator => {
                self.without_coordinator.insert(member);
                self.schedule(time, Event::Heal(Healing::Coordinator));
            }
            Fault::CoordinatorDown => {
                self.coordinator_down = true;
                self.schedule(time, Event::Heal(Healing::Coordinator));
            }
            Fault::Pause => self.member(member).paused_until = self.now + time,
            Fault::FullDisk => {
                self.member(member).data.set_full(true);
                self.schedule(time, Event::Heal(Healing::Disk(member)));
                self.input(member, Input::Fit(false))?;
                self.input(member, Input::Full(true))?;
                // As the server does
                let roomy = |one: &Machine| one.has_roomy_successor(|_| true);
                let serves = |one: &&Machine| one.serves().is_some();
                if self.member(member).machine.as_ref().filter(serves).is_some_and(roomy) {
                    return self.step_down(None);
                }
            }
            Fault::SlowDisk => self.member(member).slow_until = self.now + time,
            Fault::Wipe => self.wipe(member, time),
            Fault::StepDown => {
                let to = self.random.below(count as u64) as u32;
                let to = self.random.one_in(2).then_some(MemberId(to));
                return self.step_down(to);
            }
            Fault::Usurp => {
                self.isolate(member, time);
                if self.random.one_in(2) {
                    self.without_coordinator.insert(member);
                    self.schedule(time, Event::Heal(Healing::Coordinator));
                }
                for other in (0..count).filter(|other| *other != member) {
                    if self.random.one_in(3) {
                        self.crash_for(other, 1_000);
                    }
                    self.schedule(5_000, Event::Lost { member: other, other: member });
                }
            }
            Fault::Reconfigure => return self.reconfigure(member),
            Fault::Lost => {
                let other = self.random.below(count as u64) as u32;
                return self.input(member, Input::Lost(MemberId(other)));
            }
        }
        Ok(())
    }

    /// Has a member fetch from any other one, or from its primary again; a member without its process forgets it.
    pub fn change_source(&mut self) -> Result<(), Finding> {
        let count = self.members.len() as u64;
        let (member, source) = (self.sources.below(count) as usize, self.sources.below(count + 1) as u32);
        let pause = 1_000 + self.sources.below(100_000);
        assert!(self.plan.chains, "only in runs with chains");
        self.schedule(pause, Event::Source);
        let source = (u64::from(source) < count).then_some(MemberId(source));
        self.input(member, Input::Source(source))
    }

    fn isolate(&mut self, member: usize, time: u64) {
        let others = (0..self.members.len()).filter(|other| *other != member);
        self.cut_links.extend(others.flat_map(|other| [(member, other), (other, member)]));
        self.schedule(time, Event::Heal(Healing::Links));
    }

    /// Chooses a member, the primary more often than others.
    fn victim(&mut self) -> usize {
        let serving = self.members.iter().position(|member| member.serves().is_some());
        let any = self.random.below(self.members.len() as u64) as usize;
        if self.random.one_in(3) { serving.unwrap_or(any) } else { any }
    }

    fn crash_for(&mut self, member: usize, time: u64) {
        if self.member(member).machine.is_some() {
            self.crash(member);
            let time = if self.random.one_in(3) { time / 50 } else { time };
            self.schedule(time, Event::Restart { member });
        }
    }

    /// Replaces a member's disk by an empty one. All other members that are recorded as in sync have theirs, so nothing is
    /// lost; a request under way could leave the set to this one.
    fn wipe(&mut self, member: usize, time: u64) {
        let intact = |world: &World<D>| {
            let has = |id: &MemberId| world.members.get(id.0 as usize).map(|member| member.identity());
            world.recorded.in_sync.iter().all(|identity| has(&identity.id) == Some(*identity))
        };
        let enough = self.recorded.min_in_sync >= 2 && self.recorded.in_sync.len() >= 2;
        if !enough || !intact(self) || self.has_requests() {
            return;
        }
        if self.member(member).machine.is_some() {
            self.crash(member);
            self.schedule(time, Event::Restart { member });
        }
        self.stores += 1;
        let (make, old) = (self.make, self.member(member).data.store());
        let store = if self.plan.defect == Some(Defect::SameStore) { old } else { store_of(self.stores) };
        let mut data = make(store);
        data.set_defect(self.plan.defect);
        self.counts.catalogue += self.member(member).data.catalogue_changes();
        self.member(member).data = data;
        self.counts.wipes += 1;
    }

    /// Has the primary hand over: no commit follows what its machine knows of.
    fn step_down(&mut self, to: Option<MemberId>) -> Result<(), Finding> {
        let serving = |at: &usize| self.members.get(*at).is_some_and(|member| member.serves().is_some());
        let Some(primary) = (0..self.members.len()).find(serving) else { return Ok(()) };
        self.member(primary).data.set_paused(true);
        self.input(primary, Input::StepDown(to))?;
        let one = self.member(primary);
        if one.serves().is_some() {
            one.data.set_paused(false);
        }
        Ok(())
    }

    fn on_primary(&mut self, input: Input) -> Result<(), Finding> {
        let serving = |at: &usize| self.members.get(*at).is_some_and(|member| member.serves().is_some());
        match (0..self.members.len()).find(serving) {
            Some(primary) => self.input(primary, input),
            None => Ok(()),
        }
    }

    /// Adds or removes a voter.
    fn reconfigure(&mut self, member: usize) -> Result<(), Finding> {
        let id = MemberId(member as u32);
        let mut voters = self.recorded.voters.clone();
        match voters.iter().position(|voter| voter.id == id) {
            Some(at) => drop(voters.remove(at)),
            None => voters.push(Voter { id, may_lead: true }),
        }
        voters.sort_unstable();
        let min_in_sync = majority_of(voters.len());
        self.on_primary(Input::Reconfigure(Reconfiguration {
            voters,
            min_in_sync,
            config: vec![5, 0, 0, 0, 0],
            forced: false,
        }))
    }

    pub fn heal_now(&mut self, healing: Healing) {
        match healing {
            Healing::Links => self.cut_links.clear(),
            Healing::Coordinator => {
                self.coordinator_down = false;
                self.without_coordinator.clear();
            }
            Healing::Member(member) => self.schedule(0, Event::Restart { member }),
            Healing::Disk(member) => {
                self.member(member).data.set_full(false);
                // A finding is reported by the next step as well.
                let _ = self.input(member, Input::Fit(true));
                let _ = self.input(member, Input::Full(false));
            }
        }
    }

    pub fn heal_everything(&mut self) {
        self.phase = Phase::Healing;
        self.heal_now(Healing::Links);
        self.heal_now(Healing::Coordinator);
        for member in 0..self.members.len() {
            let one = self.member(member);
            (one.paused_until, one.slow_until) = (0, 0);
            self.heal_now(Healing::Disk(member));
            self.heal_now(Healing::Member(member));
        }
    }
}
