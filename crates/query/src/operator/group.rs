//! `$group`: blocking; all groups are in memory.

use std::vec::IntoIter;

use arbor_bson::DocBuf;
use arbor_lang::Code;
use arbor_lang::stage::{Group, GroupState};

use super::{Detail, Operator, Row, Run, StageDoc, Tally};
use crate::{Error, Result};

pub struct GroupRows {
    input: Box<dyn Operator>,
    state: State,
    bytes_max: usize,
    tally: Tally,
}

enum State {
    Collecting(Box<GroupState>),
    Done(IntoIter<DocBuf>),
}

/// Documents between two looks at the memory held.
const ROWS_PER_CHECK: u64 = 64;

impl GroupRows {
    pub fn new(input: Box<dyn Operator>, group: &Group, bytes_max: usize) -> GroupRows {
        let state = State::Collecting(Box::new(GroupState::new(group)));
        GroupRows { input, state, bytes_max, tally: Tally::default() }
    }

    fn collect(&mut self, run: &mut Run<'_>) -> Result<()> {
        let State::Collecting(groups) = &mut self.state else { return Ok(()) };
        while let Some(row) = self.input.next(run)? {
            run.tick()?;
            groups.add(row.document.as_doc())?;
            self.tally.passed_over();
            if self.tally.works.is_multiple_of(ROWS_PER_CHECK) && groups.size_bytes() > self.bytes_max {
                return Err(too_large());
            }
        }
        Ok(())
    }
}

fn too_large() -> Error {
    let message = "PlanExecutor error during aggregation :: caused by :: Exceeded memory limit for $group, but didn't \
                   allow external sort. Pass allowDiskUse:true to opt in.";
    Error::new(Code::QUERY_EXCEEDED_MEMORY_LIMIT_NO_DISK_USE_ALLOWED, message)
}

impl Operator for GroupRows {
    fn next(&mut self, run: &mut Run<'_>) -> Result<Option<Row>> {
        if matches!(self.state, State::Collecting(_)) {
            self.collect(run)?;
            let ended = State::Done(Vec::new().into_iter());
            if let State::Collecting(groups) = std::mem::replace(&mut self.state, ended) {
                self.state = State::Done(groups.finish()?.collect::<Vec<_>>().into_iter());
            }
        }
        let row = match &mut self.state {
            State::Done(documents) => documents.next().map(|document| Row { document, id_key: Vec::new() }),
            State::Collecting(_) => None,
        };
        Ok(self.tally.answer(row))
    }

    fn suspend(&mut self, run: &mut Run<'_>) {
        if matches!(self.state, State::Collecting(_)) {
            self.input.suspend(run);
        }
    }

    fn is_done(&self) -> bool {
        matches!(&self.state, State::Done(documents) if documents.len() == 0)
    }

    fn explain(&self, detail: Detail) -> DocBuf {
        StageDoc::new("GROUP", detail).tally(&self.tally).input(self.input.explain(detail))
    }
}
