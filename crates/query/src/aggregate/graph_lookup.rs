//! `$graphLookup`: for each document, those of another collection that are reached from it, step by step.
//!
//! `{ $graphLookup: { from, startWith: <expression>, connectFromField, connectToField, as, maxDepth, depthField,
//! restrictSearchWithMatch } }`. Each step is one query for all values that the step before found first, an `$in`
//! on `connectToField`, so that an index there is used. A document is found once, however many paths lead to it, and a
//! value is queried once, so cycles end. The other collection is read in the snapshot of the whole pipeline.

use std::collections::HashSet;
use std::sync::Arc;

use arbor_base::memory::Allowance;
use arbor_bson::keystring::key_of;
use arbor_bson::{ArrayBuf, Doc, DocBuf, Value, ValueRef};
use arbor_lang::document::with_value;
use arbor_lang::matcher::{In, Node};
use arbor_lang::path::Leaf;
use arbor_lang::{Code, Collation, Context, Expression, Filter, Path, field_path, number, stop, text};
use arbor_store::{Collection, Namespace};

use super::inner::{InnerRows, check_depth};
use super::pipeline::Pipeline;
use super::pushdown::both;
use super::surroundings::Surroundings;
use crate::elsewhere::{ElsewhereCollection, one_of};
use crate::foreign::Foreign;
use crate::names::Names;
use crate::operator::Run;
use crate::{Error, Result, Settings};

#[derive(Clone)]
pub(crate) struct GraphLookup {
    /// None: it does not exist.
    foreign: Option<Arc<Collection>>,
    elsewhere: Option<Box<GraphElsewhere>>,
    start_with: Expression,
    connect_from: Path,
    connect_to: Path,
    into: Path,
    /// Steps after the first one.
    max_depth: u64,
    depth_field: Option<Path>,
    restriction: Filter,
    /// The stages of the view that is searched; of a collection, none.
    source: Pipeline,
}

/// The search in a collection of other servers: each step has a filter of its own, which is sent to them.
#[derive(Clone)]
struct GraphElsewhere {
    collection: ElsewhereCollection,
    view: ArrayBuf,
    restriction: Option<DocBuf>,
    names: Names,
    db: String,
    depth: usize,
    stages: usize,
    context: Context,
}

impl GraphElsewhere {
    fn pipeline(&self, filter: Filter, sent: DocBuf) -> Result<Pipeline> {
        let around = Surroundings {
            names: &self.names,
            db: &self.db,
            context: &self.context,
            depth: self.depth,
            stages: self.stages,
            inside: None,
            within_facet: false,
            collectionless: false,
        };
        let sent = match &self.restriction {
            Some(restriction) => DocBuf::new().with("$and", &[&sent, restriction].into_iter().collect::<ArrayBuf>()),
            None => sent,
        };
        let (around, no_stages) = (around.inside("$graphLookup"), ArrayBuf::new());
        let filter = (filter, Some(sent));
        Pipeline::parse_elsewhere(&self.collection, self.view.as_array(), filter, no_stages.as_array(), &around)
    }
}

