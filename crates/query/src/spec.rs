//! Requests as plain structs. `command` parses a request into them; nothing here knows field names of
//! commands. Documents are borrowed from the request.

use arbor_bson::{Array, Doc, ValueRef};
use arbor_lang::Collation;
use arbor_store::Namespace;
use arbor_txn::Durability;

/// Which index a statement must use.
#[derive(Clone, Copy, Debug)]
pub enum Hint<'a> {
    /// An index name; `"$natural"` is not one.
    Name(&'a str),
    /// A key pattern, or `{ $natural: 1 | -1 }`.
    Pattern(Doc<'a>),
}

#[derive(Clone, Debug)]
pub struct FindSpec<'a> {
    pub namespace: Namespace,
    pub filter: Doc<'a>,
    pub projection: Option<Doc<'a>>,
    pub sort: Option<Doc<'a>>,
    pub skip: u64,
    /// None: no limit. A limit of 0 in a command means None.
    pub limit: Option<u64>,
    pub hint: Option<Hint<'a>>,
    /// None: that of the collection.
    pub collation: Option<Collation>,
    /// Inclusive lower end of the hinted index, `{ a: 1, b: 2 }` in the order of its key pattern.
    pub min: Option<Doc<'a>>,
    /// Exclusive upper end of the hinted index.
    pub max: Option<Doc<'a>>,
    pub let_variables: Option<Doc<'a>>,
    /// Adds `{ $recordId: .. }` to each document: the key of the record.
    pub show_record_id: bool,
    /// Returns the index keys in place of the documents.
    pub return_key: bool,
    /// A cursor over a capped collection continues with documents that are inserted later.
    pub tailable: bool,
    /// A batch of a tailable cursor waits when there is nothing new.
    pub await_data: bool,
    /// A sort that does not fit into memory goes to disk; else it is an error.
    pub allow_disk_use: bool,
}

impl<'a> FindSpec<'a> {
    /// Everything in the collection, to be narrowed by setting fields.
    pub fn new(namespace: Namespace) -> FindSpec<'a> {
        FindSpec {
            namespace,
            filter: Doc::empty(),
            projection: None,
            sort: None,
            skip: 0,
            limit: None,
            hint: None,
            collation: None,
            min: None,
            max: None,
            let_variables: None,
            show_record_id: false,
            return_key: false,
            tailable: false,
            await_data: false,
            allow_disk_use: true,
        }
    }
}

#[derive(Clone, Debug)]
pub struct CountSpec<'a> {
    pub namespace: Namespace,
    pub query: Doc<'a>,
    pub skip: u64,
    pub limit: Option<u64>,
    pub hint: Option<Hint<'a>>,
    /// None: that of the collection.
    pub collation: Option<Collation>,
}

#[derive(Clone, Debug)]
pub struct DistinctSpec<'a> {
    pub namespace: Namespace,
    pub key: &'a str,
    pub query: Doc<'a>,
    pub hint: Option<Hint<'a>>,
    /// None: that of the collection.
    pub collation: Option<Collation>,
}

#[derive(Clone, Debug)]
pub struct AggregateSpec<'a> {
    pub namespace: Namespace,
    /// `{ aggregate: 1 }`: the pipeline makes its own documents; the namespace is `db.$cmd.aggregate`.
    pub collectionless: bool,
    pub pipeline: Array<'a>,
    pub hint: Option<Hint<'a>>,
    /// None: that of the collection.
    pub collation: Option<Collation>,
    pub let_variables: Option<Doc<'a>>,
    /// Durability of the writes of a stage at the end.
    pub durability: Durability,
    /// Sorts and groups that do not fit into memory go to disk; else they are an error.
    pub allow_disk_use: bool,
    /// Its writes bypass the collection's validator.
    pub bypass_validation: bool,
}

#[derive(Clone, Debug)]
pub struct InsertSpec<'a> {
    pub namespace: Namespace,
    pub documents: Vec<Doc<'a>>,
    pub ordered: bool,
    pub durability: Durability,
    /// Its writes bypass the collection's validator.
    pub bypass_validation: bool,
}

#[derive(Clone, Debug)]
pub struct UpdateSpec<'a> {
    pub namespace: Namespace,
    pub updates: Vec<UpdateStatement<'a>>,
    pub ordered: bool,
    pub let_variables: Option<Doc<'a>>,
    pub durability: Durability,
    /// Its writes bypass the collection's validator.
    pub bypass_validation: bool,
}

