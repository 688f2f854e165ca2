//! A parsed query: what the planner plans and the executor runs.

use arbor_bson::{Doc, DocBuf, ValueRef};
use arbor_lang::metadata::mentions;
use arbor_lang::projection::ProjectionKind;
use arbor_lang::{Code, Context, Error, Filter, MetaKind, Projection, Result, SortPattern};

use std::sync::Arc;

use arbor_store::Namespace;

use super::index_filters::AllowedIndexes;
use super::sort_order::Direction;
use crate::Hint;

#[derive(Clone, Debug)]
pub struct Query {
    pub filter: Filter,
    pub sort: Option<SortPattern>,
    pub skip: u64,
    pub limit: Option<u64>,
    pub projection: Option<ShownAs>,
    pub hint: Option<ChosenIndex>,
    pub min: Option<DocBuf>,
    pub max: Option<DocBuf>,
    pub show_record_id: bool,
    /// The keys that found the documents, in the place of these.
    pub return_key: bool,
    /// The scores of a text search are requested.
    pub scored: bool,
    /// The sort key of a row, and the key of its record, are requested.
    pub shows_sort_key: bool,
    pub shows_record_id: bool,
    /// The key of an index that found a document is requested.
    pub shows_index_key: bool,
    /// Only these indexes may be used. None: all.
    pub allowed: Option<Arc<AllowedIndexes>>,
    /// Shapes of the stages right above it that MongoDB plans together with the query.
    pub above: String,
}

/// A projection with the document that it was parsed from.
#[derive(Clone, Debug)]
pub struct ShownAs {
    pub projection: Projection,
    pub spec: DocBuf,
}

/// A hint by what it may name.
#[derive(Clone, Debug)]
pub enum ChosenIndex {
    Natural(Direction),
    Name(String),
    /// By name, whether hidden or not: for the server's own scans.
    HiddenToo(String),
    Pattern(DocBuf),
}

impl Query {
    pub fn new(filter: Filter) -> Query {
        Query {
            filter,
            sort: None,
            skip: 0,
            limit: None,
            projection: None,
            hint: None,
            min: None,
            max: None,
            show_record_id: false,
            return_key: false,
            scored: false,
            shows_sort_key: false,
            shows_record_id: false,
            shows_index_key: false,
            allowed: None,
            above: String::new(),
        }
    }

    pub fn parse(filter: Doc<'_>, hint: Option<Hint<'_>>, context: &Context) -> Result<Query> {
        let mut query = Query::new(Filter::parse_query(filter, context)?);
        query.hint = hint.map(ChosenIndex::parse).transpose()?.flatten();
        Ok(query)
    }

    /// `{ $natural: n }` is a sort that requests a scan in a direction.
    pub fn sort_by(&mut self, sort: Option<Doc<'_>>, context: &Context) -> Result<()> {
        let Some(sort) = sort.filter(|sort| !sort.is_empty()) else { return Ok(()) };
        self.check_score(sort)?;
        match natural(sort) {
            Some(direction) => self.hint = Some(ChosenIndex::Natural(direction)),
            None if sort.get("$natural").is_some() => return Err(bad_natural_sort(sort)),
            None => self.sort = Some(SortPattern::parse(sort, context)?),
        }
        Ok(())
    }

    /// As [`Query::sort_by`], for a statement about one document. COMPAT: as in MongoDB, a sort of what a plain `_id` finds is not read.
    pub fn sort_one_by(&mut self, filter: Doc<'_>, sort: Option<Doc<'_>>, context: &Context) -> Result<()> {
        if is_plain_id(filter) { Ok(()) } else { self.sort_by(sort, context) }
    }

