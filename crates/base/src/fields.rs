//! Little-endian fields of records, blocks and messages, read without trust: whatever the bytes are, the answer is a value or
//! `None`, which each reader turns into its own error.

/// Takes fields off the front of a byte string. What does not fit into what is left is `None`, and nothing is taken.
#[derive(Clone, Copy, Debug)]
pub struct Fields<'a> {
    rest: &'a [u8],
}

impl<'a> Fields<'a> {
    pub fn new(bytes: &'a [u8]) -> Fields<'a> {
        Fields { rest: bytes }
    }

    pub fn bytes(&mut self, len: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.rest.split_at_checked(len)?;
        self.rest = rest;
        Some(taken)
    }

    pub fn array<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (taken, rest) = self.rest.split_first_chunk()?;
        self.rest = rest;
        Some(*taken)
    }

    pub fn u8(&mut self) -> Option<u8> {
        self.array().map(|[byte]| byte)
    }

    pub fn u32(&mut self) -> Option<u32> {
        self.array().map(u32::from_le_bytes)
    }

    pub fn i32(&mut self) -> Option<i32> {
        self.array().map(i32::from_le_bytes)
    }

    pub fn u64(&mut self) -> Option<u64> {
        self.array().map(u64::from_le_bytes)
    }

    pub fn i64(&mut self) -> Option<i64> {
        self.array().map(i64::from_le_bytes)
    }

    /// Bytes up to a zero, which is taken too.
    pub fn c_text(&mut self) -> Option<&'a [u8]> {
        let end = self.rest.iter().position(|byte| *byte == 0)?;
        let (text, rest) = self.rest.split_at_checked(end)?;
        self.rest = rest.get(1..)?;
        Some(text)
    }

    /// A length in 4 bytes, then that many bytes.
    pub fn text(&mut self) -> Option<&'a [u8]> {
        let len = self.u32()?;
        self.bytes(usize::try_from(len).ok()?)
    }

    /// Reads the number of items of at least `item_bytes` each that follow; a number that cannot be true is `None`, so that no
    /// memory is reserved for it.
    pub fn count(&mut self, item_bytes: usize) -> Option<usize> {
        let count = usize::try_from(self.u32()?).ok()?;
        (count.checked_mul(item_bytes)? <= self.rest.len()).then_some(count)
    }

    pub fn is_at_end(&self) -> bool {
        self.rest.is_empty()
    }

    pub fn rest(&self) -> &'a [u8] {
        self.rest
    }
}

/// Appends what [`Fields::text`] reads.
pub fn put_text(out: &mut Vec<u8>, text: &[u8]) {
    out.extend_from_slice(&(text.len() as u32).to_le_bytes());
    out.extend_from_slice(text);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_end_where_the_bytes_end() {
        let mut bytes = vec![7];
        put_text(&mut bytes, b"key");
        bytes.extend_from_slice(&[1, 0, 0, 0, 9]);
        let mut fields = Fields::new(&bytes);
        assert_eq!((fields.u8(), fields.text(), fields.u64()), (Some(7), Some(&b"key"[..]), None));
        assert_eq!(fields.count(2), None);
        let mut fields = Fields::new(&bytes[8..]);
        assert_eq!((fields.count(1), fields.u8(), fields.is_at_end()), (Some(1), Some(9), true));
        assert_eq!((fields.u8(), fields.u32(), fields.i32(), fields.text()), (None, None, None, None));
        assert_eq!((fields.i64(), fields.array::<1>(), fields.bytes(1), fields.c_text()), (None, None, None, None));
    }

    #[test]
    fn what_does_not_fit_takes_nothing() {
        let mut fields = Fields::new(b"ab\0c");
        assert_eq!((fields.u64(), fields.bytes(5), fields.rest()), (None, None, &b"ab\0c"[..]));
        assert_eq!((fields.c_text(), fields.c_text(), fields.rest()), (Some(&b"ab"[..]), None, &b"c"[..]));
    }
}
