//! `{ $group: { _id: <expression>, field: { <accumulator>: <expression> }, ... } }`.
//!
//! Groups are keyed by the KeyString of their `_id` under the collation, so 1 and 1.0 are one group; it shows the `_id` of its first
//! document. A missing `_id` is null.

use arbor_bson::keystring::KeyBuilder;
use arbor_bson::{Doc, DocBuf, Value, ValueRef};
use hashbrown::HashMap;

use super::accumulated::{FieldStates, Fields};
use crate::expression::Environment;
use crate::{Collation, Context, Error, Expression, Input, Result, stop};

#[derive(Clone, Debug)]
pub struct Group {
    id: Expression,
    fields: Fields,
    collation: Collation,
}

impl Group {
    pub fn parse(spec: ValueRef, context: &Context) -> Result<Group> {
        let ValueRef::Document(spec) = spec else {
            return Err(Error::location(15947, "a group's fields must be specified in an object"));
        };
        let mut id = None;
        let mut fields = Fields::default();
        for (name, value) in spec {
            if name == "_id" {
                if id.is_some() {
                    return Err(Error::location(15948, "a group's _id may only be specified once"));
                }
                id = Some(Expression::parse(value, context)?);
                continue;
            }
            fields.push(name, value, context).map_err(of_group)?;
        }
        let id = id.ok_or_else(|| Error::location(15955, "a group specification must include an _id"))?;
        Ok(Group { id, fields, collation: context.collation.clone() })
    }

    pub fn id(&self) -> &Expression {
        &self.id
    }

    /// Returns the collation of `_id`.
    pub fn collation(&self) -> &Collation {
        &self.collation
    }

    /// Returns true if it reads documents, rather than only counting them.
    pub fn reads_documents(&self) -> bool {
        self.id.reads_document() || self.fields.as_slice().iter().any(|(_, accumulator)| accumulator.reads_document())
    }

    /// The top-level fields that it reads. None: it may read any, or the document's metadata.
    pub fn fields_read(&self) -> Option<Vec<String>> {
        let arguments = self.fields.as_slice().iter().map(|(_, accumulator)| accumulator.fields_read());
        let all = std::iter::once(self.id.top_level_fields()).chain(arguments).collect::<Option<Vec<_>>>()?;
        let mut names: Vec<String> = all.into_iter().flatten().collect();
        names.sort_unstable();
        names.dedup();
        Some(names)
    }

    /// Returns the group key of a document: equal bytes, same group. For partitioning input that does not fit into memory.
    pub fn key<'d>(&self, input: impl Into<Input<'d>>) -> Result<Vec<u8>> {
        let environment = Environment::new(input);
        let id = self.id.eval_in(&environment)?;
        Ok(self.collation.key_of(id.or_null()).bytes)
    }
}

/// COMPAT: `$group` has codes of its own for the `n` of an accumulator, and for errors of evaluation.
fn of_group(error: Error) -> Error {
    let code = match error.code.0 {
        5787902 | 5787908 => 7548606,
        2 if error.message == "can't $divide by zero" => 4848401,
        16610 => 4848403,
        40400 => 5911200,
        _ => return error,
    };
    Error::location(code, error.message)
}

/// Memory of one group in addition to its key and what its accumulators report: an entry of a table that may be half empty, its place in
/// a list that may be half empty, and the accumulators' own allocations.
const GROUP_BYTES: usize = 256;

/// Keys from this length on may have been cut short, when the statement is to stop.
const LARGE_KEY_BYTES: usize = 32 << 10;

/// The groups collected so far. Feed documents with `add`, take the results with `finish`.
pub struct GroupState {
    group: Group,
    by_key: HashMap<Box<[u8]>, usize>,
    groups: Vec<OneGroup>,
    key: KeyBuilder,
    size_bytes: usize,
}

struct OneGroup {
    id: Value,
    states: FieldStates,
}

impl GroupState {
    pub fn new(group: &Group) -> GroupState {
        GroupState {
            group: group.clone(),
            by_key: HashMap::new(),
            groups: Vec::new(),
            key: KeyBuilder::new(),
            size_bytes: 0,
        }
    }

