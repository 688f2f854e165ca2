//! One stage of `explain` in MongoDB's form.

use std::cell::Cell;
use std::time::Instant;

use arbor_bson::{ArrayBuf, DocBuf, ValueRef};
use arbor_lang::number::exact_i64;

const TIME: &str = "executionTimeMillisEstimate";

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Detail {
    /// The plan only.
    Plan,
    /// The plan and its execution statistics.
    Execution,
}

/// Counters of an operator so far.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Tally {
    pub works: u64,
    pub advanced: u64,
    pub ended: bool,
    /// Time of this stage alone, while the thread's stages are timed.
    nanos: u64,
}

thread_local! {
    /// Time of the last count of any stage of this thread. None: stages are not timed.
    static COUNTED: Cell<Option<Instant>> = const { Cell::new(None) };
}

/// Times the stages that this thread runs, as long as it lives. A stage takes the time between its own counts and the last one of any
/// stage before: the stages below count first, and so take theirs.
pub(crate) struct Timed(());

impl Timed {
    pub(crate) fn begin() -> Timed {
        COUNTED.set(Some(Instant::now()));
        Timed(())
    }
}

impl Drop for Timed {
    fn drop(&mut self) {
        COUNTED.set(None);
    }
}

impl Tally {
    /// Counts one result of `next` and passes it on.
    pub(crate) fn answer<T>(&mut self, row: Option<T>) -> Option<T> {
        self.works += 1;
        self.take_time();
        match row.is_some() {
            true => self.advanced += 1,
            false => self.ended = true,
        }
        row
    }

    /// Counts a row that was read and not passed on.
    pub(crate) fn passed_over(&mut self) {
        self.works += 1;
        self.take_time();
    }

    fn take_time(&mut self) {
        if let Some(last) = COUNTED.get() {
            let now = Instant::now();
            self.nanos += (now - last).as_nanos() as u64;
            COUNTED.set(Some(now));
        }
    }
}

pub(crate) struct StageDoc {
    doc: DocBuf,
    detail: Detail,
}

impl StageDoc {
    pub(crate) fn new(stage: &str, detail: Detail) -> StageDoc {
        StageDoc { doc: DocBuf::new().with("stage", stage), detail }
    }

    pub(crate) fn with<'v>(mut self, name: &str, value: impl Into<ValueRef<'v>>) -> StageDoc {
        self.doc.append(name, value);
        self
    }

    pub(crate) fn with_some<'v>(self, name: &str, value: Option<impl Into<ValueRef<'v>>>) -> StageDoc {
        match value {
            Some(value) => self.with(name, value),
            None => self,
        }
    }

    pub(crate) fn tally(mut self, tally: &Tally) -> StageDoc {
        if self.detail == Detail::Execution {
            let need_time = tally.works - tally.advanced - u64::from(tally.ended);
            for (name, count) in [
                ("nReturned", tally.advanced),
                (TIME, tally.nanos / 1_000_000),
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
    pub(crate) fn counter(self, name: &str, count: u64) -> StageDoc {
        if self.detail == Detail::Execution { self.with(name, int(count).as_ref()) } else { self }
    }

    /// Adds whether it spilled to disk, and how often.
    pub(crate) fn disk_use(self, spills: u64) -> StageDoc {
        let used = matches!(self.detail, Detail::Execution).then_some(spills > 0);
        self.with_some("usedDisk", used).counter("spills", spills)
    }

    pub(crate) fn input(self, stage: DocBuf) -> DocBuf {
        self.with_time_of(&stage).with("inputStage", &stage).finish()
    }

    pub(crate) fn inputs(self, stages: impl IntoIterator<Item = DocBuf>) -> DocBuf {
        let mut array = ArrayBuf::new();
        let mut stage_doc = self;
        for stage in stages {
            stage_doc = stage_doc.with_time_of(&stage);
            array.push(&stage);
        }
        stage_doc.with("inputStages", &array).finish()
    }

    /// Adds the time of an input: that of a stage has those of all below it.
    fn with_time_of(self, input: &DocBuf) -> StageDoc {
        let Some(below) = input.get(TIME).and_then(exact_i64).filter(|millis| *millis > 0) else { return self };
        let mut doc = DocBuf::new();
        for (name, value) in self.doc.as_doc() {
            match exact_i64(value).filter(|_| name == TIME) {
                Some(own) => doc.append(name, int((own + below) as u64).as_ref()),
                None => doc.append(name, value),
            };
        }
        StageDoc { doc, ..self }
    }

    pub(crate) fn finish(self) -> DocBuf {
        self.doc
    }
}

/// A count as the smallest integer type that holds it, as MongoDB returns counts.
pub(crate) fn int(count: u64) -> arbor_bson::Value {
    match i32::try_from(count) {
        Ok(small) => arbor_bson::Value::Int32(small),
        Err(_) => arbor_bson::Value::Int64(count as i64),
    }
}
