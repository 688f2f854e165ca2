//! `readConcern`: which state a client wants to read.
//!
//! A set of one member shows every write at once, and a reader of `local` sees what a crash may still take back.
//! `majority`, `linearizable` and `snapshot` answer only what is on the disk: the command reads, then waits for the disk if
//! it has to. Whatever time a client has seen here, its next read sees all that it saw.

use arbor_bson::{Code, Doc, Timestamp, ValueRef};

use crate::arguments::{Field, is_present};
use crate::metrics::Class;
use crate::{CommandInfo, Error, Result};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Level {
    Local,
    Available,
    Majority,
    Linearizable,
    Snapshot,
}

/// As it was given; times are hybrid ones.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ReadConcern {
    pub level: Option<Level>,
    pub after: Option<u64>,
    pub at: Option<u64>,
}

/// Origins of a concern, as `provenance` says.
pub(crate) const PROVENANCES: &[&str] =
    &["clientSupplied", "implicitDefault", "customDefault", "getLastErrorDefaults", "internalWriteDefault"];

impl Level {
    fn named(name: &str) -> Option<Level> {
        match name {
            "local" => Some(Level::Local),
            "available" => Some(Level::Available),
            "majority" => Some(Level::Majority),
            "linearizable" => Some(Level::Linearizable),
            "snapshot" => Some(Level::Snapshot),
            _ => None,
        }
    }

    pub fn name(self) -> &'static str {
        match self {
            Level::Local => "local",
            Level::Available => "available",
            Level::Majority => "majority",
            Level::Linearizable => "linearizable",
            Level::Snapshot => "snapshot",
        }
    }
}

/// Returns true if a read of this level, by its name, may have to wait for the disk.
pub fn may_wait(level: &str) -> bool {
    !matches!(level, "local" | "available")
}

impl ReadConcern {
    pub fn read(concern: Doc<'_>) -> Result<ReadConcern> {
        let mut read = ReadConcern::default();
        for (name, value) in concern {
            let field = Field::new("readConcern", name);
            match name {
                // times take no null in place of nothing
                "afterClusterTime" => read.after = Some(time(field, value)?),
                "atClusterTime" => read.at = Some(time(field, value)?),
                _ if !is_present(value) => {}
                "level" => {
                    let name = field.string(value)?;
                    read.level = Some(Level::named(name).ok_or_else(|| field.not_in_enumeration(name))?);
                }
                "provenance" => drop(field.one_of(value, PROVENANCES)?),
                "afterOpTime" | "allowTransactionTableSnapshot" => {}
                _ => return Err(field.unknown()),
            }
        }
        read.check()?;
        Ok(read)
    }

    fn check(self) -> Result<()> {
        let refused = match self {
            ReadConcern { after: Some(_), at: Some(_), .. } => {
                "Specifying a timestamp for readConcern atClusterTime in a causally consistent session is not allowed. \
                 See https://www.mongodb.com/docs/manual/core/read-isolation-consistency-recency/#causal-consistency"
            }
            ReadConcern { at: Some(_), level, .. } if level != Some(Level::Snapshot) => {
                "atClusterTime field can be set only if level is equal to snapshot"
            }
            ReadConcern { after: Some(_), level: Some(Level::Linearizable | Level::Available), .. } => {
                "afterClusterTime field can be set only if level is equal to majority, local, or snapshot"
            }
            _ => return Ok(()),
        };
        Err(invalid(refused.to_owned()))
    }

    /// Errors: what only members of a set promise.
    pub fn check_on_standalone(self) -> Result<()> {
        match self.level {
            Some(Level::Linearizable | Level::Snapshot) => {
                let text = "node needs to be a replica set member to use read concern";
                Err(Error::new(Code::NOT_A_REPLICA_SET, text))
            }
            _ => Ok(()),
        }
    }

    /// Errors: the command reads nothing of the kind, or the time has not come. `now` is the cluster's time.
    pub fn check_on_member(self, info: &CommandInfo, now: u64) -> Result<()> {
        self.check_level(info)?;
        self.check_times(now)
    }

    /// Errors: the command reads nothing of the kind.
    pub fn check_level(self, info: &CommandInfo) -> Result<()> {
        if let Some(level) = self.level.filter(|level| !is_supported(info, *level)) {
            let (command, level) = (info.name, level.name());
            return Err(invalid(format!(
                "Command {command} does not support {{ readConcern: {{ level: \"{level}\" }} }}"
            )));
        }
        Ok(())
    }