impl GraphLookup {
    pub(crate) fn parse(spec: ValueRef<'_>, around: &Surroundings<'_>) -> Result<GraphLookup> {
        let ValueRef::Document(spec) = spec else {
            let found = text::type_name(Some(spec));
            let message = format!("the $graphLookup stage specification must be an object, but found {found}");
            return Err(Error::new(Code::FAILED_TO_PARSE, message));
        };
        let (mut from, mut start_with, mut max_depth) = (None, None, u64::MAX);
        let (mut into, mut connect_from, mut connect_to, mut depth_field) = (None, None, None, None);
        let mut restriction = Filter::everything(&around.context.collation);
        for (name, value) in spec {
            match (name, value) {
                ("startWith", value) => start_with = Some(Expression::parse(value, around.context)?),
                ("maxDepth", value) => max_depth = read_max_depth(value)?,
                ("restrictSearchWithMatch", ValueRef::Document(filter)) => {
                    restriction = Filter::parse(filter, around.context)?.without_text()?;
                }
                ("restrictSearchWithMatch", other) => {
                    let found = text::type_name(Some(other));
                    let message = format!("restrictSearchWithMatch must be an object, found {found}");
                    return Err(location(40185, message));
                }
                ("from", ValueRef::String(name)) => from = Some(name),
                ("as", ValueRef::String(path)) => into = Some(field_path::parse(path)?),
                ("connectFromField", ValueRef::String(path)) => connect_from = Some(field_path::parse(path)?),
                ("connectToField", ValueRef::String(path)) => connect_to = Some(field_path::parse(path)?),
                ("depthField", ValueRef::String(path)) => depth_field = Some(field_path::parse(path)?),
                ("from" | "as" | "connectFromField" | "connectToField" | "depthField", other) => {
                    let shown = text::field(name, other);
                    return Err(location(40103, format!("expected string as argument for {name}, found: {shown}")));
                }
                _ => return Err(location(40104, format!("Unknown argument to $graphLookup: {name}"))),
            }
        }
        let (Some(from), Some(into), Some(start_with), Some(connect_from), Some(connect_to)) =
            (from, into, start_with, connect_from, connect_to)
        else {
            let message = "$graphLookup requires 'from', 'as', 'startWith', 'connectFromField', and 'connectToField' to \
                           be specified.";
            return Err(location(40105, message));
        };
        check_depth(around)?;
        let Foreign { collection: foreign, elsewhere, stages } =
            Foreign::of(around.names, &Namespace::new(around.db, from)?, &around.context.collation)?;
        let elsewhere = elsewhere.map(|collection| {
            let restriction = match spec.get("restrictSearchWithMatch") {
                Some(ValueRef::Document(filter)) if around.context.variables.iter().next().is_none() => {
                    Some(filter.to_buf())
                }
                // the stages here know the variables
                _ => None,
            };
            Box::new(GraphElsewhere {
                collection,
                view: stages.clone(),
                restriction,
                names: around.names.clone(),
                db: around.db.to_owned(),
                depth: around.depth,
                stages: around.stages,
                context: around.context.clone(),
            })
        });
        let source = Pipeline::parse_stages(stages.as_array(), &around.inside("$graphLookup"))?;
        Ok(GraphLookup {
            foreign,
            elsewhere,
            start_with,
            connect_from,
            connect_to,
            into,
            max_depth,
            depth_field,
            restriction,
            source,
        })
    }

    /// The document with all that was reached from it.
    pub(crate) fn extended(&self, doc: Doc<'_>, settings: &Settings, run: &mut Run<'_>) -> Result<DocBuf> {
        let mut reached = Reached::new(self.restriction.collation().clone(), settings.group_memory().allowance());
        let start = self.start_with.eval(doc)?;
        reached.note(start.as_ref().map(Value::as_ref))?;
        drop(start);
        let mut depth = 0;
        while let Some(values) = reached.next_step()?
            && depth <= self.max_depth
        {
            for part in values.chunks(STEP_VALUES_MAX) {
                self.step(part.to_vec(), depth, settings, run, &mut reached)?;
            }
            depth += 1;
        }
        let found = ValueRef::from(&reached.found);
        Ok(with_value(doc, self.into.components(), Some(found)))
    }

    fn step(
        &self,
        values: Vec<Value>,
        depth: u64,
        settings: &Settings,
        run: &mut Run<'_>,
        reached: &mut Reached,
    ) -> Result<()> {
        let sent = self.elsewhere.as_ref().map(|_| one_of(self.connect_to.as_str(), &values));
        let matching = Node::In(In { path: self.connect_to.clone(), values, regexes: Vec::new() });
        let matching = both(&Filter::from_root(matching, self.restriction.collation()), &self.restriction);
        let pipeline = match (&self.elsewhere, sent) {
            (Some(elsewhere), Some(sent)) => elsewhere.pipeline(matching, sent)?,
            _ => self.source.clone().filtered(matching),
        };
        let mut rows = InnerRows::open(pipeline, self.foreign.clone(), run.view, settings)?;
        while let Some(row) = rows.next(run)? {
            run.tick()?;
            let doc = row.document.as_doc();
            if !reached.is_new(doc.get("_id").map(|id| key_of(id).bytes).unwrap_or_default()) {
                continue;
            }
            let mut noted = Ok(());
            self.connect_from.visit(doc, Leaf::Whole, &mut |visit| {
                noted = reached.note(visit.value);
                noted.is_err()
            });
            noted?;
            match &self.depth_field {
                Some(field) => {
                    let depth = ValueRef::Int64(depth as i64);
                    reached.add(&with_value(doc, field.components(), Some(depth)))?;
                }
                None => reached.add(&row.document)?,
            }
        }
        Ok(())
    }
}

