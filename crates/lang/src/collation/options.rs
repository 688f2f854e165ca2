//! The collation document.
//!
//! | field | values | default |
//! |---|---|---|
//! | `locale` | see `locale.rs` | none: it must be given |
//! | `strength` | 1 to 5 | 3 |
//! | `caseLevel` | bool | false |
//! | `caseFirst` | `upper`, `lower`, `off` | the locale's |
//! | `numericOrdering` | bool | false |
//! | `alternate` | `non-ignorable`, `shifted` | the locale's |
//! | `maxVariable` | `punct`, `space` | `punct` |
//! | `normalization` | bool | false; text is compared as if normalised anyway |
//! | `backwards` | bool | the locale's |
//! | `version` | `57.1` | that |

use arbor_bson::{Doc, DocBuf, ValueRef};
use icu_collator::options::{AlternateHandling, CaseLevel, CollatorOptions, MaxVariable, Strength};
use icu_collator::preferences::{CollationCaseFirst, CollationNumericOrdering};
use icu_collator::{CollatorBorrowed, CollatorPreferences};

use super::locale::{self, Locale};
use crate::{Code, Error, Result, number, text};

/// Version of MongoDB's collation library, as its catalogues and dumps have had it since collations exist.
const VERSION: &str = "57.1";

/// Values are as the document shows them. `caseFirst`, `alternate` and `backwards` are the locale's own until
/// [`Options::resolved`] if they were not given.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Options {
    locale: Locale,
    strength: i32,
    case_level: bool,
    case_first: Option<&'static str>,
    numeric_ordering: bool,
    alternate: Option<&'static str>,
    max_variable: &'static str,
    normalization: bool,
    backwards: bool,
}

impl Options {
    /// `None` is the simple collation.
    pub(super) fn parse(doc: Doc) -> Result<Option<Options>> {
        let locale = match doc.get("locale") {
            None | Some(ValueRef::Null | ValueRef::Undefined) => {
                return Err(Error::location(40414, "BSON field 'collation.locale' is missing but a required field"));
            }
            Some(ValueRef::String(name)) => name,
            Some(other) => return Err(wrong_type("locale", other, "string")),
        };
        let known = if locale == locale::SIMPLE { Locale::root() } else { Locale::parse(locale, doc)? };
        let backwards = known.is_backwards();
        let mut options = Options {
            locale: known,
            strength: 3,
            case_level: false,
            case_first: None,
            numeric_ordering: false,
            alternate: None,
            max_variable: "punct",
            normalization: false,
            backwards,
        };
        for (name, value) in doc {
            options.read(name, value)?;
        }
        if locale == locale::SIMPLE {
            return Ok(None);
        }
        options.check(doc)?;
        Ok(Some(options))
    }

    fn read(&mut self, name: &str, value: ValueRef) -> Result<()> {
        match name {
            _ if matches!(value, ValueRef::Null | ValueRef::Undefined) => {}
            "locale" => {}
            "strength" => self.strength = strength(value)?,
            "caseLevel" => self.case_level = flag(name, value)?,
            "caseFirst" => self.case_first = Some(one_of(name, value, &["upper", "lower", "off"])?),
            "numericOrdering" => self.numeric_ordering = flag(name, value)?,
            "alternate" => self.alternate = Some(one_of(name, value, &["non-ignorable", "shifted"])?),
            "maxVariable" => self.max_variable = one_of(name, value, &["punct", "space"])?,
            "normalization" => self.normalization = flag(name, value)?,
            "backwards" => self.backwards = flag(name, value)?,
            "version" => version(value)?,
            _ => return Err(Error::location(40415, format!("BSON field 'collation.{name}' is an unknown field."))),
        }
        Ok(())
    }

    /// Options that contradict each other.
    fn check(&self, doc: Doc) -> Result<()> {
        let asked = |name| matches!(doc.get(name), Some(ValueRef::Bool(true)));
        if asked("backwards") && self.strength == 1 {
            return Err(Error::bad_value("'backwards' is invalid with 'strength' of 1"));
        }
        if self.case_first.is_some_and(|first| first != "off") && !self.case_level && self.strength < 3 {
            let message = "'caseFirst' is invalid unless 'caseLevel' is on or 'strength' is greater than 2";
            return Err(Error::bad_value(message));
        }
        Ok(())
    }

