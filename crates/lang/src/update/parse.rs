//! Operator updates: `{ $set: { .. }, $inc: { .. } }`.

use std::collections::HashSet;

use arbor_bson::{Doc, DocBuf, ValueRef, compare};

use super::{
    Touched,
    array_filter::ArrayFilters,
    op::{self, Op, Rename},
    path::{Step, UpdatePath},
    run::{Change, Run},
    slot::Slot,
    tree::Tree,
};
use crate::{Code, Collation, Context, Error, Result, stop::tick, text};

#[derive(Clone, Debug)]
pub(super) struct Operators {
    tree: Tree,
    paths: Vec<UpdatePath>,
    renames: Vec<Rename>,
    filters: ArrayFilters,
    collation: Collation,
    /// No operand, put at its path, can nest deeper than this.
    depth_max: usize,
}

/// The value that a whole field gets, or none if it is removed; `None`: something else happens to it.
#[expect(clippy::option_option, reason = "two questions")]
fn whole(field: &Tree) -> Option<Option<ValueRef<'_>>> {
    match field {
        Tree::Leaf(Op::Set(set)) => Some(Some(set.value())),
        Tree::Leaf(Op::Unset) => Some(None),
        _ => None,
    }
}

impl Operators {
    pub(super) fn parse(update: Doc, array_filters: &[Doc], context: &Context) -> Result<Operators> {
        let filters = ArrayFilters::parse(array_filters, context)?;
        let collation = context.collation.clone();
        let mut operators =
            Operators { tree: Tree::new(), paths: Vec::new(), renames: Vec::new(), filters, collation, depth_max: 0 };
        for (name, operand) in update {
            if !op::NAMES.contains(&name) {
                return Err(op::unknown(name));
            }
            let ValueRef::Document(fields) = operand else {
                let ty = text::type_alias(operand.ty());
                return Err(Error::failed_to_parse(format!(
                    "Modifiers operate on fields but we found type {ty} instead. For example: {{$mod: {{<field>: \
                     ...}}}} not {{{}}}",
                    text::field(name, operand),
                )));
            };
            for (path, value) in fields {
                tick()?;
                operators.add(name, path, value, context)?;
            }
        }
        operators.check_filters_used(update)?;
        Ok(operators)
    }

    fn add(&mut self, name: &str, path: &str, operand: ValueRef, context: &Context) -> Result<()> {
        if name == "$rename" {
            return self.add_rename(path, operand);
        }
        let path = UpdatePath::parse(path, &self.filters)?;
        let op = Op::parse(name, &path, operand, context)?;
        self.tree.insert(&path, op)?;
        // a level of nesting takes at least 7 bytes (type, name, length, end): a bound without reading the operand
        let bytes = match operand {
            ValueRef::Document(doc) => doc.as_bytes().len(),
            ValueRef::Array(array) => array.as_bytes().len(),
            _ => 0,
        };
        self.depth_max = self.depth_max.max(path.steps().len() + 2 + bytes / 7);
        self.paths.push(path);
        Ok(())
    }

    fn add_rename(&mut self, from: &str, operand: ValueRef) -> Result<()> {
        let rename = Rename::parse(from, operand, &self.filters)?;
        self.tree.insert(&rename.from, Op::RenameFrom)?;
        self.tree.insert(&rename.to, Op::RenameTo(self.renames.len()))?;
        if rename.goes_deeper() {
            self.depth_max = usize::MAX;
        }
        self.paths.extend([rename.from.clone(), rename.to.clone()]);
        self.renames.push(rename);
        Ok(())
    }

    fn check_filters_used(&self, update: Doc) -> Result<()> {
        let steps = self.paths.iter().flat_map(|path| path.steps());
        let used: HashSet<&str> = steps.filter_map(Step::identifier).collect();
        match self.filters.identifiers().find(|identifier| !used.contains(identifier)) {
            None => Ok(()),
            Some(identifier) => {
                let update = text::shell(ValueRef::Document(update));
                Err(Error::failed_to_parse(format!(
                    "The array filter for identifier '{identifier}' was not used in the update {update}"
                )))
            }
        }
    }

    pub(super) fn needs_position(&self) -> bool {
        self.paths.iter().any(UpdatePath::has_positional)
    }

    pub(super) fn is_self_contained(&self) -> bool {
        let is_plain = |path: &UpdatePath| path.head() != "_id" && !path.has_positional();
        self.collation.is_simple()
            && self.renames.is_empty()
            && self.filters.identifiers().next().is_none()
            && self.paths.iter().all(is_plain)
            && self.tree.ops().all(Op::depends_on_the_value_alone)
    }

    pub(super) fn whole_fields(&self) -> Option<Vec<(&str, Option<ValueRef<'_>>)>> {
        let Tree::Fields(fields) = &self.tree else { return None };
        fields.iter().map(|(name, field)| Some((&*name.0, whole(field)?))).collect()
    }

    pub(super) fn may_nest_deeply(&self) -> bool {
        self.depth_max > arbor_bson::Limits::STORED.depth_max
    }

    pub(super) fn touched(&self) -> Touched {
        let mut heads: Vec<Box<str>> = self.paths.iter().map(|path| path.head().into()).collect();
        heads.sort();
        heads.dedup();
        Touched::Fields(heads)
    }

    /// The document after the update and the paths that it wrote; none if no operator had anything to do.
    pub(super) fn apply(&self, old: Doc, position: Option<usize>) -> Result<Option<(DocBuf, Vec<String>)>> {
        self.run(old, position, false)
    }

    /// As `apply`, on the document that an upsert inserts.
    pub(super) fn apply_to_new(&self, new: Doc) -> Result<Option<DocBuf>> {
        Ok(self.run(new, None, true)?.map(|(new, _)| new))
    }

    fn run(&self, old: Doc, position: Option<usize>, inserting: bool) -> Result<Option<(DocBuf, Vec<String>)>> {
        let renamed = op::renamed(&self.renames, old)?;
        let collation = &self.collation;
        let filters = &self.filters;
        let (path, written) = (Vec::new(), Vec::new());
        let mut run = Run { old, inserting, position, filters, collation, renamed, path, written };
        let mut root = Slot::open_doc(old);
        if run.apply(&[&self.tree], &mut root)? == Change::None {
            return Ok(None);
        }
        self.check_id(old, &root)?;
        Ok(Some((root.to_doc(old.as_bytes().len() + 64), run.written)))
    }

    /// U3. A document that had no `_id` yet may get one.
    fn check_id(&self, old: Doc, new: &Slot) -> Result<()> {
        let Some(path) = self.paths.iter().find(|path| path.head() == "_id") else { return Ok(()) };
        let Some(before) = old.get("_id") else { return Ok(()) };
        if new.get("_id").is_some_and(|after| compare(before, after.to_value().as_ref()).is_eq()) {
            return Ok(());
        }
        let message =
            format!("Performing an update on the path '{}' would modify the immutable field '_id'", path.as_str());
        Err(Error::new(Code::IMMUTABLE_FIELD, message))
    }
}
