//! Building a document with nested ones in one pass and one buffer.

use crate::{
    DocBuf, ValueRef,
    buf::{append_head, append_value, decimal},
};

/// Documents that are open at a time, usually.
const DEPTH_USUAL: usize = 4;

/// Appends elements to the innermost open document or array; lengths are filled in as they close.
pub struct Writer {
    bytes: Vec<u8>,
    /// Start offset of each open document, and the number of elements if it is an array.
    open: Vec<(usize, Option<usize>)>,
}

impl Writer {
    /// A writer with the outermost document open. `capacity` is a guess of the final size.
    pub fn with_capacity(capacity: usize) -> Writer {
        let mut bytes = Vec::with_capacity(capacity.max(5));
        bytes.extend_from_slice(&[0; 4]);
        let mut open = Vec::with_capacity(DEPTH_USUAL);
        open.push((0, None));
        Writer { bytes, open }
    }

    /// Appends a field; inside an array the name is replaced by the position.
    pub fn append(&mut self, name: &str, value: ValueRef<'_>) {
        self.head(value.ty() as u8, name);
        append_value(&mut self.bytes, value);
    }

    pub fn open_document(&mut self, name: &str) {
        self.open(0x03, name, None);
    }

    pub fn open_array(&mut self, name: &str) {
        self.open(0x04, name, Some(0));
    }

    /// Closes the innermost open document or array. The outermost is closed by [`Writer::finish`].
    pub fn close(&mut self) {
        if self.open.len() > 1 {
            self.end();
        }
    }

    /// Closes everything that is open.
    pub fn finish(mut self) -> DocBuf {
        while !self.open.is_empty() {
            self.end();
        }
        DocBuf::from_trusted(self.bytes)
    }

    fn open(&mut self, ty: u8, name: &str, elements: Option<usize>) {
        self.head(ty, name);
        self.open.push((self.bytes.len(), elements));
        self.bytes.extend_from_slice(&[0; 4]);
    }

    fn head(&mut self, ty: u8, name: &str) {
        match self.open.last_mut() {
            Some((_, Some(elements))) => {
                append_head(&mut self.bytes, ty, decimal(*elements, &mut [0; 20]));
                *elements += 1;
            }
            _ => append_head(&mut self.bytes, ty, name),
        }
    }

    fn end(&mut self) {
        self.bytes.push(0);
        let Some((start, _)) = self.open.pop() else { return };
        let len = (self.bytes.len() - start) as u32;
        if let Some(head) = self.bytes.get_mut(start..).and_then(|rest| rest.first_chunk_mut::<4>()) {
            *head = len.to_le_bytes();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{ArrayBuf, Doc};

    #[test]
    fn same_bytes_as_appending() {
        let mut writer = Writer::with_capacity(0);
        writer.append("a", 1i32.into());
        writer.open_array("b");
        writer.append("ignored", "x".into());
        writer.open_document("");
        writer.append("c", true.into());
        writer.close();
        writer.close();
        writer.open_document("d");
        let written = writer.finish();
        let inner = DocBuf::new().with("c", true);
        let array: ArrayBuf = [ValueRef::String("x"), (&inner).into()].into_iter().collect();
        let expect = DocBuf::new().with("a", 1i32).with("b", &array).with("d", Doc::empty());
        assert_eq!(written.as_bytes(), expect.as_bytes());
    }
}
