//! Operations of another member of a replica set, as this one stores them.
//!
//! The log says in which engine its writer has created a tree, and with which settings. This member may have another build,
//! another home, or be started with an override. So before a group is applied, its operations are adapted:
//!
//! | operation | here |
//! |---|---|
//! | `CreateTree` of a tree that exists | it stays in the engine where it is |
//! | `CreateTree` that names an engine of this build | that engine, which joins first; with an override the overriding one |
//! | `CreateTree` that names another engine | the default |
//! | settings that the engine refuses | left out, with one warning |
//! | `Update` in an engine without update messages | the row that the update function makes of the present one |
//!
//! On the member that wrote the record nothing of this happens: it has checked engine and settings before the log. A server that is no
//! member of a set does not adapt at all.

use std::borrow::Cow;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use arbor_base::{Position, TreeId, sometimes};
use arbor_engine::{Batch, Engine, Error, Op, Result, Snapshot, TreeOptions, UpdateFunction};
use hashbrown::HashMap;

use crate::kind;
use crate::routes::FIXED_TREES_END;
use crate::set::EngineSet;

/// Receives a tree's settings that are not those of this member, as text.
pub type WarnOfSettings = Arc<dyn Fn(&str) + Send + Sync>;

/// Behaviour that a set is opened with.
#[derive(Clone, Default)]
pub struct SetOptions {
    /// Engines and settings that are not those of this member are adapted. Without it they are errors.
    pub adapts: bool,
    /// The engine of all trees that this member creates from now on, whatever the log says. Requires `adapts`.
    pub storage_engine_override: Option<&'static str>,
    /// Meaning of update messages, for engines that take none.
    pub updates: Option<Arc<dyn UpdateFunction>>,
    /// Called once with the first tree that is stored otherwise than its record says.
    pub on_other_settings: Option<WarnOfSettings>,
}

impl EngineSet {
    /// Returns true if the batches may have operations that this member stores otherwise.
    pub(crate) fn may_differ(&self, batches: &[Batch]) -> bool {
        let any = |is: fn(&Op) -> bool| batches.iter().flat_map(|batch| &batch.ops).any(is);
        any(|op| matches!(op, Op::CreateTree { .. })) || any(|op| matches!(op, Op::Update { .. })) && self.makes_rows()
    }

    /// Returns true if there is an engine for which update messages become rows. Batches that create trees may add one.
    fn makes_rows(&self) -> bool {
        self.options.updates.is_some()
            && self.gate.read().list.iter().any(|member| !member.engine.capabilities().update_messages)
    }