    /// Errors: a time has not come.
    pub fn check_times(self, now: u64) -> Result<()> {
        for (name, time) in [("afterClusterTime", self.after), ("atClusterTime", self.at)] {
            if let Some(time) = time.filter(|time| *time > now) {
                return Err(invalid(format!(
                    "readConcern {name} value must not be greater than the current clusterTime. Requested clusterTime: \
                     {}; current clusterTime: {}",
                    shown(time),
                    shown(now)
                )));
            }
        }
        Ok(())
    }

    /// Returns true if the reply is to wait until everything it shows is durable.
    pub fn is_durable(self) -> bool {
        matches!(self.level, Some(Level::Majority | Level::Linearizable | Level::Snapshot))
    }
}

fn is_supported(info: &CommandInfo, level: Level) -> bool {
    match level {
        Level::Local => true,
        Level::Snapshot => matches!(info.name, "find" | "aggregate" | "distinct"),
        Level::Available | Level::Majority | Level::Linearizable => info.class == Class::Read,
    }
}

fn invalid(text: String) -> Error {
    Error::new(Code::INVALID_OPTIONS, text)
}

fn time(field: Field<'_>, value: ValueRef<'_>) -> Result<u64> {
    match value {
        ValueRef::Timestamp(Timestamp { seconds: 0, increment: 0 }) => {
            Err(invalid(format!("{} cannot be a null timestamp", field.name)))
        }
        ValueRef::Timestamp(Timestamp { seconds, increment }) => Ok(u64::from(seconds) << 32 | u64::from(increment)),
        other => Err(field.wrong_type(other, "timestamp")),
    }
}

fn shown(time: u64) -> String {
    format!("{{ ts: Timestamp({}, {}) }}", time >> 32, time as u32)
}

#[cfg(test)]
mod tests {
    use arbor_bson::DocBuf;

    use super::*;

    fn at(seconds: u32) -> ValueRef<'static> {
        ValueRef::Timestamp(Timestamp { seconds, increment: 1 })
    }

    fn level(name: &'static str) -> DocBuf {
        DocBuf::new().with("level", name)
    }

    #[test]
    fn what_is_given_has_to_fit_together() {
        let null = ValueRef::Timestamp(Timestamp { seconds: 0, increment: 0 });
        for (doc, code) in [
            (DocBuf::new(), 0),
            (level("majority").with("afterClusterTime", at(5)), 0),
            (level("snapshot").with("atClusterTime", at(5)), 0),
            (DocBuf::new().with("afterClusterTime", at(5)), 0),
            (level("later"), 2),
            (level("local").with("x", 1i32), 40415),
            (DocBuf::new().with("afterClusterTime", 5i32), 14),
            (DocBuf::new().with("afterClusterTime", null), 72),
            (DocBuf::new().with("atClusterTime", at(5)), 72),
            (level("snapshot").with("atClusterTime", at(5)).with("afterClusterTime", at(5)), 72),
            (level("linearizable").with("afterClusterTime", at(5)), 72),
            (level("available").with("afterClusterTime", at(5)), 72),
        ] {
            let code_of = ReadConcern::read(doc.as_doc()).err().map_or(0, |error| error.code.0);
            assert_eq!(code_of, code, "{doc:?}");
        }
    }

    fn info(name: &str) -> CommandInfo {
        match name {
            "find" => CommandInfo::read("find", ""),
            "count" => CommandInfo::read("count", ""),
            "insert" => CommandInfo::write("insert", ""),
            _ => CommandInfo::slow("listCollections", ""),
        }
    }

    #[test]
    fn commands_and_times() {
        let code = |command: &str, doc: &DocBuf| {
            let concern = ReadConcern::read(doc.as_doc()).unwrap();
            let checked = concern.check_on_member(&info(command), 7 << 32);
            checked.err().map_or(0, |error| error.code.0)
        };
        for (command, doc, expect) in [
            ("find", level("snapshot"), 0),
            ("count", level("snapshot"), 72),
            ("count", level("linearizable"), 0),
            ("insert", level("majority"), 72),
            ("insert", level("local"), 0),
            ("listCollections", DocBuf::new().with("afterClusterTime", at(5)), 0),
            ("find", DocBuf::new().with("afterClusterTime", at(8)), 72),
            ("find", level("snapshot").with("atClusterTime", at(8)), 72),
        ] {
            assert_eq!(code(command, &doc), expect, "{command} {doc:?}");
        }
        let standalone = |name| ReadConcern::read(level(name).as_doc()).unwrap().check_on_standalone();
        assert_eq!(standalone("snapshot").unwrap_err().code.0, 123);
        assert!(standalone("majority").is_ok());
    }
}
