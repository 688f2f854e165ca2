//! One application of an operator update to one document: tree and document are walked together.

use std::{borrow::Cow, collections::BTreeMap};

use arbor_bson::{Doc, Value, ValueRef};

use super::{
    array_filter::ArrayFilters,
    order::FieldName,
    path::dollar_prefixed,
    slot::{Fields, Slot},
    tree::{POSITIONAL, Tree},
};
use crate::{Code, Collation, Error, Result, path::array_index, stop::tick, text};

/// Most elements an update may add to an array to reach a position in it.
const PADDING_MAX: usize = 1_500_000;

/// Outcome for a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Change {
    None,
    Changed,
    /// The field goes; an element of an array becomes null instead.
    Removed,
}

/// Behaviour of an operator at a path that leads through something that is no document.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Blocked {
    /// It would create a field there.
    Create,
    /// It refuses all the same.
    Refuse,
    Ignore,
}

/// The surroundings of one application.
pub(super) struct Run<'a> {
    pub old: Doc<'a>,
    /// The document is one that an upsert inserts.
    pub inserting: bool,
    pub position: Option<usize>,
    pub filters: &'a ArrayFilters,
    pub collation: &'a Collation,
    /// The values that the `$rename`s of the update move, by their number.
    pub renamed: Vec<Option<ValueRef<'a>>>,
    pub path: Vec<Cow<'a, str>>,
    /// See [`super::Written::Paths`].
    pub written: Vec<String>,
}

/// Trees that apply to the same value: one, unless `$`, `$[]` or `$[id]` overlap.
type Group<'t> = [&'t Tree];

impl<'a> Run<'a> {
    /// Applies the trees to a value that exists.
    pub(super) fn apply(&mut self, trees: &Group<'a>, slot: &mut Slot<'a>) -> Result<Change> {
        match trees {
            [Tree::Leaf(op)] => {
                let appended_from = op.appends_behind(slot);
                let change = op.modify(slot, self)?;
                if change != Change::None {
                    self.note_modified(appended_from, slot);
                }
                Ok(change)
            }
            [Tree::Fields(fields)] if !has_positional(fields) => self.fields(fields, slot),
            _ if trees.iter().all(|tree| matches!(tree, Tree::Fields(_))) => self.merged_fields(trees, slot),
            _ if trees.iter().all(|tree| matches!(tree, Tree::Elements(_))) => self.elements(trees, slot),
            _ => Err(self.conflict()),
        }
    }

    /// Notes the value at the path as written. Elements at the end of an array are noted one by one.
    fn note_modified(&mut self, appended_from: Option<usize>, slot: &mut Slot<'a>) {
        let path = self.dotted();
        match appended_from.zip(slot.elements()) {
            Some((from, elements)) => self.written.extend((from..elements.len()).map(|at| format!("{path}.{at}"))),
            None => self.written.push(path),
        }
    }

    /// Notes the value at the path as created, instead of what was noted inside it, which is all behind `from`.
    fn note_created(&mut self, from: usize) {
        self.written.truncate(from);
        self.written.push(self.dotted());
    }

    fn conflict(&self) -> Error {
        let message = format!("Update created a conflict at '{}'", self.dotted());
        Error::new(Code::CONFLICTING_UPDATE_OPERATORS, message)
    }

    pub(super) fn dotted(&self) -> String {
        self.path.join(".")
    }

    /// `_id: 1` of the document that is updated (`no id` if it has none), for messages.
    pub(super) fn id_text(&self) -> String {
        self.old.get("_id").map_or_else(|| "no id".to_owned(), |id| text::field("_id", id))
    }

    fn fields(&mut self, fields: &'a BTreeMap<FieldName, Tree>, slot: &mut Slot<'a>) -> Result<Change> {
        let mut change = Change::None;
        for (FieldName(name), tree) in fields {
            if self.field(Cow::Borrowed(name), &[tree], slot)? {
                change = Change::Changed;
            }
        }
        Ok(change)
    }

