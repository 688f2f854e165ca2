//! Letters without case and without accents.

use std::borrow::Cow;

use unicode_normalization::UnicodeNormalization;

use crate::stop::check;

/// In lower case. Turkish has an i of its own. Cut short when the statement is to stop.
pub(super) fn lower(text: &str, turkish: bool) -> Cow<'_, str> {
    if turkish && text.contains(['I', 'İ']) {
        return Cow::Owned(lower_in_parts(&text.replace('I', "ı").replace('İ', "i")));
    }
    if text.is_ascii() {
        let upper = text.bytes().any(|byte| byte.is_ascii_uppercase());
        return if upper { Cow::Owned(text.to_ascii_lowercase()) } else { Cow::Borrowed(text) };
    }
    Cow::Owned(lower_in_parts(text))
}

/// Bytes between two checks for an interrupt.
const PART_BYTES: usize = 64 << 10;

fn lower_in_parts(text: &str) -> String {
    if text.len() <= PART_BYTES {
        return text.to_lowercase();
    }
    let (mut lowered, mut rest) = (String::with_capacity(text.len()), text);
    while !rest.is_empty() && check().is_ok() {
        let (part, behind) = rest.split_at(end_of_part(rest));
        lowered.push_str(&part.to_lowercase());
        rest = behind;
    }
    lowered
}

/// Returns the end of a part: behind a space, since the form of a sigma depends on the letters around it; without one, anywhere.
fn end_of_part(text: &str) -> usize {
    let least = text.ceil_char_boundary(PART_BYTES);
    let most = text.ceil_char_boundary(2 * PART_BYTES);
    let space = text.get(least..most).and_then(|part| part.find(char::is_whitespace));
    space.map_or(most, |at| text.ceil_char_boundary(least + at + 1))
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

    #[test]
    fn long_texts_are_lowered_as_short_ones() {
        for unit in ["ΟΔΟΣ ΣΟΦΟΣ, ", "İÉΣ", "字"] {
            let text = unit.repeat(3 * PART_BYTES / unit.len());
            assert_eq!(lower(&text, false), text.to_lowercase(), "{unit}");
        }
    }
}
