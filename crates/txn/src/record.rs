//! Byte layout of one log record: the physical batch of a commit, and what readers of its history need beyond it.
//!
//! | size | what |
//! |---|---|
//! | 1 | version, 2; 4 where operations of kind 8 are in it; 5: it is compressed, see `packed.rs` |
//! | 8 | time of the first note, see [`Stamp`], little-endian |
//! | 8 | the system's clock in milliseconds since 1970, little-endian |
//! | varint, ... | length of the logical part, the logical part: opaque here |
//! | varint | number of places |
//! | ... | places: tree id as a varint, length and bytes that say what the tree holds, opaque here |
//! | varint | number of notes |
//! | ... | notes: tree id as a varint, length and bytes that are opaque here; then a varint: 0, or 1 and length and bytes of a value, or 2 + the number of the operation that puts it |
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
//! | 8 | loaded: the rows of the tree came past the log, see [`Load`] | varint rows, CRC-32C of the rows (4 bytes, little-endian) |
//!
//! Names, keys and values are a varint length and the bytes. A varint is LEB128 (7 bits per byte, lowest first, high bit
//! = more), at most 10 bytes. The log checks the bytes; decoding is checked nevertheless and never panics. A record that is
//! too long for the log is split, see `chain.rs`.

use arbor_base::{Fields, TreeId};
use arbor_engine::{Op, TreeOptions};

use crate::Stamp;
use crate::packed::{self, Unpacked};

const VERSION: u8 = 2;

/// Version of a record that refers to loads, so that it is known by its first byte. Releases that know no loads refuse it.
const LOADED_VERSION: u8 = 4;

/// Version of a compressed record (`packed.rs`).
pub(crate) const PACKED_VERSION: u8 = 5;

/// Offsets of the stamp, which is known last.
const TIME: std::ops::Range<usize> = 1..9;
const WALL: std::ops::Range<usize> = 9..17;
/// Bytes of version and stamp, with which records of all versions begin.
pub(crate) const STAMPED_BYTES: usize = WALL.end;

const CREATE_TREE: u8 = 1;
const DROP_TREE: u8 = 2;
const PUT: u8 = 3;
const DELETE: u8 = 4;
const DELETE_RANGE: u8 = 5;
const DELETE_TO_END: u8 = 6;
const UPDATE: u8 = 7;
const LOADED: u8 = 8;

pub(crate) fn push_varint(out: &mut Vec<u8>, mut n: u64) {
    while n >= 0x80 {
        out.push(n as u8 | 0x80);
        n >>= 7;
    }
    out.push(n as u8);
}

pub(crate) fn push_bytes(out: &mut Vec<u8>, bytes: &[u8]) {
    push_varint(out, bytes.len() as u64);
    out.extend_from_slice(bytes);
}

/// One change of one document or of the catalogue, for the readers of the history.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Note {
    /// The changed tree; [`Record::places`] describes it.
    pub tree: TreeId,
    pub about: Vec<u8>,
    pub value: NoteValue,
}

/// The value that a note refers to.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum NoteValue {
    #[default]
    Nothing,
    Inline(Vec<u8>),
    /// The value that this operation of the record puts.
    Op(usize),
}

/// A tree and what it holds, for readers of the history.
pub type Place = (TreeId, Vec<u8>);

/// Begins a record without a stamp; operations are pushed after it.
pub(crate) fn begin(logical: &[u8], places: &[Place], notes: &[Note], capacity: usize) -> Vec<u8> {
    let noted: usize = notes.iter().map(|note| note.about.len() + 8).sum();
    let mut out = Vec::with_capacity(capacity + logical.len() + noted + 32);
    out.push(VERSION);
    out.resize(WALL.end, 0);
    push_bytes(&mut out, logical);
    push_varint(&mut out, places.len() as u64);
    for (tree, description) in places {
        push_varint(&mut out, tree.0);
        push_bytes(&mut out, description);
    }
    push_varint(&mut out, notes.len() as u64);
    for note in notes {
        push_varint(&mut out, note.tree.0);
        push_bytes(&mut out, &note.about);
        match &note.value {
            NoteValue::Nothing => push_varint(&mut out, 0),
            NoteValue::Inline(value) => {
                push_varint(&mut out, 1);
                push_bytes(&mut out, value);
            }
            NoteValue::Op(op) => push_varint(&mut out, *op as u64 + 2),
        }
    }
    out
}

/// Gives the record the version of one that is not compressed.
pub(crate) fn begin_plain(record: &mut [u8]) {
    record.first_mut().into_iter().for_each(|version| *version = VERSION);
}

