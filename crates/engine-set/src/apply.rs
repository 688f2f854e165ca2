//! A group of batches goes to the members that it concerns.
//!
//! | step | what fails | the group | afterwards |
//! |---|---|---|---|
//! | plan | a request that no engine could apply | nowhere | as before |
//! | first member | anything | nowhere | as before |
//! | a later member | no space | in some members | the whole group is handed in again, and they pass over it; until then its trees in them cannot be read |
//! | a later member | anything else, or a panic | in some members | the same, up to the next start |

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use arbor_base::{Position, paranoid};
use arbor_engine::{Batch, Error, Result};

use crate::gate::{Gate, MemberEngine, Members};
use crate::plan::Plan;
use crate::routes::{HOME, Index, PartialGroup};

/// Requires the writer lock. `lenient`: see [`Plan::of`].
pub(crate) fn apply(gate: &Gate, batches: &[Batch], lenient: Position) -> Result<()> {
    let position = gate.position();
    let (_, fresh) = batches.split_at(batches.partition_point(|batch| batch.position <= position));
    let Some(last) = fresh.last().map(|batch| batch.position) else { return Ok(()) };
    assert!(fresh.is_sorted_by(|one, next| one.position <= next.position), "batches come in the order of the log");
    let members = gate.read();
    let plan = Plan::of(fresh, &members, lenient)?;
    let alone = plan.concerned.len() <= 1 && plan.moves.is_empty() && members.routes.partial.is_none();
    if alone && !gate.has_waiting_readers() {
        let concerned = plan.concerned.first().map(|index| (*index, members.member(*index).clone()));
        drop(members);
        concerned.map_or(Ok(()), |(index, member)| hand_to(&member, &plan, index))?;
        debug_assert!(gate.position() == position, "only one group is applied at a time");
        gate.set_position(last);
    } else {
        drop(members);
        let mut members = gate.close();
        apply_behind(&mut members, &plan)?;
        gate.set_position(last);
    }
    Ok(())
}

/// Requires the closed gate.
fn apply_behind(members: &mut Members, plan: &Plan<'_>) -> Result<()> {
    let mut done = Vec::new();
    for &index in &plan.concerned {
        if let Err(error) = hand_to(members.member(index), plan, index) {
            members.note_partial_group(plan, &done, &error);
            return Err(error);
        }
        done.push(index);
    }
    if !plan.moves.is_empty() || members.routes.partial.is_some() {
        let routes = Arc::make_mut(&mut members.routes);
        routes.partial = None;
        for (tree, member) in &plan.moves {
            match member {
                Some(member) => routes.trees.insert(*tree, *member),
                None => routes.trees.remove(tree),
            };
        }
    }
    Ok(())
}

fn hand_to(member: &MemberEngine, plan: &Plan<'_>, index: Index) -> Result<()> {
    let handed = catch_unwind(AssertUnwindSafe(|| match plan.whole() {
        Some(batches) => member.engine.apply(batches),
        None => member.engine.apply(&plan.part(index)),
    }));
    let is_applied = || !matches!(handed, Ok(Ok(()))) || member.engine.applied() >= plan.last_of(index);
    paranoid!(is_applied(), "the engine {} does not have the group that it took", member.name);
    handed.unwrap_or_else(|_| Err(Error::Poisoned { context: format!("the engine {} panicked", member.name) }))
}

impl Members {
    /// Panics where members, routes and position do not fit together.
    pub(crate) fn validate(&self, gate: &Gate, several: bool) {
        assert!(!self.list.is_empty(), "the home is always a member");
        assert!(several || self.list.len() == 1, "{} members, and no more than the home are used", self.list.len());
        let names: Vec<&str> = self.list.iter().map(|member| member.name).collect();
        assert!(names.iter().enumerate().all(|(at, name)| self.index_of(name) == Some(at)), "{names:?} differ");
        assert!(self.routes.trees.values().all(|index| *index < self.list.len()), "each tree leads to a member");
        let position = gate.position();
        let is_ahead = |member: &&MemberEngine| member.engine.applied() > position;
        let ahead = self.list.iter().skip(1).find(is_ahead).map(|member| member.name);
        assert!(!several || ahead.is_none() || self.routes.partial.is_some(), "{ahead:?} is ahead of {position}");
    }

    fn note_partial_group(&mut self, plan: &Plan<'_>, done: &[Index], error: &Error) {
        if done.is_empty() {
            return;
        }
        let full = matches!(error, Error::OutOfSpace { .. });
        let context = format!("a transaction over several engines is not whole yet: {error}");
        let partial = PartialGroup { trees: plan.trees_in(done).collect(), full, context };
        assert!(!done.contains(&HOME), "the home is the last member of a group, so it is never ahead of another one");
        Arc::make_mut(&mut self.routes).partial = Some(partial);
    }
}
