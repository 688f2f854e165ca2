//! `$group`: blocking. Groups that do not fit into memory go to sorted runs on disk, if the statement allows it: each run
//! has the groups of that time with what they had gathered, in order of their keys, and in the end the runs are merged.

use arbor_base::memory::{Allowance, Class};
use arbor_bson::{Doc, DocBuf};
use arbor_lang::stage::{Group, GroupState, Groups, Regrouped};
use arbor_lang::{Code, stop};
use arbor_store::{Merge, Sorter};

use super::{Detail, Operator, Row, Run, StageDoc, Tally};
use crate::{Error, Memory, Result};

pub(crate) struct GroupRows {
    input: Box<dyn Operator>,
    group: Group,
    state: State,
    memory: Memory,
    /// Memory of the groups that are not on disk.
    allowance: Allowance,
    spills: u64,
    bytes_most: usize,
    tally: Tally,
}

enum State {
    Collecting(Box<GroupState>),
    Done(Groups),
    Merging(Box<Merging>),
}

struct Merging {
    merge: Merge,
    /// The first row of the next group.
    ahead: Option<(Vec<u8>, Vec<u8>)>,
}

impl GroupRows {
    pub(crate) fn new(input: Box<dyn Operator>, group: &Group, memory: Memory) -> GroupRows {
        let state = State::Collecting(Box::new(GroupState::new(group)));
        let allowance = memory.allowance();
        GroupRows {
            input,
            group: group.clone(),
            state,
            memory,
            allowance,
            spills: 0,
            bytes_most: 0,
            tally: Tally::default(),
        }
    }

    /// Reads the input; returns the state that yields the results.
    fn collect(&mut self, run: &mut Run<'_>) -> Result<State> {
        let State::Collecting(groups) = &mut self.state else { return Err(Error::internal("$group has ended")) };
        let mut sorter: Option<Sorter> = None;
        while let Some(row) = self.input.next(run)? {
            run.tick()?;
            let before = groups.size_bytes();
            groups.add(row.input())?;
            run.tick_for(groups.size_bytes().saturating_sub(before))?;
            self.tally.passed_over();
            if !self.allowance.covers(groups.size_bytes()) {
                self.bytes_most = self.bytes_most.max(groups.size_bytes());
                let directory = self.memory.scratch.as_ref().ok_or_else(too_large)?;
                if groups.len() <= 1 {
                    return Err(group_too_large(&self.allowance, groups.size_bytes()));
                }
                let unbounded = || self.memory.budget.allowance(Class::Statement, usize::MAX);
                let sorter = sorter.get_or_insert_with(|| Sorter::new(directory, unbounded()));
                self.allowance.release();
                spill(groups, sorter)?;
            }
        }
        self.bytes_most = self.bytes_most.max(groups.size_bytes());
        match sorter {
            None => {
                let groups = std::mem::replace(&mut **groups, GroupState::new(&self.group));
                Ok(State::Done(groups.finish()?))
            }
            Some(mut sorter) => {
                spill(groups, &mut sorter)?;
                self.spills = sorter.spills();
                Ok(State::Merging(Box::new(Merging { merge: sorter.finish()?, ahead: None })))
            }
        }
    }
}

/// Moves all groups to a run of their own.
fn spill(groups: &mut GroupState, sorter: &mut Sorter) -> Result<()> {
    let run = sorter.spills();
    for (mut key, partial) in groups.drain() {
        stop::tick_for(key.len() + partial.as_bytes().len())?;
        // of equal keys, those that were gathered first come first
        key.extend_from_slice(&run.to_be_bytes());
        sorter.push((key, partial.into_bytes()))?;
    }
    Ok(sorter.spill()?)
}

impl Merging {
    fn next(&mut self, group: &Group, allowance: &mut Allowance) -> Result<Option<DocBuf>> {
        let first = match self.ahead.take() {
            Some(first) => first,
            None => match self.merge.next()? {
                Some(first) => first,
                None => return Ok(None),
            },
        };
        let mut whole = Regrouped::begin(group, Doc::trusted(&first.1))?;
        while let Some(next) = self.merge.next()? {
            if group_key(&next.0) != group_key(&first.0) {
                self.ahead = Some(next);
                break;
            }
            whole.absorb(Doc::trusted(&next.1))?;
            if !allowance.covers(whole.size_bytes()) {
                return Err(group_too_large(allowance, whole.size_bytes()));
            }
        }
        allowance.release();
        Ok(Some(whole.finish(group)))
    }
}

/// Without the number of the run.
fn group_key(key: &[u8]) -> &[u8] {
    key.split_last_chunk::<8>().map_or(key, |(key, _)| key)
}

/// One group alone does not fit: that its parts are on disk would not help.
fn group_too_large(allowance: &Allowance, bytes: usize) -> Error {
    let bytes_max = allowance.bytes_max(bytes);
    let message =
        format!("a group of $group used too much memory and cannot spill to disk. Memory limit: {bytes_max} bytes");
    Error::new(Code::EXCEEDED_MEMORY_LIMIT, message)
}

fn too_large() -> Error {
    let message = "Exceeded memory limit for $group, but didn't allow external sort. Pass allowDiskUse:true to opt in.";
    Error::new(Code::QUERY_EXCEEDED_MEMORY_LIMIT_NO_DISK_USE_ALLOWED, message)
}

impl Operator for GroupRows {
    fn next(&mut self, run: &mut Run<'_>) -> Result<Option<Row>> {
        if matches!(self.state, State::Collecting(_)) {
            self.state = self.collect(run)?;
        }
        let document = match &mut self.state {
            State::Done(groups) => groups.next(),
            State::Merging(merging) => {
                run.tick()?;
                merging.next(&self.group, &mut self.allowance)?
            }
            State::Collecting(_) => None,
        };
        if let Some(document) = &document {
            run.tick_for(document.as_bytes().len())?;
        }
        Ok(self.tally.answer(document.map(Row::computed).transpose()?))
    }

    fn suspend(&mut self, run: &mut Run<'_>) {
        if matches!(self.state, State::Collecting(_)) {
            self.input.suspend(run);
        }
    }

    fn is_done(&self) -> bool {
        matches!(&self.state, State::Done(groups) if groups.is_empty())
    }

    fn has_read_all(&self) -> bool {
        !matches!(self.state, State::Collecting(_))
    }

    fn explain(&self, detail: Detail) -> DocBuf {
        StageDoc::new("GROUP", detail)
            .tally(&self.tally)
            .counter("maxUsedMemBytes", self.bytes_most as u64)
            .disk_use(self.spills)
            .input(self.input.explain(detail))
    }
}
