//! The row that operators pass on.

use std::sync::Arc;

use arbor_bson::DocBuf;
use arbor_lang::{Input, Metadata, depth};

use crate::{Error, Result};

#[derive(Clone, Debug, Default)]
pub(crate) struct Row {
    pub document: DocBuf,
    /// Key of the record in the primary tree; empty when the row is not a stored document any more.
    pub id_key: Vec<u8>,
    /// Metadata for `$meta`; few rows have any.
    pub metadata: Option<Arc<Metadata>>,
}

impl Row {
    /// A document that is not a stored one.
    pub(crate) fn of(document: DocBuf) -> Row {
        Row { document, ..Row::default() }
    }

    pub(crate) fn stored(document: DocBuf, id_key: Vec<u8>) -> Row {
        Row { document, id_key, metadata: None }
    }

    /// A document that a stage has put together. Errors: it nests deeper than any document may.
    pub(crate) fn computed(document: DocBuf) -> Result<Row> {
        Ok(Row::of(depth::checked(document)?))
    }

    /// A document made from this row's, with the same metadata. Errors: it nests deeper
    /// than any document may.
    pub(crate) fn made(&self, document: DocBuf) -> Result<Row> {
        Ok(Row { metadata: self.metadata.clone(), ..Row::computed(document)? })
    }

    /// Returns the input of filters and expressions.
    pub(crate) fn input(&self) -> Input<'_> {
        Input::new(self.document.as_doc(), self.metadata.as_deref())
    }

    /// Memory held, estimated.
    pub(crate) fn bytes(&self) -> usize {
        let metadata = self.metadata.as_ref().map_or(0, |metadata| metadata.as_bytes().len());
        size_of::<Row>() + self.document.as_bytes().len() + self.id_key.len() + metadata
    }

    /// As it is kept on disk: the record's key and the metadata, each after its length (u32, little-endian), then the
    /// document. No metadata has length 0.
    pub(crate) fn encode(&self) -> Vec<u8> {
        [&self.head(), self.document.as_bytes()].concat()
    }

    fn head(&self) -> Vec<u8> {
        let metadata = self.metadata.as_ref().map_or(&[][..], |metadata| metadata.as_bytes());
        let mut head = Vec::with_capacity(8 + self.id_key.len() + metadata.len());
        for part in [self.id_key.as_slice(), metadata] {
            head.extend_from_slice(&(part.len() as u32).to_le_bytes());
            head.extend_from_slice(part);
        }
        head
    }

    /// Like [`Row::encode`], in the memory of the document.
    pub(crate) fn into_encoded(mut self) -> Vec<u8> {
        let document = std::mem::take(&mut self.document);
        let head = self.head();
        let mut bytes = document.into_bytes();
        bytes.reserve_exact(head.len());
        bytes.splice(0..0, head);
        bytes
    }

    pub(crate) fn decode(mut bytes: Vec<u8>) -> Result<Row> {
        let head = take(&bytes).and_then(|(id_key, rest)| {
            let (metadata, document) = take(rest)?;
            let metadata = (!metadata.is_empty()).then(|| Arc::new(Metadata::from_bytes(metadata.to_vec())));
            Some((id_key.to_vec(), metadata, bytes.len() - document.len()))
        });
        let (id_key, metadata, head) = head.ok_or_else(|| Error::internal("a row on disk is cut off"))?;
        bytes.drain(..head);
        Ok(Row { document: DocBuf::from_trusted(bytes), id_key, metadata })
    }
}

/// Splits off a part that follows its length; returns the part and the rest.
fn take(bytes: &[u8]) -> Option<(&[u8], &[u8])> {
    let (length, rest) = bytes.split_first_chunk::<4>()?;
    rest.split_at_checked(u32::from_le_bytes(*length) as usize)
}

#[cfg(test)]
mod tests {
    use super::*;
    use arbor_lang::MetaKind;

    #[test]
    fn a_row_comes_back_from_disk() {
        let document = DocBuf::new().with("a", 1i32);
        let known = Arc::new(Metadata::new().with(MetaKind::TextScore, 1.5));
        for metadata in [None, Some(known)] {
            let row = Row { metadata, ..Row::stored(document.clone(), vec![1, 2, 3]) };
            let again = Row::decode(row.encode()).unwrap();
            assert_eq!((again.document.as_bytes(), &again.id_key), (document.as_bytes(), &vec![1, 2, 3]));
            let score = |row: &Row| format!("{:?}", row.input().meta(MetaKind::TextScore));
            assert_eq!(score(&again), score(&row));
            assert_eq!(row.clone().into_encoded(), row.encode());
            assert!(Row::decode(row.encode()[..6].to_vec()).is_err());
        }
    }
}
