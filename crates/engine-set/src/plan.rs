//! Routing of a group's operations. Everything that a member could refuse for the request's sake is found here, before
//! any member has changed.

use arbor_base::{Position, TreeId};
use arbor_engine::{Batch, Error, Op, Result, TreeOptions, limits};
use hashbrown::HashMap;

use crate::gate::Members;
use crate::routes::Index;

pub(crate) struct Plan<'b> {
    batches: &'b [Batch],
    /// By operation, over all batches; `None`: for no member.
    targets: Vec<Option<Index>>,
    /// The members that are concerned, the home last: it is concerned most often, so what another refuses is refused whole.
    pub concerned: Vec<Index>,
    /// Trees that begin (in which member) or end, in order.
    pub moves: Vec<(TreeId, Option<Index>)>,
    /// The batches can be handed on as they are.
    as_it_is: bool,
}

struct Planner<'m> {
    members: &'m Members,
    /// Changes of trees that are not there are left out up to here.
    lenient: Position,
    /// Changes of the routes by this group.
    moved: HashMap<TreeId, Option<Index>>,
}

impl<'b> Plan<'b> {
    pub(crate) fn of(batches: &'b [Batch], members: &Members, lenient: Position) -> Result<Plan<'b>> {
        let mut planner = Planner { members, lenient, moved: HashMap::new() };
        let mut plan = Plan { batches, targets: Vec::new(), concerned: Vec::new(), moves: Vec::new(), as_it_is: true };
        for batch in batches {
            for op in &batch.ops {
                let target = planner.target(op, batch.position)?;
                plan.add(op, target);
            }
        }
        plan.concerned.sort_unstable_by(|a, b| b.cmp(a));
        plan.validate();
        Ok(plan)
    }

    fn add(&mut self, op: &Op, target: Option<Index>) {
        self.targets.push(target);
        match op {
            Op::CreateTree { tree, options } => {
                self.moves.push((*tree, target));
                self.as_it_is &= options.engine().is_none();
            }
            Op::DropTree { tree } => self.moves.push((*tree, None)),
            _ => {}
        }
        match target {
            Some(index) if !self.concerned.contains(&index) => self.concerned.push(index),
            Some(_) => {}
            None => self.as_it_is = false,
        }
    }

    /// The home last, each member once, one target per operation.
    fn validate(&self) {
        assert!(self.concerned.is_sorted_by(|one, next| one > next), "the home comes last, no member twice");
        let ops = self.batches.iter().map(|batch| batch.ops.len()).sum::<usize>();
        assert_eq!(self.targets.len(), ops, "every operation has its target");
    }

    /// The last batch that goes to a member; zero where none does.
    pub(crate) fn last_of(&self, member: Index) -> Position {
        let (mut targets, mut last) = (self.targets.iter(), Position::ZERO);
        for batch in self.batches {
            if targets.by_ref().take(batch.ops.len()).filter(|target| **target == Some(member)).count() > 0 {
                last = batch.position;
            }
        }
        last
    }

    /// The unchanged batches, where one member takes all of them.
    pub(crate) fn whole(&self) -> Option<&'b [Batch]> {
        (self.as_it_is && self.concerned.len() <= 1).then_some(self.batches)
    }

    /// Returns a member's part: the batches that concern it.
    pub(crate) fn part(&self, member: Index) -> Vec<Batch> {
        let mut targets = self.targets.iter();
        let mut part = Vec::new();
        for batch in self.batches {
            let own = batch.ops.iter().zip(targets.by_ref()).filter(|(_, target)| **target == Some(member));
            let ops: Vec<Op> = own.map(|(op, _)| stripped(op)).collect();
            if !ops.is_empty() {
                part.push(Batch { position: batch.position, ops });
            }
        }
        part
    }

    /// The trees that are changed in some of the members.
    pub(crate) fn trees_in<'p>(&'p self, members: &'p [Index]) -> impl Iterator<Item = TreeId> + 'p {
        let ops = self.batches.iter().flat_map(|batch| &batch.ops).zip(&self.targets);
        ops.filter(|(_, target)| target.is_some_and(|target| members.contains(&target))).map(|(op, _)| op.tree())
    }
}

/// Members do not know the setting that names them.
pub(crate) fn stripped(op: &Op) -> Op {
    match op {
        Op::CreateTree { tree, options } => Op::CreateTree { tree: *tree, options: options.without_engine() },
        op => op.clone(),
    }
}

impl Planner<'_> {
    fn target(&mut self, op: &Op, position: Position) -> Result<Option<Index>> {
        let tree = op.tree();
        let found = self.member_of(tree);
        match op {
            Op::CreateTree { options, .. } => {
                let target = self.created_in(tree, found, options, position)?;
                self.moved.insert(tree, target);
                return Ok(target);
            }
            Op::DropTree { .. } => {
                self.moved.insert(tree, None);
                return Ok(found);
            }
            Op::Put { key, value, .. } => limits::check_row(key, value)?,
            Op::Update { key, update, .. } => limits::check_row(key, update)?,
            Op::Delete { .. } | Op::DeleteRange { .. } => {}
        }
        match found {
            Some(index) => self.check_update(op, index).map(|()| Some(index)),
            None if position <= self.lenient => Ok(None),
            None => Err(Error::UnknownTree(tree)),
        }
    }

    fn member_of(&self, tree: TreeId) -> Option<Index> {
        match self.moved.get(&tree) {
            Some(moved) => *moved,
            None => self.members.routes.trees.get(&tree).copied(),
        }
    }

    fn created_in(
        &self,
        tree: TreeId,
        found: Option<Index>,
        options: &TreeOptions,
        position: Position,
    ) -> Result<Option<Index>> {
        let target = match (options.engine(), found) {
            (None, found) => found.unwrap_or(0),
            (Some(name), found) => match (self.members.index_of(name), found) {
                (Some(named), Some(found)) if named != found => return Err(self.elsewhere(tree, found)),
                (Some(named), _) => named,
                (None, _) if position <= self.lenient => return Ok(None),
                (None, _) => return Err(not_a_member(name)),
            },
        };
        self.members.member(target).engine.check_options(&options.without_engine())?;
        Ok(Some(target))
    }

    fn elsewhere(&self, tree: TreeId, found: Index) -> Error {
        let reason = format!("tree {tree} lives in the engine {}", self.members.member(found).name);
        Error::InvalidOption { name: arbor_engine::ENGINE_SETTING.to_owned(), reason }
    }

    fn check_update(&self, op: &Op, member: Index) -> Result<()> {
        let member = self.members.member(member);
        if matches!(op, Op::Update { .. }) && !member.engine.capabilities().update_messages {
            return Err(Error::no_updates(member.name));
        }
        Ok(())
    }
}

pub(crate) fn not_a_member(name: &str) -> Error {
    let reason = "it is not among the engines of this directory (see arbor.engines)".to_owned();
    Error::Unavailable { engine: name.to_owned(), reason, tree: None }
}