    /// The batches as this member stores them. Requires that no other thread applies, and that the writer lock is free.
    pub(crate) fn adapted<'b>(&self, batches: &'b [Batch]) -> Result<Cow<'b, [Batch]>> {
        let applied = self.applied();
        let mut adapter = Adapter { set: self, applied, created: HashMap::new(), rows: Rows::default() };
        let mut adapted: Option<Vec<Batch>> = None;
        for (at, batch) in batches.iter().enumerate() {
            for (index, op) in batch.ops.iter().enumerate() {
                let Some(other) = adapter.op(op, batch.position)? else { continue };
                let all = adapted.get_or_insert_with(|| batches.to_vec());
                let place = all.get_mut(at).and_then(|batch| batch.ops.get_mut(index));
                *place.expect("the copy has every operation") = other;
            }
        }
        Ok(adapted.map_or(Cow::Borrowed(batches), Cow::Owned))
    }

    /// The engine that a new tree comes to, and whether it is the one that the record names.
    fn engine_for(&self, tree: TreeId, named: Option<&str>) -> Result<Option<(&'static str, bool)>> {
        if tree.0 < FIXED_TREES_END {
            return Ok(None);
        }
        if let Some(other) = self.options.storage_engine_override {
            return Ok(Some((other, named == Some(other))));
        }
        let Some(name) = named else { return Ok(None) };
        if self.is_lost(name) {
            // Its trees are out of reach here, whatever the record says.
            return Ok(None);
        }
        Ok(Some(match kind::find(&self.kinds, name) {
            Ok(kind) => (kind.name, true),
            Err(_) if self.is_lost(self.default) => (self.home_name(), false),
            Err(_) => (self.default, false),
        }))
    }

    /// The engine of a tree that exists already.
    fn found_in(&self, tree: TreeId, named: Option<&str>) -> Result<Option<&'static str>> {
        if self.is_several() {
            return Ok(self.place_of(tree));
        }
        let home = self.home_name();
        let elsewhere = self.options.storage_engine_override.or(named).is_some_and(|name| name != home);
        let is_here = elsewhere && self.home.trees()?.binary_search(&tree).is_ok();
        Ok(is_here.then_some(home))
    }

    pub(crate) fn is_lost(&self, name: &str) -> bool {
        self.gate.read().routes.lost.iter().any(|lost| lost.name == name)
    }

    /// Returns the settings that the engine takes, if it refuses some of them.
    fn accepted(&self, engine: &dyn Engine, options: &TreeOptions) -> Result<Option<TreeOptions>> {
        let mut left = options.without_engine();
        let given = left.settings.len();
        for _ in 0..=given {
            match engine.check_options(&left) {
                Ok(()) => break,
                Err(Error::InvalidOption { name, .. }) => {
                    let before = left.settings.len();
                    left.settings.retain(|(setting, _)| *setting != name);
                    if left.settings.len() == before {
                        left.settings.clear();
                    }
                }
                Err(error) => return Err(error),
            }
        }
        assert!(left.settings.len() <= given, "settings were added to a tree");
        Ok((left.settings.len() < given).then_some(left))
    }

    fn warn_once(&self, tree: TreeId, what: &str) {
        if !self.warned.swap(true, Ordering::SeqCst) {
            let text = format!("the set's tree {tree} is stored with other settings on this member: {what}");
            self.options.on_other_settings.iter().for_each(|warn| warn(&text));
        }
    }
}

struct Adapter<'s> {
    set: &'s EngineSet,
    /// Batches up to here are passed over.
    applied: Position,
    /// Engines of the trees that the group creates.
    created: HashMap<TreeId, Option<&'static str>>,
    rows: Rows,
}

impl Adapter<'_> {
    /// `None`: as it is.
    fn op(&mut self, op: &Op, position: Position) -> Result<Option<Op>> {
        if position <= self.applied {
            return Ok(None);
        }
        let other = match op {
            Op::CreateTree { tree, options } => self.create(*tree, options)?,
            Op::Update { tree, key, update } => self.update(*tree, key, update)?,
            _ => None,
        };
        if let Op::DropTree { tree } = op {
            self.created.remove(tree);
        }
        if self.set.options.updates.is_some() {
            self.rows.note(other.as_ref().unwrap_or(op));
        }
        Ok(other)
    }

    fn create(&mut self, tree: TreeId, options: &TreeOptions) -> Result<Option<Op>> {
        let set = self.set;
        if !set.options.adapts {
            return Ok(None);
        }
        let chosen = match set.found_in(tree, options.engine())? {
            Some(name) => Some((name, options.engine().is_none_or(|named| named == name))),
            None => set.engine_for(tree, options.engine())?,
        };
        let engine = match chosen {
            Some((name, _)) => set.member(name)?,
            None if options.engine().is_some() => return Ok(None),
            None => set.home.clone(),
        };
        self.created.insert(tree, chosen.map(|(name, _)| name));
        let fewer = set.accepted(&*engine, options)?;
        let is_named = chosen.is_none_or(|(_, is_named)| is_named);
        if is_named && fewer.is_none() {
            return Ok(None);
        }
        sometimes!("engine-set: a tree is stored otherwise than its record says");
        if let Some(fewer) = &fewer {
            let dropped = options.without_engine().settings.into_iter().filter(|one| !fewer.settings.contains(one));
            let dropped: Vec<String> = dropped.map(|(name, value)| format!("{name}={value}")).collect();
            set.warn_once(tree, &format!("the engine {} does not take {}", engine.name(), dropped.join(", ")));
        }
        let options = fewer.unwrap_or_else(|| options.without_engine());
        Ok(Some(Op::CreateTree {
            tree,
            options: chosen.map_or(options.clone(), |(name, _)| options.with_engine(name)),
        }))
    }

    fn update(&mut self, tree: TreeId, key: &[u8], update: &[u8]) -> Result<Option<Op>> {
        let Some(function) = &self.set.options.updates else { return Ok(None) };
        let created = self.created.get(&tree).copied();
        let name = created.unwrap_or_else(|| self.set.place_of(tree)).unwrap_or(self.set.home_name());
        let engine = self.set.member(name)?;
        if engine.capabilities().update_messages {
            return Ok(None);
        }
        let row = match self.rows.row(tree, key) {
            Some(row) => row.map(Cow::Borrowed),
            None if created.is_some() && self.set.place_of(tree).is_none() => None,
            None => self.rows.stored(name, &engine, tree, key)?.map(Cow::Owned),
        };
        let (tree, key) = (tree, key.to_vec());
        Ok(Some(match function.apply(&key, row.as_deref(), update) {
            Some(value) => Op::Put { tree, key, value },
            None => Op::Delete { tree, key },
        }))
    }
}

