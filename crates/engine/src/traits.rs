//! The engine trait, shaped by what `txn` and `store` need.

use std::sync::Arc;

use arbor_base::{Position, Prefetch, TreeId};

use crate::{Batch, Error, Member, MemberState, Result, Snapshot, TreeOptions};

/// Returns once the log is durable up to a position, or the reason why it will not be.
pub type Barrier = Arc<dyn Fn(Position) -> Result<()> + Send + Sync>;

/// Meaning of update messages. Registered with an engine when it is opened; the same function is needed as long as the
/// engine holds messages. When it is called is the engine's choice, so it depends on nothing but its arguments, and its
/// rows stay within [`limits`](crate::limits).
pub trait UpdateFunction: Send + Sync {
    /// The row after the update; `None`: there is none. A message that cannot be applied leaves the row as it was.
    fn apply(&self, key: &[u8], row: Option<&[u8]>, update: &[u8]) -> Option<Vec<u8>>;

    /// One message that does to every row what `older` and then `newer` do, if there is such a message.
    fn combine(&self, older: &[u8], newer: &[u8]) -> Option<Vec<u8>> {
        let _ = (older, newer);
        None
    }
}

impl std::fmt::Debug for dyn UpdateFunction {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("UpdateFunction")
    }
}

pub trait Engine: Send + Sync + 'static {
    /// The name a user writes in `--storageEngine`.
    fn name(&self) -> &'static str;

    /// Position of the last applied batch (after `open`: of the prefix that survived). `Position::ZERO` when new.
    fn applied(&self) -> Position;

    /// Applies batches in log order. Called by one thread at a time; positions rise. All or nothing is visible to
    /// snapshots only at batch boundaries. After `Ok`, new snapshots show the batches. After an error none of the batches
    /// is applied. A batch at or below [`Engine::applied`] is passed over: its changes are in the state.
    /// Errors: `UnknownTree` for an operation on a tree that does not exist; a row beyond [`limits`](crate::limits);
    /// `OutOfSpace`, after which the same batches may be handed in again; `Poisoned` and `Io`, after which writing is over.
    fn apply(&self, batches: &[Batch]) -> Result<()>;

    fn snapshot(&self) -> Result<Arc<dyn Snapshot>>;

    /// Makes everything that is applied when the call begins durable and returns that position. Runs concurrently with
    /// `apply` and readers without stopping them.
    fn checkpoint(&self) -> Result<Position>;

    /// From now on no state becomes durable before `barrier` returned `Ok` for its position: an engine may apply what the
    /// log has not synced yet, but a crash must not leave it ahead of the log. Also holds for checkpoints that an engine
    /// makes by itself. If the barrier fails, so does the checkpoint, and the last one stays.
    fn set_barrier(&self, barrier: Barrier);

    /// Position up to which the state is durable, i.e. the log before it is not needed by this engine.
    fn durable(&self) -> Position;

    /// Fills an empty, existing tree from rows in strictly ascending key order. Not logged: the caller calls
    /// [`Engine::checkpoint`] before it logs anything that depends on the rows. After a crash before that checkpoint the
    /// tree is empty or whole.
    fn bulk_load(&self, tree: TreeId, rows: &mut dyn Iterator<Item = (Vec<u8>, Vec<u8>)>) -> Result<()>;

    /// Checks that [`Op::CreateTree`](crate::Op) takes these options. Asked before a change is logged: what is in the log
    /// must apply. Errors: `InvalidOption`, as `apply` returns for the same options.
    fn check_options(&self, options: &TreeOptions) -> Result<()> {
        options.check_names(self.name(), &[])
    }

    /// The trees that exist after the last applied batch, in order.
    fn trees(&self) -> Result<Vec<TreeId>>;

    /// Starts to read what a read of this key in the latest state would wait for first. A hint: nothing depends on it.
    fn prefetch(&self, tree: TreeId, key: &[u8]) -> Prefetch {
        let _ = (tree, key);
        Prefetch::Unknown
    }

    /// Sleeps as long as writers have to be slowed. Called by the thread that applies, before [`Engine::apply`] and while
    /// it holds no lock that readers wait for.
    fn wait_for_room(&self) {}

    /// Rewrites a tree so that it takes as little space as its rows need, and returns the bytes that went back to the file
    /// system. Runs concurrently with readers and `apply`; ends early, with what it has done, when `stop` returns true.
    /// Errors: `Unsupported` where the engine has no such thing.
    fn compact(&self, tree: TreeId, stop: &dyn Fn() -> bool) -> Result<u64> {
        let _ = (tree, stop);
        Err(Error::Unsupported { engine: self.name(), what: "compact" })
    }

    /// Changes a setting of the running engine by the name that its documentation gives (`cacheBytes` is the memory of its
    /// cache, everywhere). Errors: `InvalidOption` for a name or value it does not take.
    fn set_parameter(&self, name: &str, value: &str) -> Result<()> {
        let _ = value;
        let reason = format!("the engine {} cannot change it while it runs", self.name());
        Err(Error::InvalidOption { name: name.to_owned(), reason })
    }

    /// Returns the present value of what [`Engine::set_parameter`] changes; `None`: unknown, or not open.
    fn parameter(&self, name: &str) -> Option<String> {
        let _ = name;
        None
    }

    fn stats(&self) -> Result<EngineStats>;
    fn tree_stats(&self, tree: TreeId) -> Result<TreeStats>;
    fn capabilities(&self) -> Capabilities;

    /// Panics where the engine breaks one of its own rules. For tests: it may visit all that is in memory, and reads no files.
    fn validate(&self) {}

    // What only an engine that is made of several implements differently.

    /// Returns true if the engine that a tree lives in stores update messages as they are; others make rows of them, for
    /// which they read.
    fn stores_updates(&self, tree: TreeId) -> bool {
        let _ = tree;
        self.capabilities().update_messages
    }

    /// The engine that a tree lives in.
    fn engine_of(&self, tree: TreeId) -> &'static str {
        let _ = tree;
        self.name()
    }

    /// Checks that changes of the tree would be applied now. Asked before they are logged. Errors: `Unavailable`.
    fn check_tree(&self, tree: TreeId) -> Result<()> {
        let _ = tree;
        Ok(())
    }

    /// Position of the last batch of which any part is applied; after [`Engine::applied`] only until recovery has ended.
    fn applied_in_part(&self) -> Position {
        self.applied()
    }

    /// The engines that this one is made of, with those that it may take in.
    fn members(&self) -> Vec<Member> {
        let (applied, durable) = (self.applied(), self.durable());
        vec![Member { name: self.name().to_owned(), is_default: true, state: MemberState::Open { applied, durable } }]
    }

    /// Returns the statistics of one open member.
    fn member_stats(&self, member: &str) -> Result<EngineStats> {
        let _ = member;
        self.stats()
    }
}

