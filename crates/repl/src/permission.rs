//! Roles of the member in which each command may run, as in MongoDB.

use arbor_bson::{Code, Doc, ValueRef};
use arbor_protocol::metrics::Class;
use arbor_protocol::{CommandInfo, Error, Result};

use crate::{Replication, Role};

/// State of the member that a command requires.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Needs {
    Nothing,
    /// A member with data; the primary, unless the client reads from others as well.
    Data,
    Primary,
}

/// Commands that read without being of the class of reads.
const READS: &[&str] = &[
    "collStats",
    "collstats",
    "dataSize",
    "dbHash",
    "dbStats",
    "dbstats",
    "explain",
    "listCollections",
    "listDatabases",
    "listIndexes",
    "validate",
];

fn needs(info: &CommandInfo) -> Needs {
    match info.class {
        Class::Read if info.name == "getMore" => Needs::Nothing,
        Class::Read => Needs::Data,
        Class::Write => Needs::Primary,
        Class::Command if info.takes_write_concern() => Needs::Primary,
        Class::Command if READS.contains(&info.name) => Needs::Data,
        Class::Command => Needs::Nothing,
    }
}

impl Replication {
    /// Checks if a command may run now. A member's own database `local` is always accessible.
    pub fn check_may_run(&self, info: &CommandInfo, db: &str, body: Doc<'_>) -> Result<()> {
        if self.is_primary() || db == "local" {
            return Ok(());
        }
        let role = self.state().role;
        match needs(info) {
            Needs::Nothing => Ok(()),
            Needs::Data if !reads_anywhere(body) => {
                Err(Error::new(Code::NOT_PRIMARY_NO_SECONDARY_OK, "not primary and secondaryOk=false"))
            }
            Needs::Data if role == Role::Secondary => Ok(()),
            Needs::Data => {
                let text = "node is not in primary or recovering state";
                Err(Error::new(Code::NOT_PRIMARY_OR_SECONDARY, text))
            }
            Needs::Primary => Err(not_primary()),
        }
    }
}

pub fn not_primary() -> Error {
    Error::new(Code::NOT_WRITABLE_PRIMARY, "not primary")
}

/// Returns true if the client's read preference allows members other than the primary.
fn reads_anywhere(body: Doc<'_>) -> bool {
    let Some(ValueRef::Document(preference)) = body.get("$readPreference") else { return false };
    !matches!(preference.get("mode"), None | Some(ValueRef::String("primary")))
}

#[cfg(test)]
mod tests {
    use arbor_bson::DocBuf;

    use super::*;
    use crate::OwnAddress;

    fn info(name: &'static str) -> CommandInfo {
        match name {
            "find" | "aggregate" | "count" | "getMore" => CommandInfo::read(name, ""),
            "insert" | "findAndModify" => CommandInfo::write(name, ""),
            "create" | "dropDatabase" => CommandInfo::slow(name, "").writing(),
            _ => CommandInfo::slow(name, ""),
        }
    }

    #[test]
    fn before_the_set_is_initiated() {
        let dir = tempfile::tempdir().unwrap();
        let own = OwnAddress { names: vec!["127.0.0.1".to_owned()], port: 4711 };
        let member = Replication::open("rs", own, dir.path()).unwrap();
        let preference = DocBuf::new().with("mode", "primaryPreferred");
        let anywhere = DocBuf::new().with("$readPreference", &preference);
        let run = |name: &'static str, db: &str, body: &DocBuf| {
            let outcome = member.check_may_run(&info(name), db, body.as_doc());
            outcome.err().map_or(0, |error| error.code.0)
        };
        for (name, expect, expect_anywhere) in [
            ("ping", 0, 0),
            ("hello", 0, 0),
            ("replSetInitiate", 0, 0),
            ("serverStatus", 0, 0),
            ("getMore", 0, 0),
            ("find", 13435, 13436),
            ("aggregate", 13435, 13436),
            ("count", 13435, 13436),
            ("listCollections", 13435, 13436),
            ("insert", 10107, 10107),
            ("findAndModify", 10107, 10107),
            ("create", 10107, 10107),
            ("dropDatabase", 10107, 10107),
        ] {
            assert_eq!(
                (run(name, "d", &DocBuf::new()), run(name, "d", &anywhere)),
                (expect, expect_anywhere),
                "{name}"
            );
            assert_eq!(run(name, "local", &DocBuf::new()), 0, "{name}");
        }
        member.initiate(member.first_config(None).unwrap()).unwrap();
        assert_eq!((run("find", "d", &anywhere), run("find", "d", &DocBuf::new())), (0, 13435));
        assert_eq!(run("insert", "d", &DocBuf::new()), 10107);
    }
}
