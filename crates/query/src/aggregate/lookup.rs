//! `$lookup`: for each document, those of another collection that belong to it.
//!
//! `localField`/`foreignField` becomes an `$in` on the foreign field: with an index there, a scan of it for each document,
//! else a hash join ([`super::hash_join`]) where that fits into memory. A pipeline with `let` is parsed again for each document, with the variables as constants. The other collection is read in the
//! snapshot of the whole pipeline.

use std::sync::Arc;

use arbor_bson::{ArrayBuf, Doc, DocBuf, Value, ValueRef};
use arbor_lang::document::with_value;
use arbor_lang::matcher::{In, Node};
use arbor_lang::path::{Leaf, Path};
use arbor_lang::{Code, Collation, Context, Expression, Filter, Input, field_path, stop};
use arbor_store::{Collection, Namespace};
use arbor_txn::View;

use super::hash_join::HashJoin;
use super::inner::{InnerRows, check_depth, documents_first};
use super::pipeline::Pipeline;
use super::surroundings::Surroundings;
use crate::elsewhere::{ElsewhereCollection, one_of};
use crate::foreign::Foreign;
use crate::names::Names;
use crate::operator::Run;
use crate::plan::{self, Access, IndexShape, Query, Slots};
use crate::stage_spec::only_field;
use crate::{Error, Result, Settings};

/// Bytes of the documents found for one document, if they are stored in an array in it.
const BYTES_MAX: usize = 16 * 1024 * 1024 + 16 * 1024;

#[derive(Clone)]
pub(crate) struct Lookup {
    /// None: it does not exist.
    foreign: Option<Arc<Collection>>,
    elsewhere: Option<ElsewhereCollection>,
    /// Stages of the view that `from` is; none for a collection.
    view: ArrayBuf,
    join: Option<Join>,
    inner: Option<Inner>,
    pub into: String,
    /// Bytes of the documents that one document finds.
    bytes_max: usize,
    names: Names,
    db: String,
    depth: usize,
    /// Stages of this pipeline and those around it.
    stages: usize,
    context: Context,
}

/// Join strategy of a `$lookup`.
pub(crate) enum Strategy {
    /// A pipeline for each row.
    Pipelines,
    Index(Box<IndexShape>),
    Hash,
}

#[derive(Clone)]
struct Join {
    local: Path,
    foreign: Path,
}

#[derive(Clone)]
struct Inner {
    pipeline: ArrayBuf,
    variables: Vec<(String, Expression)>,
}

impl Lookup {
    pub(crate) fn parse(spec: ValueRef<'_>, around: &Surroundings<'_>) -> Result<Lookup> {
        let ValueRef::Document(spec) = spec else {
            return Err(failed(format!(
                "the $lookup stage specification must be an object, but found {}",
                arbor_lang::text::type_name(Some(spec))
            )));
        };
        check_depth(around)?;
        check_once(spec)?;
        let mut text = Fields::default();
        let (mut pipeline, mut variables) = (None, Vec::new());
        for (name, value) in spec {
            match (name, value) {
                ("pipeline", ValueRef::Array(stages)) => pipeline = Some(stages.to_buf()),
                ("pipeline", other) => return Err(wrong_type(name, other, "array")),
                ("let", ValueRef::Document(doc)) => variables = parse_variables(doc, around.context)?,
                ("let", ValueRef::Null | ValueRef::Undefined) => {}
                ("let", other) => return Err(wrong_type(name, other, "object")),
                // what is missing is named before what is unknown
                (name, _) if !FIELDS.contains(&name) => {}
                (name, ValueRef::String(value)) => text.set(name, value),
                ("from", ValueRef::Document(from)) => return Err(from_elsewhere(from)),
                (name, value) => {
                    let message = format!("$lookup argument '{name}' must be a string, found {name}: {value}");
                    return Err(failed(message));
                }
            }
        }
        if let Some(pipeline) = &pipeline {
            let inside = around.inside("$lookup");
            for (name, _) in pipeline.as_array().iter().filter_map(only_field) {
                inside.check_forbidden(name)?;
            }
        } else if spec.get("let").is_some_and(|own| matches!(own, ValueRef::Document(_))) {
            return Err(failed("$lookup with 'let' needs a 'pipeline'"));
        }
        let lookup = text.into_lookup(pipeline, variables, around)?;
        match spec.iter().find(|(name, _)| !FIELDS.contains(name)) {
            Some((name, _)) => Err(unknown(name)),
            None => Ok(lookup),
        }
    }