/// Engine-wide statistics. `counters` are engine-specific with stable names.
#[derive(Clone, Debug, Default)]
pub struct EngineStats {
    pub disk_bytes: u64,
    /// Bytes inside the files that hold nothing and can be used again.
    pub free_bytes: u64,
    pub cache_bytes: u64,
    pub counters: Vec<(&'static str, u64)>,
}

#[derive(Clone, Copy, Debug, Default)]
pub struct TreeStats {
    pub keys: u64,
    /// Bytes of keys and values before compression, when the engine knows them.
    pub data_bytes: u64,
    pub disk_bytes: u64,
    pub free_bytes: u64,
}

#[derive(Clone, Debug, Default)]
pub struct Capabilities {
    /// Takes update messages: it knows how, and was opened with an [`UpdateFunction`].
    pub update_messages: bool,
    /// `TreeStats` count rows exactly; else `keys` and `data_bytes` are estimates.
    pub exact_counts: bool,
    /// As long as a snapshot is held, no space is used again that later states have freed.
    pub held_snapshots_keep_space: bool,
    /// Once this much was written after a held snapshot, what it shows takes memory that the writer needs. `None`: the memory
    /// of the engine does not depend on snapshots.
    pub held_snapshot_bytes_max: Option<u64>,
    /// Range deletes cost much less than deleting each key.
    pub cheap_range_delete: bool,
    pub compression: &'static [&'static str],
}

/// A shared engine is an engine.
impl<E: Engine + ?Sized> Engine for Arc<E> {
    fn name(&self) -> &'static str {
        (**self).name()
    }

    fn applied(&self) -> Position {
        (**self).applied()
    }

    fn apply(&self, batches: &[Batch]) -> Result<()> {
        (**self).apply(batches)
    }

    fn snapshot(&self) -> Result<Arc<dyn Snapshot>> {
        (**self).snapshot()
    }

    fn checkpoint(&self) -> Result<Position> {
        (**self).checkpoint()
    }

    fn set_barrier(&self, barrier: Barrier) {
        (**self).set_barrier(barrier)
    }

    fn durable(&self) -> Position {
        (**self).durable()
    }

    fn bulk_load(&self, tree: TreeId, rows: &mut dyn Iterator<Item = (Vec<u8>, Vec<u8>)>) -> Result<()> {
        (**self).bulk_load(tree, rows)
    }

    fn check_options(&self, options: &TreeOptions) -> Result<()> {
        (**self).check_options(options)
    }

    fn trees(&self) -> Result<Vec<TreeId>> {
        (**self).trees()
    }

    fn prefetch(&self, tree: TreeId, key: &[u8]) -> Prefetch {
        (**self).prefetch(tree, key)
    }

    fn wait_for_room(&self) {
        (**self).wait_for_room()
    }

    fn compact(&self, tree: TreeId, stop: &dyn Fn() -> bool) -> Result<u64> {
        (**self).compact(tree, stop)
    }

    fn set_parameter(&self, name: &str, value: &str) -> Result<()> {
        (**self).set_parameter(name, value)
    }

    fn parameter(&self, name: &str) -> Option<String> {
        (**self).parameter(name)
    }

    fn stats(&self) -> Result<EngineStats> {
        (**self).stats()
    }

    fn tree_stats(&self, tree: TreeId) -> Result<TreeStats> {
        (**self).tree_stats(tree)
    }

    fn capabilities(&self) -> Capabilities {
        (**self).capabilities()
    }

    fn validate(&self) {
        (**self).validate()
    }

    fn stores_updates(&self, tree: TreeId) -> bool {
        (**self).stores_updates(tree)
    }

    fn engine_of(&self, tree: TreeId) -> &'static str {
        (**self).engine_of(tree)
    }

    fn check_tree(&self, tree: TreeId) -> Result<()> {
        (**self).check_tree(tree)
    }

    fn applied_in_part(&self) -> Position {
        (**self).applied_in_part()
    }

    fn members(&self) -> Vec<Member> {
        (**self).members()
    }

    fn member_stats(&self, member: &str) -> Result<EngineStats> {
        (**self).member_stats(member)
    }
}
