//! The collections (tables) of a workload: what is made before its load and what counts as loaded already.

use std::ops::RangeInclusive;

#[derive(Clone, Debug)]
pub struct Collection {
    pub database: &'static str,
    pub name: String,
    pub indexes: Vec<Index>,
    /// Number of documents that identifies the collection of an earlier load. A workload whose load is its run takes any number.
    pub documents: RangeInclusive<u64>,
    /// Its `_id`s are numbers of a sequence that the run continues ([`Found::last_id`]).
    pub sequence: bool,
    pub sharding: Option<Sharding>,
}

/// Distribution of a collection over shards before it is loaded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sharding {
    pub key: [&'static str; 2],
    /// Keys at which chunks begin, but the first.
    pub splits: Vec<(i32, i32)>,
    /// Values `1..=groups` of the key's first field; blocks of them lie on one shard.
    pub groups: i32,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Index {
    pub fields: Vec<&'static str>,
    pub unique: bool,
    /// Made after the load.
    pub after_load: bool,
}

impl Index {
    pub fn on(fields: &[&'static str]) -> Index {
        Index { fields: fields.to_vec(), unique: false, after_load: false }
    }

    pub fn unique(self) -> Index {
        Index { unique: true, ..self }
    }

    pub fn after_load(self) -> Index {
        Index { after_load: true, ..self }
    }

    /// Returns the name that drivers give it: `a_1_b_1`.
    pub fn name(&self) -> String {
        self.fields.iter().map(|field| format!("{field}_1")).collect::<Vec<_>>().join("_")
    }
}

/// Contents of a collection on a server.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Found {
    pub documents: u64,
    /// The greatest `_id` of a collection with a sequence.
    pub last_id: Option<i64>,
}
