//! A document or command with holes: `"{name}"` is the binding's value itself, `"order {name}"` a text with it; `{{` is a brace.

use arbor_bson::{ArrayBuf, DocBuf, Value};

use super::binding::{DrawState, Draws};

#[derive(Clone, Debug)]
pub enum Template {
    Fixed(Value),
    /// The value of a binding.
    Hole(usize),
    /// Texts and bindings in turn.
    Text(Vec<Piece>),
    /// Fields in their order.
    Document(Vec<(String, Template)>),
    Array(Vec<Template>),
}

#[derive(Clone, Debug)]
pub enum Piece {
    Fixed(String),
    Hole(usize),
}

/// Names of bindings, by their place.
pub type Names<'a> = &'a [&'a str];

impl Template {
    /// Reads a text of a template. Errors: a binding that is not among the names, a brace that is not closed.
    pub fn of_text(text: &str, names: Names<'_>) -> Result<Template, String> {
        let mut pieces: Vec<Piece> = Vec::new();
        let mut rest = text;
        let mut plain = String::new();
        while let Some((before, after)) = rest.split_once('{') {
            plain.push_str(before);
            if let Some(after) = after.strip_prefix('{') {
                plain.push('{');
                rest = after;
                continue;
            }
            let (name, after) = after.split_once('}').ok_or_else(|| format!("{text:?}: a brace is not closed"))?;
            let at = names
                .iter()
                .position(|known| *known == name)
                .ok_or_else(|| format!("{text:?}: unknown binding {name:?}; known are {}", names.join(", ")))?;
            if !plain.is_empty() {
                pieces.push(Piece::Fixed(std::mem::take(&mut plain)));
            }
            pieces.push(Piece::Hole(at));
            rest = after;
        }
        plain.push_str(rest);
        Ok(match pieces.as_slice() {
            [] => Template::Fixed(Value::String(plain)),
            [Piece::Hole(at)] if plain.is_empty() => Template::Hole(*at),
            _ => {
                if !plain.is_empty() {
                    pieces.push(Piece::Fixed(plain));
                }
                Template::Text(pieces)
            }
        })
    }

    /// Calls `f` with each binding of the template.
    pub fn for_each_hole(&self, f: &mut impl FnMut(usize)) {
        match self {
            Template::Fixed(_) => {}
            Template::Hole(at) => f(*at),
            Template::Text(pieces) => pieces.iter().for_each(|piece| {
                if let Piece::Hole(at) = piece {
                    f(*at);
                }
            }),
            Template::Document(fields) => fields.iter().for_each(|(_, field)| field.for_each_hole(f)),
            Template::Array(items) => items.iter().for_each(|item| item.for_each_hole(f)),
        }
    }

    /// Returns the document with its holes filled; what is no document is empty.
    pub(super) fn document(&self, draws: &Draws<'_>, state: &mut DrawState) -> DocBuf {
        let mut document = DocBuf::new();
        if let Template::Document(fields) = self {
            for (name, field) in fields {
                match field {
                    // without a copy
                    Template::Fixed(value) => document.append(name, value),
                    Template::Hole(at) => document.append(name, draws.value(*at, state)),
                    other => document.append(name, &other.value(draws, state)),
                };
            }
        }
        document
    }

    fn value(&self, draws: &Draws<'_>, state: &mut DrawState) -> Value {
        match self {
            Template::Fixed(value) => value.clone(),
            Template::Hole(at) => draws.value(*at, state).clone(),
            Template::Text(pieces) => {
                let text = pieces.iter().map(|piece| match piece {
                    Piece::Fixed(text) => text.clone(),
                    Piece::Hole(at) => shown(draws.value(*at, state)),
                });
                Value::String(text.collect())
            }
            Template::Document(_) => Value::Document(self.document(draws, state)),
            Template::Array(items) => {
                let mut array = ArrayBuf::new();
                for item in items {
                    array.push(&item.value(draws, state));
                }
                Value::Array(array)
            }
        }
    }
}

fn shown(value: &Value) -> String {
    match value {
        Value::Int32(number) => number.to_string(),
        Value::Int64(number) | Value::DateTime(number) => number.to_string(),
        Value::Double(number) => number.to_string(),
        Value::String(text) => text.clone(),
        Value::Bool(flag) => flag.to_string(),
        _ => String::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::super::Binding;
    use super::*;
    use crate::workload::Random;

    #[test]
    fn holes_are_filled_in_order_and_one_binding_has_one_value() {
        let names = ["row", "n"];
        let text = |text: &str| Template::of_text(text, &names).unwrap();
        let command = Template::Document(vec![
            ("find".to_owned(), text("orders")),
            ("b".to_owned(), Template::Array(vec![text("{n}"), text("{n}")])),
            (
                "a".to_owned(),
                Template::Document(vec![("_id".to_owned(), text("{row}")), ("t".to_owned(), text("a {row} {{b}"))]),
            ),
        ]);
        let bindings = [Binding::Loaded, Binding::Int { first: 0, last: 1 << 20, skew: super::super::Skew::Uniform }];
        let mut state = DrawState::new(&bindings, &[], Random::new(1));
        let document = command.document(&Draws::new(&bindings, &[], 42), &mut state);
        let shown = document.as_doc().to_string();
        assert!(
            shown.starts_with("{ find: \"orders\", b: [") && shown.ends_with("a: { _id: 42, t: \"a 42 {b}\" } }"),
            "{shown}"
        );
        let pair = shown.split_once("b: [").and_then(|(_, rest)| rest.split_once(']')).unwrap().0;
        let (first, second) = pair.split_once(',').unwrap();
        assert_eq!(first.trim(), second.trim(), "{shown}");
    }

    #[test]
    fn wrong_holes_are_refused() {
        let refused = |text: &str| Template::of_text(text, &["a"]).unwrap_err();
        assert!(refused("{b}").contains("unknown binding \"b\"; known are a"));
        assert!(refused("x {a").contains("a brace is not closed"));
    }
}
