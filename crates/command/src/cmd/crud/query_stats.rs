//! `$queryStats`: what statements cost, by their shape. With `transformIdentifiers` the names in them are replaced by keyed hashes.

use arbor_auth::Mechanism;
use arbor_bson::{ArrayBuf, DocBuf, Type, ValueRef};
use arbor_protocol::arguments::{Field, present};
use base64::Engine;
use base64::prelude::BASE64_STANDARD;

use crate::call::Call;
use crate::{Error, Result};

/// BinData of this subtype is not shown in logs.
const SENSITIVE: u8 = 8;

pub(crate) fn stage(call: &Call<'_>, options: ValueRef<'_>) -> Result<Vec<DocBuf>> {
    let mut names = None;
    for (name, value) in present(Field::new("$queryStats", "").document(options)?) {
        let field = Field::new("$queryStats", name);
        match name {
            "transformIdentifiers" => names = Some(Names::read(field, value)?),
            _ => return Err(field.unknown().into()),
        }
    }
    Ok(call.server.query_statistics.list(|key| match &names {
        Some(names) => names.hide(key),
        None => key.clone(),
    }))
}

/// The key of the hashes that names are replaced by.
struct Names {
    key: Vec<u8>,
}

impl Names {
    fn read(field: Field<'_>, value: ValueRef<'_>) -> Result<Names> {
        let of = |name| Field::new("$queryStats.transformIdentifiers", name);
        let (mut algorithm, mut key) = (None, None);
        for (name, value) in present(field.document(value)?) {
            match name {
                "algorithm" => algorithm = Some(of(name).string(value)?),
                "hmacKey" => match value {
                    ValueRef::Binary { subtype: SENSITIVE, bytes } => key = Some(bytes.to_vec()),
                    other => return Err(of(name).wrong_type(other, "binData").into()),
                },
                _ => return Err(of(name).unknown().into()),
            }
        }
        match algorithm.ok_or_else(|| of("algorithm").missing())? {
            "hmac-sha-256" => Ok(Names { key: key.ok_or_else(|| of("hmacKey").missing())? }),
            other => {
                let text = format!(
                    "Enumeration value '{other}' for field '$queryStats.transformIdentifiers.algorithm' is not a valid value."
                );
                Err(Error::bad_value(text))
            }
        }
    }

    /// Returns the key of an entry without names. COMPAT: names of options inside stages are replaced as well.
    fn hide(&self, key: &DocBuf) -> DocBuf {
        let mut hidden = DocBuf::new();
        for (name, value) in key.as_doc() {
            match (name, value) {
                ("queryShape", ValueRef::Document(shape)) => {
                    let mut doc = DocBuf::new();
                    for (name, value) in shape {
                        match (name, value) {
                            ("command", value) => drop(doc.append(name, value)),
                            ("cmdNs", ValueRef::Document(target)) => {
                                let mut names = DocBuf::new();
                                for (part, value) in target {
                                    self.append(&mut names, part, value);
                                }
                                doc.append(name, &names);
                            }
                            (name, value) => self.append(&mut doc, name, value),
                        }
                    }
                    hidden.append(name, &doc);
                }
                ("hint", value) => self.append(&mut hidden, name, value),
                (name, value) => drop(hidden.append(name, value)),
            }
        }
        hidden
    }

    /// Appends a value, in which names are replaced, under `name` as it is.
    fn append(&self, doc: &mut DocBuf, name: &str, value: ValueRef<'_>) {
        match value {
            ValueRef::Document(inner) => {
                let mut hidden = DocBuf::new();
                for (name, value) in inner {
                    let name = if name.starts_with('$') { name.to_owned() } else { self.path(name) };
                    self.append(&mut hidden, &name, value);
                }
                doc.append(name, &hidden);
            }
            ValueRef::Array(values) => {
                let mut items = DocBuf::new();
                for (at, value) in values.as_doc() {
                    self.append(&mut items, at, value);
                }
                let items: ArrayBuf = items.as_doc().iter().map(|(_, item)| item).collect();
                doc.append(name, &items);
            }
            ValueRef::String(text) => drop(doc.append(name, &self.text(text))),
            value => drop(doc.append(name, value)),
        }
    }

    /// Placeholders, operators and the server's variables stay.
    fn text(&self, text: &str) -> String {
        if text.starts_with('?') {
            return text.to_owned();
        }
        match (text.strip_prefix("$$"), text.strip_prefix('$')) {
            (Some(variable), _) => {
                let (name, path) = variable.split_once('.').map_or((variable, None), |(name, path)| (name, Some(path)));
                let own = name.starts_with(|first: char| first.is_ascii_uppercase());
                let name = if own { name.to_owned() } else { self.hash(name) };
                path.map_or_else(|| format!("$${name}"), |path| format!("$${name}.{}", self.path(path)))
            }
            (None, Some(path)) => format!("${}", self.path(path)),
            (None, None) => self.path(text),
        }
    }

    fn path(&self, path: &str) -> String {
        path.split('.').map(|part| self.hash(part)).collect::<Vec<_>>().join(".")
    }

    fn hash(&self, name: &str) -> String {
        BASE64_STANDARD.encode(Mechanism::ScramSha256.hmac(&self.key, name.as_bytes()))
    }
}

/// Returns what is shown of an option of a statement whose value is no part of its shape.
pub(crate) fn placeholder(value: ValueRef<'_>) -> String {
    match value.ty() {
        Type::Int32 | Type::Int64 | Type::Double | Type::Decimal128 => "?number".to_owned(),
        ty => format!("?{}", arbor_protocol::arguments::type_name(ty)),
    }
}