/// Traversal state of one document.
struct Reached {
    found: ArrayBuf,
    /// Keys of the documents found.
    documents: HashSet<Vec<u8>>,
    /// Keys of the values that were queried, or will be.
    values: HashSet<Vec<u8>>,
    /// Values to query in the next step, with their keys.
    ahead: Vec<(Vec<u8>, Value)>,
    bytes: usize,
    allowance: Allowance,
    collation: Collation,
}

/// Maximum number of values in one query.
const STEP_VALUES_MAX: usize = 10_000;

/// Memory of a value in addition to its bytes: places in a table and in a list that may be half empty, and three allocations.
const VALUE_BYTES: usize = 160;

impl Reached {
    fn new(collation: Collation, allowance: Allowance) -> Reached {
        let (documents, values) = (HashSet::new(), HashSet::new());
        Reached { found: ArrayBuf::new(), documents, values, ahead: Vec::new(), bytes: 0, allowance, collation }
    }

    /// Notes a value, or each element of an array.
    fn note(&mut self, value: Option<ValueRef<'_>>) -> Result<()> {
        match value {
            Some(ValueRef::Array(elements)) => elements.iter().try_for_each(|element| self.note_one(element)),
            Some(value) => self.note_one(value),
            None => Ok(()),
        }
    }

    fn note_one(&mut self, value: ValueRef<'_>) -> Result<()> {
        stop::tick()?;
        let key = self.collation.key_of(value).bytes;
        if self.values.insert(key.clone()) {
            self.bytes += 3 * key.len() + VALUE_BYTES;
            self.ahead.push((key, value.to_value()));
        }
        self.check()
    }

    /// Errors: what was reached takes more memory than it may.
    fn check(&mut self) -> Result<()> {
        if self.allowance.covers(self.bytes) {
            return Ok(());
        }
        Err(location(40099, "$graphLookup reached maximum memory consumption"))
    }

    /// The values of the next step in order; none at the end.
    fn next_step(&mut self) -> Result<Option<Vec<Value>>> {
        let mut ahead = std::mem::take(&mut self.ahead);
        stop::sort_by(&mut ahead, |(a, _), (b, _)| a.cmp(b))?;
        Ok((!ahead.is_empty()).then(|| ahead.into_iter().map(|(_, value)| value).collect()))
    }

    fn is_new(&mut self, id_key: Vec<u8>) -> bool {
        self.bytes += id_key.len() + VALUE_BYTES / 2;
        self.documents.insert(id_key)
    }

    fn add(&mut self, document: &DocBuf) -> Result<()> {
        // the list is copied into the document in the end
        self.bytes += 2 * document.as_bytes().len();
        self.found.push(document);
        self.check()
    }
}

fn read_max_depth(value: ValueRef<'_>) -> Result<u64> {
    if !number::is_number(value) {
        let found = text::type_name(Some(value));
        return Err(location(40100, format!("maxDepth requires numeric argument, found type: {found}")));
    }
    let shown = text::field("maxDepth", value);
    match number::exact_i64(value) {
        Some(depth) if depth >= 0 => Ok(depth as u64),
        Some(_) => Err(location(40101, format!("maxDepth requires a nonnegative argument, found: {shown}"))),
        None => Err(location(40102, format!("maxDepth could not be represented as a long long: {shown}"))),
    }
}

fn location(code: i32, message: impl Into<String>) -> Error {
    Error::Lang(arbor_lang::Error::location(code, message))
}
