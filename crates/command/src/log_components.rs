//! The server parameter `logComponentVerbosity`: a level for each of MongoDB's log components, as `db.setLogLevel` sets it.
//!
//! Lines beyond those of level 0 are those of operations: with level 1 or more of `command` each of them is logged, as in MongoDB. The
//! levels of other components are kept, and have no effect.

use arbor_bson::{Doc, DocBuf, ValueRef};
use parking_lot::Mutex;

use crate::{Error, Result};

pub(crate) const NAME: &str = "logComponentVerbosity";

/// A component takes the level of the one that it is a part of.
const INHERITED: i32 = -1;

/// Dotted names, those of parts behind what they are parts of.
const COMPONENTS: &[&str] = &[
    "accessControl",
    "assert",
    "command",
    "control",
    "executor",
    "geo",
    "globalIndex",
    "index",
    "network",
    "network.asio",
    "network.bridge",
    "network.connectionPool",
    "processHealth",
    "query",
    "query.ce",
    "query.optimizer",
    "query.rejected",
    "queryStats",
    "replication",
    "replication.election",
    "replication.heartbeats",
    "replication.initialSync",
    "replication.rollback",
    "resharding",
    "sharding",
    "sharding.rangeDeleter",
    "sharding.shardingCatalogRefresh",
    "storage",
    "storage.recovery",
    "storage.journal",
    "storage.wt",
    "tenantMigration",
    "test",
    "ftdc",
    "tracking",
    "transaction",
    "write",
];

pub(crate) struct LogComponents(Mutex<Vec<i32>>);

impl Default for LogComponents {
    fn default() -> LogComponents {
        LogComponents(Mutex::new(vec![INHERITED; COMPONENTS.len()]))
    }
}

impl LogComponents {
    /// Sets what a document says. Returns the level of the whole, if it says one.
    pub(crate) fn set(&self, given: Doc<'_>) -> Result<Option<i32>> {
        let mut levels = self.0.lock();
        let mut changed = levels.clone();
        let root = set(&mut changed, "", given)?;
        *levels = changed;
        Ok(root)
    }

    /// Returns the levels of all components, nested. `root`: the level of the whole.
    pub(crate) fn shown(&self, root: i32) -> DocBuf {
        let levels = self.0.lock();
        let mut doc = DocBuf::new().with("verbosity", root);
        let all = || COMPONENTS.iter().zip(levels.iter());
        for (name, level) in all().filter(|(name, _)| !name.contains('.')) {
            let mut own = DocBuf::new().with("verbosity", *level);
            for (part, level) in all() {
                if let Some(part) = part.strip_prefix(name).and_then(|part| part.strip_prefix('.')) {
                    own.append(part, &DocBuf::new().with("verbosity", *level));
                }
            }
            doc.append(name, &own);
        }
        doc
    }

    /// Returns the level of `command`. `root`: the level of the whole.
    pub(crate) fn of_commands(&self, root: i32) -> i32 {
        let at = COMPONENTS.iter().position(|name| *name == "command");
        let own = at.and_then(|at| self.0.lock().get(at).copied()).unwrap_or(INHERITED);
        if own < 0 { root } else { own }
    }
}

/// Returns the level of the document itself where that is the whole.
fn set(levels: &mut [i32], of: &str, given: Doc<'_>) -> Result<Option<i32>> {
    let mut root = None;
    for (name, value) in given {
        let dotted = if of.is_empty() { name.to_owned() } else { format!("{of}.{name}") };
        let place = |component: &str| COMPONENTS.iter().position(|known| *known == component);
        if name == "verbosity" {
            let level = value.as_number().map(|number| number.to_f64() as i32);
            let level = level
                .ok_or_else(|| Error::bad_value(format!("Expected {dotted} to be a number, but found {value}")))?;
            if level < INHERITED {
                return Err(Error::bad_value(format!("Expected {dotted} to be between -1 and 5, but found {level}")));
            }
            match place(of).and_then(|at| levels.get_mut(at)) {
                Some(own) => *own = level,
                None => root = Some(level),
            }
            continue;
        }
        match (place(&dotted), value) {
            (None, _) => return Err(Error::bad_value(format!("Invalid component name {dotted}"))),
            (Some(_), ValueRef::Document(inner)) => _ = set(levels, &dotted, inner)?,
            (Some(_), level) if level.as_number().is_some() => {
                set(levels, &dotted, DocBuf::new().with("verbosity", level).as_doc())?;
            }
            (Some(_), value) => {
                return Err(Error::bad_value(format!("Invalid type {} for component {dotted}", value.ty() as u8)));
            }
        }
    }
    Ok(root)
}

#[cfg(test)]
mod tests {
    use arbor_notation::doc;

    use super::*;

    #[test]
    fn levels_are_set_and_inherited() {
        let components = LogComponents::default();
        assert_eq!(components.of_commands(0), 0);
        assert_eq!(components.of_commands(2), 2);
        let given = doc("{verbosity: 1, command: {verbosity: 3}, storage: {journal: {verbosity: 2}}}");
        assert_eq!(components.set(given.as_doc()).unwrap(), Some(1));
        assert_eq!(components.of_commands(0), 3);
        let shown = format!("{:?}", components.shown(1));
        for part in ["journal", "accessControl"] {
            assert!(shown.contains(part), "{shown}");
        }
        for wrong in [
            "{nosuch: {verbosity: 1}}",
            "{command: 'x'}",
            "{command: -2}",
            "{command: {verbosity: 'x'}}",
            "{verbosity: -2}",
        ] {
            assert_eq!(components.set(doc(wrong).as_doc()).unwrap_err().code.0, 2, "{wrong}");
        }
        assert_eq!(components.of_commands(0), 3, "nothing of what was refused was set");
        components.set(doc("{command: 4}").as_doc()).unwrap();
        assert_eq!(components.of_commands(0), 4);
    }
}
