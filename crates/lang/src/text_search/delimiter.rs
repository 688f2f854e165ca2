//! Word delimiters: Unicode's dashes, hyphens, quotation marks, terminal punctuation, white space and the characters of
//! patterns.

use crate::stop;

/// Beyond ASCII: first and last of each range, in order.
const RANGES: &[(u32, u32)] = &[
    (0xA1, 0xA7),
    (0xA9, 0xA9),
    (0xAB, 0xAC),
    (0xAE, 0xAE),
    (0xB0, 0xB1),
    (0xB6, 0xB6),
    (0xBB, 0xBB),
    (0xBF, 0xBF),
    (0xD7, 0xD7),
    (0xF7, 0xF7),
    (0x37E, 0x37E),
    (0x387, 0x387),
    (0x589, 0x58A),
    (0x5BE, 0x5BE),
    (0x5C3, 0x5C3),
    (0x60C, 0x60C),
    (0x61B, 0x61B),
    (0x61D, 0x61F),
    (0x6D4, 0x6D4),
    (0x700, 0x70A),
    (0x964, 0x965),
    (0xE5A, 0xE5B),
    (0x104A, 0x104B),
    (0x1361, 0x1368),
    (0x1400, 0x1400),
    (0x166E, 0x166E),
    (0x17D4, 0x17D6),
    (0x1802, 0x1806),
    (0x2010, 0x203E),
    (0x2041, 0x2053),
    (0x2055, 0x205E),
    (0x2190, 0x245F),
    (0x2500, 0x2775),
    (0x2794, 0x2BFF),
    (0x2E00, 0x2E7F),
    (0x3001, 0x3003),
    (0x3008, 0x3020),
    (0x3030, 0x3030),
    (0x30A0, 0x30A0),
    (0xFD3E, 0xFD3F),
    (0xFE31, 0xFE32),
    (0xFE41, 0xFE46),
    (0xFE50, 0xFE58),
    (0xFE63, 0xFE63),
    (0xFF01, 0xFF02),
    (0xFF07, 0xFF07),
    (0xFF0C, 0xFF0E),
    (0xFF1A, 0xFF1B),
    (0xFF1F, 0xFF1F),
    (0xFF61, 0xFF64),
];

fn is_delimiter(c: char, apostrophe: bool) -> bool {
    match c {
        '\'' => apostrophe,
        _ if c.is_ascii() => !(c.is_ascii_alphanumeric() || c == '_'),
        _ => {
            let code = u32::from(c);
            let found = RANGES.binary_search_by(|(first, last)| match () {
                _ if *last < code => std::cmp::Ordering::Less,
                _ if *first > code => std::cmp::Ordering::Greater,
                _ => std::cmp::Ordering::Equal,
            });
            found.is_ok() || c.is_whitespace()
        }
    }
}

/// Letters between two checks for an interrupt.
const PART_LETTERS: usize = 64 << 10;

/// The words of a text. With `apostrophe`, that is a delimiter too; else it may occur inside a word, as in "don't". Fewer when the
/// statement is to stop.
pub(super) fn words(text: &str, apostrophe: bool) -> impl Iterator<Item = &str> {
    let (mut letters, mut is_ended) = (0, false);
    let ends = move |c: char| {
        letters += 1;
        is_ended |= letters % PART_LETTERS == 0 && stop::check().is_err();
        is_ended || is_delimiter(c, apostrophe)
    };
    let words = text.split(ends).take_while(|_| stop::tick().is_ok());
    words.map(|word| word.trim_matches('\'')).filter(|word| !word.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_end_at_delimiters() {
        for (text, apostrophe, expect) in [
            ("coffee, tea & milk", true, "coffee|tea|milk"),
            ("pre-market state_of_art 3.14", true, "pre|market|state_of_art|3|14"),
            ("don't 'quote' it's", false, "don't|quote|it's"),
            ("l'avion", true, "l|avion"),
            ("«était» le\u{a0}meilleur… 100€", true, "était|le|meilleur|100€"),
            ("。日本語、テスト！", true, "日本語|テスト"),
            ("--- ...", true, ""),
        ] {
            assert_eq!(words(text, apostrophe).collect::<Vec<_>>().join("|"), expect, "{text}");
        }
    }
}
