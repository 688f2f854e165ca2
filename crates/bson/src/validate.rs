//! The one place where foreign bytes become a [`Doc`]. Everything behind it reads without error cases (doc.rs, I1).
//!
//! V1: one loop, one depth counter. Documents, arrays and scopes of code count alike; the counter is the height of one
//! stack, so nothing can start a second count. Binary data is never looked into, whatever its subtype says (a column of
//! subtype 7 is opaque bytes here).
//! V2: every read checks what is left of the *enclosing* document, so no announced length reaches past its parent.
//! V3: memory is bounded by `depth_max` stack entries; nothing else is allocated.
//!
//! Accepted as MongoDB accepts them: repeated names, array names other than "0", "1", ... (arrays are read by position),
//! decimals that are not canonical (their value is zero), regex options in any order, NUL inside strings.
//! COMPAT: text that is not UTF-8 is refused; MongoDB stores it.

use crate::depth::{DEPTH_MAX, STORED_DEPTH_MAX};
use crate::{Doc, Error, error::Problem};

/// The largest document a user may store.
pub const USER_SIZE_MAX: usize = 16 * 1024 * 1024;
/// 16 MB and 16 KB for the command around it.
pub const INTERNAL_SIZE_MAX: usize = USER_SIZE_MAX + 16 * 1024;

#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// A document without nested ones has depth 1.
    pub depth_max: usize,
    pub size_max: usize,
}

impl Limits {
    /// Limits of documents from a client.
    pub const INPUT: Limits = Limits { depth_max: DEPTH_MAX, size_max: INTERNAL_SIZE_MAX };
    /// Limits of documents in a collection.
    pub const STORED: Limits = Limits { depth_max: STORED_DEPTH_MAX, size_max: INTERNAL_SIZE_MAX };
}

impl Default for Limits {
    fn default() -> Limits {
        Limits::INPUT
    }
}

/// Checks that `bytes` are exactly one well-formed document within `limits`.
pub fn validate(bytes: &[u8], limits: Limits) -> Result<Doc<'_>, Error> {
    if bytes.len() > limits.size_max {
        return Err(Error::TooLarge { size: bytes.len(), max: limits.size_max });
    }
    Validator { bytes, at: 0, end: bytes.len(), open: Vec::new(), limits }.run()?;
    Ok(Doc::trusted(bytes))
}

impl<'a> Doc<'a> {
    /// [`validate`] with the limits of client input.
    pub fn parse(bytes: &'a [u8]) -> Result<Doc<'a>, Error> {
        validate(bytes, Limits::INPUT)
    }
}

struct Validator<'a> {
    bytes: &'a [u8],
    at: usize,
    /// Offset at which the innermost open document's final NUL must be (before the first is opened: the end of the bytes).
    end: usize,
    /// The `end`s around it; the height is the depth.
    open: Vec<usize>,
    limits: Limits,
}