#[derive(Clone, Debug)]
pub struct UpdateStatement<'a> {
    pub q: Doc<'a>,
    /// An update document, a replacement, or a pipeline (an array).
    pub u: ValueRef<'a>,
    /// Variables of a pipeline update.
    pub c: Option<Doc<'a>>,
    pub multi: bool,
    pub upsert: bool,
    pub array_filters: Vec<Doc<'a>>,
    pub hint: Option<Hint<'a>>,
    /// None: that of the collection.
    pub collation: Option<Collation>,
    /// Which of the documents is changed, when it is one.
    pub sort: Option<Doc<'a>>,
}

impl<'a> UpdateStatement<'a> {
    /// Changes the first document that matches.
    pub fn new(q: Doc<'a>, u: ValueRef<'a>) -> UpdateStatement<'a> {
        let (c, hint, sort, collation) = (None, None, None, None);
        UpdateStatement { q, u, c, multi: false, upsert: false, array_filters: Vec::new(), hint, collation, sort }
    }
}

#[derive(Clone, Debug)]
pub struct DeleteSpec<'a> {
    pub namespace: Namespace,
    pub deletes: Vec<DeleteStatement<'a>>,
    pub ordered: bool,
    pub let_variables: Option<Doc<'a>>,
    pub durability: Durability,
}

#[derive(Clone, Debug)]
pub struct DeleteStatement<'a> {
    pub q: Doc<'a>,
    /// `limit: 0`, all documents that match; else one.
    pub multi: bool,
    pub hint: Option<Hint<'a>>,
    /// None: that of the collection.
    pub collation: Option<Collation>,
}

#[derive(Clone, Debug)]
pub struct FindAndModifySpec<'a> {
    pub namespace: Namespace,
    pub query: Doc<'a>,
    pub sort: Option<Doc<'a>>,
    pub change: Change<'a>,
    pub fields: Option<Doc<'a>>,
    pub hint: Option<Hint<'a>>,
    /// None: that of the collection.
    pub collation: Option<Collation>,
    pub let_variables: Option<Doc<'a>>,
    pub durability: Durability,
    /// Its writes bypass the collection's validator.
    pub bypass_validation: bool,
    /// It returns what it would, and writes nothing.
    pub tentative: bool,
}

/// Change that findAndModify makes to the document that it finds.
#[derive(Clone, Debug)]
pub enum Change<'a> {
    Remove,
    Update {
        update: ValueRef<'a>,
        upsert: bool,
        /// Returns the document after the update.
        return_new: bool,
        array_filters: Vec<Doc<'a>>,
    },
}

/// Statement to explain.
#[derive(Clone, Debug)]
pub enum ExplainSpec<'a> {
    Find(FindSpec<'a>),
    Count(CountSpec<'a>),
    Distinct(DistinctSpec<'a>),
    Aggregate(AggregateSpec<'a>),
    /// The first statement is explained.
    Update(UpdateSpec<'a>),
    Delete(DeleteSpec<'a>),
    FindAndModify(FindAndModifySpec<'a>),
}

impl ExplainSpec<'_> {
    /// The collation of a statement that reads.
    pub(crate) fn collation(&self) -> Option<&Collation> {
        match self {
            ExplainSpec::Find(spec) => spec.collation.as_ref(),
            ExplainSpec::Count(spec) => spec.collation.as_ref(),
            ExplainSpec::Distinct(spec) => spec.collation.as_ref(),
            ExplainSpec::Aggregate(spec) => spec.collation.as_ref(),
            ExplainSpec::Update(_) | ExplainSpec::Delete(_) | ExplainSpec::FindAndModify(_) => None,
        }
    }

    pub fn namespace(&self) -> &Namespace {
        match self {
            ExplainSpec::Find(spec) => &spec.namespace,
            ExplainSpec::Count(spec) => &spec.namespace,
            ExplainSpec::Distinct(spec) => &spec.namespace,
            ExplainSpec::Aggregate(spec) => &spec.namespace,
            ExplainSpec::Update(spec) => &spec.namespace,
            ExplainSpec::Delete(spec) => &spec.namespace,
            ExplainSpec::FindAndModify(spec) => &spec.namespace,
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Verbosity {
    QueryPlanner,
    ExecutionStats,
    AllPlansExecution,
}