    /// Chooses the join strategy for the rows to come.
    pub(crate) fn strategy(&self, view: &dyn View) -> Result<Strategy> {
        let (Some(join), Some(foreign), None, true) = (&self.join, &self.foreign, &self.inner, self.view.is_empty())
        else {
            return Ok(Strategy::Pipelines);
        };
        // which value it is makes no difference: what an index lacks is found out for each row
        let probe = Query::new(join.filter_of(vec![Value::Int32(0)], &self.context.collation));
        match plan::plan(view, foreign, &probe)?.winner.access {
            Access::Index(access) => Ok(Strategy::Index(Box::new(access.shape))),
            Access::Collection(_) => Ok(Strategy::Hash),
            _ => Ok(Strategy::Pipelines),
        }
    }

    /// None: the other collection does not fit into memory.
    pub(crate) fn hash_join(&self, settings: &Settings, run: &mut Run<'_>) -> Result<Option<HashJoin>> {
        let Some(join) = &self.join else { return Ok(None) };
        let whole =
            self.pipeline((Filter::everything(&self.context.collation), None), &self.context, &ArrayBuf::new())?;
        let mut rows = InnerRows::open(whole, self.foreign.clone(), run.view, settings)?;
        let next = |run: &mut Run<'_>| rows.next(run);
        HashJoin::build(next, &join.foreign, &self.context.collation, settings.group_memory().allowance(), run)
    }

    pub(crate) fn find_hashed(&self, input: Input<'_>, table: &HashJoin) -> Result<ArrayBuf> {
        let Some(join) = &self.join else { return Ok(ArrayBuf::new()) };
        let values = join.values(input.doc, &self.context.collation)?;
        let found = table.find(&join.filter_of(values.clone(), &self.context.collation), &values, self.bytes_max)?;
        found.ok_or_else(|| self.too_large())
    }

    /// By this index, if it has all that may match.
    pub(crate) fn find_by_index(
        &self,
        input: Input<'_>,
        shape: &IndexShape,
        settings: &Settings,
        run: &mut Run<'_>,
    ) -> Result<ArrayBuf> {
        let (Some(join), Some(foreign)) = (&self.join, &self.foreign) else { return Ok(ArrayBuf::new()) };
        let collation = &self.context.collation;
        let query = Query::new(join.filter_of(join.values(input.doc, collation)?, collation));
        let Some(solution) = plan::by_index(run.view, foreign, &query, shape) else {
            return self.find(input, settings, run);
        };
        let mut slots = Slots::default();
        let root = plan::operator(&solution, &query, settings, &mut slots);
        let rows = InnerRows::over(root, foreign.clone(), slots.count());
        rows.all(run, self.bytes_max)?.ok_or_else(|| self.too_large())
    }

    /// The documents that belong to `doc`.
    pub(crate) fn find(&self, input: Input<'_>, settings: &Settings, run: &mut Run<'_>) -> Result<ArrayBuf> {
        let pipeline = self.pipeline_for(input)?;
        let rows = InnerRows::open(pipeline, self.foreign.clone(), run.view, settings)?;
        rows.all(run, self.bytes_max)?.ok_or_else(|| self.too_large())
    }

    /// Makes each found document a document of its own; together they may take `bytes_max`.
    pub(crate) fn unwinds(self, bytes_max: usize) -> Lookup {
        Lookup { bytes_max: bytes_max.max(BYTES_MAX), ..self }
    }

    /// The document with what was found for it.
    pub(crate) fn add_to(&self, doc: &DocBuf, found: &ArrayBuf) -> Result<DocBuf> {
        with_field(doc, &self.into, found)
    }