/// Requires a record that [`begin`] began.
pub(crate) fn stamp(record: &mut [u8], stamp: Stamp) {
    for (range, bytes) in [(TIME, stamp.time.to_le_bytes()), (WALL, stamp.wall.to_le_bytes())] {
        record.get_mut(range).expect("a record begins with room for its stamp").copy_from_slice(&bytes);
    }
}

fn push_options(out: &mut Vec<u8>, options: &TreeOptions) {
    push_varint(out, options.settings.len() as u64);
    for (name, value) in &options.settings {
        push_bytes(out, name.as_bytes());
        push_bytes(out, value.as_bytes());
    }
}

pub(crate) fn encode_options(options: &TreeOptions) -> Vec<u8> {
    let mut out = Vec::new();
    push_options(&mut out, options);
    out
}

pub(crate) fn decode_options(bytes: &[u8]) -> Decoded<TreeOptions> {
    let mut reader = Reader::new(bytes);
    let options = reader.tree_options()?;
    if reader.rest().is_empty() { Ok(options) } else { Err("bytes after the options of a tree") }
}

pub(crate) fn push_op(out: &mut Vec<u8>, op: &Op) {
    let last = push_op_head(out, op);
    out.extend_from_slice(last);
}

/// Pushes the operation but for the bytes of its last field, which are returned: a large value need not be copied.
pub(crate) fn push_op_head<'o>(out: &mut Vec<u8>, op: &'o Op) -> &'o [u8] {
    fn head(out: &mut Vec<u8>, kind: u8, tree: &TreeId) {
        out.push(kind);
        push_varint(out, tree.0);
    }
    let (kind, tree, key, last) = match op {
        Op::CreateTree { tree, options } => {
            head(out, CREATE_TREE, tree);
            push_options(out, options);
            return &[];
        }
        Op::DropTree { tree } => {
            head(out, DROP_TREE, tree);
            return &[];
        }
        Op::Put { tree, key, value } => (PUT, tree, Some(key), value),
        Op::Update { tree, key, update } => (UPDATE, tree, Some(key), update),
        Op::Delete { tree, key } => (DELETE, tree, None, key),
        Op::DeleteRange { tree, from, to: Some(to) } => (DELETE_RANGE, tree, Some(from), to),
        Op::DeleteRange { tree, from, to: None } => (DELETE_TO_END, tree, None, from),
    };
    head(out, kind, tree);
    key.into_iter().for_each(|key| push_bytes(out, key));
    push_varint(out, last.len() as u64);
    last
}

/// A tree whose rows came past the log: a member that acknowledges a record with it has them (R10 of the set's protocol). Its number is that of
/// the tree, which is filled once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Load {
    pub tree: TreeId,
    pub rows: u64,
    /// CRC-32C of all rows, see [`RowsChecksum`](crate::fetch::RowsChecksum).
    pub checksum: u32,
}

/// Requires a record that [`begin`] began.
pub(crate) fn push_load(record: &mut Vec<u8>, load: &Load) {
    record.first_mut().into_iter().for_each(|version| *version = LOADED_VERSION);
    record.push(LOADED);
    push_varint(record, load.tree.0);
    push_varint(record, load.rows);
    record.extend_from_slice(&load.checksum.to_le_bytes());
}

/// Returns true if a payload of the log is a record that refers to loads.
pub fn refers_to_loads(payload: &[u8]) -> bool {
    payload.first() == Some(&LOADED_VERSION)
}

/// A decoded value, or the reason why the bytes are corrupt.
pub type Decoded<T> = Result<T, &'static str>;

pub(crate) struct Reader<'a>(Fields<'a>);

impl<'a> Reader<'a> {
    pub(crate) fn new(bytes: &'a [u8]) -> Reader<'a> {
        Reader(Fields::new(bytes))
    }

    /// Returns what was not read yet.
    pub(crate) fn rest(&self) -> &'a [u8] {
        self.0.rest()
    }

    /// Fields before the places.
    pub(crate) fn head(&mut self) -> Decoded<(Stamp, &'a [u8])> {
        match self.stamped()? {
            (VERSION | LOADED_VERSION, stamp) => Ok((stamp, self.bytes()?)),
            _ => Err("unknown version"),
        }
    }

    /// Reads the version and the stamp, with which records of all versions begin.
    pub(crate) fn stamped(&mut self) -> Decoded<(u8, Stamp)> {
        let version = self.byte()?;
        if !matches!(version, VERSION | LOADED_VERSION | PACKED_VERSION) {
            return Err("unknown version");
        }
        Ok((version, self.stamp()?))
    }

    fn byte(&mut self) -> Decoded<u8> {
        self.0.u8().ok_or("the record ends inside an operation")
    }