impl Validator<'_> {
    fn run(mut self) -> Result<(), Error> {
        self.open_document()?;
        if self.end + 1 != self.bytes.len() {
            return Err(self.wrong(Problem::TrailingBytes));
        }
        while !self.open.is_empty() {
            self.pass_plain();
            if self.at == self.end {
                self.close_document()?;
            } else {
                self.element()?;
            }
        }
        Ok(())
    }

    /// Passes the elements up to the next one that is not plain: names of ASCII, and values of which every byte is allowed. Errors
    /// are left to [`Validator::element`].
    ///
    /// PERF: a message may have 24 million of them. A ping with 14 MB of nulls took 34 ms of processor time without this, and takes 22 (2026-11-23).
    fn pass_plain(&mut self) {
        let Some(within) = self.bytes.get(..self.end) else { return };
        while let Some((ty, rest)) = within.get(self.at..).and_then(<[u8]>::split_first)
            && let Some(value_bytes) = plain_bytes(*ty)
        {
            let mut seen = 0;
            let name = rest.iter().inspect(|byte| seen |= **byte).position(|byte| *byte == 0);
            let next = name.map(|len| self.at + 1 + len + 1 + value_bytes);
            let Some(next) = next.filter(|next| *next <= self.end && seen.is_ascii()) else { return };
            self.at = next;
        }
    }

    fn wrong(&self, problem: Problem) -> Error {
        Error::Malformed { offset: self.at, problem }
    }

    fn take(&mut self, len: usize) -> Result<&[u8], Error> {
        let stop = self.at.checked_add(len).filter(|stop| *stop <= self.end);
        let Some(taken) = stop.and_then(|stop| self.bytes.get(self.at..stop)) else {
            return Err(self.wrong(Problem::Truncated));
        };
        self.at += len;
        Ok(taken)
    }

    /// A length as BSON writes it: never negative, never below `min`.
    fn length(&mut self, min: usize) -> Result<usize, Error> {
        let at = self.at;
        let raw = self.take(4)?.first_chunk::<4>().map_or(-1, |raw| i32::from_le_bytes(*raw));
        usize::try_from(raw)
            .ok()
            .filter(|len| *len >= min)
            .ok_or(Error::Malformed { offset: at, problem: Problem::Length })
    }

    fn open_document(&mut self) -> Result<(), Error> {
        if self.open.len() >= self.limits.depth_max {
            return Err(Error::TooDeep { max: self.limits.depth_max });
        }
        let start = self.at;
        let len = self.length(5)?;
        if len > self.end - start {
            self.at = start;
            return Err(self.wrong(Problem::Length));
        }
        self.open.push(self.end);
        self.end = start + len - 1;
        Ok(())
    }

    fn close_document(&mut self) -> Result<(), Error> {
        if self.bytes.get(self.at) != Some(&0) {
            return Err(self.wrong(Problem::Terminator));
        }
        self.at += 1;
        self.end = self.open.pop().unwrap_or(self.at);
        Ok(())
    }

    fn c_string(&mut self) -> Result<(), Error> {
        // PERF: a message may have 24 million names; most are short and of ASCII
        let rest = self.bytes.get(self.at..self.end).unwrap_or_default();
        let mut seen = 0;
        let Some(len) = rest.iter().inspect(|byte| seen |= **byte).position(|byte| *byte == 0) else {
            return Err(self.wrong(Problem::Truncated));
        };
        if !seen.is_ascii() {
            self.utf8(len)?;
        } else {
            self.at += len;
        }
        self.at += 1;
        Ok(())
    }

    fn utf8(&mut self, len: usize) -> Result<(), Error> {
        let at = self.at;
        std::str::from_utf8(self.take(len)?)
            .map_or(Err(Error::Malformed { offset: at, problem: Problem::Utf8 }), |_| Ok(()))
    }

    fn string(&mut self) -> Result<(), Error> {
        let len = self.length(1)?;
        self.utf8(len - 1)?;
        if self.take(1)? != [0] {
            self.at -= 1;
            return Err(self.wrong(Problem::Terminator));
        }
        Ok(())
    }

    fn element(&mut self) -> Result<(), Error> {
        let at = self.at;
        let ty = self.take(1)?.first().copied().unwrap_or_default();
        self.c_string()?;
        match ty {
            0x01 | 0x09 | 0x11 | 0x12 => self.take(8).map(drop),
            0x02 | 0x0D | 0x0E => self.string(),
            0x03 | 0x04 => self.open_document(),
            0x05 => self.binary(),
            0x06 | 0x0A | 0x7F | 0xFF => Ok(()),
            0x07 => self.take(12).map(drop),
            0x08 => self.boolean(),
            0x0B => self.c_string().and_then(|()| self.c_string()),
            0x0C => self.string().and_then(|()| self.take(12).map(drop)),
            0x0F => self.code_with_scope(),
            0x10 => self.take(4).map(drop),
            0x13 => self.take(16).map(drop),
            unknown => Err(Error::Malformed { offset: at, problem: Problem::Type(unknown) }),
        }
    }

    fn boolean(&mut self) -> Result<(), Error> {
        match self.take(1)? {
            [0 | 1] => Ok(()),
            _ => {
                self.at -= 1;
                Err(self.wrong(Problem::Bool))
            }
        }
    }

    fn binary(&mut self) -> Result<(), Error> {
        let at = self.at;
        let len = self.length(0)?;
        let subtype = self.take(1)?.first().copied();
        let content = self.take(len)?;
        if subtype == Some(2) {
            let inner = content.first_chunk::<4>().map(|raw| i64::from(i32::from_le_bytes(*raw)));
            if inner != Some(len as i64 - 4) {
                return Err(Error::Malformed { offset: at, problem: Problem::OldBinary });
            }
        }
        Ok(())
    }

    /// Total length, code, scope; the scope is opened like any document and must end where the total says.
    fn code_with_scope(&mut self) -> Result<(), Error> {
        let start = self.at;
        let len = self.length(4 + 5 + 5)?;
        self.string()?;
        self.open_document()?;
        if self.end + 1 != start + len {
            self.at = start;
            return Err(self.wrong(Problem::Length));
        }
        Ok(())
    }
}