    pub fn show(&mut self, projection: Option<Doc<'_>>, context: &Context) -> Result<()> {
        let Some(spec) = projection.filter(|spec| !spec.is_empty()) else { return Ok(()) };
        self.check_score(spec)?;
        self.shows_sort_key = mentions(ValueRef::Document(spec), MetaKind::SortKey);
        if self.shows_sort_key && self.sort.is_none() {
            let message = "query requires sort key metadata, but it is not available";
            return Err(Error::location(40218, message));
        }
        self.shows_record_id = mentions(ValueRef::Document(spec), MetaKind::RecordId);
        self.shows_index_key = mentions(ValueRef::Document(spec), MetaKind::IndexKey);
        let projection = Projection::parse(spec, ProjectionKind::Find, Some(&self.filter), context)?;
        if !projection.is_identity() {
            self.projection = Some(ShownAs { projection, spec: spec.to_buf() });
        }
        Ok(())
    }

    /// Records whether a sort or a projection requests the score. Errors: nothing is searched.
    fn check_score(&mut self, spec: Doc<'_>) -> Result<()> {
        if mentions(ValueRef::Document(spec), MetaKind::TextScore) {
            self.filter.text().ok_or_else(score_required)?;
            self.scored = true;
        }
        Ok(())
    }

    /// Errors: it searches a collection that does not exist.
    pub fn needs_no_index(&self, namespace: &Namespace) -> Result<()> {
        match self.filter.text() {
            Some(_) => {
                let message = format!("text index required for $text query (no such collection '{namespace}')");
                Err(Error::new(Code::INDEX_NOT_FOUND, message))
            }
            None => Ok(()),
        }
    }

    /// Rows that a sort has to keep.
    pub fn sort_limit(&self) -> Option<u64> {
        self.limit.map(|limit| limit.saturating_add(self.skip))
    }
}

/// The error for asking for the score where nothing is searched.
pub(crate) fn score_required<E: From<Error>>() -> E {
    Error::location(40218, "query requires text score metadata, but it is not available").into()
}

impl ChosenIndex {
    /// An empty key pattern is no hint.
    fn parse(hint: Hint<'_>) -> Result<Option<ChosenIndex>> {
        Ok(match hint {
            Hint::Name(name) => Some(ChosenIndex::Name(name.to_owned())),
            Hint::Pattern(pattern) if pattern.is_empty() => None,
            Hint::Pattern(pattern) => match pattern.first() {
                Some(("$natural", value)) => match natural(pattern) {
                    Some(direction) => Some(ChosenIndex::Natural(direction)),
                    None => return Err(bad_natural(value)),
                },
                _ => Some(ChosenIndex::Pattern(pattern.to_buf())),
            },
        })
    }
}

/// `{ _id: value }` finds at most one document.
fn is_plain_id(filter: Doc<'_>) -> bool {
    let mut fields = filter.iter();
    match (fields.next(), fields.next()) {
        (Some(("_id", ValueRef::Document(value))), None) => {
            value.first().is_none_or(|(name, _)| !name.starts_with('$'))
        }
        (Some(("_id", value)), None) => {
            !matches!(value, ValueRef::Array(_) | ValueRef::Null | ValueRef::Undefined | ValueRef::Regex { .. })
        }
        _ => false,
    }
}

fn natural(pattern: Doc<'_>) -> Option<Direction> {
    let (_, value) = pattern.first().filter(|(name, _)| *name == "$natural")?;
    match value {
        _ if pattern.iter().count() > 1 => None,
        value if value.compare(ValueRef::Int32(1)).is_eq() => Some(Direction::Forward),
        value if value.compare(ValueRef::Int32(-1)).is_eq() => Some(Direction::Backward),
        _ => None,
    }
}

fn bad_natural_sort(sort: Doc<'_>) -> Error {
    Error::bad_value(match sort.iter().count() {
        1 => "$natural sort cannot be set to a value other than -1 or 1.".to_owned(),
        _ => format!("Cannot include '$natural' in compound sort: {}", ValueRef::Document(sort)),
    })
}

fn bad_natural(value: ValueRef<'_>) -> Error {
    Error::bad_value(format!("$natural hint must be 1 or -1, but got {value}"))
}
