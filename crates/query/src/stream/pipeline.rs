//! The stages after `$changeStream`: each takes one event and gives one or none.

use arbor_bson::{ArrayBuf, DocBuf, ValueRef};
use arbor_lang::stage::Flow;
use arbor_lang::{Code, Context, Stage, text};

use super::{NAME, location};
use crate::stage_spec::only_field;
use crate::{Error, Result};

const SPLIT: &str = "$changeStreamSplitLargeEvent";

/// Stages that process one event at a time.
const ALLOWED: &[&str] =
    &["$addFields", "$match", "$project", "$redact", "$replaceRoot", "$replaceWith", "$set", "$unset", SPLIT];

pub struct Stages {
    stages: Vec<EventStage>,
    /// Events too large for one document are returned in fragments.
    pub splits: bool,
}

enum EventStage {
    Pure(Stage),
    Redact(Box<dyn Flow>),
}

impl Stages {
    pub fn parse<'s>(stages: impl Iterator<Item = ValueRef<'s>>, context: &Context) -> Result<Stages> {
        let mut stages: Vec<ValueRef<'s>> = stages.collect();
        let all: ArrayBuf = stages.iter().copied().collect();
        Stage::check_names(all.as_array())?;
        for (at, stage) in stages.iter().enumerate() {
            check_allowed(*stage, at + 1 == stages.len())?;
        }
        let splits = matches!(stages.last().copied().and_then(only_field), Some((SPLIT, _)));
        if splits {
            stages.pop();
        }
        let rest: ArrayBuf = stages.into_iter().collect();
        let stages = Stage::parse_pipeline(rest.as_array(), context)?.into_iter().map(|stage| match stage {
            Stage::Flow(stage) => EventStage::Redact(stage.start()),
            other => EventStage::Pure(other),
        });
        Ok(Stages { stages: stages.collect(), splits })
    }

    /// None: the event is not shown.
    pub fn apply(&mut self, event: DocBuf) -> Result<Option<DocBuf>> {
        let mut event = event;
        for stage in &mut self.stages {
            event = match stage {
                EventStage::Pure(Stage::Match(filter)) => match filter.matches(event.as_doc())? {
                    true => event,
                    false => return Ok(None),
                },
                EventStage::Pure(Stage::Map(map)) => map.apply(event.as_doc())?,
                EventStage::Pure(other) => return Err(not_permitted(other.name())),
                EventStage::Redact(flow) => {
                    flow.feed(event)?;
                    match flow.next()? {
                        Some(event) => event,
                        None => return Ok(None),
                    }
                }
            };
        }
        Ok(Some(event))
    }
}

fn check_allowed(stage: ValueRef<'_>, is_last: bool) -> Result<()> {
    // what is no stage at all is refused where stages are parsed
    let Some((name, spec)) = only_field(stage) else { return Ok(()) };
    match name {
        NAME => Err(location(40602, "$changeStream is only valid as the first stage in a pipeline")),
        SPLIT if !matches!(spec, ValueRef::Document(spec) if spec.is_empty()) => {
            let found = text::shell(spec);
            Err(location(7182800, format!("{SPLIT} spec should be an empty object, but found {found}")))
        }
        SPLIT if !is_last => Err(location(7182802, format!("{SPLIT} must be the last stage in the pipeline"))),
        name if ALLOWED.contains(&name) => Ok(()),
        name => Err(not_permitted(name)),
    }
}

fn not_permitted(name: &str) -> Error {
    Error::new(Code::ILLEGAL_OPERATION, format!("{name} is not permitted in a $changeStream pipeline"))
}