    pub(crate) fn varint(&mut self) -> Decoded<u64> {
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

    /// `None`: the next operation is of another kind.
    fn load(&mut self) -> Decoded<Option<Load>> {
        if self.rest().first() != Some(&LOADED) {
            return Ok(None);
        }
        self.byte()?;
        let (tree, rows) = (TreeId(self.varint()?), self.varint()?);
        let checksum = self.0.u32().ok_or("the record ends inside an operation")?;
        Ok(Some(Load { tree, rows, checksum }))
    }

    pub(crate) fn bytes(&mut self) -> Decoded<&'a [u8]> {
        let len = usize::try_from(self.varint()?).map_err(|_| "a length exceeds the address space")?;
        self.0.bytes(len).ok_or("a length exceeds the record")
    }

    fn stamp(&mut self) -> Decoded<Stamp> {
        let cut = "the record ends inside its stamp";
        Ok(Stamp { time: self.0.u64().ok_or(cut)?, wall: self.0.i64().ok_or(cut)? })
    }

    fn places(&mut self) -> Decoded<Vec<Place>> {
        let count = self.varint()?;
        let mut places = Vec::new();
        for _ in 0..count {
            places.push(self.place()?);
        }
        Ok(places)
    }

    pub(crate) fn place(&mut self) -> Decoded<Place> {
        Ok((TreeId(self.varint()?), self.bytes()?.to_vec()))
    }

    fn notes(&mut self) -> Decoded<Vec<Note>> {
        let count = self.varint()?;
        let mut notes = Vec::new();
        for _ in 0..count {
            notes.push(self.note()?);
        }
        Ok(notes)
    }