    /// Applies several trees, or one with the positional `$`, which is replaced by the position.
    fn merged_fields(&mut self, trees: &Group<'a>, slot: &mut Slot<'a>) -> Result<Change> {
        let mut children: BTreeMap<FieldName, Vec<&'a Tree>> = BTreeMap::new();
        for tree in trees {
            let Tree::Fields(fields) = tree else { continue };
            for (FieldName(name), tree) in fields {
                let name = if **name == *POSITIONAL { self.positional()? } else { name.clone() };
                children.entry(FieldName(name)).or_default().push(tree);
            }
        }
        let mut change = Change::None;
        for (FieldName(name), group) in children {
            if self.field(Cow::Owned(name.into_string()), &group, slot)? {
                change = Change::Changed;
            }
        }
        Ok(change)
    }

    fn positional(&self) -> Result<Box<str>> {
        let position = self
            .position
            .ok_or_else(|| Error::bad_value("The positional operator did not find the match needed from the query."))?;
        Ok(position.to_string().into())
    }

    /// Applies the trees to one field (or position) of `slot`; returns true if that changed.
    fn field(&mut self, name: Cow<'a, str>, trees: &Group<'a>, slot: &mut Slot<'a>) -> Result<bool> {
        if !slot.is_document() && !slot.is_array() {
            return self.blocked(&name, trees, slot);
        }
        slot.open();
        match slot {
            Slot::Document(fields) => self.document_field(name, trees, fields),
            Slot::Array(elements) => match array_index(&name) {
                Some(index) => self.array_element(index, name, trees, elements),
                None => self.blocked(&name, trees, slot),
            },
            _ => Ok(false),
        }
    }

    fn document_field(&mut self, name: Cow<'a, str>, trees: &Group<'a>, fields: &mut Fields<'a>) -> Result<bool> {
        tick()?;
        let known = fields.find(&name);
        let is_refused = self.path.is_empty() && !self.inserting && name.starts_with('$');
        self.path.push(name.clone());
        let change = match known.and_then(|at| fields.get_mut(at)) {
            Some(value) => {
                let change = self.apply(trees, value)?;
                if change == Change::Removed {
                    *value = Slot::Gone;
                }
                change
            }
            None => {
                let noted = self.written.len();
                match self.create(trees)? {
                    Some(value) => {
                        fields.push(name.clone(), value);
                        self.note_created(noted);
                        Change::Changed
                    }
                    None => Change::None,
                }
            }
        };
        self.path.pop();
        if change == Change::Changed && is_refused {
            return Err(dollar_prefixed(&name, &name));
        }
        Ok(change != Change::None)
    }

    fn array_element(
        &mut self,
        index: usize,
        name: Cow<'a, str>,
        trees: &Group<'a>,
        elements: &mut Vec<Slot<'a>>,
    ) -> Result<bool> {
        tick()?;
        self.path.push(name);
        let noted = self.written.len();
        let changed = match elements.get_mut(index) {
            Some(element) => self.apply_to_element(trees, element)?,
            None => match self.create(trees)? {
                Some(created) => {
                    if index - elements.len() > PADDING_MAX {
                        let message = format!("can't backfill more than {PADDING_MAX} elements");
                        return Err(Error::new(Code::CANNOT_BACKFILL_ARRAY, message));
                    }
                    elements.resize_with(index, || Slot::Owned(Value::Null));
                    elements.push(created);
                    self.note_created(noted);
                    true
                }
                None => false,
            },
        };
        self.path.pop();
        Ok(changed)
    }

    fn apply_to_element(&mut self, trees: &Group<'a>, element: &mut Slot<'a>) -> Result<bool> {
        let change = self.apply(trees, element)?;
        if change == Change::Removed {
            *element = Slot::Owned(Value::Null);
        }
        Ok(change != Change::None)
    }

