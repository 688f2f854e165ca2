//! The statements of a retryable write: their numbers, and what they answered as the bytes of the session journal.
//!
//! | bytes | answer |
//! |---|---|
//! | none | a document was inserted |
//! | 1, matched and modified (8 bytes each, little-endian), nothing or a document with the `_id` | update |
//! | 2, number deleted (8 bytes, little-endian) | delete |
//! | 3, a document, see [`FIELDS`] | findAndModify |

use arbor_bson::{Code, Doc, DocBuf, Limits, ValueRef, Writer, validate};
use arbor_protocol::arguments::Field;
use arbor_query::{Error, Executed, FindAndModifyOutcome, Result, StatementJournal, StatementNumbers};
use arbor_session::Journal;
use arbor_txn::Transaction;

const UPDATED: u8 = 1;
const DELETED: u8 = 2;
const FOUND: u8 = 3;

/// Bytes of a findAndModify besides its image, usually: there is one copy of a large one.
const FOUND_BYTES_USUAL: usize = 128;

/// Fields of the document of a findAndModify: number, whether the document existed before, `_id` of an upsert, image, and
/// whether it is the post-image.
const FIELDS: [&str; 5] = ["n", "e", "u", "v", "post"];

/// `stmtId`, `stmtIds`.
#[derive(Clone, Debug)]
pub(crate) enum Numbers {
    From(i32),
    Listed(Vec<i32>),
}

impl Numbers {
    pub(crate) fn read(body: Doc<'_>) -> crate::Result<Numbers> {
        let (mut first, mut listed) = (None, None);
        for (name, value) in body.iter().skip(1) {
            let field = Field::new("", name);
            match name {
                "stmtId" => first = Some(number(field, value)?),
                "stmtIds" => {
                    let numbers = field.array(value)?.iter().map(|value| number(field, value));
                    listed = Some(numbers.collect::<crate::Result<Vec<_>>>()?);
                }
                _ => {}
            }
        }
        match (first, listed) {
            (Some(_), Some(_)) => {
                let text = "May not specify both stmtId and stmtIds in write command";
                Err(crate::Error::new(Code::INVALID_OPTIONS, text))
            }
            (_, Some(listed)) => Ok(Numbers::Listed(listed)),
            (first, None) => Ok(Numbers::From(first.unwrap_or(0))),
        }
    }

    pub(crate) fn as_numbers(&self) -> StatementNumbers<'_> {
        match self {
            Numbers::From(first) => StatementNumbers::From(*first),
            Numbers::Listed(numbers) => StatementNumbers::Listed(numbers),
        }
    }

    /// Each statement has a number.
    pub(crate) fn check_count(&self, statements: usize) -> crate::Result<()> {
        match self {
            Numbers::Listed(numbers) if numbers.len() != statements => {
                let text = format!(
                    "Number of statement ids must match the number of batch entries. Got {} statement ids but {statements} \
                     operations",
                    numbers.len()
                );
                Err(crate::Error::new(Code::INVALID_LENGTH, text))
            }
            _ => Ok(()),
        }
    }
}

fn number(field: Field<'_>, value: ValueRef<'_>) -> crate::Result<i32> {
    match value {
        ValueRef::Int32(number) => Ok(number),
        other => Err(field.wrong_type(other, "int").into()),
    }
}

/// The journal of one command, for the statements that run.
pub(crate) struct Statements<'s> {
    pub journal: &'s Journal,
    /// A findAndModify answers the document after the change.
    pub post_image: bool,
}

impl StatementJournal for Statements<'_> {
    fn executed(&self, statement: i32) -> Result<Option<Executed>> {
        let answer = self.journal.executed(statement).map_err(into_query)?;
        answer.map(|bytes| decode(&bytes).ok_or_else(damaged)).transpose()
    }

    fn record(&self, txn: &mut Transaction, executed: &[(i32, &Executed)]) -> Result<()> {
        let done = executed.iter().map(|(statement, executed)| (*statement, encode(executed, self.post_image)));
        self.journal.record(txn, done).map_err(into_query)
    }
}

fn damaged() -> Error {
    Error::new(Code::DATA_CORRUPTION_DETECTED, "a row of the session journal is damaged: an answer does not decode")
}

pub(crate) fn into_query(error: arbor_session::Error) -> Error {
    match (error.code(), error) {
        (_, arbor_session::Error::Txn(error)) => Error::Txn(error),
        (code, error) => Error::new(code.unwrap_or(Code::INTERNAL_ERROR), error.to_string()),
    }
}

fn encode(executed: &Executed, post_image: bool) -> Vec<u8> {
    let mut out = Vec::new();
    match executed {
        Executed::Inserted => {}
        Executed::Updated { matched, modified, upserted } => {
            out.push(UPDATED);
            out.extend(matched.to_le_bytes());
            out.extend(modified.to_le_bytes());
            out.extend(upserted.iter().flat_map(|id| DocBuf::new().with("_id", id).as_bytes().to_vec()));
        }
        Executed::Deleted(number) => {
            out.push(DELETED);
            out.extend(number.to_le_bytes());
        }
        Executed::FoundAndModified(outcome) => {
            let image_bytes = outcome.value.as_ref().map_or(0, |image| image.as_bytes().len());
            let mut doc = Writer::with_capacity(image_bytes + FOUND_BYTES_USUAL);
            doc.append("n", (outcome.n as i64).into());
            doc.append("e", outcome.updated_existing.into());
            if let Some(id) = &outcome.upserted {
                doc.append("u", id.into());
            }
            if let Some(image) = &outcome.value {
                doc.append("v", image.into());
                doc.append("post", post_image.into());
            }
            out = doc.finish().into_bytes();
            out.insert(0, FOUND);
        }
    }
    out
}

