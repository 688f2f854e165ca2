//! `{ $text: { $search, $language, $caseSensitive, $diacriticSensitive } }` as a client writes it.

use arbor_bson::{DocBuf, ValueRef};

use super::language::Language;
use super::term::Sensitivity;
use crate::{Code, Error, Result, text};

#[derive(Clone, Debug)]
pub struct TextPredicate {
    pub search: String,
    /// None: that of the index.
    pub language: Option<Language>,
    pub(super) sensitivity: Sensitivity,
}

impl TextPredicate {
    pub fn parse(operand: ValueRef<'_>) -> Result<TextPredicate> {
        let ValueRef::Document(operand) = operand else {
            return Err(Error::bad_value("$text expects an object"));
        };
        let (mut search, mut language, mut sensitivity) = (None, None, Sensitivity::default());
        for (name, value) in operand {
            match name {
                "$search" => search = Some(string(name, value)?.to_owned()),
                "$language" => {
                    language = match string(name, value)? {
                        "" => None,
                        given => Some(language_of(given)?),
                    };
                }
                "$caseSensitive" => sensitivity.case = flag(name, value)?,
                "$diacriticSensitive" => sensitivity.accents = flag(name, value)?,
                _ => return Err(Error::bad_value("extra fields in $text")),
            }
        }
        let missing = || Error::new(Code::NO_SUCH_KEY, "Missing expected field \"$search\"");
        Ok(TextPredicate { search: search.ok_or_else(missing)?, language, sensitivity })
    }

    /// As `explain` shows it.
    pub fn shown(&self) -> DocBuf {
        let operand = DocBuf::new()
            .with("$search", self.search.as_str())
            .with("$language", self.language.map_or("", Language::name))
            .with("$caseSensitive", self.sensitivity.case)
            .with("$diacriticSensitive", self.sensitivity.accents);
        DocBuf::new().with("$text", &operand)
    }
}

fn string<'v>(name: &str, value: ValueRef<'v>) -> Result<&'v str> {
    match value {
        ValueRef::String(value) => Ok(value),
        other => Err(wrong_type(name, other, "string")),
    }
}

fn flag(name: &str, value: ValueRef<'_>) -> Result<bool> {
    match value {
        ValueRef::Bool(flag) => Ok(flag),
        other => Err(wrong_type(name, other, "bool")),
    }
}

fn wrong_type(name: &str, value: ValueRef<'_>, expected: &str) -> Error {
    let found = text::type_name(Some(value));
    Error::type_mismatch(format!("\"{name}\" had the wrong type. Expected {expected}, found {found}"))
}

fn language_of(name: &str) -> Result<Language> {
    let unknown = || Error::bad_value(format!("unsupported language: \"{name}\" for text index version 3"));
    Language::of_name(name).ok_or_else(unknown)
}