/// Number of the operation, and the row that it leaves.
type Changed = (usize, Option<Vec<u8>>);
/// Number of the operation, the tree, and the range.
type DeletedRange = (usize, TreeId, Vec<u8>, Option<Vec<u8>>);

/// The rows as the operations so far leave them.
#[derive(Default)]
struct Rows {
    changed: HashMap<(TreeId, Vec<u8>), Changed>,
    ranges: Vec<DeletedRange>,
    dropped: HashMap<TreeId, usize>,
    snapshots: HashMap<&'static str, Arc<dyn Snapshot>>,
    count: usize,
}

impl Rows {
    fn note(&mut self, op: &Op) {
        self.count += 1;
        let at = self.count;
        match op {
            Op::Put { tree, key, value } => {
                self.changed.insert((*tree, key.clone()), (at, Some(value.clone())));
            }
            Op::Delete { tree, key } => {
                self.changed.insert((*tree, key.clone()), (at, None));
            }
            Op::DeleteRange { tree, from, to } => self.ranges.push((at, *tree, from.clone(), to.clone())),
            Op::DropTree { tree } => {
                self.dropped.insert(*tree, at);
            }
            // The engine takes the update as it is, so no other one of this tree is adapted.
            Op::Update { .. } | Op::CreateTree { .. } => {}
        }
    }

    /// `None`: no operation so far has changed the row.
    fn row(&self, tree: TreeId, key: &[u8]) -> Option<Option<&[u8]>> {
        let row = self.changed.get(&(tree, key.to_vec()));
        let is_in = |from: &[u8], to: &Option<Vec<u8>>| from <= key && to.as_deref().is_none_or(|to| key < to);
        let ranges = self.ranges.iter().filter(|(_, of, from, to)| *of == tree && is_in(from, to));
        let removed = ranges.map(|(at, ..)| *at).chain(self.dropped.get(&tree).copied()).max();
        match (row, removed) {
            (Some((at, row)), removed) if removed.is_none_or(|removed| removed < *at) => Some(row.as_deref()),
            (_, Some(_)) => Some(None),
            (_, None) => None,
        }
    }

    /// A tree that the engine does not have (any more) has no rows.
    fn stored(
        &mut self,
        name: &'static str,
        engine: &Arc<dyn Engine>,
        tree: TreeId,
        key: &[u8],
    ) -> Result<Option<Vec<u8>>> {
        let snapshot = match self.snapshots.entry(name) {
            hashbrown::hash_map::Entry::Occupied(known) => known.into_mut(),
            hashbrown::hash_map::Entry::Vacant(new) => new.insert(when_there_is_room(|| engine.snapshot())?),
        };
        match when_there_is_room(|| snapshot.get(tree, key)) {
            Ok(row) => Ok(row.map(Cow::into_owned)),
            Err(Error::UnknownTree(_)) => Ok(None),
            Err(error) => Err(error),
        }
    }
}

/// Reads for a group that is in the log, so that a full cache must not refuse it.
fn when_there_is_room<T>(read: impl Fn() -> Result<T>) -> Result<T> {
    loop {
        // ends: a read that fails holds nothing of the cache
        match read() {
            Err(Error::CacheFull { .. }) => {}
            outcome => return outcome,
        }
    }
}
