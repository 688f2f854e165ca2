//! Reading a cursor to its end.

use arbor_bson::{Doc, DocBuf, ValueRef};

use crate::{Client, ClientError};

/// Cursor state after one batch.
struct Batch {
    cursor: i64,
    documents: usize,
}

impl Client {
    /// Runs a command that opens a cursor (find, aggregate, listIndexes, ...), hands every document to `each` and
    /// continues with getMore until the cursor is exhausted. Gives the number of documents.
    pub fn find(&mut self, db: &str, command: &DocBuf, mut each: impl FnMut(Doc<'_>)) -> Result<usize, ClientError> {
        let reply = self.command(db, command)?;
        let namespace = namespace_of(reply.doc);
        let first = drain(reply.doc, "firstBatch", &mut each)?;
        self.continue_cursor(db, namespace, first, &mut each)
    }

    /// `find` for a command whose bytes are complete ([`Client::call`]).
    pub fn find_raw(&mut self, command: &[u8], each: impl FnMut(Doc<'_>)) -> Result<usize, ClientError> {
        self.request(command)?;
        self.receive_find(each)
    }

    /// Receives what [`Client::find_raw`] would return, of a command that was sent by [`Client::request`].
    pub fn receive_find(&mut self, mut each: impl FnMut(Doc<'_>)) -> Result<usize, ClientError> {
        let reply = self.receive()?.ok()?;
        let first = drain(reply.doc, "firstBatch", &mut each)?;
        if first.cursor == 0 {
            return Ok(first.documents);
        }
        let namespace = namespace_of(reply.doc);
        let db = namespace.as_deref().and_then(|name| name.split_once('.')).map_or("", |(db, _)| db).to_owned();
        self.continue_cursor(&db, namespace, first, &mut each)
    }

    fn continue_cursor(
        &mut self,
        db: &str,
        namespace: Option<String>,
        first: Batch,
        each: &mut impl FnMut(Doc<'_>),
    ) -> Result<usize, ClientError> {
        let mut total = first.documents;
        let mut cursor = first.cursor;
        let namespace = namespace.unwrap_or_default();
        let collection = namespace.split_once('.').map_or("", |(_, collection)| collection);
        while cursor != 0 {
            let get_more = DocBuf::new().with("getMore", cursor).with("collection", collection);
            let batch = drain(self.command(db, &get_more)?.doc, "nextBatch", each)?;
            (cursor, total) = (batch.cursor, total + batch.documents);
        }
        Ok(total)
    }
}

fn cursor_of(reply: Doc<'_>) -> Result<Doc<'_>, ClientError> {
    match reply.get("cursor") {
        Some(ValueRef::Document(cursor)) => Ok(cursor),
        _ => Err(ClientError::Protocol("the reply holds no cursor".to_owned())),
    }
}

fn namespace_of(reply: Doc<'_>) -> Option<String> {
    match cursor_of(reply).ok()?.get("ns") {
        Some(ValueRef::String(namespace)) => Some(namespace.to_owned()),
        _ => None,
    }
}

fn drain(reply: Doc<'_>, batch: &str, each: &mut impl FnMut(Doc<'_>)) -> Result<Batch, ClientError> {
    let (mut id, mut documents) = (0, 0);
    for (name, value) in cursor_of(reply)? {
        match value {
            ValueRef::Int64(value) if name == "id" => id = value,
            ValueRef::Int32(value) if name == "id" => id = value.into(),
            ValueRef::Array(values) if name == batch => {
                for value in values.iter() {
                    if let ValueRef::Document(document) = value {
                        documents += 1;
                        each(document);
                    }
                }
            }
            _ => {}
        }
    }
    Ok(Batch { cursor: id, documents })
}
