//! Resume tokens: `{ _data: "<hex>" }`, ordered as the events are.
//!
//! | offset | size | what |
//! |---|---|---|
//! | 0 | 1 | 0x82, as in MongoDB's tokens: a timestamp follows |
//! | 1 | 8 | cluster time, big-endian |
//! | 9 | 1 | version, 1 |
//! | 10 | 1 | kind: 0x40 an event, 0x80 the end of all events of that time |
//! | 11 | 4 | which event of that time, big-endian: above 0 inside transactions |
//! | 15 | 1 | 1: the invalidate event after it |
//! | 16 | 2 | which fragment of a split event, from 1, big-endian; 0: it is whole |
//! | 18 | 12 | the deployment |
//! | 30 | 4 | CRC32C of the bytes before, big-endian |

use arbor_bson::{DocBuf, Timestamp, ValueRef};
use arbor_lang::{Code, text};

use super::location;
use super::options::wrong_type;
use crate::feed::DeploymentId;
use crate::{Error, Result};

const TIMESTAMP: u8 = 0x82;
const VERSION: u8 = 1;
const EVENT: u8 = 0x40;
const END_OF_TIME: u8 = 0x80;
const SIZE: usize = 34;
const CHECKED: usize = SIZE - 4;
/// A token is known without its last byte.
const SIZE_MIN: usize = SIZE - 1;

/// Compares in the order of events.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Token {
    pub time: u64,
    /// Everything of that time was seen; else only one event, given by the fields that follow.
    pub end: bool,
    pub index: u32,
    pub of_invalidate: bool,
    pub fragment: u16,
    pub deployment: DeploymentId,
}

impl Token {
    /// Everything up to this time was seen.
    pub fn end_of(time: u64, deployment: DeploymentId) -> Token {
        Token { time, end: true, index: 0, of_invalidate: false, fragment: 0, deployment }
    }

    pub fn of_event(time: u64, index: u32, deployment: DeploymentId) -> Token {
        Token { end: false, index, ..Token::end_of(time, deployment) }
    }

    /// Returns true if both are of the same event; an event and its invalidate differ.
    pub fn is_same_event(&self, other: &Token) -> bool {
        let event = |token: &Token| (token.time, token.end, token.index, token.of_invalidate);
        event(self) == event(other)
    }

    pub fn timestamp(time: u64) -> Timestamp {
        Timestamp { seconds: (time >> 32) as u32, increment: time as u32 }
    }

    pub fn to_doc(self) -> DocBuf {
        let mut bytes = Vec::with_capacity(SIZE);
        bytes.push(TIMESTAMP);
        bytes.extend(self.time.to_be_bytes());
        bytes.push(VERSION);
        bytes.push(if self.end { END_OF_TIME } else { EVENT });
        bytes.extend(self.index.to_be_bytes());
        bytes.push(u8::from(self.of_invalidate));
        bytes.extend(self.fragment.to_be_bytes());
        bytes.extend(self.deployment);
        bytes.extend(crc32c::crc32c(&bytes).to_be_bytes());
        let digits = bytes.iter().flat_map(|byte| [byte >> 4, byte & 15]);
        let hex: String = digits.filter_map(|digit| char::from_digit(u32::from(digit), 16)).collect();
        let hex = hex.to_ascii_uppercase();
        DocBuf::new().with("_data", hex.as_str())
    }

