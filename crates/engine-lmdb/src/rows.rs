//! Single rows of a content: where keys are cut into chunks and layers (see [`keys`](crate::keys)) when they are long.

use arbor_engine::{Error, Result};

use crate::keys::{CHUNK_BYTES, Content};
use crate::raw::{Move, Txn, WriteTxn};

/// The layer that a link's value names.
pub(crate) fn layer_of(link: &[u8]) -> Result<Content> {
    let number = <[u8; 8]>::try_from(link)
        .map_err(|_| Error::Corrupt { place: "link".to_owned(), context: format!("{} bytes", link.len()) })?;
    Ok(Content(u64::from_le_bytes(number)))
}

pub(crate) fn get<'t>(txn: &'t Txn, mut content: Content, mut key: &[u8]) -> Result<Option<&'t [u8]>> {
    while key.len() > CHUNK_BYTES {
        let (chunk, rest) = key.split_at(CHUNK_BYTES);
        let Some(link) = txn.get(content.link(chunk).as_slice())? else { return Ok(None) };
        content = layer_of(link)?;
        key = rest;
    }
    txn.get(content.row(key).as_slice())
}

/// Returns the length of the value that was replaced. `next_content` numbers the layers that have to be made.
pub(crate) fn put(
    txn: &mut WriteTxn<'_>,
    mut content: Content,
    mut key: &[u8],
    value: &[u8],
    next_content: &mut u64,
) -> Result<Option<usize>> {
    while key.len() > CHUNK_BYTES {
        let (chunk, rest) = key.split_at(CHUNK_BYTES);
        let place = content.link(chunk);
        content = match txn.get(place.as_slice())? {
            Some(link) => layer_of(link)?,
            None => {
                let layer = *next_content;
                *next_content += 1;
                txn.put(place.as_slice(), &layer.to_le_bytes())?;
                Content(layer)
            }
        };
        key = rest;
    }
    txn.put(content.row(key).as_slice(), value)
}

/// Returns the length of the value that was there. Layers that become empty go, with their links.
pub(crate) fn delete(txn: &mut WriteTxn<'_>, mut content: Content, mut key: &[u8]) -> Result<Option<usize>> {
    let mut links = Vec::new();
    while key.len() > CHUNK_BYTES {
        let (chunk, rest) = key.split_at(CHUNK_BYTES);
        let place = content.link(chunk);
        let Some(link) = txn.get(place.as_slice())? else { return Ok(None) };
        content = layer_of(link)?;
        links.push((place, content));
        key = rest;
    }
    let deleted = txn.delete(content.row(key).as_slice())?;
    while let Some((place, layer)) = links.pop() {
        if deleted.is_none() || !is_empty(txn, layer)? {
            break;
        }
        txn.delete(place.as_slice())?;
    }
    Ok(deleted)
}

pub(crate) fn is_empty(txn: &Txn, content: Content) -> Result<bool> {
    let rows = content.rows();
    let first = txn.cursor()?.go(Move::Seek(rows.as_slice()))?;
    Ok(!first.is_some_and(|(key, _)| key.starts_with(rows.as_slice())))
}
