//! `$sample`: `n` random documents, each set equally likely (a reservoir over the whole input).

use std::vec::IntoIter;

use arbor_bson::DocBuf;
use rand::RngExt;

use super::{Detail, Operator, Row, Run, StageDoc, Tally};
use crate::Result;

pub(crate) struct Sample {
    input: Box<dyn Operator>,
    size: usize,
    chosen: Option<IntoIter<Row>>,
    tally: Tally,
}

impl Sample {
    pub(crate) fn new(input: Box<dyn Operator>, size: u64) -> Sample {
        Sample { input, size: usize::try_from(size).unwrap_or(usize::MAX), chosen: None, tally: Tally::default() }
    }

    fn choose(&mut self, run: &mut Run<'_>) -> Result<Vec<Row>> {
        let mut random = rand::rng();
        let mut chosen: Vec<Row> = Vec::new();
        let mut seen = 0;
        while let Some(row) = self.input.next(run)? {
            run.tick()?;
            seen += 1;
            // a place in a random order of all rows seen; rows that fall past the sample's end are dropped
            let place = random.random_range(0..seen);
            if chosen.len() < self.size {
                chosen.push(row);
                let last = chosen.len() - 1;
                chosen.swap(place, last);
            } else if place < self.size {
                chosen[place] = row;
            }
        }
        Ok(chosen)
    }
}

impl Operator for Sample {
    fn next(&mut self, run: &mut Run<'_>) -> Result<Option<Row>> {
        let chosen = match &mut self.chosen {
            Some(chosen) => chosen,
            None => {
                let rows = self.choose(run)?;
                self.chosen.insert(rows.into_iter())
            }
        };
        let row = chosen.next();
        Ok(self.tally.answer(row))
    }

    fn suspend(&mut self, run: &mut Run<'_>) {
        if self.chosen.is_none() {
            self.input.suspend(run);
        }
    }

    fn is_done(&self) -> bool {
        self.chosen.as_ref().is_some_and(|chosen| chosen.len() == 0)
    }

    fn explain(&self, detail: Detail) -> DocBuf {
        StageDoc::new("SAMPLE", detail).tally(&self.tally).input(self.input.explain(detail))
    }
}
