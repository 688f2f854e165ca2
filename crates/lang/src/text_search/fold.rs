//! Letters without case and without accents.

use std::borrow::Cow;

use unicode_normalization::UnicodeNormalization;

use crate::stop::check;

/// In lower case. Turkish has an i of its own.
pub(super) fn lower(text: &str, turkish: bool) -> Cow<'_, str> {
    if turkish && text.contains(['I', 'İ']) {
        return Cow::Owned(text.replace('I', "ı").replace('İ', "i").to_lowercase());
    }
    if text.is_ascii() {
        let upper = text.bytes().any(|byte| byte.is_ascii_uppercase());
        return if upper { Cow::Owned(text.to_ascii_lowercase()) } else { Cow::Borrowed(text) };
    }
    Cow::Owned(text.to_lowercase())
}

/// Letters between two checks for an interrupt.
const PART_LETTERS: usize = 16 << 10;

/// Without accents and other marks on letters. Cut short when the statement is to stop.
pub(super) fn without_accents(text: &str) -> Cow<'_, str> {
    if text.is_ascii() {
        return Cow::Borrowed(text);
    }
    let mut letters = 0;
    let proceed = |_: &char| {
        letters += 1;
        letters % PART_LETTERS != 0 || check().is_ok()
    };
    Cow::Owned(text.nfd().take_while(proceed).filter(|c| !is_accent(*c)).nfc().collect())
}

/// Marks that change how a letter sounds and not which letter it is. Vowel signs of Indic scripts are letters.
fn is_accent(c: char) -> bool {
    matches!(u32::from(c),
        0x300..=0x36F
        | 0x483..=0x487
        | 0x591..=0x5BD
        | 0x5BF
        | 0x5C1..=0x5C2
        | 0x5C4..=0x5C5
        | 0x5C7
        | 0x64B..=0x652
        | 0x670
        | 0x1AB0..=0x1AFF
        | 0x1DC0..=0x1DFF
        | 0x20D0..=0x20FF
        | 0xFE20..=0xFE2F)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn folding() {
        for (text, turkish, expect) in [
            ("Café", false, "cafe"),
            ("ÉTÉ", false, "ete"),
            ("cafe\u{301}", false, "cafe"),
            ("ISTANBUL", false, "istanbul"),
            ("ISTANBUL", true, "ıstanbul"),
            ("İzmir", true, "izmir"),
            ("Ёлка", false, "елка"),
            ("한국어", false, "한국어"),
            ("किताब", false, "किताब"),
        ] {
            assert_eq!(without_accents(&lower(text, turkish)), expect, "{text}");
        }
    }
}
