//! Stages whose rows come from several rows, or from none (`arbor_lang::stage::Flow`).

use arbor_base::memory::Allowance;
use arbor_bson::DocBuf;
use arbor_lang::stage::{Flow, FlowStage};

use super::{Detail, Operator, Row, Run, StageDoc, Tally};
use crate::Result;

pub(crate) struct FlowRows {
    input: Box<dyn Operator>,
    name: &'static str,
    flow: Box<dyn Flow>,
    allowance: Allowance,
    fed: u64,
    ended: bool,
    bytes_most: usize,
    tally: Tally,
}

impl FlowRows {
    pub(crate) fn new(input: Box<dyn Operator>, stage: &dyn FlowStage, allowance: Allowance) -> FlowRows {
        let (name, flow) = (stage.name(), stage.start());
        FlowRows { input, name, flow, allowance, fed: 0, ended: false, bytes_most: 0, tally: Tally::default() }
    }

    fn feed(&mut self, run: &mut Run<'_>) -> Result<()> {
        match self.input.next(run)? {
            Some(row) => {
                if self.fed == 0
                    && let Some(rows) = self.input.rows_in_all()
                {
                    self.flow.expect(rows);
                }
                self.fed += 1;
                self.tally.passed_over();
                self.flow.feed(row.document)?;
                let bytes = self.flow.size_bytes();
                self.bytes_most = self.bytes_most.max(bytes);
                if !self.allowance.covers(bytes) {
                    return Err(self.flow.too_large(self.allowance.bytes_max(bytes) as usize).into());
                }
            }
            None => {
                self.flow.end()?;
                self.ended = true;
            }
        }
        Ok(())
    }
}

impl Operator for FlowRows {
    fn next(&mut self, run: &mut Run<'_>) -> Result<Option<Row>> {
        loop {
            run.tick()?;
            if let Some(document) = self.flow.next()? {
                return Ok(self.tally.answer(Some(Row::computed(document)?)));
            }
            if self.ended {
                return Ok(self.tally.answer(None));
            }
            self.feed(run)?;
        }
    }

    fn suspend(&mut self, run: &mut Run<'_>) {
        if !self.ended {
            self.input.suspend(run);
        }
    }

    fn can_change_snapshot(&self) -> bool {
        self.input.can_change_snapshot()
    }

    fn explain(&self, detail: Detail) -> DocBuf {
        let stage = StageDoc::new(self.name, detail).tally(&self.tally);
        stage.counter("maxUsedMemBytes", self.bytes_most as u64).input(self.input.explain(detail))
    }
}
