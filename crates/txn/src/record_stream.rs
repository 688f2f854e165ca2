//! A record that comes in pieces: its operations, each as soon as it is whole, so that a large record is never held whole.

use arbor_engine::Op;

use crate::record::{Decoded, Reader};

/// The part of the record that comes next.
#[derive(Debug, Default)]
enum Next {
    #[default]
    Head,
    /// Number of places or notes that are left; the number of notes follows the places.
    Places(u64),
    NoteCount,
    Notes(u64),
    Ops,
}

#[derive(Debug, Default)]
pub(crate) struct RecordStream {
    next: Next,
    /// Bytes of what is not whole yet.
    rest: Vec<u8>,
}

impl RecordStream {
    /// The operations that end in this piece. Errors: in the last piece, when something is not whole or not valid.
    pub(crate) fn take(&mut self, piece: &[u8], is_last: bool) -> Decoded<Vec<Op>> {
        self.rest.extend_from_slice(piece);
        let mut ops = Vec::new();
        let mut used = 0;
        while used < self.rest.len() || !matches!(self.next, Next::Ops) {
            let mut reader = Reader::new(self.rest.get(used..).unwrap_or_default());
            match step(&mut self.next, &mut reader) {
                Ok(op) => ops.extend(op),
                Err(reason) if is_last => return Err(reason),
                // More of it is in the next piece; if it is damaged, the last one says so.
                Err(_) => break,
            }
            used = self.rest.len() - reader.rest().len();
        }
        self.rest.drain(..used);
        Ok(ops)
    }
}

/// Reads one item; after an error nothing has changed.
fn step(next: &mut Next, reader: &mut Reader<'_>) -> Decoded<Option<Op>> {
    *next = match next {
        Next::Head => {
            reader.head()?;
            Next::Places(reader.varint()?)
        }
        Next::Places(0) => Next::NoteCount,
        Next::Places(left) => {
            reader.place()?;
            Next::Places(*left - 1)
        }
        Next::NoteCount => Next::Notes(reader.varint()?),
        Next::Notes(0) => Next::Ops,
        Next::Notes(left) => {
            reader.note()?;
            Next::Notes(*left - 1)
        }
        Next::Ops => return reader.op().map(Some),
    };
    Ok(None)
}

#[cfg(test)]
mod tests {
    use arbor_base::TreeId;
    use proptest::prelude::*;

    use super::*;
    use crate::record::{Note, NoteValue, Record};

    fn record(notes: usize, ops: usize) -> Record {
        let tree = TreeId(300);
        let note = |n: usize| Note { tree, about: vec![1; n * 7], value: NoteValue::Inline(vec![2; n]) };
        let put = |n: usize| Op::Put { tree, key: vec![n as u8], value: vec![n as u8; n * 20] };
        let (notes, ops) = ((0..notes).map(note).collect(), (0..ops).map(put).collect());
        Record { logical: vec![9; 5], places: vec![(tree, vec![3; 4])], notes, ops, ..Record::default() }
    }

    proptest! {
        /// However it is cut, the same operations come out, in order.
        #[test]
        fn pieces_give_what_the_whole_gives(notes in 0usize..5, ops in 0usize..20, piece in 1usize..200) {
            let record = record(notes, ops);
            let bytes = record.encode();
            let (mut stream, mut found) = (RecordStream::default(), Vec::new());
            let pieces = bytes.len().div_ceil(piece);
            for (number, piece) in (1..).zip(bytes.chunks(piece)) {
                found.extend(stream.take(piece, number == pieces).unwrap());
            }
            prop_assert_eq!(found, record.ops);
        }

        #[test]
        fn a_record_that_ends_early_is_an_error(end in 0usize..100) {
            let bytes = record(2, 2).encode();
            let cut = bytes.get(..end).unwrap_or(&bytes);
            let whole = Record::decode(cut).is_ok();
            prop_assert_eq!(RecordStream::default().take(cut, true).is_ok(), whole);
        }
    }
}
