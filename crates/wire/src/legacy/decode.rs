//! Reading the legacy requests.

use arbor_base::Fields as ByteFields;
use arbor_bson::Doc;

use super::{Back, Delete, GetMore, Insert, KillCursors, Query, Update};
use crate::bytes::{take_document, take_text};
use crate::{Compressor, Error, Fault, Form, Header, Opcode, Operation, Refusal, ReplyTo, Sequence};

/// Reads the legacy request `opcode` from a whole, plain frame.
pub(crate) fn decode<'a>(
    opcode: Opcode,
    frame: &'a [u8],
    header: &Header,
    compressor: Option<Compressor>,
) -> Result<Operation<'a>, Error> {
    let mut fields = Fields {
        rest: ByteFields::new(frame.get(Header::LEN..).unwrap_or_default()),
        reply_to: ReplyTo { request_id: header.request_id, form: form(opcode), compressor },
    };
    let operation = match opcode {
        Opcode::Query => Operation::Query(fields.query()?),
        Opcode::GetMore => Operation::GetMore(fields.get_more()?),
        Opcode::Insert => Operation::Insert(fields.insert()?),
        Opcode::Update => Operation::Update(fields.update()?),
        Opcode::Delete => Operation::Delete(fields.delete()?),
        Opcode::KillCursors => Operation::KillCursors(fields.kill_cursors()?),
        Opcode::Reply | Opcode::Message | Opcode::Compressed => return Err(Fault::Opcode(header.opcode).into()),
    };
    match fields.rest.rest().len() {
        0 => Ok(operation),
        trailing => Err(legacy(format!("{trailing} bytes after its end"))),
    }
}

fn form(opcode: Opcode) -> Form {
    match opcode {
        Opcode::Query => Form::Reply(Back::Cursor),
        Opcode::GetMore => Form::Reply(Back::GetMore),
        _ => Form::Nothing,
    }
}

fn legacy(what: impl Into<String>) -> Error {
    Fault::Legacy(what.into()).into()
}

struct Fields<'a> {
    rest: ByteFields<'a>,
    reply_to: ReplyTo,
}

impl<'a> Fields<'a> {
    fn query(&mut self) -> Result<Query<'a>, Error> {
        Ok(Query {
            flags: self.u32()?,
            namespace: self.namespace()?,
            skip: self.i32()?,
            number_to_return: self.i32()?,
            query: self.document()?,
            projection: if self.rest.is_at_end() { None } else { Some(self.document()?) },
        })
    }

    fn get_more(&mut self) -> Result<GetMore<'a>, Error> {
        self.i32()?;
        let (namespace, number_to_return) = (self.namespace()?, self.i32()?);
        let cursor = self.rest.i64().ok_or(Fault::Incomplete)?;
        Ok(GetMore { namespace, number_to_return, cursor })
    }

    fn insert(&mut self) -> Result<Insert<'a>, Error> {
        let (flags, namespace) = (self.u32()?, self.namespace()?);
        let (bytes, mut count) = (self.rest.rest(), 0);
        while !self.rest.is_at_end() {
            self.document()?;
            count += 1;
        }
        if count == 0 {
            return Err(legacy("an insert without documents"));
        }
        Ok(Insert { flags, namespace, documents: Sequence::trusted("documents", bytes, count) })
    }

    fn update(&mut self) -> Result<Update<'a>, Error> {
        self.i32()?;
        let (namespace, flags) = (self.namespace()?, self.u32()?);
        Ok(Update { namespace, flags, selector: self.document()?, update: self.document()? })
    }

    fn delete(&mut self) -> Result<Delete<'a>, Error> {
        self.i32()?;
        let (namespace, flags) = (self.namespace()?, self.u32()?);
        Ok(Delete { namespace, flags, selector: self.document()? })
    }

    fn kill_cursors(&mut self) -> Result<KillCursors<'a>, Error> {
        self.i32()?;
        let count = usize::try_from(self.i32()?).map_err(|_| legacy("a negative number of cursors"))?;
        let length = count.checked_mul(8).ok_or(Fault::Incomplete)?;
        let (cursors, _) = self.rest.bytes(length).ok_or(Fault::Incomplete)?.as_chunks::<8>();
        Ok(KillCursors { cursors })
    }

    fn u32(&mut self) -> Result<u32, Error> {
        self.rest.u32().ok_or(Fault::Incomplete.into())
    }

    fn i32(&mut self) -> Result<i32, Error> {
        self.rest.i32().ok_or(Fault::Incomplete.into())
    }

    fn namespace(&mut self) -> Result<&'a str, Error> {
        take_text(&mut self.rest).ok_or_else(|| legacy("its namespace does not end or is not UTF-8"))
    }

    /// A bad document is answered where the opcode has an answer; else closing is the only way to be heard.
    fn document(&mut self) -> Result<Doc<'a>, Error> {
        take_document(&mut self.rest).map_err(|fault| {
            let (code, message) = fault.describe();
            match self.reply_to.form {
                Form::Nothing => legacy(message),
                _ => Error::Answer(Refusal { code, message, reply_to: self.reply_to }),
            }
        })
    }
}
