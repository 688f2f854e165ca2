//! Stands in for `arbor_bson::keystring` until it lands.

use arbor_bson::{DocBuf, Value, ValueRef};

pub struct Key {
    pub bytes: Vec<u8>,
    pub type_bits: Vec<u8>,
}

#[derive(Default)]
pub struct KeyBuilder(Vec<u8>);

impl KeyBuilder {
    pub fn new() -> KeyBuilder {
        KeyBuilder::default()
    }
    pub fn push(&mut self, value: ValueRef<'_>, descending: bool) {
        let doc = DocBuf::new().with("", value);
        self.0.extend(doc.as_bytes().iter().map(|b| if descending { !b } else { *b }));
    }
    pub fn finish(self) -> Key {
        Key { bytes: self.0, type_bits: Vec::new() }
    }
}

pub fn decode(_bytes: &[u8], _type_bits: &[u8], _descending: &[bool]) -> Vec<Value> {
    Vec::new()
}
