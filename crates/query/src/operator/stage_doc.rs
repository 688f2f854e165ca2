//! One stage of `explain` in MongoDB's form.

use arbor_bson::{ArrayBuf, DocBuf, ValueRef};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Detail {
    /// The plan only.
    Plan,
    /// The plan and its execution statistics.
    Execution,
}

/// Counters of an operator so far.
#[derive(Clone, Copy, Debug, Default)]
pub struct Tally {
    pub works: u64,
    pub advanced: u64,
    pub ended: bool,
}

impl Tally {
    /// Counts one result of `next` and passes it on.
    pub fn answer<T>(&mut self, row: Option<T>) -> Option<T> {
        self.works += 1;
        match row.is_some() {
            true => self.advanced += 1,
            false => self.ended = true,
        }
        row
    }

    /// Counts a row that was read and not passed on.
    pub fn passed_over(&mut self) {
        self.works += 1;
    }
}

pub struct StageDoc {
    doc: DocBuf,
    detail: Detail,
}

impl StageDoc {
    pub fn new(stage: &str, detail: Detail) -> StageDoc {
        StageDoc { doc: DocBuf::new().with("stage", stage), detail }
    }

    pub fn with<'v>(mut self, name: &str, value: impl Into<ValueRef<'v>>) -> StageDoc {
        self.doc.append(name, value);
        self
    }

    pub fn with_some<'v>(self, name: &str, value: Option<impl Into<ValueRef<'v>>>) -> StageDoc {
        match value {
            Some(value) => self.with(name, value),
            None => self,
        }
    }

    pub fn tally(mut self, tally: &Tally) -> StageDoc {
        if self.detail == Detail::Execution {
            let need_time = tally.works - tally.advanced - u64::from(tally.ended);
            for (name, count) in [
                ("nReturned", tally.advanced),
                ("executionTimeMillisEstimate", 0),
                ("works", tally.works),
                ("advanced", tally.advanced),
                ("needTime", need_time),
                ("needYield", 0),
                ("saveState", 0),
                ("restoreState", 0),
                ("isEOF", u64::from(tally.ended)),
            ] {
                self.doc.append(name, int(count).as_ref());
            }
        }
        self
    }

    /// Adds a counter, which is shown only once the plan ran.
    pub fn counter(self, name: &str, count: u64) -> StageDoc {
        if self.detail == Detail::Execution { self.with(name, int(count).as_ref()) } else { self }
    }

    /// Adds whether it spilled to disk, and how often.
    pub fn disk_use(self, spills: u64) -> StageDoc {
        let used = matches!(self.detail, Detail::Execution).then_some(spills > 0);
        self.with_some("usedDisk", used).counter("spills", spills)
    }

    pub fn input(self, stage: DocBuf) -> DocBuf {
        self.with("inputStage", &stage).finish()
    }

    pub fn inputs(self, stages: impl IntoIterator<Item = DocBuf>) -> DocBuf {
        let mut array = ArrayBuf::new();
        for stage in stages {
            array.push(&stage);
        }
        self.with("inputStages", &array).finish()
    }

    pub fn finish(self) -> DocBuf {
        self.doc
    }
}

/// A count as the smallest integer type that holds it, as MongoDB returns counts.
pub fn int(count: u64) -> arbor_bson::Value {
    match i32::try_from(count) {
        Ok(small) => arbor_bson::Value::Int32(small),
        Err(_) => arbor_bson::Value::Int64(count as i64),
    }
}
