//! A document that is opened only where it changes.

use std::borrow::Cow;

use arbor_bson::{Doc, DocBuf, Value, ValueRef, Writer};
use hashbrown::HashMap;

use crate::stop::tick;

/// One value of the document: as it was, new, or opened into its parts.
#[derive(Clone, Debug)]
pub(super) enum Slot<'a> {
    Raw(ValueRef<'a>),
    Owned(Value),
    Document(Fields<'a>),
    Array(Vec<Slot<'a>>),
    /// A field that was taken away: its place stays, so that the positions of others do.
    Gone,
}

#[derive(Clone, Debug)]
struct Field<'a> {
    name: Cow<'a, str>,
    value: Slot<'a>,
}

/// The fields of an opened document.
#[derive(Clone, Debug, Default)]
pub(super) struct Fields<'a> {
    fields: Vec<Field<'a>>,
    /// Positions by name; of duplicate names the first one. Built once as many names were compared as hashing all of them costs.
    places: Option<HashMap<Cow<'a, str>, usize>>,
    compared: usize,
}

/// Names compared until the fields are hashed. Few updates name that many fields, or fields of such documents.
const COMPARED_MAX: usize = 4096;

impl<'a> Fields<'a> {
    /// Returns the position of the field of that name.
    pub(super) fn find(&mut self, name: &str) -> Option<usize> {
        if let Some(places) = &self.places {
            return places.get(name).copied();
        }
        let found = self.fields.iter().position(|field| field.name == name);
        self.compared += found.map_or(self.fields.len(), |at| at + 1);
        if self.compared > COMPARED_MAX {
            let mut places = HashMap::with_capacity(self.fields.len());
            for (at, field) in self.fields.iter().enumerate() {
                places.entry(field.name.clone()).or_insert(at);
            }
            self.places = Some(places);
        }
        found
    }

    pub(super) fn get_mut(&mut self, at: usize) -> Option<&mut Slot<'a>> {
        self.fields.get_mut(at).map(|field| &mut field.value)
    }

    /// Appends a field; returns its position.
    pub(super) fn push(&mut self, name: Cow<'a, str>, value: Slot<'a>) -> usize {
        let at = self.fields.len();
        if let Some(places) = &mut self.places {
            places.entry(name.clone()).or_insert(at);
        }
        self.fields.push(Field { name, value });
        at
    }

    fn write(&self, writer: &mut Writer) {
        self.fields.iter().for_each(|field| field.value.write(&field.name, writer));
    }
}

impl<'a> FromIterator<Field<'a>> for Fields<'a> {
    fn from_iter<I: IntoIterator<Item = Field<'a>>>(fields: I) -> Fields<'a> {
        Fields { fields: fields.into_iter().collect(), ..Fields::default() }
    }
}

impl<'a> Slot<'a> {
    pub(super) fn open_doc(doc: Doc<'a>) -> Slot<'a> {
        let field = |(name, value)| Field { name: Cow::Borrowed(name), value: Slot::Raw(value) };
        Slot::Document(doc.iter().take_while(|_| tick().is_ok()).map(field).collect())
    }

    /// Opens a document or an array; other values stay as they are.
    pub(super) fn open(&mut self) {
        let opened = match self {
            Slot::Raw(ValueRef::Document(doc)) => Slot::open_doc(*doc),
            Slot::Raw(ValueRef::Array(array)) => {
                Slot::Array(array.iter().take_while(|_| tick().is_ok()).map(Slot::Raw).collect())
            }
            Slot::Owned(Value::Document(doc)) => {
                let owned = |(name, value): (&str, ValueRef)| Field {
                    name: Cow::Owned(name.to_owned()),
                    value: Slot::Owned(value.to_value()),
                };
                Slot::Document(doc.as_doc().iter().map(owned).collect())
            }
            Slot::Owned(Value::Array(array)) => {
                Slot::Array(array.as_array().iter().map(|value| Slot::Owned(value.to_value())).collect())
            }
            _ => return,
        };
        *self = opened;
    }

    /// The elements, if this is an array; it is opened.
    pub(super) fn elements(&mut self) -> Option<&mut Vec<Slot<'a>>> {
        if self.is_array() {
            self.open();
        }
        match self {
            Slot::Array(elements) => Some(elements),
            _ => None,
        }
    }

    pub(super) fn is_array(&self) -> bool {
        matches!(self, Slot::Array(_) | Slot::Raw(ValueRef::Array(_)) | Slot::Owned(Value::Array(_)))
    }

    pub(super) fn is_document(&self) -> bool {
        matches!(self, Slot::Document(_) | Slot::Raw(ValueRef::Document(_)) | Slot::Owned(Value::Document(_)))
    }

    pub(super) fn get(&self, name: &str) -> Option<&Slot<'a>> {
        match self {
            Slot::Document(Fields { fields, .. }) => fields
                .iter()
                .find(|field| field.name == name && !matches!(field.value, Slot::Gone))
                .map(|field| &field.value),
            _ => None,
        }
    }

    /// The value. What was opened is put together first.
    pub(super) fn value(&mut self) -> ValueRef<'_> {
        if matches!(self, Slot::Document(_) | Slot::Array(_)) {
            *self = Slot::Owned(self.to_value());
        }
        match self {
            Slot::Raw(value) => *value,
            Slot::Owned(value) => value.as_ref(),
            Slot::Document(_) | Slot::Array(_) | Slot::Gone => ValueRef::Undefined,
        }
    }

    /// The value, unless it is opened.
    pub(super) fn peek(&self) -> Option<ValueRef<'_>> {
        match self {
            Slot::Raw(value) => Some(*value),
            Slot::Owned(value) => Some(value.as_ref()),
            Slot::Document(_) | Slot::Array(_) | Slot::Gone => None,
        }
    }

    pub(super) fn to_value(&self) -> Value {
        if let Some(value) = self.peek() {
            return value.to_value();
        }
        let mut writer = Writer::with_capacity(64);
        self.write("v", &mut writer);
        writer.finish().get("v").map_or(Value::Undefined, |value| value.to_value())
    }

    /// The whole document; requires an opened document. `capacity` is a guess of its size.
    pub(super) fn to_doc(&self, capacity: usize) -> DocBuf {
        let mut writer = Writer::with_capacity(capacity);
        if let Slot::Document(fields) = self {
            fields.write(&mut writer);
        }
        writer.finish()
    }

    /// Cut short when the statement is to stop.
    fn write(&self, name: &str, writer: &mut Writer) {
        match self {
            _ if tick().is_err() => {}
            Slot::Gone => {}
            Slot::Raw(value) => writer.append(name, *value),
            Slot::Owned(value) => writer.append(name, value.as_ref()),
            Slot::Document(fields) => {
                writer.open_document(name);
                fields.write(writer);
                writer.close();
            }
            Slot::Array(elements) => {
                writer.open_array(name);
                elements.iter().for_each(|element| element.write("", writer));
                writer.close();
            }
        }
    }
}
