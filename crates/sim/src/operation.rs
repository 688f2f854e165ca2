//! Operations of clients, and the documents that it makes.

use arbor_base::scatter;

pub(crate) const KEYS: u64 = 6;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operation {
    /// The record at the beginning of an epoch.
    Nothing,
    Put {
        key: u64,
        value: u64,
    },
    /// Changes the value only if it is `expected`.
    CompareAndSet {
        key: u64,
        expected: u64,
        value: u64,
    },
    /// Refers to a load, which a member has or has not (R10).
    Loaded {
        load: u64,
    },
}

impl Operation {
    /// The value that it writes.
    pub fn value(&self) -> Option<u64> {
        match self {
            Operation::Put { value, .. } | Operation::CompareAndSet { value, .. } => Some(*value),
            Operation::Nothing | Operation::Loaded { .. } => None,
        }
    }

    pub fn encode(self) -> Vec<u8> {
        let (kind, numbers) = match self {
            Operation::Nothing => (0, [0; 3]),
            Operation::Put { key, value } => (1, [key, value, 0]),
            Operation::CompareAndSet { key, expected, value } => (2, [key, value, expected]),
            Operation::Loaded { load } => (3, [load, 0, 0]),
        };
        let mut bytes = vec![kind];
        numbers.iter().for_each(|number| bytes.extend_from_slice(&number.to_le_bytes()));
        bytes
    }

    pub fn decode(bytes: &[u8]) -> Option<Operation> {
        let (kind, rest) = bytes.split_first()?;
        let mut numbers = rest.chunks_exact(8).filter_map(|chunk| Some(u64::from_le_bytes(chunk.try_into().ok()?)));
        let (key, value, expected) = (numbers.next()?, numbers.next()?, numbers.next()?);
        match kind {
            0 => Some(Operation::Nothing),
            1 => Some(Operation::Put { key, value }),
            2 => Some(Operation::CompareAndSet { key, expected, value }),
            3 => Some(Operation::Loaded { load: key }),
            _ => None,
        }
    }
}

/// The documents: a number for each key.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Documents {
    values: [u64; KEYS as usize],
}

impl Documents {
    pub fn get(&self, key: u64) -> u64 {
        self.values.get(key as usize).copied().unwrap_or_default()
    }

    /// Returns false for a comparison that failed.
    pub fn apply(&mut self, operation: Operation) -> bool {
        let (key, value) = match operation {
            Operation::Nothing | Operation::Loaded { .. } => return true,
            Operation::Put { key, value } => (key, value),
            Operation::CompareAndSet { key, expected, value } if self.get(key) == expected => (key, value),
            Operation::CompareAndSet { .. } => return false,
        };
        if let Some(place) = self.values.get_mut(key as usize) {
            *place = value;
        }
        true
    }

    pub fn hash(&self) -> u64 {
        self.values.iter().fold(1, |hash, value| scatter(hash ^ value).rotate_left(23))
    }
}

/// Continues the hash of a log's records with one more.
pub(crate) fn chain(before: u64, epoch: u64, payload: &[u8]) -> u64 {
    let mut hash = scatter(before ^ epoch).rotate_left(29);
    for chunk in payload.chunks(8) {
        let mut bytes = [0; 8];
        bytes.iter_mut().zip(chunk).for_each(|(to, from)| *to = *from);
        hash = scatter(hash ^ u64::from_le_bytes(bytes)).rotate_left(29);
    }
    hash
}