    /// Reads the option `name`.
    pub fn parse(name: &str, value: ValueRef<'_>) -> Result<Token> {
        let ValueRef::Document(doc) = value else { return Err(wrong_type(name, value, "object")) };
        let hex = match doc.get("_data") {
            Some(ValueRef::String(hex)) => hex,
            other => {
                let found = text::type_name(other);
                return Err(location(40647, format!("Bad resume token: _data of missing or of wrong type {found}")));
            }
        };
        if doc.get("_typeBits").is_some_and(|bits| !matches!(bits, ValueRef::Binary { .. } | ValueRef::Undefined)) {
            return Err(location(40648, "Bad resume token: _typeBits of wrong type"));
        }
        if hex.is_empty() {
            return Err(location(40649, "Bad resume token: _data is empty"));
        }
        if hex.len() % 2 == 1 || !hex.bytes().all(|digit| digit.is_ascii_hexdigit()) {
            return Err(Error::new(Code::FAILED_TO_PARSE, "resume token string was not a valid hex string"));
        }
        if !hex.starts_with("82") {
            return Err(location(
                50811,
                format!("resume token begins with an unknown type: {}", hex.get(..2).unwrap_or(hex)),
            ));
        }
        if hex.len() < 2 * SIZE_MIN {
            return Err(Error::new(Code::OVERFLOW, "the resume token ends too early"));
        }
        Token::decode(hex).ok_or_else(invalid)
    }

    /// Bytes after the token mean nothing, and the last one may be missing, as in MongoDB's tokens.
    fn decode(hex: &str) -> Option<Token> {
        if hex.len() < 2 * SIZE_MIN || !hex.bytes().all(|digit| digit.is_ascii_hexdigit()) {
            return None;
        }
        let size = (hex.len() / 2).min(SIZE);
        let digit = |at: usize| u8::from_str_radix(hex.get(at..at + 2)?, 16).ok();
        let bytes: Vec<u8> = (0..size).map(|at| digit(2 * at)).collect::<Option<_>>()?;
        let (checked, sum) = bytes.split_at_checked(CHECKED)?;
        if !crc32c::crc32c(checked).to_be_bytes().starts_with(sum)
            || *checked.first()? != TIMESTAMP
            || *checked.get(9)? != VERSION
        {
            return None;
        }
        let end = match *checked.get(10)? {
            EVENT => false,
            END_OF_TIME => true,
            _ => return None,
        };
        Some(Token {
            time: u64::from_be_bytes(*checked.get(1..)?.first_chunk()?),
            end,
            index: u32::from_be_bytes(*checked.get(11..)?.first_chunk()?),
            of_invalidate: *checked.get(15)? == 1,
            fragment: u16::from_be_bytes(*checked.get(16..)?.first_chunk()?),
            deployment: *checked.get(18..)?.first_chunk()?,
        })
    }
}

fn invalid() -> Error {
    Error::new(Code::INVALID_RESUME_TOKEN, "Invalid resume token: it was not made by this server, or it is damaged")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tokens() -> Vec<Token> {
        let event = Token::of_event(77 << 32 | 5, 3, [9; 12]);
        let later = Token { of_invalidate: true, ..event };
        let fragment = Token { fragment: 2, ..event };
        vec![event, fragment, later, Token::end_of(77 << 32 | 5, [9; 12]), Token::of_event(u64::MAX, u32::MAX, [1; 12])]
    }

    fn data(token: Token) -> String {
        match token.to_doc().get("_data") {
            Some(ValueRef::String(hex)) => hex.to_owned(),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn tokens_come_back_and_sort_as_events_do() {
        for token in tokens() {
            assert_eq!(Token::parse("resumeAfter", ValueRef::from(&token.to_doc())).unwrap(), token);
        }
        assert!(tokens().is_sorted());
        assert!(tokens().into_iter().map(data).collect::<Vec<_>>().is_sorted());
    }

    #[test]
    fn forged_and_truncated_tokens_are_refused() {
        let whole = data(tokens()[0]);
        for end in 0..2 * SIZE_MIN {
            assert_eq!(Token::decode(&whole[..end]), None);
        }
        for same in [whole[..2 * SIZE_MIN].to_owned(), whole.clone() + "FF", whole.clone() + "00", whole.to_lowercase()]
        {
            assert_eq!(Token::decode(&same), Some(tokens()[0]), "{same}");
        }
        for at in 0..whole.len() {
            let other = if &whole[at..=at] == "0" { "1" } else { "0" };
            assert_eq!(Token::decode(&format!("{}{other}{}", &whole[..at], &whole[at + 1..])), None, "{at}");
        }
        assert_eq!(Token::decode(&"é".repeat(SIZE)), None);
    }
}
