//! Commands built once and patched per operation: a generator that encodes the same command a million times measures
//! its own encoder. A hole is a value of fixed size whose place in the bytes is known.

use arbor_bson::DocBuf;

/// Values that mark holes while a template is built; they occur in no command of the workloads.
pub(crate) const INT_HOLES: [i32; 2] = [0x5A17_C0DE, 0x5A17_FEED];
const TEXT_FILLER: char = '~';

#[derive(Clone, Debug)]
pub(crate) struct Template {
    bytes: Vec<u8>,
    ints: Vec<usize>,
    texts: Vec<(usize, usize)>,
}

/// A text that marks a hole of `length` bytes.
pub(crate) fn text_hole(length: usize) -> String {
    std::iter::repeat_n(TEXT_FILLER, length).collect()
}

impl Template {
    pub(crate) fn new(command: DocBuf) -> Template {
        let bytes = command.into_bytes();
        let ints = INT_HOLES.iter().filter_map(|mark| find(&bytes, &mark.to_le_bytes())).collect();
        let mut texts = Vec::new();
        let mut at = 0;
        while let Some(start) = bytes.iter().skip(at).position(|byte| *byte == TEXT_FILLER as u8).map(|n| n + at) {
            let length = bytes.iter().skip(start).take_while(|byte| **byte == TEXT_FILLER as u8).count();
            texts.push((start, length));
            at = start + length;
        }
        Template { bytes, ints, texts }
    }

    /// The command with these numbers in its holes, in the order of [`INT_HOLES`].
    pub(crate) fn with_ints(&mut self, values: &[i32]) -> &[u8] {
        debug_assert_eq!(values.len(), self.ints.len());
        for (at, value) in self.ints.iter().zip(values) {
            if let Some(hole) = self.bytes.get_mut(*at..*at + 4) {
                hole.copy_from_slice(&value.to_le_bytes());
            }
        }
        &self.bytes
    }

    /// `with_ints` and these texts, which must have the holes' lengths.
    pub(crate) fn with<T: AsRef<[u8]>>(&mut self, ints: &[i32], texts: &[T]) -> &[u8] {
        debug_assert_eq!(texts.len(), self.texts.len());
        for ((at, length), text) in self.texts.iter().zip(texts) {
            let text = text.as_ref();
            if let Some(hole) = self.bytes.get_mut(*at..*at + *length).filter(|hole| hole.len() == text.len()) {
                hole.copy_from_slice(text);
            }
        }
        self.with_ints(ints)
    }
}

fn find(bytes: &[u8], mark: &[u8]) -> Option<usize> {
    bytes.windows(mark.len()).position(|window| window == mark)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn holes_are_patched_in_place() {
        let [a, b] = INT_HOLES;
        let build = |a: i32, b: i32, first: &str, second: &str| {
            DocBuf::new().with("a", a).with("x", 7).with("t", first).with("u", second).with("b", b)
        };
        let mut template = Template::new(build(a, b, &text_hole(5), &text_hole(3)));
        for (a, b, first, second) in [(1, 2, "hello", "abc"), (-9, i32::MAX, "world", "def")] {
            assert_eq!(template.with(&[a, b], &[first, second]), build(a, b, first, second).as_bytes());
        }
    }
}
