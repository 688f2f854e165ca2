//! The stages after `$changeStream`: each takes one event and gives one or none.

use arbor_bson::{ArrayBuf, DocBuf, ValueRef, identical};
use arbor_lang::stage::Flow;
use arbor_lang::{Code, Context, Stage, text};

use super::split::split;
use super::token::Token;
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
    splits: bool,
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

    /// Returns what is shown of an event: nothing, the event, or its fragments. Errors: its token was changed.
    pub fn run(&mut self, token: Token, event: DocBuf) -> Result<Vec<(Token, DocBuf)>> {
        let Some(doc) = self.apply(event)? else { return Ok(Vec::new()) };
        let id = token.to_doc();
        if !doc.get("_id").is_some_and(|own| identical(own, ValueRef::from(&id))) {
            return Err(modified_id(&id, &doc));
        }
        if self.splits { split(token, doc) } else { Ok(vec![(token, doc)]) }
    }

    /// None: the event is not shown.
    fn apply(&mut self, event: DocBuf) -> Result<Option<DocBuf>> {
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

fn modified_id(expected: &DocBuf, event: &DocBuf) -> Error {
    let (expected, found) =
        (text::shell(ValueRef::from(expected)), text::shell(event.get("_id").unwrap_or(ValueRef::Null)));
    let message = format!(
        "Encountered an event whose _id field, which contains the resume token, was modified by the pipeline. Modifying \
         the _id field of an event makes it impossible to resume the stream from that point. Only transformations that \
         retain the unmodified _id field are allowed. Expected: {{ _id: {expected} }} but found: {{ _id: {found} }}"
    );
    Error::new(Code::CHANGE_STREAM_FATAL_ERROR, message)
}
