//! Union of inputs; a document that several of them find is returned once.

use std::collections::HashSet;

use arbor_bson::DocBuf;

use super::stage_doc::int;
use super::{Detail, Operator, Row, Run, StageDoc, Tally};
use crate::Result;

pub(crate) struct Or {
    inputs: Vec<Box<dyn Operator>>,
    current: usize,
    seen: HashSet<Vec<u8>>,
    dropped: u64,
    tally: Tally,
}

impl Or {
    pub(crate) fn new(inputs: Vec<Box<dyn Operator>>) -> Or {
        Or { inputs, current: 0, seen: HashSet::new(), dropped: 0, tally: Tally::default() }
    }
}

impl Operator for Or {
    fn next(&mut self, run: &mut Run<'_>) -> Result<Option<Row>> {
        while let Some(input) = self.inputs.get_mut(self.current) {
            match input.next(run)? {
                None => self.current += 1,
                Some(row) if self.seen.contains(&row.id_key) => {
                    self.dropped += 1;
                    self.tally.passed_over();
                }
                Some(row) => {
                    self.seen.insert(row.id_key.clone());
                    return Ok(self.tally.answer(Some(row)));
                }
            }
        }
        Ok(self.tally.answer(None))
    }

    fn suspend(&mut self, run: &mut Run<'_>) {
        if let Some(input) = self.inputs.get_mut(self.current) {
            input.suspend(run);
        }
    }

    fn can_change_snapshot(&self) -> bool {
        self.inputs.iter().all(|input| input.can_change_snapshot())
    }

    fn explain(&self, detail: Detail) -> DocBuf {
        let mut stage = StageDoc::new("OR", detail).tally(&self.tally);
        if detail == Detail::Execution {
            stage = stage.with("dupsTested", int(self.tally.advanced + self.dropped).as_ref());
            stage = stage.with("dupsDropped", int(self.dropped).as_ref());
        }
        stage.inputs(self.inputs.iter().map(|input| input.explain(detail)))
    }
}