fn decode(bytes: &[u8]) -> Option<Executed> {
    let Some((kind, rest)) = bytes.split_first() else { return Some(Executed::Inserted) };
    match *kind {
        UPDATED => {
            let (matched, rest) = rest.split_first_chunk()?;
            let (modified, rest) = rest.split_first_chunk()?;
            let upserted = if rest.is_empty() { None } else { Some(document(rest)?.get("_id")?.to_value()) };
            Some(Executed::Updated {
                matched: u64::from_le_bytes(*matched),
                modified: u64::from_le_bytes(*modified),
                upserted,
            })
        }
        DELETED => Some(Executed::Deleted(u64::from_le_bytes(rest.try_into().ok()?))),
        FOUND => {
            let [n, existing, upserted, value, _] = FIELDS.map(|name| document(rest)?.get(name));
            let number = |value| if let Some(ValueRef::Int64(n)) = value { u64::try_from(n).ok() } else { None };
            let image = |value| if let Some(ValueRef::Document(doc)) = value { Some(doc.to_buf()) } else { None };
            Some(Executed::FoundAndModified(Box::new(FindAndModifyOutcome {
                value: image(value),
                n: number(n)?,
                updated_existing: matches!(existing, Some(ValueRef::Bool(true))),
                upserted: upserted.map(ValueRef::to_value),
            })))
        }
        _ => None,
    }
}

fn document(bytes: &[u8]) -> Option<Doc<'_>> {
    validate(bytes, Limits::default()).ok()?;
    Some(Doc::trusted(bytes))
}

/// The document that a findAndModify keeps for its retry, and whether it is that of after the change.
pub(crate) fn image(answer: &[u8]) -> Option<(DocBuf, bool)> {
    let (FOUND, rest) = answer.split_first().map(|(kind, rest)| (*kind, rest))? else { return None };
    let doc = document(rest)?;
    match doc.get("v") {
        Some(ValueRef::Document(image)) => {
            Some((image.to_buf(), matches!(doc.get("post"), Some(ValueRef::Bool(true)))))
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use arbor_bson::Value;
    use arbor_notation::doc;

    #[test]
    fn answers_survive_the_journal() {
        let found = |value: Option<&str>, upserted: Option<Value>| {
            let value = value.map(doc);
            Executed::FoundAndModified(Box::new(FindAndModifyOutcome { value, n: 1, updated_existing: true, upserted }))
        };
        for executed in [
            Executed::Inserted,
            Executed::Updated { matched: 3, modified: 2, upserted: None },
            Executed::Updated { matched: 0, modified: 0, upserted: Some(Value::String("x".to_owned())) },
            Executed::Deleted(7),
            found(None, None),
            found(Some("{ _id: 1, a: [2] }"), Some(Value::Int32(5))),
        ] {
            let bytes = encode(&executed, true);
            assert_eq!(format!("{:?}", decode(&bytes).unwrap()), format!("{executed:?}"));
            for end in 1..bytes.len() {
                // an update may end before its `_id`
                assert!(end == 17 || decode(&bytes[..end]).is_none(), "{executed:?} cut at {end}");
            }
        }
        let (kept, after) = image(&encode(&found(Some("{ a: 1 }"), None), true)).unwrap();
        assert_eq!((kept.as_bytes(), after), (doc("{ a: 1 }").as_bytes(), true));
        assert!(image(&encode(&Executed::Inserted, false)).is_none());
    }

    #[test]
    fn numbers_of_statements() {
        let read = |text: &str| Numbers::read(doc(text).as_doc()).map_err(|error| error.code.0);
        assert!(matches!(read("{ insert: 'c' }"), Ok(Numbers::From(0))));
        assert!(matches!(read("{ insert: 'c', stmtId: 4 }"), Ok(Numbers::From(4))));
        assert!(matches!(read("{ insert: 'c', stmtIds: [4, 2] }"), Ok(Numbers::Listed(numbers)) if numbers == [4, 2]));
        for (text, code) in [
            ("{ insert: 'c', stmtId: 'x' }", 14),
            ("{ insert: 'c', stmtIds: 1 }", 14),
            ("{ insert: 'c', stmtIds: ['x'] }", 14),
            ("{ insert: 'c', stmtIds: [1], stmtId: 1 }", 72),
        ] {
            assert_eq!(read(text).err(), Some(code), "{text}");
        }
        assert_eq!(Numbers::Listed(vec![1]).check_count(2).unwrap_err().code.0, 16);
        assert!(Numbers::From(1).check_count(2).is_ok());
    }
}
