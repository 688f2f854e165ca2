//! Names of locales as MongoDB has them, `de_AT@collation=phonebook`, and their tailorings.

use arbor_bson::Doc;

use crate::{Error, Result, text};

pub(super) const SIMPLE: &str = "simple";
const POSIX: &str = "en_US_POSIX";

/// Languages that have an order of their own or are known to be well served by the common one.
const LANGUAGES: &[&str] = &[
    "af", "am", "ar", "as", "az", "be", "bg", "bn", "bo", "bs", "ca", "chr", "cs", "cy", "da", "de", "dsb", "dz", "ee",
    "el", "en", "eo", "es", "et", "fa", "fi", "fil", "fo", "fr", "ga", "gl", "gu", "ha", "haw", "he", "hi", "hr",
    "hsb", "hu", "hy", "id", "ig", "is", "it", "ja", "ka", "kk", "kl", "km", "kn", "ko", "kok", "ky", "lb", "lkt",
    "ln", "lo", "lt", "lv", "mk", "ml", "mn", "mr", "ms", "mt", "my", "nb", "ne", "nl", "nn", "no", "om", "or", "pa",
    "pl", "ps", "pt", "ro", "ru", "se", "si", "sk", "sl", "smn", "sq", "sr", "sv", "sw", "ta", "te", "th", "to", "tr",
    "ug", "uk", "ur", "vi", "wae", "yi", "yo", "zh", "zu",
];

/// Languages without a tailoring: they sort by the common order, which exists with backward accents too (as `fr_CA`).
const COMMON_ORDER: &[&str] = &["ca", "de", "dz", "en", "fr", "ga", "id", "it", "lb", "ms", "nl", "pt", "sw", "zu"];

/// Variants and their names in Unicode's own notation. `None`: the compiled data lack this order; the locale's usual one
/// replaces it.
const VARIANTS: &[(&str, Option<&str>)] = &[
    ("big5han", None),
    ("compat", Some("compat")),
    ("dictionary", Some("dict")),
    ("eor", Some("eor")),
    ("gb2312han", None),
    ("phonebook", Some("phonebk")),
    ("phonetic", Some("phonetic")),
    ("pinyin", Some("pinyin")),
    ("search", None),
    ("searchjl", None),
    ("standard", None),
    ("stroke", Some("stroke")),
    ("traditional", Some("trad")),
    ("unihan", Some("unihan")),
    ("zhuyin", Some("zhuyin")),
];

/// A locale by the name a client gave.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Locale {
    name: String,
}

impl Locale {
    /// The common order.
    pub(super) fn root() -> Locale {
        Locale { name: "en".to_owned() }
    }

    /// `whole` is the collation document, for the text of the error.
    pub(super) fn parse(name: &str, whole: Doc) -> Result<Locale> {
        let (place, variant) = split(name);
        let canonical = canonical(place).ok_or_else(|| invalid(whole))?;
        if variant.is_some_and(|variant| !VARIANTS.iter().any(|(known, _)| *known == variant)) {
            return Err(invalid(whole));
        }
        if canonical != place {
            let suffix = variant.map(|variant| format!("@collation={variant}")).unwrap_or_default();
            let error = invalid(whole);
            return Err(Error { message: format!("{}. Did you mean '{canonical}{suffix}'?", error.message), ..error });
        }
        Ok(Locale { name: name.to_owned() })
    }

    pub(super) fn name(&self) -> &str {
        &self.name
    }

    /// Returns true if accents are compared from the end of a string by default.
    pub(super) fn is_backwards(&self) -> bool {
        self.name == "fr_CA"
    }

    /// The name of the tailoring.
    pub(super) fn tailoring(&self, backwards: bool) -> Result<icu_locale_core::Locale> {
        let (place, variant) = split(&self.name);
        let language = place.split('_').next().unwrap_or(place);
        let common = COMMON_ORDER.contains(&language) && place != POSIX && variant.is_none();
        let mut tag = match (backwards, self.is_backwards()) {
            (true, _) if common => "fr-CA".to_owned(),
            (true, _) => return Err(Error::not_implemented("'backwards' with a locale that has an order of its own")),
            (false, true) => "fr".to_owned(),
            (false, false) => place.replace('_', "-"),
        };
        let known = VARIANTS.iter().find(|(known, _)| Some(*known) == variant);
        if let Some((_, Some(unicode))) = known {
            tag = format!("{tag}-u-co-{unicode}");
        }
        icu_locale_core::Locale::try_from_str(&tag).map_err(|_| Error::bad_value("Field 'locale' is invalid"))
    }
}

fn split(name: &str) -> (&str, Option<&str>) {
    match name.split_once("@collation=") {
        Some((place, variant)) => (place, Some(variant)),
        None => (name, None),
    }
}

/// `language`, `language_Script`, `language_REGION` or `language_Script_REGION`, in that spelling; `None` for a name that is
/// no locale.
fn canonical(place: &str) -> Option<String> {
    if place.replace('-', "_").eq_ignore_ascii_case(POSIX) {
        return Some(POSIX.to_owned());
    }
    let mut parts = place.split(['_', '-']);
    let language = parts.next()?.to_ascii_lowercase();
    if !LANGUAGES.contains(&language.as_str()) {
        return None;
    }
    let mut canonical = language;
    let mut rest = parts.next();
    if let Some(script) = rest.filter(|part| part.len() == 4 && part.bytes().all(|byte| byte.is_ascii_alphabetic())) {
        let (first, others) = script.split_at(1);
        canonical = format!("{canonical}_{}{}", first.to_ascii_uppercase(), others.to_ascii_lowercase());
        rest = parts.next();
    }
    if let Some(region) = rest {
        let letters = region.len() == 2 && region.bytes().all(|byte| byte.is_ascii_alphabetic());
        let digits = region.len() == 3 && region.bytes().all(|byte| byte.is_ascii_digit());
        if !letters && !digits {
            return None;
        }
        canonical = format!("{canonical}_{}", region.to_ascii_uppercase());
    }
    parts.next().is_none().then_some(canonical)
}

pub(super) fn invalid(whole: Doc) -> Error {
    Error::bad_value(format!("Field 'locale' is invalid in: {}", text::shell(whole.into())))
}
