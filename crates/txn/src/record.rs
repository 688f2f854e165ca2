//! Byte layout of one log record: the physical batch of a commit and its opaque logical part.
//!
//! | size | what |
//! |---|---|
//! | 1 | version, 1 |
//! | varint | length of the logical part |
//! | ... | logical part |
//! | ... | operations until the end of the record |
//!
//! An operation is a kind byte, the tree id as a varint, and:
//!
//! | kind | operation | then |
//! |---|---|---|
//! | 1 | create tree | varint number of settings; each: name, value |
//! | 2 | drop tree | |
//! | 3 | put | key, value |
//! | 4 | delete | key |
//! | 5 | delete range | from, to |
//! | 6 | delete range to the end | from |
//! | 7 | update | key, message |
//!
//! Names, keys and values are a varint length and the bytes. A varint is LEB128 (7 bits per byte, lowest first, high bit
//! = more), at most 10 bytes. The log checks the bytes; decoding is checked nevertheless and never panics.

use arbor_base::TreeId;
use arbor_engine::{Op, TreeOptions};

const VERSION: u8 = 1;

const CREATE_TREE: u8 = 1;
const DROP_TREE: u8 = 2;
const PUT: u8 = 3;
const DELETE: u8 = 4;
const DELETE_RANGE: u8 = 5;
const DELETE_TO_END: u8 = 6;
const UPDATE: u8 = 7;

fn push_varint(out: &mut Vec<u8>, mut n: u64) {
    while n >= 0x80 {
        out.push(n as u8 | 0x80);
        n >>= 7;
    }
    out.push(n as u8);
}

fn push_bytes(out: &mut Vec<u8>, bytes: &[u8]) {
    push_varint(out, bytes.len() as u64);
    out.extend_from_slice(bytes);
}

/// Begins a record; operations are pushed behind it.
pub(crate) fn begin(logical: &[u8], capacity: usize) -> Vec<u8> {
    let mut out = Vec::with_capacity(capacity + logical.len() + 16);
    out.push(VERSION);
    push_bytes(&mut out, logical);
    out
}

pub(crate) fn push_op(out: &mut Vec<u8>, op: &Op) {
    let mut head = |kind: u8, tree: &TreeId| {
        out.push(kind);
        push_varint(out, tree.0);
    };
    match op {
        Op::CreateTree { tree, options } => {
            head(CREATE_TREE, tree);
            push_varint(out, options.settings.len() as u64);
            for (name, value) in &options.settings {
                push_bytes(out, name.as_bytes());
                push_bytes(out, value.as_bytes());
            }
        }
        Op::DropTree { tree } => head(DROP_TREE, tree),
        Op::Put { tree, key, value } => {
            head(PUT, tree);
            push_bytes(out, key);
            push_bytes(out, value);
        }
        Op::Update { tree, key, update } => {
            head(UPDATE, tree);
            push_bytes(out, key);
            push_bytes(out, update);
        }
        Op::Delete { tree, key } => {
            head(DELETE, tree);
            push_bytes(out, key);
        }
        Op::DeleteRange { tree, from, to: Some(to) } => {
            head(DELETE_RANGE, tree);
            push_bytes(out, from);
            push_bytes(out, to);
        }
        Op::DeleteRange { tree, from, to: None } => {
            head(DELETE_TO_END, tree);
            push_bytes(out, from);
        }
    }
}

/// What was decoded, or why it cannot be.
pub type Decoded<T> = Result<T, &'static str>;

struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    fn byte(&mut self) -> Decoded<u8> {
        let (first, rest) = self.0.split_first().ok_or("the record ends inside an operation")?;
        self.0 = rest;
        Ok(*first)
    }

    fn varint(&mut self) -> Decoded<u64> {
        let mut n = 0u64;
        for shift in (0..70).step_by(7) {
            let byte = self.byte()?;
            let bits = u64::from(byte & 0x7f);
            if shift == 63 && bits > 1 {
                return Err("a number exceeds 64 bits");
            }
            n |= bits << shift;
            if byte & 0x80 == 0 {
                return Ok(n);
            }
        }
        Err("a number is longer than 10 bytes")
    }

    fn bytes(&mut self) -> Decoded<&'a [u8]> {
        let len = usize::try_from(self.varint()?).map_err(|_| "a length exceeds the address space")?;
        let (head, rest) = self.0.split_at_checked(len).ok_or("a length exceeds the record")?;
        self.0 = rest;
        Ok(head)
    }

    fn text(&mut self) -> Decoded<String> {
        String::from_utf8(self.bytes()?.to_vec()).map_err(|_| "a tree option is not UTF-8")
    }

    fn tree_options(&mut self) -> Decoded<TreeOptions> {
        let count = self.varint()?;
        let mut settings = Vec::new();
        for _ in 0..count {
            settings.push((self.text()?, self.text()?));
        }
        Ok(TreeOptions { settings })
    }

    fn op(&mut self) -> Decoded<Op> {
        let kind = self.byte()?;
        let tree = TreeId(self.varint()?);
        Ok(match kind {
            CREATE_TREE => Op::CreateTree { tree, options: self.tree_options()? },
            DROP_TREE => Op::DropTree { tree },
            PUT => Op::Put { tree, key: self.bytes()?.to_vec(), value: self.bytes()?.to_vec() },
            DELETE => Op::Delete { tree, key: self.bytes()?.to_vec() },
            DELETE_RANGE => Op::DeleteRange { tree, from: self.bytes()?.to_vec(), to: Some(self.bytes()?.to_vec()) },
            UPDATE => Op::Update { tree, key: self.bytes()?.to_vec(), update: self.bytes()?.to_vec() },
            DELETE_TO_END => Op::DeleteRange { tree, from: self.bytes()?.to_vec(), to: None },
            _ => return Err("unknown kind of operation"),
        })
    }
}

/// A whole record.
pub fn encode(ops: &[Op], logical: &[u8]) -> Vec<u8> {
    let mut out = begin(logical, 0);
    ops.iter().for_each(|op| push_op(&mut out, op));
    out
}

/// The operations and the logical part of a record.
pub fn decode(bytes: &[u8]) -> Decoded<(Vec<Op>, Vec<u8>)> {
    let mut reader = Reader(bytes);
    if reader.byte()? != VERSION {
        return Err("unknown version");
    }
    let logical = reader.bytes()?.to_vec();
    let mut ops = Vec::new();
    while !reader.0.is_empty() {
        ops.push(reader.op()?);
    }
    Ok((ops, logical))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn every_kind() -> Vec<Op> {
        let tree = TreeId(300);
        let options =
            TreeOptions { settings: vec![("compression".into(), "zstd".into()), ("x".into(), String::new())] };
        vec![
            Op::CreateTree { tree, options },
            Op::Put { tree, key: b"key".to_vec(), value: vec![7; 300] },
            Op::Put { tree, key: Vec::new(), value: Vec::new() },
            Op::Update { tree, key: b"key".to_vec(), update: vec![1, 2] },
            Op::Delete { tree: TreeId(u64::MAX), key: b"key".to_vec() },
            Op::DeleteRange { tree, from: b"a".to_vec(), to: Some(b"b".to_vec()) },
            Op::DeleteRange { tree, from: b"a".to_vec(), to: None },
            Op::DropTree { tree },
        ]
    }

    #[test]
    fn what_is_encoded_is_decoded() {
        let ops = every_kind();
        let logical = vec![1; 200];
        assert_eq!(decode(&encode(&ops, &logical)), Ok((ops, logical)));
        assert_eq!(decode(&encode(&[], &[])), Ok((Vec::new(), Vec::new())));
    }

    #[test]
    fn cut_and_flipped_records_do_not_panic() {
        let whole = encode(&every_kind(), b"logical");
        for end in 0..whole.len() {
            let _cut = decode(&whole[..end]);
        }
        for at in 0..whole.len() {
            for flip in [0x01, 0x40, 0x80, 0xff] {
                let mut bytes = whole.clone();
                bytes[at] ^= flip;
                let _flipped = decode(&bytes);
            }
        }
    }

    #[test]
    fn bad_bytes_are_refused() {
        let check = |bytes: &[u8], reason: &str| assert_eq!(decode(bytes).unwrap_err(), reason, "{bytes:?}");
        check(&[], "the record ends inside an operation");
        check(&[2], "unknown version");
        check(&[1, 0, 9, 1], "unknown kind of operation");
        check(&[1, 5, 0], "a length exceeds the record");
        check(
            &[1, 0, DELETE, 1, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x02],
            "a number exceeds 64 bits",
        );
        check(&[1, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff], "a number exceeds 64 bits");
        check(&[1, 0, CREATE_TREE, 1, 1, 1, 0xff, 0], "a tree option is not UTF-8");
    }

    proptest::proptest! {
        #[test]
        fn any_bytes_decode_without_panic(mut bytes in proptest::collection::vec(proptest::prelude::any::<u8>(), 0..200)) {
            let _any = decode(&bytes);
            if let Some(first) = bytes.first_mut() {
                *first = VERSION;
            }
            let _any = decode(&bytes);
        }
    }
}
