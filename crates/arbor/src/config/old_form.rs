//! The `key = value` form of MongoDB before 2.6 and of TokuMX. Keys are the names of the flags.

use super::Refused;

/// Returns true if the text has this form: its first line with content has a `=` and no `:` before it.
pub(super) fn is_old_form(text: &str) -> bool {
    lines(text).next().is_some_and(|(_, line)| match (line.find('='), line.find(':')) {
        (Some(equals), Some(colon)) => equals < colon,
        (Some(_), None) => true,
        _ => false,
    })
}

/// Its `(key, value)` pairs.
pub(super) fn read(text: &str) -> Result<Vec<(String, String)>, Refused> {
    lines(text)
        .map(|(number, line)| match line.split_once('=') {
            Some((key, value)) => Ok((key.trim().to_owned(), value.trim().to_owned())),
            None => Err(Refused(format!("line {number} is no 'key = value': {line}"))),
        })
        .collect()
}

/// Numbered lines that are neither empty nor comments.
fn lines(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let numbered = text.lines().enumerate().map(|(index, line)| (index + 1, line));
    numbered
        .map(|(n, line)| (n, line.split('#').next().unwrap_or_default().trim()))
        .filter(|(_, line)| !line.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_form_is_detected_by_content() {
        for (text, expect) in [
            ("dbpath = /d", true),
            ("# comment\n\ndbpath=/d:e", true),
            ("storage:\n  dbPath: /a=b", false),
            ("storage.rocksdb.configString: \"a=1;b=2\"", false),
            ("", false),
            ("# only: a = comment", false),
        ] {
            assert_eq!(is_old_form(text), expect, "{text}");
        }
    }
}
