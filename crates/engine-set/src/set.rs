//! The set as an engine.

use std::borrow::Cow;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use arbor_base::{Position, Prefetch, TreeId};
use arbor_engine::adapter::BarrierSlot;
use arbor_engine::{
    Barrier, Batch, Capabilities, Engine, EngineStats, Error, Member, MemberState, Op, Result, Snapshot, TreeOptions,
    TreeStats,
};
use parking_lot::Mutex;

use crate::adapt::SetOptions;
use crate::gate::{Gate, MemberEngine};
use crate::kind::Kind;
use crate::open::Joining;
use crate::plan::{not_a_member, stripped};
use crate::routes::HOME;
use crate::{apply, kind};

/// See the crate. Dropping it drops the members.
pub struct EngineSet {
    pub(crate) home: Arc<dyn Engine>,
    /// There is more than the home, or was. Set once.
    pub(crate) several: AtomicBool,
    pub(crate) gate: Gate,
    /// One thread at a time changes members, routes and position.
    pub(crate) writer: Mutex<()>,
    /// Up to here a batch may change trees that no member has.
    lenient: Position,
    pub(crate) barrier: BarrierSlot,
    pub(crate) joining: Mutex<Joining>,
    pub(crate) kinds: Vec<Kind>,
    pub(crate) default: &'static str,
    pub(crate) options: SetOptions,
    /// The user knows that trees are stored otherwise than the log says.
    pub(crate) warned: AtomicBool,
}

impl EngineSet {
    pub(crate) fn new(
        home: Arc<dyn Engine>,
        several: bool,
        gate: Gate,
        lenient: Position,
        joining: Joining,
        kinds: Vec<Kind>,
        default: &'static str,
    ) -> EngineSet {
        EngineSet {
            home,
            several: AtomicBool::new(several),
            gate,
            writer: Mutex::new(()),
            lenient,
            barrier: BarrierSlot::default(),
            joining: Mutex::new(joining),
            kinds,
            default,
            options: SetOptions::default(),
            warned: AtomicBool::new(false),
        }
    }

    /// Sets how operations of other members are stored. Errors: the override is not in this build, or cannot be opened.
    pub fn with_options(mut self, options: SetOptions) -> Result<EngineSet> {
        assert!(options.adapts || options.storage_engine_override.is_none(), "an override is for members that adapt");
        if let Some(name) = options.storage_engine_override {
            self.member(name)?;
        }
        self.options = options;
        Ok(self)
    }

    pub(crate) fn home_name(&self) -> &'static str {
        self.gate.read().member(HOME).name
    }

    /// The member that has the tree. `None`: there is no such tree, or the home is the only member.
    pub(crate) fn place_of(&self, tree: TreeId) -> Option<&'static str> {
        let members = self.gate.read();
        members.routes.trees.get(&tree).map(|index| members.member(*index).name)
    }

    pub(crate) fn is_several(&self) -> bool {
        self.several.load(Ordering::SeqCst)
    }

    fn list(&self) -> Vec<MemberEngine> {
        self.gate.read().list.clone()
    }

    /// The member that a tree lives in.
    fn of(&self, tree: TreeId) -> Result<Arc<dyn Engine>> {
        if !self.is_several() {
            return Ok(self.home.clone());
        }
        let members = self.gate.read();
        Ok(members.member(members.routes.find(tree)?).engine.clone())
    }

    fn named(&self, name: &str) -> Result<MemberEngine> {
        let members = self.gate.read();
        let index = members.index_of(name);
        index.map(|index| members.member(index).clone()).ok_or_else(|| {
            let reason = "it is not open".to_owned();
            Error::Unavailable { engine: name.to_owned(), reason, tree: None }
        })
    }

    /// Brings members that were not concerned lately to the set's position (S2). Returns it.
    fn level(&self, list: &[MemberEngine]) -> Result<Position> {
        let _writer = self.writer.lock();
        let position = self.gate.position();
        for member in list.iter().filter(|member| member.engine.applied() < position) {
            member.engine.apply(&[Batch { position, ops: Vec::new() }])?;
        }
        Ok(position)
    }
}