    pub(super) fn collator(&self, doc: Doc) -> Result<CollatorBorrowed<'static>> {
        let mut preferences = CollatorPreferences::from(&self.locale.tailoring(self.backwards)?);
        if let Some(first) = self.case_first {
            preferences.case_first = Some(match first {
                "upper" => CollationCaseFirst::Upper,
                "lower" => CollationCaseFirst::Lower,
                _ => CollationCaseFirst::False,
            });
        }
        if self.numeric_ordering {
            preferences.numeric_ordering = Some(CollationNumericOrdering::True);
        }
        let mut options = CollatorOptions::default();
        options.strength = Some(match self.strength {
            1 => Strength::Primary,
            2 => Strength::Secondary,
            3 => Strength::Tertiary,
            4 => Strength::Quaternary,
            _ => Strength::Identical,
        });
        options.case_level = Some(if self.case_level { CaseLevel::On } else { CaseLevel::Off });
        options.alternate_handling = self.alternate.map(|alternate| match alternate {
            "shifted" => AlternateHandling::Shifted,
            _ => AlternateHandling::NonIgnorable,
        });
        options.max_variable = Some(match self.max_variable {
            "space" => MaxVariable::Space,
            _ => MaxVariable::Punctuation,
        });
        CollatorBorrowed::try_new(preferences, options).map_err(|_| locale::invalid(doc))
    }

    /// With what the locale decides by itself.
    pub(super) fn resolved(self, collator: &CollatorBorrowed) -> Options {
        let resolved = collator.resolved_options();
        let case_first = match resolved.case_first {
            CollationCaseFirst::Upper => "upper",
            CollationCaseFirst::Lower => "lower",
            _ => "off",
        };
        let alternate = match resolved.alternate_handling {
            AlternateHandling::Shifted => "shifted",
            _ => "non-ignorable",
        };
        Options {
            case_first: Some(self.case_first.unwrap_or(case_first)),
            alternate: Some(self.alternate.unwrap_or(alternate)),
            ..self
        }
    }

    pub(super) fn to_doc(&self) -> DocBuf {
        DocBuf::new()
            .with("locale", self.locale.name())
            .with("caseLevel", self.case_level)
            .with("caseFirst", self.case_first.unwrap_or("off"))
            .with("strength", self.strength)
            .with("numericOrdering", self.numeric_ordering)
            .with("alternate", self.alternate.unwrap_or("non-ignorable"))
            .with("maxVariable", self.max_variable)
            .with("normalization", self.normalization)
            .with("backwards", self.backwards)
            .with("version", VERSION)
    }
}

fn strength(value: ValueRef) -> Result<i32> {
    if !number::is_number(value) {
        let found = text::type_name(Some(value));
        let message = format!(
            "BSON field 'collation.strength' is the wrong type '{found}', expected types '[long, int, decimal, double']"
        );
        return Err(Error::type_mismatch(message));
    }
    match number::exact_i64(value) {
        Some(strength @ 1..=5) => Ok(strength as i32),
        _ => Err(no_such_value("strength", &text::shell(value))),
    }
}

fn flag(name: &str, value: ValueRef) -> Result<bool> {
    match value {
        ValueRef::Bool(value) => Ok(value),
        other if number::is_number(other) => Ok(number::to_f64(other) != Some(0.0)),
        other => {
            let found = text::type_name(Some(other));
            let message = format!(
                "BSON field 'collation.{name}' is the wrong type '{found}', expected types '[bool, long, int, decimal, double']"
            );
            Err(Error::type_mismatch(message))
        }
    }
}

fn one_of(name: &str, value: ValueRef, known: &[&'static str]) -> Result<&'static str> {
    let ValueRef::String(value) = value else { return Err(wrong_type(name, value, "string")) };
    known.iter().find(|known| **known == value).copied().ok_or_else(|| no_such_value(name, value))
}

/// The version is there for dumps, which carry the whole document.
fn version(value: ValueRef) -> Result<()> {
    match value {
        ValueRef::String(VERSION) => Ok(()),
        ValueRef::String(other) => {
            let message =
                format!("Requested collation version {other} but the only available collator version was {VERSION}");
            Err(Error::new(Code::INCOMPATIBLE_COLLATION_VERSION, message))
        }
        other => Err(wrong_type("version", other, "string")),
    }
}

fn wrong_type(name: &str, found: ValueRef, expected: &str) -> Error {
    let found = text::type_name(Some(found));
    Error::type_mismatch(format!(
        "BSON field 'collation.{name}' is the wrong type '{found}', expected type '{expected}'"
    ))
}

fn no_such_value(name: &str, value: &str) -> Error {
    Error::bad_value(format!("Enumeration value '{value}' for field 'collation.{name}' is not a valid value."))
}
