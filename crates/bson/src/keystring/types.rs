//! The stream of type codes that accompanies a key.

use super::code;

/// Collects codes; zeros are written only once something follows them.
#[derive(Clone, Default)]
pub(super) struct TypeWriter {
    bytes: Vec<u8>,
    zeros: usize,
}

impl TypeWriter {
    pub(super) fn push(&mut self, code: u8) {
        self.push_with(code, &[]);
    }

    pub(super) fn push_with(&mut self, code: u8, content: &[u8]) {
        if code == code::DEFAULT {
            self.zeros += 1;
            return;
        }
        self.bytes.resize(self.bytes.len() + self.zeros, code::DEFAULT);
        self.zeros = 0;
        self.bytes.push(code);
        self.bytes.extend_from_slice(content);
    }

    pub(super) fn clear(&mut self) {
        self.bytes.clear();
        self.zeros = 0;
    }

    pub(super) fn as_bytes(&self) -> &[u8] {
        &self.bytes
    }

    pub(super) fn into_bytes(self) -> Vec<u8> {
        self.bytes
    }
}

/// Reads codes back; behind the end all are zero.
#[derive(Clone)]
pub(super) struct TypeReader<'a>(pub(super) &'a [u8]);

impl TypeReader<'_> {
    pub(super) fn code(&mut self) -> u8 {
        self.content::<1>().map_or(code::DEFAULT, |[code]| code)
    }

    pub(super) fn content<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (head, tail) = self.0.split_first_chunk::<N>()?;
        self.0 = tail;
        Some(*head)
    }
}