/// The batches as the home takes them when it is alone; `None`: as they are.
fn for_home_alone(batches: &[Batch], gate: &Gate) -> Result<Option<Vec<Batch>>> {
    let mut names = false;
    for op in batches.iter().flat_map(|batch| &batch.ops) {
        let Op::CreateTree { options, .. } = op else { continue };
        match options.engine() {
            Some(name) if gate.read().index_of(name) != Some(0) => return Err(not_a_member(name)),
            name => names |= name.is_some(),
        }
    }
    let without = |batch: &Batch| Batch { position: batch.position, ops: batch.ops.iter().map(stripped).collect() };
    Ok(names.then(|| batches.iter().map(without).collect()))
}

impl Engine for EngineSet {
    /// The default's.
    fn name(&self) -> &'static str {
        self.default
    }

    fn applied(&self) -> Position {
        if self.is_several() { self.gate.position() } else { self.home.applied() }
    }

    fn apply(&self, batches: &[Batch]) -> Result<()> {
        let differ = self.may_differ(batches);
        let adapted = if differ { self.adapted(batches)? } else { Cow::Borrowed(batches) };
        let batches = &*adapted;
        // Keeps a new member from coming in between; no other thread waits for it.
        let _writer = self.writer.lock();
        if self.is_several() {
            return apply::apply(&self.gate, batches, self.lenient);
        }
        match if differ { for_home_alone(batches, &self.gate)? } else { None } {
            Some(stripped) => self.home.apply(&stripped),
            None => self.home.apply(batches),
        }
    }

    fn snapshot(&self) -> Result<Arc<dyn Snapshot>> {
        if !self.is_several() {
            let snapshot = self.home.snapshot()?;
            // A member that came in meanwhile may have trees that the home's snapshot speaks of.
            if !self.is_several() {
                return Ok(snapshot);
            }
        }
        Ok(Arc::new(self.gate.snapshot()?))
    }

    fn prefetch(&self, tree: TreeId, key: &[u8]) -> Prefetch {
        if !self.is_several() {
            return self.home.prefetch(tree, key);
        }
        let engine = {
            let members = self.gate.read();
            debug_assert!(members.list.len() > 1, "members do not leave the set while it is open");
            members.routes.readable(tree).map(|index| members.member(index).engine.clone())
        };
        engine.map_or(Prefetch::Unknown, |engine| engine.prefetch(tree, key))
    }

    fn checkpoint(&self) -> Result<Position> {
        if !self.is_several() {
            return self.home.checkpoint();
        }
        let list = self.list();
        let level = self.level(&list);
        // All are tried: a checkpoint may be what frees the space that another member lacks.
        let results: Vec<Result<Position>> = list.iter().map(|member| member.engine.checkpoint()).collect();
        let mut lowest = Position(u64::MAX);
        for result in results {
            lowest = lowest.min(result?);
        }
        level.map(|_| lowest)
    }

    fn set_barrier(&self, barrier: Barrier) {
        self.barrier.set(barrier.clone());
        self.list().iter().for_each(|member| member.engine.set_barrier(barrier.clone()));
    }

    fn durable(&self) -> Position {
        if !self.is_several() {
            return self.home.durable();
        }
        let members = self.gate.read();
        if !members.routes.lost.is_empty() {
            return Position::ZERO;
        }
        members.list.iter().map(|member| member.engine.durable()).min().unwrap_or_default()
    }

    fn bulk_load(&self, tree: TreeId, rows: &mut dyn Iterator<Item = (Vec<u8>, Vec<u8>)>) -> Result<()> {
        self.of(tree)?.bulk_load(tree, rows)
    }

    fn check_options(&self, options: &TreeOptions) -> Result<()> {
        if self.options.storage_engine_override.is_some() {
            return Ok(());
        }
        match options.engine() {
            None => self.home.check_options(options),
            Some(name) => self.member(name)?.check_options(&options.without_engine()),
        }
    }

    fn trees(&self) -> Result<Vec<TreeId>> {
        if !self.is_several() {
            return self.home.trees();
        }
        let mut trees: Vec<TreeId> = self.gate.read().routes.trees.keys().copied().collect();
        trees.sort_unstable();
        Ok(trees)
    }

    fn wait_for_room(&self) {
        if !self.is_several() {
            return self.home.wait_for_room();
        }
        self.list().iter().for_each(|member| member.engine.wait_for_room());
    }

    fn compact(&self, tree: TreeId, stop: &dyn Fn() -> bool) -> Result<u64> {
        self.of(tree)?.compact(tree, stop)
    }

    /// `NAME` is for the default engine, `ENGINE.NAME` for another one that is open.
    fn set_parameter(&self, name: &str, value: &str) -> Result<()> {
        match name.split_once('.') {
            Some((engine, name)) => {
                kind::find(&self.kinds, engine)?;
                self.named(engine)?.engine.set_parameter(name, value)
            }
            None => self.named(self.default)?.engine.set_parameter(name, value),
        }
    }

    fn parameter(&self, name: &str) -> Option<String> {
        let (engine, name) = name.split_once('.').unwrap_or((self.default, name));
        self.named(engine).ok()?.engine.parameter(name)
    }

    /// Sums; the counters are those of a single member.
    fn stats(&self) -> Result<EngineStats> {
        if !self.is_several() {
            return self.home.stats();
        }
        let mut sum = EngineStats::default();
        for member in self.list() {
            let stats = member.engine.stats()?;
            sum.disk_bytes += stats.disk_bytes;
            sum.free_bytes += stats.free_bytes;
            sum.cache_bytes += stats.cache_bytes;
        }
        Ok(sum)
    }

    fn tree_stats(&self, tree: TreeId) -> Result<TreeStats> {
        self.of(tree)?.tree_stats(tree)
    }

    /// Returns the capabilities that all members have.
    fn capabilities(&self) -> Capabilities {
        let mut home = self.home.capabilities();
        // Where an engine takes none, the set makes rows of them.
        home.update_messages |= self.options.updates.is_some();
        if !self.is_several() {
            return home;
        }
        self.list().iter().skip(1).map(|member| member.engine.capabilities()).fold(home, |all, one| Capabilities {
            update_messages: all.update_messages && (one.update_messages || self.options.updates.is_some()),
            exact_counts: all.exact_counts && one.exact_counts,
            held_snapshots_keep_space: all.held_snapshots_keep_space || one.held_snapshots_keep_space,
            held_snapshot_bytes_max: all.held_snapshot_bytes_max.into_iter().chain(one.held_snapshot_bytes_max).min(),
            cheap_range_delete: all.cheap_range_delete && one.cheap_range_delete,
            compression: if all.compression == one.compression { all.compression } else { &[] },
        })
    }

    fn validate(&self) {
        self.gate.read().validate(&self.gate, self.is_several());
        self.list().iter().for_each(|member| member.engine.validate());
    }

    fn stores_updates(&self, tree: TreeId) -> bool {
        self.of(tree).is_ok_and(|engine| engine.capabilities().update_messages)
    }

    fn engine_of(&self, tree: TreeId) -> &'static str {
        let members = self.gate.read();
        members.member(members.routes.trees.get(&tree).copied().unwrap_or(HOME)).name
    }

    fn check_tree(&self, tree: TreeId) -> Result<()> {
        if !self.is_several() {
            return Ok(());
        }
        match self.gate.read().routes.find(tree) {
            Err(error @ Error::Unavailable { .. }) => Err(error),
            _ => Ok(()),
        }
    }

    fn applied_in_part(&self) -> Position {
        let members = self.gate.read();
        members.list.iter().map(|member| member.engine.applied()).max().unwrap_or_default().max(self.applied())
    }

    fn members(&self) -> Vec<Member> {
        let members = self.gate.read();
        let state = |name: &str| {
            if let Some(lost) = members.routes.lost.iter().find(|lost| lost.name == name) {
                return MemberState::Unavailable { reason: lost.reason.clone() };
            }
            match members.index_of(name).map(|index| &members.member(index).engine) {
                // It has everything up to the set's position that concerns it (S2).
                Some(engine) => {
                    let applied = engine.applied().max(self.applied());
                    MemberState::Open { applied, durable: engine.durable() }
                }
                None => MemberState::Closed,
            }
        };
        let strange = members.routes.lost.iter().map(|lost| lost.name.as_str());
        let strange = strange.filter(|name| kind::find(&self.kinds, name).is_err());
        let names = self.kinds.iter().map(|kind| kind.name).chain(strange);
        let member =
            |name: &str| Member { name: name.to_owned(), is_default: name == self.default, state: state(name) };
        names.map(member).collect()
    }

    fn member_stats(&self, member: &str) -> Result<EngineStats> {
        self.named(member)?.engine.stats()
    }
}
