//! Executed statements with their replies: neighbours with the same reply share it.
//!
//! A run is `[first statement number, 4 bytes] [count, 4 bytes] [length of the reply, 4 bytes] [reply]`, little-endian.

use std::collections::BTreeMap;

/// Executed statements, in the order in which they were recorded.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Runs(Vec<Run>);

/// Like [`Runs`], but sorted by number. A statement is done once, so runs do not overlap.
#[derive(Debug, Default)]
pub(crate) struct ByNumber(BTreeMap<i32, Run>);

#[derive(Clone, Debug, PartialEq, Eq)]
struct Run {
    first: i32,
    count: u32,
    answer: Vec<u8>,
}

impl Run {
    /// The number of the statement that would continue this run.
    fn next(&self) -> Option<i32> {
        i32::try_from(i64::from(self.first) + i64::from(self.count)).ok()
    }

    fn holds(&self, statement: i32) -> bool {
        let offset = i64::from(statement) - i64::from(self.first);
        (0..i64::from(self.count)).contains(&offset)
    }
}

impl Runs {
    pub(crate) fn push(&mut self, statement: i32, answer: Vec<u8>) {
        match self.0.last_mut() {
            Some(last) if last.next() == Some(statement) && last.answer == answer => last.count += 1,
            _ => self.0.push(Run { first: statement, count: 1, answer }),
        }
    }

    pub(crate) fn append(&mut self, other: Runs) {
        self.0.extend(other.0);
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The last reply.
    pub(crate) fn last(&self) -> Option<&[u8]> {
        self.0.last().map(|run| &*run.answer)
    }

    pub(crate) fn size_bytes(&self) -> usize {
        self.0.iter().map(|run| 12 + run.answer.len()).sum()
    }

    pub(crate) fn encode(&self, out: &mut Vec<u8>) {
        out.reserve(self.size_bytes());
        for run in &self.0 {
            out.extend(run.first.to_le_bytes());
            out.extend(run.count.to_le_bytes());
            out.extend((run.answer.len() as u32).to_le_bytes());
            out.extend(&run.answer);
        }
    }

    pub(crate) fn decode(mut bytes: &[u8]) -> Result<Runs, &'static str> {
        let mut runs = Vec::new();
        while !bytes.is_empty() {
            let first = i32::from_le_bytes(take_array(&mut bytes)?);
            let count = u32::from_le_bytes(take_array(&mut bytes)?);
            let length = u32::from_le_bytes(take_array(&mut bytes)?) as usize;
            let (answer, rest) = bytes.split_at_checked(length).ok_or("an answer exceeds its row")?;
            bytes = rest;
            runs.push(Run { first, count, answer: answer.to_vec() });
        }
        Ok(Runs(runs))
    }
}

impl ByNumber {
    pub(crate) fn add(&mut self, runs: Runs) {
        self.0.extend(runs.0.into_iter().map(|run| (run.first, run)));
    }

    /// Returns all statements with their answers.
    pub(crate) fn all(&self) -> Vec<(i32, Vec<u8>)> {
        let each = |run: &Run| -> Vec<(i32, Vec<u8>)> {
            (0..run.count).map(|at| (run.first.wrapping_add(at as i32), run.answer.clone())).collect()
        };
        self.0.values().flat_map(each).collect()
    }

    pub(crate) fn get(&self, statement: i32) -> Option<&[u8]> {
        let (_, run) = self.0.range(..=statement).next_back()?;
        run.holds(statement).then_some(&*run.answer)
    }
}

pub(crate) fn take_array<const N: usize>(bytes: &mut &[u8]) -> Result<[u8; N], &'static str> {
    let (head, rest) = bytes.split_first_chunk().ok_or("it ends too early")?;
    *bytes = rest;
    Ok(*head)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn neighbours_with_the_same_answer_are_one_run() {
        let mut runs = Runs::default();
        for statement in 0..1000 {
            runs.push(statement, b"n".to_vec());
        }
        assert_eq!((runs.0.len(), runs.size_bytes()), (1, 13));
        runs.push(1000, b"other".to_vec());
        runs.push(7_000, b"other".to_vec());
        runs.push(i32::MAX, b"".to_vec());
        runs.push(i32::MIN, b"".to_vec());
        assert_eq!(runs.0.len(), 5);
        let mut found = ByNumber::default();
        found.add(runs);
        for (statement, expect) in [
            (0, Some("n")),
            (999, Some("n")),
            (1000, Some("other")),
            (1001, None),
            (7_000, Some("other")),
            (-1, None),
            (i32::MAX, Some("")),
            (i32::MIN, Some("")),
        ] {
            assert_eq!(found.get(statement), expect.map(str::as_bytes), "{statement}");
        }
    }

    #[test]
    fn what_is_encoded_is_decoded() {
        let mut runs = Runs::default();
        runs.push(3, b"abc".to_vec());
        runs.push(9, b"".to_vec());
        let mut bytes = Vec::new();
        runs.encode(&mut bytes);
        assert_eq!(bytes.len(), runs.size_bytes());
        assert_eq!(Runs::decode(&bytes), Ok(runs));
        for end in (1..bytes.len()).filter(|end| *end != 15) {
            assert!(Runs::decode(&bytes[..end]).is_err(), "{end}");
        }
    }
}