    pub fn add<'d>(&mut self, input: impl Into<Input<'d>>) -> Result<()> {
        let input = input.into();
        let environment = Environment::new(input);
        let id = self.group.id.eval_in(&environment)?;
        self.group.collation.push_key(self.key.clear(), id.or_null(), false);
        if self.key.len() >= LARGE_KEY_BYTES {
            // it may be cut short
            stop::ended()?;
        }
        let at = match self.by_key.get(self.key.bytes()) {
            Some(at) => *at,
            None => {
                let states = self.group.fields.start();
                let at = self.groups.len();
                self.size_bytes += 2 * self.key.len() + GROUP_BYTES + states.size_bytes();
                self.groups.push(OneGroup { id: id.or_null().to_value(), states });
                self.by_key.insert(self.key.bytes().into(), at);
                at
            }
        };
        let Some(group) = self.groups.get_mut(at) else { return Ok(()) };
        let (grown, before) = group.states.add(&self.group.fields, input).map_err(of_group)?;
        self.size_bytes = (self.size_bytes + grown).saturating_sub(before);
        Ok(())
    }

    /// Memory held, estimated: for the limit and for spilling.
    pub fn size_bytes(&self) -> usize {
        self.size_bytes
    }

    /// Groups so far.
    pub fn len(&self) -> usize {
        self.groups.len()
    }

    pub fn is_empty(&self) -> bool {
        self.groups.is_empty()
    }

    /// Takes all groups out, each with its key and its partial states in the form that
    /// [`Regrouped`] takes: `{ i: <_id>, s: [<partial states>] }`.
    pub fn drain(&mut self) -> impl Iterator<Item = (Vec<u8>, DocBuf)> + use<> {
        self.size_bytes = 0;
        let mut keys: Vec<(Box<[u8]>, usize)> = self.by_key.drain().collect();
        keys.sort_unstable_by_key(|(_, at)| *at);
        let groups = std::mem::take(&mut self.groups);
        keys.into_iter().zip(groups).map(|((key, _), group)| {
            (key.into_vec(), DocBuf::new().with("i", &group.id).with("s", &group.states.partials()))
        })
    }

    /// One document per group, in the order the groups were first seen.
    pub fn finish(self) -> Result<Groups> {
        Ok(Groups { fields: self.group.fields, groups: self.groups.into_iter() })
    }
}

/// One group put together from what [`GroupState::drain`] gave at different times, in their order.
pub struct Regrouped {
    group: OneGroup,
}

impl Regrouped {
    pub fn begin(group: &Group, partial: Doc) -> Result<Regrouped> {
        let id = partial.get("i").map_or(Value::Null, ValueRef::to_value);
        let mut regrouped = Regrouped { group: OneGroup { id, states: group.fields.start() } };
        regrouped.absorb(partial)?;
        Ok(regrouped)
    }

    pub fn absorb(&mut self, partial: Doc) -> Result<()> {
        match partial.get("s") {
            Some(ValueRef::Array(partials)) => self.group.states.absorb(partials),
            _ => Ok(()),
        }
    }

    pub fn size_bytes(&self) -> usize {
        self.group.states.size_bytes()
    }

    pub fn finish(self, group: &Group) -> DocBuf {
        let mut doc = DocBuf::new().with("_id", &self.group.id);
        self.group.states.finish(&group.fields, &mut doc);
        doc
    }
}

/// The results of a `$group`.
pub struct Groups {
    fields: Fields,
    groups: std::vec::IntoIter<OneGroup>,
}

impl Groups {
    pub fn is_empty(&self) -> bool {
        self.groups.len() == 0
    }
}

impl Iterator for Groups {
    type Item = DocBuf;

    fn next(&mut self) -> Option<DocBuf> {
        let group = self.groups.next()?;
        let mut doc = DocBuf::new().with("_id", &group.id);
        group.states.finish(&self.fields, &mut doc);
        Some(doc)
    }
}
