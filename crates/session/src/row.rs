//! One session's row in the journal: its last transaction number, what became of it, and the statements that were done.
//!
//! | size | what |
//! |---|---|
//! | 1 | version, 1 |
//! | 1 | 0 retryable write, 1 committed transaction |
//! | 8 | transaction number, little-endian |
//! | 8 | when, milliseconds since 1970, little-endian |
//! | 4 | number of further rows with earlier statements, little-endian |
//! | ... | statements, see `runs.rs` |
//!
//! The key is the session, 48 bytes: its UUID, its user's digest. A further row has 4 bytes more, its number from 0 on,
//! big-endian, and holds statements alone. A row with more than [`SPLIT_BYTES`] gives its statements to a further row
//! when more come, so that a command of many statements does not write all of them again with each transaction.

use arbor_oplog::SessionId;
use uuid::Uuid;

use crate::runs::{Runs, take_array};

const VERSION: u8 = 1;

/// About a page.
const SPLIT_BYTES: usize = 4096;

pub(crate) const KEY_BYTES: usize = 48;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ended {
    Statements,
    Committed,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Row {
    pub number: i64,
    pub ended: Ended,
    /// Milliseconds since 1970.
    pub wall: i64,
    /// Rows with earlier statements.
    pub(crate) further: u32,
    pub(crate) runs: Runs,
}

impl Row {
    pub(crate) fn new(number: i64, ended: Ended, wall: i64) -> Row {
        Row { number, ended, wall, further: 0, runs: Runs::default() }
    }

    /// Returns the reply of the statement that was done last.
    pub fn last_answer(&self) -> Option<&[u8]> {
        self.runs.last()
    }

    /// Adds statements; returns those that are to go into a further row, with its number.
    pub(crate) fn add(&mut self, runs: Runs) -> Option<(u32, Runs)> {
        if self.runs.size_bytes() <= SPLIT_BYTES {
            self.runs.append(runs);
            return None;
        }
        let full = std::mem::replace(&mut self.runs, runs);
        self.further += 1;
        Some((self.further - 1, full))
    }

    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(22 + self.runs.size_bytes());
        out.push(VERSION);
        out.push(match self.ended {
            Ended::Statements => 0,
            Ended::Committed => 1,
        });
        out.extend(self.number.to_le_bytes());
        out.extend(self.wall.to_le_bytes());
        out.extend(self.further.to_le_bytes());
        self.runs.encode(&mut out);
        out
    }

    pub(crate) fn decode(mut bytes: &[u8]) -> Result<Row, &'static str> {
        let [version, ended] = take_array(&mut bytes)?;
        if version != VERSION {
            return Err("unknown version");
        }
        let ended = match ended {
            0 => Ended::Statements,
            1 => Ended::Committed,
            _ => return Err("unknown state"),
        };
        let number = i64::from_le_bytes(take_array(&mut bytes)?);
        let wall = i64::from_le_bytes(take_array(&mut bytes)?);
        let further = u32::from_le_bytes(take_array(&mut bytes)?);
        Ok(Row { number, ended, wall, further, runs: Runs::decode(bytes)? })
    }
}

pub(crate) fn key(session: SessionId) -> Vec<u8> {
    let mut key = Vec::with_capacity(KEY_BYTES + 4);
    key.extend(session.id.as_bytes());
    key.extend(session.user);
    key
}

pub(crate) fn further_key(session: SessionId, number: u32) -> Vec<u8> {
    let mut key = key(session);
    key.extend(number.to_be_bytes());
    key
}

/// The session of a row; none of a further row.
pub(crate) fn session_of(mut key: &[u8]) -> Option<SessionId> {
    let id = take_array(&mut key).ok()?;
    let user = take_array(&mut key).ok()?;
    key.is_empty().then_some(SessionId { id: Uuid::from_bytes(id), user })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::runs::ByNumber;

    #[test]
    fn what_is_encoded_is_decoded() {
        for ended in [Ended::Statements, Ended::Committed] {
            let mut row = Row::new(-3, ended, 99);
            row.runs.push(5, b"answer".to_vec());
            row.further = 7;
            let bytes = row.encode();
            assert_eq!(Row::decode(&bytes), Ok(row));
            assert!((0..22).all(|end| Row::decode(&bytes[..end]).is_err()));
        }
        assert_eq!(Row::decode(&[2, 0, 0]), Err("unknown version"));
        let session = SessionId { id: Uuid::from_u128(5), user: [9; 32] };
        assert_eq!(session_of(&key(session)), Some(session));
        assert_eq!(session_of(&further_key(session, 1)), None);
    }

    #[test]
    fn a_full_row_gives_its_statements_away() {
        let mut row = Row::new(1, Ended::Statements, 0);
        let runs = |first: i32| {
            let mut runs = Runs::default();
            runs.push(first, vec![0; SPLIT_BYTES / 2]);
            runs
        };
        assert_eq!(row.add(runs(0)), None);
        assert_eq!(row.add(runs(1)), None);
        let (number, full) = row.add(runs(2)).unwrap();
        assert_eq!((number, row.further), (0, 1));
        let (mut full, mut own) = ((ByNumber::default(), full), (ByNumber::default(), row.runs));
        full.0.add(full.1);
        own.0.add(own.1);
        let there = |found: &ByNumber| [0, 1, 2].map(|statement| found.get(statement).is_some());
        assert_eq!((there(&full.0), there(&own.0)), ([true, true, false], [false, false, true]));
    }
}
