//! Documents laid over each other: a field is where the first row of the window has it, with the value of the last one.

use std::collections::VecDeque;
use std::sync::Arc;

use arbor_bson::{Doc, Value, ValueRef};
use hashbrown::HashMap;

use super::Moving;
use crate::Result;
use crate::accumulator::value_bytes;
use crate::expression::{Evaluated, not_a_document};

#[derive(Debug, Default)]
pub(crate) struct Merged {
    /// The names of each row's fields.
    rows: VecDeque<Vec<Arc<str>>>,
    fields: HashMap<Arc<str>, VecDeque<Field>>,
    /// Fields that have come; each has its number.
    entered: u64,
    bytes: usize,
}

#[derive(Debug)]
struct Field {
    number: u64,
    value: Value,
}

fn bytes(name: &str, value: &Value) -> usize {
    size_of::<Arc<str>>() + size_of::<Field>() + name.len() + value_bytes(value)
}

impl Moving for Merged {
    fn enter(&mut self, value: Evaluated, _root: Doc) -> Result<()> {
        let doc = match value.or_null() {
            _ if value.is_nullish() => Doc::empty(),
            ValueRef::Document(doc) => doc,
            other => return Err(not_a_document(other)),
        };
        let mut names = Vec::new();
        for (name, value) in doc {
            let name = self.fields.get_key_value(name).map_or_else(|| name.into(), |(known, _)| known.clone());
            let field = Field { number: self.entered, value: value.to_value() };
            self.entered += 1;
            self.bytes += bytes(&name, &field.value);
            self.fields.entry(name.clone()).or_default().push_back(field);
            names.push(name);
        }
        self.rows.push_back(names);
        Ok(())
    }

    fn leave(&mut self) {
        for name in self.rows.pop_front().into_iter().flatten() {
            let Some(fields) = self.fields.get_mut(&name) else { continue };
            if let Some(gone) = fields.pop_front() {
                self.bytes -= bytes(&name, &gone.value);
            }
            if fields.is_empty() {
                self.fields.remove(&name);
            }
        }
    }

    fn value(&self) -> Value {
        let shown = |(name, fields): (&'_ Arc<str>, &'_ VecDeque<Field>)| {
            let (first, last) = (fields.front()?.number, fields.back()?);
            Some((first, name.clone(), last.value.clone()))
        };
        let mut fields: Vec<(u64, Arc<str>, Value)> = self.fields.iter().filter_map(shown).collect();
        fields.sort_unstable_by_key(|(first, ..)| *first);
        Value::Document(fields.iter().map(|(_, name, value)| (name, value)).collect())
    }

    fn size_bytes(&self) -> usize {
        self.bytes
    }
}