    fn pipeline_for(&self, input: Input<'_>) -> Result<Pipeline> {
        let collation = &self.context.collation;
        let filter = match &self.join {
            Some(join) => {
                let values = join.values(input.doc, collation)?;
                let sent = self.elsewhere.as_ref().map(|_| one_of(join.foreign.as_str(), &values));
                (join.filter_of(values, collation), sent)
            }
            None => (Filter::everything(collation), None),
        };
        let mut context = self.context.clone();
        let no_stages = ArrayBuf::new();
        let stages = match &self.inner {
            Some(inner) => {
                for (name, expression) in &inner.variables {
                    context.variables.set_or_missing(name, expression.eval(input)?);
                }
                &inner.pipeline
            }
            None => &no_stages,
        };
        self.pipeline(filter, &context, stages)
    }

    fn pipeline(&self, filter: (Filter, Option<DocBuf>), context: &Context, stages: &ArrayBuf) -> Result<Pipeline> {
        let around = Surroundings {
            names: &self.names,
            db: &self.db,
            context,
            depth: self.depth,
            stages: self.stages,
            inside: None,
            within_facet: false,
            collectionless: false,
        };
        let (around, view, stages) = (&around.inside("$lookup"), self.view.as_array(), stages.as_array());
        match &self.elsewhere {
            Some(elsewhere) => Pipeline::parse_elsewhere(elsewhere, view, filter, stages, around),
            None => Pipeline::parse_inner(view, filter.0, stages, around),
        }
    }

    fn too_large(&self) -> Error {
        let own = self.foreign.as_ref().map(|collection| collection.namespace.collection());
        let from = own.or(self.elsewhere.as_ref().map(|other| other.namespace.collection())).unwrap_or("");
        let bytes_max = self.bytes_max;
        let message =
            format!("Total size of documents in {from} matching pipeline's $lookup stage exceeds {bytes_max} bytes");
        Error::Lang(arbor_lang::Error::location(4568, message))
    }
}

impl Join {
    /// A missing local field belongs to foreign ones that are missing or null.
    fn values(&self, doc: Doc<'_>, collation: &Collation) -> Result<Vec<Value>> {
        let (mut values, mut visited): (Vec<Value>, bool) = (Vec::new(), false);
        self.local.visit(doc, Leaf::Whole, &mut |visit| {
            visited = true;
            match visit.value {
                Some(ValueRef::Array(array)) => values.extend(array.iter().map(ValueRef::to_value)),
                Some(value) => values.push(value.to_value()),
                None => values.push(Value::Null),
            }
            false
        });
        if !visited {
            values.push(Value::Null);
        }
        let keyed = |value: Value| {
            stop::tick()?;
            Ok((collation.key_of(value.as_ref()).bytes, value))
        };
        let mut keyed: Vec<(Vec<u8>, Value)> = values.into_iter().map(keyed).collect::<Result<_>>()?;
        stop::sort_by(&mut keyed, |(a, _), (b, _)| a.cmp(b))?;
        keyed.dedup_by(|(a, _), (b, _)| a == b);
        Ok(keyed.into_iter().map(|(_, value)| value).collect())
    }

    fn filter_of(&self, values: Vec<Value>, collation: &Collation) -> Filter {
        Filter::from_root(Node::In(In { path: self.foreign.clone(), values, regexes: Vec::new() }), collation)
    }
}

/// The fields of a `$lookup` that are strings.
#[derive(Default)]
struct Fields<'f> {
    from: Option<&'f str>,
    local: Option<&'f str>,
    foreign: Option<&'f str>,
    into: Option<&'f str>,
}

impl<'f> Fields<'f> {
    fn set(&mut self, name: &str, value: &'f str) {
        match name {
            "from" => self.from = Some(value),
            "localField" => self.local = Some(value),
            "foreignField" => self.foreign = Some(value),
            _ => self.into = Some(value),
        }
    }