    pub(crate) fn note(&mut self) -> Decoded<Note> {
        let tree = TreeId(self.varint()?);
        let about = self.bytes()?.to_vec();
        let value = match self.varint()? {
            0 => NoteValue::Nothing,
            1 => NoteValue::Inline(self.bytes()?.to_vec()),
            op => NoteValue::Op(usize::try_from(op - 2).map_err(|_| "a note exceeds the address space")?),
        };
        Ok(Note { tree, about, value })
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

    pub(crate) fn op(&mut self) -> Decoded<Op> {
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

/// A record of nothing but operations, without a stamp.
pub fn of_ops(ops: &[Op]) -> Vec<u8> {
    let mut out = begin(&[], &[], &[], 0);
    ops.iter().for_each(|op| push_op(&mut out, op));
    out
}

/// A record taken apart.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Record {
    pub stamp: Stamp,
    pub logical: Vec<u8>,
    pub places: Vec<Place>,
    pub notes: Vec<Note>,
    pub loads: Vec<Load>,
    pub ops: Vec<Op>,
}

impl Record {
    pub fn encode(&self) -> Vec<u8> {
        let mut out = begin(&self.logical, &self.places, &self.notes, 0);
        stamp(&mut out, self.stamp);
        self.loads.iter().for_each(|load| push_load(&mut out, load));
        self.ops.iter().for_each(|op| push_op(&mut out, op));
        out
    }

    pub fn decode(bytes: &[u8]) -> Decoded<Record> {
        match packed::unpack(bytes)? {
            Some(Unpacked { plain, notes }) => match Record::decode_plain(&plain)? {
                record if record.notes.len() as u64 == notes => Ok(record),
                _ => Err("the head of a packed record has another number of notes than its body"),
            },
            None => Record::decode_plain(bytes),
        }
    }

    fn decode_plain(bytes: &[u8]) -> Decoded<Record> {
        let mut reader = Reader::new(bytes);
        let (stamp, logical) = reader.head()?;
        let mut record = Record {
            stamp,
            logical: logical.to_vec(),
            places: reader.places()?,
            notes: reader.notes()?,
            loads: Vec::new(),
            ops: Vec::new(),
        };
        while !reader.rest().is_empty() {
            match reader.load()? {
                Some(load) if refers_to_loads(bytes) => record.loads.push(load),
                Some(_) => return Err("unknown kind of operation"),
                None => record.ops.push(reader.op()?),
            }
        }
        let is_put = |op: usize| matches!(record.ops.get(op), Some(Op::Put { .. }));
        match record.notes.iter().all(|note| !matches!(note.value, NoteValue::Op(op) if !is_put(op))) {
            true => Ok(record),
            false => Err("a note refers to an operation that puts nothing"),
        }
    }

    /// Returns the description of the tree of a note.
    pub fn place_of(&self, note: &Note) -> Option<&[u8]> {
        self.places.iter().find(|(tree, _)| *tree == note.tree).map(|(_, place)| place.as_slice())
    }

    /// Returns the value that a note of this record refers to.
    pub fn value_of<'r>(&'r self, note: &'r Note) -> Option<&'r [u8]> {
        match &note.value {
            NoteValue::Nothing => None,
            NoteValue::Inline(value) => Some(value),
            NoteValue::Op(op) => match self.ops.get(*op) {
                Some(Op::Put { value, .. }) => Some(value),
                _ => None,
            },
        }
    }

    /// The time of the last note.
    pub fn last_time(&self) -> u64 {
        last_time(self.stamp, self.notes.len() as u64)
    }
}

/// The stamp of a record, and the time of its last note.
pub(crate) fn times_of(bytes: &[u8]) -> Decoded<(Stamp, u64)> {
    if let Some((stamp, notes)) = packed::stamp_and_notes(bytes)? {
        return Ok((stamp, last_time(stamp, notes)));
    }
    let mut reader = Reader::new(bytes);
    let (stamp, _) = reader.head()?;
    for _ in 0..reader.varint()? {
        reader.varint()?;
        reader.bytes()?;
    }
    Ok((stamp, last_time(stamp, reader.varint()?)))
}

pub(crate) fn last_time(stamp: Stamp, notes: u64) -> u64 {
    stamp.time.wrapping_add(notes.max(1) - 1)
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

    fn with_everything() -> Record {
        let note = |value, about: &[u8]| Note { tree: TreeId(300), value, about: about.to_vec() };
        Record {
            stamp: Stamp { time: u64::MAX - 9, wall: -5 },
            logical: vec![1; 200],
            places: vec![(TreeId(300), b"db.c".to_vec()), (TreeId(7), Vec::new())],
            notes: vec![
                note(NoteValue::Nothing, b"created"),
                note(NoteValue::Op(1), &[7; 130]),
                note(NoteValue::Inline(vec![3; 4]), b""),
            ],
            loads: vec![Load { tree: TreeId(301), rows: 1 << 40, checksum: 0xdead_beef }],
            ops: every_kind(),
        }
    }

    #[test]
    fn options_of_a_tree_come_back_and_damaged_ones_are_refused() {
        let options = TreeOptions { settings: vec![("engine".into(), "lmdb".into()), ("basement".into(), "4".into())] };
        let bytes = encode_options(&options);
        assert_eq!(decode_options(&bytes), Ok(options));
        assert_eq!(decode_options(&encode_options(&TreeOptions::default())), Ok(TreeOptions::default()));
        (0..bytes.len()).for_each(|end| assert!(decode_options(&bytes[..end]).is_err(), "cut at {end}"));
        assert!(decode_options(&[&bytes[..], b"x"].concat()).is_err());
    }

    #[test]
    fn what_is_encoded_is_decoded() {
        let record = with_everything();
        assert_eq!(times_of(&record.encode()), Ok((record.stamp, record.last_time())));
        assert_eq!(Record::decode(&record.encode()), Ok(record));
        assert_eq!(Record::decode(&Record::default().encode()), Ok(Record::default()));
    }

    #[test]
    fn cut_and_flipped_records_do_not_panic() {
        let whole = with_everything().encode();
        for end in 0..whole.len() {
            let _cut = Record::decode(&whole[..end]);
        }
        for at in 0..whole.len() {
            for flip in [0x01, 0x40, 0x80, 0xff] {
                let mut bytes = whole.clone();
                bytes[at] ^= flip;
                let _flipped = Record::decode(&bytes);
            }
        }
    }

    #[test]
    fn bad_bytes_are_refused() {
        let refused = |bytes: &[u8], reason: &str| assert_eq!(Record::decode(bytes).unwrap_err(), reason, "{bytes:?}");
        refused(&[], "the record ends inside an operation");
        refused(&[1], "unknown version");
        refused(&[2, 0, 0], "the record ends inside its stamp");
        let check = |behind_stamp: &[u8], reason: &str| {
            let mut bytes = vec![0; WALL.end];
            bytes[0] = VERSION;
            bytes.extend(behind_stamp);
            refused(&bytes, reason);
        };
        check(&[0, 0, 0, 9, 1], "unknown kind of operation");
        // Loads are in records of their own version only.
        check(&[0, 0, 0, LOADED, 1, 1, 0, 0, 0, 0], "unknown kind of operation");
        check(&[5, 0], "a length exceeds the record");
        check(&[0, 0, 1, 1, 0, 2], "a note refers to an operation that puts nothing");
        check(
            &[0, 0, 0, DELETE, 1, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x02],
            "a number exceeds 64 bits",
        );
        check(&[0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff], "a number exceeds 64 bits");
        check(&[0, 0, 0, CREATE_TREE, 1, 1, 1, 0xff, 0], "a tree option is not UTF-8");
    }

    proptest::proptest! {
        #[test]
        fn any_bytes_decode_without_panic(mut bytes in proptest::collection::vec(proptest::prelude::any::<u8>(), 0..200)) {
            let _any = Record::decode(&bytes);
            if let Some(first) = bytes.first_mut() {
                *first = VERSION;
            }
            let _any = Record::decode(&bytes);
        }
    }
}