/// Size of a value of which any bytes are valid.
#[inline]
fn plain_bytes(ty: u8) -> Option<usize> {
    match ty {
        0x06 | 0x0A | 0x7F | 0xFF => Some(0),
        0x10 => Some(4),
        0x01 | 0x09 | 0x11 | 0x12 => Some(8),
        0x07 => Some(12),
        0x13 => Some(16),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{ArrayBuf, DocBuf, ValueRef};

    fn check(what: &str, bytes: &[u8], expect: Problem) {
        match Doc::parse(bytes) {
            Err(Error::Malformed { problem, .. }) => assert_eq!(problem, expect, "{what}"),
            other => panic!("{what}: {other:?}"),
        }
    }

    /// A document with one element, its length right.
    fn one(element: &[u8]) -> Vec<u8> {
        let mut bytes = (element.len() as i32 + 5).to_le_bytes().to_vec();
        bytes.extend_from_slice(element);
        bytes.push(0);
        bytes
    }

    #[test]
    fn lengths_that_lie() {
        check("nothing", &[], Problem::Truncated);
        check("half a length", &[5, 0], Problem::Truncated);
        check("too small", &[4, 0, 0, 0, 0], Problem::Length);
        check("negative", &[0xFF, 0xFF, 0xFF, 0xFF, 0], Problem::Length);
        check("more than there is", &[6, 0, 0, 0, 0], Problem::Length);
        check("less than there is", &[5, 0, 0, 0, 0, 0], Problem::TrailingBytes);
        check("no final NUL", &[5, 0, 0, 0, 1], Problem::Terminator);
        check("inner document past its parent", &one(&[3, b'a', 0, 6, 0, 0, 0, 0]), Problem::Length);
        check("inner document too small", &one(&[3, b'a', 0, 4, 0, 0, 0, 0]), Problem::Length);
        check("inner document cuts an element", &one(&[3, b'a', 0, 6, 0, 0, 0, 0x0A, 0]), Problem::Truncated);
        check("inner document's NUL", &one(&[4, b'a', 0, 5, 0, 0, 0, 7]), Problem::Terminator);
        check("string length 0", &one(&[2, b'a', 0, 0, 0, 0, 0, 0]), Problem::Length);
        check("string length negative", &one(&[2, b'a', 0, 0xFF, 0xFF, 0xFF, 0xFF, 0]), Problem::Length);
        check("string too long", &one(&[2, b'a', 0, 3, 0, 0, 0, b'x', 0]), Problem::Truncated);
        check("string of 2 GB", &one(&[2, b'a', 0, 0xFF, 0xFF, 0xFF, 0x7F, 0]), Problem::Truncated);
        check("string without NUL", &one(&[2, b'a', 0, 2, 0, 0, 0, b'x', b'y']), Problem::Terminator);
        check("binary too long", &one(&[5, b'a', 0, 2, 0, 0, 0, 0, 1]), Problem::Truncated);
        check("binary negative", &one(&[5, b'a', 0, 0xFE, 0xFF, 0xFF, 0xFF, 0, 1]), Problem::Length);
        check("name without end", &one(&[10, b'a', b'b']), Problem::Truncated);
        check("int32 cut", &one(&[16, b'a', 0, 1, 2]), Problem::Truncated);
        check("decimal cut", &one(&[19, b'a', 0, 1, 2, 3, 4, 5, 6, 7, 8]), Problem::Truncated);
        check("regex without options", &one(&[11, b'a', 0, b'x', 0]), Problem::Truncated);
    }

    #[test]
    fn wrong_content() {
        check("unknown type", &one(&[0x14, b'a', 0]), Problem::Type(0x14));
        check("type 0 inside", &one(&[0, b'a', 0]), Problem::Type(0));
        check("boolean 2", &one(&[8, b'a', 0, 2]), Problem::Bool);
        check("name not UTF-8", &one(&[10, 0xC3, 0]), Problem::Utf8);
        check("string not UTF-8", &one(&[2, b'a', 0, 2, 0, 0, 0, 0xFF, 0]), Problem::Utf8);
        check("regex not UTF-8", &one(&[11, b'a', 0, 0xC0, 0, 0]), Problem::Utf8);
        check("NUL in a name reads as its end", &one(&[10, b'a', 0, b'b', 0]), Problem::Type(b'b'));
        check("old binary, inner too long", &one(&[5, b'a', 0, 5, 0, 0, 0, 2, 2, 0, 0, 0, 1]), Problem::OldBinary);
        check("old binary, no inner length", &one(&[5, b'a', 0, 1, 0, 0, 0, 2, 2]), Problem::OldBinary);
        // code "" and scope {}: total 4 + 5 + 5 = 14
        let scoped = |total: u8| one(&[15, b'a', 0, total, 0, 0, 0, 1, 0, 0, 0, 0, 5, 0, 0, 0, 0]);
        assert!(Doc::parse(&scoped(14)).is_ok());
        check("code with scope, total too long", &scoped(15), Problem::Length);
        check("code with scope, total too short", &scoped(13), Problem::Length);
    }

    #[test]
    fn accepted_as_mongodb_accepts_it() {
        for (what, bytes) in [
            ("repeated names", one(&[10, b'a', 0, 10, b'a', 0])),
            ("empty name", one(&[10, 0])),
            ("array with odd names", one(&[4, b'a', 0, 11, 0, 0, 0, 10, b'x', 0, 10, b'x', 0, 0])),
            ("binary column", one(&[5, b'a', 0, 3, 0, 0, 0, 7, 0x80, 0x80, 0x80])),
            ("old binary", one(&[5, b'a', 0, 5, 0, 0, 0, 2, 1, 0, 0, 0, 9])),
            ("NUL in a string", one(&[2, b'a', 0, 3, 0, 0, 0, 0, b'x', 0])),
            ("regex options out of order", one(&[11, b'a', 0, b'x', 0, b'x', b'i', 0])),
            ("decimal that is not canonical", one(&[[19, b'a', 0].as_slice(), &[0xFF; 16]].concat())),
        ] {
            assert!(Doc::parse(&bytes).is_ok(), "{what}: {:?}", Doc::parse(&bytes));
        }
    }

    fn nested(levels: usize, wrap: impl Fn(DocBuf) -> DocBuf) -> DocBuf {
        (1..levels).fold(DocBuf::new(), |inner, _| wrap(inner))
    }

    #[test]
    fn one_depth_counter_for_documents_arrays_and_scopes() {
        let as_document = |inner: DocBuf| DocBuf::new().with("a", &inner);
        let as_scope =
            |inner: DocBuf| DocBuf::new().with("a", ValueRef::JavaScriptWithScope { code: "", scope: inner.as_doc() });
        let as_array = |inner: DocBuf| {
            let array: ArrayBuf = [inner.as_doc()].into_iter().collect();
            DocBuf::new().with("a", &array)
        };
        for limits in [Limits::INPUT, Limits::STORED] {
            for (wrap, levels_each) in [(&as_document as &dyn Fn(DocBuf) -> DocBuf, 1), (&as_scope, 1), (&as_array, 2)]
            {
                let most = nested((limits.depth_max - 1) / levels_each + 1, wrap);
                assert!(validate(most.as_bytes(), limits).is_ok());
                let more = nested((limits.depth_max - 1) / levels_each + 2, wrap);
                assert_eq!(validate(more.as_bytes(), limits).err(), Some(Error::TooDeep { max: limits.depth_max }));
            }
        }
    }

    #[test]
    fn too_large() {
        let limits = Limits { size_max: 20, ..Limits::INPUT };
        assert!(validate(DocBuf::new().with("a", "12345").as_bytes(), limits).is_ok());
        let bytes = DocBuf::new().with("a", "1234567890");
        assert!(matches!(validate(bytes.as_bytes(), limits), Err(Error::TooLarge { max: 20, .. })));
    }

    #[test]
    fn cut_or_changed_anywhere_it_never_panics() {
        let array: ArrayBuf = ["x", "y"].into_iter().collect();
        let doc = DocBuf::new()
            .with("a", 1i32)
            .with("s", "text")
            .with("b", ValueRef::Binary { subtype: 2, bytes: &[1, 0, 0, 0, 7] })
            .with("c", ValueRef::JavaScriptWithScope { code: "f()", scope: DocBuf::new().with("z", 1i64).as_doc() })
            .with("d", &array)
            .with("r", ValueRef::Regex { pattern: "^a", options: "i" });
        let bytes = doc.as_bytes();
        assert!(Doc::parse(bytes).is_ok());
        for cut in 0..bytes.len() {
            assert!(Doc::parse(&bytes[..cut]).is_err(), "cut at {cut}");
            for byte in [0, 1, 3, 5, 0x7F, 0x80, 0xFF] {
                let mut changed = bytes.to_vec();
                changed[cut] = byte;
                if let Ok(doc) = Doc::parse(&changed) {
                    doc.iter().for_each(|(_, value)| drop(value.to_value()));
                }
            }
        }
    }
}
