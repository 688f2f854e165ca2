//! Parsing of one setting, according to its kind in the table.

/// Kind of a setting's text.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Kind {
    /// A flag without a value; `true` or `false` in files.
    Switch,
    Text,
    /// Whole number within bounds.
    Number {
        min: i64,
        max: i64,
    },
    Real,
    /// Bytes with an optional suffix: `8589934592`, `70G`, `512m`.
    Bytes,
}

/// A setting as `getCmdLineOpts` shows it.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum ParsedValue {
    Bool(bool),
    Int(i64),
    Real(f64),
    Text(String),
}

impl Kind {
    /// Reads `text`, or says what was expected.
    pub(super) fn read(self, text: &str) -> Result<ParsedValue, String> {
        let wrong = |expected: String| Err(format!("expected {expected}, found '{text}'"));
        match self {
            Kind::Switch => match text {
                "true" | "1" | "on" | "yes" | "" => Ok(ParsedValue::Bool(true)),
                "false" | "0" | "off" | "no" => Ok(ParsedValue::Bool(false)),
                _ => wrong("true or false".to_owned()),
            },
            Kind::Text => Ok(ParsedValue::Text(text.to_owned())),
            Kind::Number { min, max } => match text.trim().parse::<i64>() {
                Ok(n) if (min..=max).contains(&n) => Ok(ParsedValue::Int(n)),
                _ => wrong(format!("a number from {min} to {max}")),
            },
            Kind::Real => match text.trim().parse::<f64>() {
                Ok(n) if n.is_finite() && n >= 0.0 => Ok(ParsedValue::Real(n)),
                _ => wrong("a number".to_owned()),
            },
            Kind::Bytes => match bytes(text) {
                Some(n) => Ok(ParsedValue::Int(n)),
                None => wrong("a number of bytes such as 8589934592 or 8G".to_owned()),
            },
        }
    }
}

fn bytes(text: &str) -> Option<i64> {
    let text = text.trim().trim_end_matches(['b', 'B']);
    let shift = match text.chars().last()? {
        'k' | 'K' => 10,
        'm' | 'M' => 20,
        'g' | 'G' => 30,
        't' | 'T' => 40,
        _ => 0,
    };
    let digits = if shift == 0 { text } else { text.get(..text.len() - 1)? };
    digits.parse::<i64>().ok().filter(|n| *n >= 0)?.checked_mul(1 << shift)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_with_suffixes() {
        for (text, expect) in [
            ("70G", Some(70 << 30)),
            ("512m", Some(512 << 20)),
            ("1KB", Some(1024)),
            ("8589934592", Some(8 << 30)),
            ("G", None),
            ("-1", None),
            ("99999999999T", None),
            ("", None),
        ] {
            assert_eq!(bytes(text), expect, "{text}");
        }
    }
}