    /// `$[]` and `$[id]`.
    fn elements(&mut self, trees: &Group<'a>, slot: &mut Slot<'a>) -> Result<Change> {
        if !slot.is_array() {
            let name = self.path.last().cloned().unwrap_or_default();
            let element = text::field(&name, slot.value());
            return Err(Error::bad_value(format!("Cannot apply array updates to non-array element {element}")));
        }
        let noted = self.written.len();
        // elements that were selected, and those of them that changed
        let (mut selected, mut changed) = (0usize, Vec::new());
        for (index, element) in slot.elements().into_iter().flatten().enumerate() {
            let mut group = Vec::new();
            for tree in trees {
                let Tree::Elements(by_identifier) = tree else { continue };
                for (identifier, tree) in by_identifier {
                    tick()?;
                    if identifier.is_empty() || self.filters.accepts(identifier, element.value())? {
                        group.push(tree);
                    }
                }
            }
            if group.is_empty() {
                continue;
            }
            selected += 1;
            self.path.push(Cow::Owned(index.to_string()));
            if self.apply_to_element(&group, element)? {
                changed.push(index);
            }
            self.path.pop();
        }
        // as in MongoDB: of one selected element what changed inside it, of several the element or, if more changed, the array
        match *changed.as_slice() {
            [] => return Ok(Change::None),
            _ if selected == 1 => {}
            [index] => {
                self.path.push(Cow::Owned(index.to_string()));
                self.note_created(noted);
                self.path.pop();
            }
            _ => self.note_created(noted),
        }
        Ok(Change::Changed)
    }

    /// The value that the trees make where nothing is yet, if they make one.
    fn create(&mut self, trees: &Group<'a>) -> Result<Option<Slot<'a>>> {
        match trees {
            [Tree::Leaf(op)] => op.create(self),
            _ if trees.iter().all(|tree| matches!(tree, Tree::Fields(_))) => {
                let mut slot = Slot::Document(Fields::default());
                let change = self.merged_fields(trees, &mut slot)?;
                Ok((change != Change::None).then_some(slot))
            }
            [.., Tree::Elements(_)] => Err(self.must_exist()),
            _ => Err(self.conflict()),
        }
    }

    fn must_exist(&self) -> Error {
        let path = self.dotted();
        Error::bad_value(format!("The path '{path}' must exist in the document in order to apply array updates."))
    }

    /// Handles a path that continues below `slot` with `name` where there can be no such field. Nothing changes if the operators
    /// permit that.
    fn blocked(&mut self, name: &str, trees: &Group<'a>, slot: &mut Slot<'a>) -> Result<bool> {
        let found = trees.iter().find_map(|tree| self.objection(tree));
        let holder = self.path.last().cloned().unwrap_or_default();
        let message = match found {
            None => return Ok(false),
            Some((Blocked::Refuse, below)) => {
                let element = text::field(&holder, slot.value());
                let path = [self.dotted(), name.to_owned()].into_iter().chain(below).collect::<Vec<_>>().join(".");
                format!("Cannot use the part ({name}) of ({path}) to traverse the element ({{{element}}})")
            }
            Some(_) => {
                let element = text::field(&holder, slot.value());
                format!("Cannot create field '{name}' in element {{{element}}}")
            }
        };
        Err(Error::new(Code::PATH_NOT_VIABLE, message))
    }

    /// The first operator in the tree that does not ignore a blocked path, and the names that lead to it.
    fn objection(&self, tree: &Tree) -> Option<(Blocked, Vec<String>)> {
        let children: Vec<(String, &Tree)> = match tree {
            Tree::Leaf(op) => {
                let verdict = op.blocked(self);
                return (verdict != Blocked::Ignore).then(|| (verdict, Vec::new()));
            }
            Tree::Fields(fields) => fields.iter().map(|(name, tree)| (name.0.to_string(), tree)).collect(),
            Tree::Elements(elements) => elements.iter().map(|(id, tree)| (format!("$[{id}]"), tree)).collect(),
        };
        children.into_iter().find_map(|(name, tree)| {
            let (verdict, mut below) = self.objection(tree)?;
            below.insert(0, name);
            Some((verdict, below))
        })
    }
}

fn has_positional(fields: &BTreeMap<FieldName, Tree>) -> bool {
    fields.keys().any(|name| *name.0 == *POSITIONAL)
}
