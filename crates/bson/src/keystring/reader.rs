//! Reading the bytes of a component, inverted or not.

use super::{END, ESCAPE, class, number};
use crate::Error;

#[derive(Clone)]
pub(super) struct Reader<'a> {
    rest: &'a [u8],
    /// FF while inverted bytes are read.
    mask: u8,
}

const ENDS: Error = Error::BadKey("the bytes end early");

impl<'a> Reader<'a> {
    pub(super) fn new(bytes: &'a [u8], descending: bool) -> Reader<'a> {
        Reader { rest: bytes, mask: if descending { 0xFF } else { 0 } }
    }

    pub(super) fn rest(&self) -> &'a [u8] {
        self.rest
    }

    pub(super) fn invert(&mut self) {
        self.mask = !self.mask;
    }

    /// Returns the next bytes as stored, not inverted back.
    fn raw(&mut self, len: usize) -> Result<&'a [u8], Error> {
        let (head, tail) = self.rest.split_at_checked(len).ok_or(ENDS)?;
        self.rest = tail;
        Ok(head)
    }

    pub(super) fn byte(&mut self) -> Result<u8, Error> {
        self.array::<1>().map(|[byte]| byte)
    }

    pub(super) fn peek(&self) -> Result<u8, Error> {
        self.rest.first().map(|byte| byte ^ self.mask).ok_or(ENDS)
    }

    pub(super) fn array<const N: usize>(&mut self) -> Result<[u8; N], Error> {
        let (head, tail) = self.rest.split_first_chunk::<N>().ok_or(ENDS)?;
        self.rest = tail;
        Ok(head.map(|byte| byte ^ self.mask))
    }

    pub(super) fn bytes(&mut self, len: usize) -> Result<Vec<u8>, Error> {
        let mask = self.mask;
        Ok(self.raw(len)?.iter().map(|byte| byte ^ mask).collect())
    }

    fn raw_text(&mut self) -> Result<&'a [u8], Error> {
        let end = END ^ self.mask;
        let len = self.rest.iter().position(|byte| *byte == end).ok_or(ENDS)?;
        let text = self.raw(len)?;
        self.raw(1)?;
        Ok(text)
    }

    pub(super) fn text(&mut self) -> Result<String, Error> {
        let mask = self.mask;
        let mut bytes = Vec::new();
        let mut raw = self.raw_text()?.iter().map(|byte| byte ^ mask);
        while let Some(byte) = raw.next() {
            bytes.push(match byte {
                ESCAPE => raw.next().and_then(|byte| byte.checked_sub(1)).filter(|byte| *byte <= 1).ok_or(ENDS)?,
                byte => byte,
            });
        }
        String::from_utf8(bytes).map_err(|_| Error::BadKey("text is not UTF-8"))
    }

    /// Reads a text that is a C string in BSON.
    pub(super) fn c_text(&mut self) -> Result<String, Error> {
        let text = self.text()?;
        if text.as_bytes().contains(&0) { Err(Error::BadKey("a name holds NUL")) } else { Ok(text) }
    }

    pub(super) fn binary_len(&mut self) -> Result<usize, Error> {
        match self.byte()? {
            0xFF => self.u32(),
            len => Ok(usize::from(len)),
        }
    }

    pub(super) fn u32(&mut self) -> Result<usize, Error> {
        Ok(u32::from_be_bytes(self.array()?) as usize)
    }
}

/// Length of the component that `bytes` begin with, found without decoding it.
pub fn component_len(bytes: &[u8], descending: bool) -> Result<usize, Error> {
    let mut reader = Reader::new(bytes, descending);
    skip_component(&mut reader)?;
    Ok(bytes.len() - reader.rest().len())
}

/// The layout of a nested value until its END.
#[derive(Clone, Copy)]
enum Inside {
    Elements,
    Components,
}

fn skip_component(reader: &mut Reader<'_>) -> Result<(), Error> {
    let Some(outermost) = skip_head(reader)? else { return Ok(()) };
    let mut open = vec![outermost];
    while let Some(inside) = open.last() {
        if reader.peek()? == END {
            reader.byte()?;
            open.pop();
            continue;
        }
        if matches!(inside, Inside::Elements) {
            reader.byte()?;
            reader.raw_text()?;
        }
        open.extend(skip_head(reader)?);
    }
    Ok(())
}

/// Skips a whole scalar, or up to the inside of a nested value.
fn skip_head(reader: &mut Reader<'_>) -> Result<Option<Inside>, Error> {
    match reader.byte()? {
        class::MIN_KEY | class::UNDEFINED | class::NULL | class::FALSE | class::TRUE | class::MAX_KEY => {}
        class if number::is_number(class) => number::skip(reader, class)?,
        class::STRING | class::JAVASCRIPT => drop(reader.raw_text()?),
        class::DOCUMENT => return Ok(Some(Inside::Elements)),
        class::ARRAY => return Ok(Some(Inside::Components)),
        class::BINARY => {
            let len = reader.binary_len()?;
            reader.raw(len + 1)?;
        }
        class::OBJECT_ID => drop(reader.raw(12)?),
        class::DATE_TIME | class::TIMESTAMP => drop(reader.raw(8)?),
        class::REGEX => {
            reader.raw_text()?;
            reader.raw_text()?;
        }
        class::DB_POINTER => {
            let len = reader.u32()?;
            reader.raw(len + 12)?;
        }
        class::JAVASCRIPT_WITH_SCOPE => {
            reader.raw_text()?;
            return Ok(Some(Inside::Elements));
        }
        _ => return Err(Error::BadKey("unknown class")),
    }
    Ok(None)
}