    fn into_lookup(
        self,
        pipeline: Option<ArrayBuf>,
        variables: Vec<(String, Expression)>,
        around: &Surroundings<'_>,
    ) -> Result<Lookup> {
        let into = self.into.ok_or_else(|| failed("must specify 'as' field for a $lookup"))?;
        field_path::parse(into)?;
        let brings_documents = pipeline.as_ref().is_some_and(|pipeline| documents_first(pipeline.as_array()));
        let foreign = match self.from {
            Some(_) if brings_documents => {
                let message = "$documents in the pipeline of a $lookup takes the place of 'from'";
                return Err(Error::Lang(arbor_lang::Error::new(Code::INVALID_NAMESPACE, message)));
            }
            Some(from) => Foreign::of(around.names, &Namespace::new(around.db, from)?, &around.context.collation)?,
            None if brings_documents => Foreign::none(),
            None => return Err(failed("must specify 'from' field for a $lookup")),
        };
        let join = match (self.local, self.foreign) {
            (Some(local), Some(foreign)) => {
                Some(Join { local: field_path::parse(local)?, foreign: field_path::parse(foreign)? })
            }
            (None, None) if pipeline.is_some() => None,
            _ => {
                let message =
                    "$lookup requires either 'pipeline' or both 'localField' and 'foreignField' to be specified";
                return Err(failed(message));
            }
        };
        let inner = pipeline.map(|pipeline| Inner { pipeline, variables });
        let lookup = Lookup {
            foreign: foreign.collection,
            elsewhere: foreign.elsewhere,
            view: foreign.stages,
            join,
            inner,
            into: into.to_owned(),
            bytes_max: BYTES_MAX,
            names: around.names.clone(),
            db: around.db.to_owned(),
            depth: around.depth,
            stages: around.stages,
            context: around.context.clone(),
        };
        Ok(lookup)
    }
}

const FIELDS: &[&str] = &["as", "foreignField", "from", "let", "localField", "pipeline"];

/// Returns the error of a `from` that names a database: with the code of what is wrong with it, else as not supported.
fn from_elsewhere(from: Doc<'_>) -> Error {
    for (name, value) in from {
        if !matches!(name, "db" | "coll") {
            return unknown(&format!("from.{name}"));
        }
        if !matches!(value, ValueRef::String(_)) {
            return wrong_type(&format!("from.{name}"), value, "string");
        }
    }
    failed(format!("$lookup with the syntax {{from: {{db:<>, coll:<>}}, ..}} is not supported here: {from}"))
}

/// Refuses a field that is given twice.
fn check_once(spec: Doc<'_>) -> Result<()> {
    for (at, (name, _)) in spec.iter().enumerate() {
        if spec.iter().take(at).any(|(earlier, _)| earlier == name) {
            let message = format!("BSON field '$lookup.{name}' is a duplicate field");
            return Err(Error::Lang(arbor_lang::Error::location(40413, message)));
        }
    }
    Ok(())
}

fn parse_variables(doc: Doc<'_>, context: &Context) -> Result<Vec<(String, Expression)>> {
    let variable = |(name, value): (&str, _)| {
        check_variable(name)?;
        Ok((name.to_owned(), Expression::parse(value, context)?))
    };
    doc.iter().map(variable).collect()
}

/// Refuses what users cannot call a variable.
fn check_variable(name: &str) -> Result<()> {
    let mut letters = name.chars();
    let begins = letters.next().is_some_and(|first| first.is_ascii_lowercase() || !first.is_ascii());
    if begins && letters.all(|letter| letter.is_ascii_alphanumeric() || letter == '_' || !letter.is_ascii()) {
        return Ok(());
    }
    Err(failed(format!("'{name}' starts with or has a character that is invalid for a user variable name")))
}

fn unknown(name: &str) -> Error {
    let message = format!("BSON field '$lookup.{name}' is an unknown field.");
    Error::Lang(arbor_lang::Error::location(40415, message))
}

fn wrong_type(name: &str, found: ValueRef<'_>, expected: &str) -> Error {
    let found = arbor_lang::text::type_name(Some(found));
    let message = format!("BSON field '$lookup.{name}' is the wrong type '{found}', expected type '{expected}'");
    Error::new(Code::TYPE_MISMATCH, message)
}

fn failed(message: impl Into<String>) -> Error {
    Error::new(Code::FAILED_TO_PARSE, message)
}

/// The document with the array in a field: in its place if there is one, else last.
fn with_field(doc: &DocBuf, name: &str, array: &ArrayBuf) -> Result<DocBuf> {
    if name.contains('.') {
        let path = Path::of_input(name)?;
        return Ok(with_value(doc.as_doc(), path.components(), Some(array.into())));
    }
    let mut out = DocBuf::new();
    let mut placed = false;
    for (own, value) in doc.as_doc() {
        if own == name {
            placed = true;
            out.append(name, array);
        } else {
            out.append(own, value);
        }
    }
    if !placed {
        out.append(name, array);
    }
    Ok(out)
}
