//! Commands that are events: changes of collections, indexes, databases, users, roles and the configuration.

use std::collections::BTreeSet;

use arbor_bson::{Code, Doc, DocBuf, ValueRef};
use arbor_store::Namespace;

use crate::incoming::{Incoming, hidden};
use crate::{Commands, Connection};

/// Longest command of an event; a longer one is shown by its name.
const SHOWN_BYTES_MAX: usize = 4096;

/// State before a request, for the comparison after it.
pub(crate) struct Before {
    /// Collections that it may create by using them, and that are not there.
    absent: Vec<Namespace>,
    /// Their databases, if these have no collections.
    absent_databases: BTreeSet<String>,
}

impl Commands {
    /// Notes what a request may create, if there is an audit.
    pub(crate) fn before_audited(&self, request: &Incoming<'_>) -> Option<Before> {
        self.audit.as_ref()?;
        let absent: Vec<Namespace> = may_create(request)
            .into_iter()
            .filter(|namespace| self.database.store.collection(namespace).is_none())
            .collect();
        let databases = self.database.store.list_databases();
        let is_absent = |db: &str| !databases.iter().any(|known| **known == *db);
        let absent_databases = absent.iter().map(|one| one.db().to_owned()).filter(|db| is_absent(db)).collect();
        Some(Before { absent, absent_databases })
    }

    /// Notes the events of a request that has run, with the code of its error.
    pub(crate) fn audit_command(&self, connection: &Connection, request: &Incoming<'_>, before: &Before, result: Code) {
        let Some((name, _)) = request.body.first() else { return };
        if let Some(kind) = kind_of(name) {
            if name == "createIndexes" {
                self.audit_indexes(connection, request, result);
            } else {
                self.audit(connection, kind, result, || param(name, request));
            }
        }
        for namespace in &before.absent {
            if self.database.store.collection(namespace).is_none() {
                continue;
            }
            if before.absent_databases.contains(namespace.db()) {
                self.audit(connection, "createDatabase", Code(0), || DocBuf::new().with("ns", namespace.db()));
            }
            if name != "create" {
                self.audit(connection, "createCollection", Code(0), || DocBuf::new().with("ns", namespace.as_str()));
            }
        }
        if let Some(namespace) = direct_mutation(request) {
            self.audit(connection, "directAuthMutation", result, || {
                DocBuf::new().with("ns", &namespace).with("operation", name).with("document", &shown(request.body))
            });
        }
    }

    fn audit_indexes(&self, connection: &Connection, request: &Incoming<'_>, result: Code) {
        let Some(ValueRef::Array(indexes)) = request.body.get("indexes") else { return };
        for index in indexes.iter() {
            let ValueRef::Document(index) = index else { continue };
            self.audit(connection, "createIndex", result, || {
                let mut param = DocBuf::new().with("ns", &namespace_of(request));
                if let Some(name) = index.get("name") {
                    param.append("indexName", name);
                }
                param.with("indexSpec", index).with("indexBuildState", "IndexBuildSucceeded")
            });
        }
    }

    /// Notes that a request was permitted or refused.
    pub(crate) fn audit_check(&self, connection: &Connection, request: &Incoming<'_>, result: Code) {
        let Some(audit) = &self.audit else { return };
        if result == Code(0) && !audit.has_successes() {
            return;
        }
        self.audit(connection, "authCheck", result, || {
            let name = request.body.first().map_or("", |(name, _)| name);
            DocBuf::new().with("command", name).with("ns", &namespace_of(request)).with("args", &shown(request.body))
        });
    }
}

/// Returns the event of a command; None: it is none.
fn kind_of(command: &str) -> Option<&'static str> {
    const SAME: &[&str] = &[
        "addPartition",
        "collMod",
        "convertToCapped",
        "convertToPartitioned",
        "createRole",
        "createUser",
        "dropAllRolesFromDatabase",
        "dropAllUsersFromDatabase",
        "dropDatabase",
        "dropPartition",
        "dropRole",
        "dropUser",
        "grantPrivilegesToRole",
        "grantRolesToRole",
        "grantRolesToUser",
        "reIndex",
        "renameCollection",
        "replSetReconfig",
        "revokePrivilegesFromRole",
        "revokeRolesFromRole",
        "revokeRolesFromUser",
        "rotateCertificates",
        "setClusterParameter",
        "setDefaultRWConcern",
        "setFeatureCompatibilityVersion",
        "setParameter",
        "shutdown",
        "updateRole",
        "updateUser",
    ];
    Some(match command {
        "create" => "createCollection",
        "createIndexes" => "createIndex",
        "drop" => "dropCollection",
        "dropIndexes" | "deleteIndexes" => "dropIndex",
        "logRotate" => "rotateLog",
        "replSetInitiate" => "replSetReconfig",
        _ => SAME.iter().find(|name| **name == command)?,
    })
}

/// Returns what MongoDB shows of the command.
fn param(command: &str, request: &Incoming<'_>) -> DocBuf {
    let db = request.db;
    let target = match request.body.first() {
        Some((_, ValueRef::String(name))) => name,
        _ => "",
    };
    let with_fields = |mut doc: DocBuf, names: &[&str]| {
        for (name, value) in request.body.iter().skip(1).filter(|(name, _)| names.contains(name)) {
            doc.append(name, value);
        }
        doc
    };
    match command {
        "create" => with_fields(DocBuf::new().with("ns", &namespace_of(request)), &["viewOn", "pipeline", "capped"]),
        "drop" | "convertToCapped" | "convertToPartitioned" | "reIndex" => {
            DocBuf::new().with("ns", &namespace_of(request))
        }
        "addPartition" | "dropPartition" => {
            with_fields(DocBuf::new().with("ns", &namespace_of(request)), &["id", "max", "newMax", "info"])
        }
        "dropDatabase" => DocBuf::new().with("ns", db),
        "dropIndexes" | "deleteIndexes" => {
            let mut doc = DocBuf::new().with("ns", &namespace_of(request));
            if let Some(index) = request.body.get("index") {
                doc.append("indexName", index);
            }
            doc
        }
        "renameCollection" => {
            let new = match request.body.get("to") {
                Some(ValueRef::String(to)) => to,
                _ => "",
            };
            DocBuf::new().with("old", target).with("new", new)
        }
        "updateUser" => {
            let changed = request.body.get("pwd").is_some();
            let doc = DocBuf::new().with("user", target).with("db", db).with("passwordChanged", changed);
            with_fields(doc, &["customData", "roles"])
        }
        "createUser" | "dropUser" | "grantRolesToUser" | "revokeRolesFromUser" => {
            with_fields(DocBuf::new().with("user", target).with("db", db), &["customData", "roles"])
        }
        "dropAllUsersFromDatabase" | "dropAllRolesFromDatabase" => DocBuf::new().with("db", db),
        "createRole"
        | "updateRole"
        | "dropRole"
        | "grantRolesToRole"
        | "revokeRolesFromRole"
        | "grantPrivilegesToRole"
        | "revokePrivilegesFromRole" => {
            with_fields(DocBuf::new().with("role", target).with("db", db), &["roles", "privileges"])
        }
        "shutdown" => DocBuf::new(),
        "logRotate" => DocBuf::new().with("pid", i64::from(std::process::id())),
        "replSetInitiate" | "replSetReconfig" => {
            let mut doc = DocBuf::new();
            if let Some((_, new)) = request.body.first() {
                doc.append("new", new);
            }
            doc
        }
        _ => DocBuf::new().with("ns", &namespace_of(request)).with("args", &shown(request.body)),
    }
}

fn namespace_of(request: &Incoming<'_>) -> String {
    match request.body.first() {
        Some((_, ValueRef::String(collection))) => format!("{}.{collection}", request.db),
        _ => request.db.to_owned(),
    }
}

/// Returns a command without secrets; only its name, if it is long.
fn shown(body: Doc<'_>) -> DocBuf {
    let shown = hidden(body);
    match body.first() {
        Some((name, value)) if shown.as_bytes().len() > SHOWN_BYTES_MAX => {
            let value = if matches!(value, ValueRef::String(_)) { value } else { ValueRef::Null };
            DocBuf::new().with(name, value).with("truncated", true)
        }
        _ => shown,
    }
}

/// Returns the collections that a request creates by using them.
fn may_create(request: &Incoming<'_>) -> Vec<Namespace> {
    let Some((name, value)) = request.body.first() else { return Vec::new() };
    match (name, value) {
        (
            "insert" | "update" | "findAndModify" | "findandmodify" | "createIndexes" | "create",
            ValueRef::String(collection),
        ) => Namespace::new(request.db, collection).into_iter().collect(),
        ("bulkWrite", _) => {
            let named = |entry: ValueRef<'_>| match entry {
                ValueRef::Document(entry) => match entry.get("ns") {
                    Some(ValueRef::String(namespace)) => Namespace::parse(namespace).ok(),
                    _ => None,
                },
                _ => None,
            };
            match request.body.get("nsInfo") {
                Some(ValueRef::Array(entries)) => entries.iter().filter_map(named).collect(),
                _ => {
                    let entries = request.sequences.iter().filter(|sequence| sequence.name == "nsInfo");
                    entries.flat_map(|sequence| sequence.iter()).filter_map(|doc| named(doc.into())).collect()
                }
            }
        }
        ("aggregate", _) => match request.body.get("pipeline") {
            Some(ValueRef::Array(stages)) => {
                stages.iter().last().and_then(|stage| output_of(stage, request.db)).into_iter().collect()
            }
            _ => Vec::new(),
        },
        _ => Vec::new(),
    }
}

/// Returns the collection into which a stage writes.
fn output_of(stage: ValueRef<'_>, db: &str) -> Option<Namespace> {
    let ValueRef::Document(stage) = stage else { return None };
    let target = match stage.first()? {
        ("$out", target) => target,
        ("$merge", ValueRef::Document(merge)) => merge.get("into")?,
        ("$merge", into) => into,
        _ => return None,
    };
    let text = |doc: Doc<'_>, name| match doc.get(name) {
        Some(ValueRef::String(text)) => Some(text.to_owned()),
        _ => None,
    };
    match target {
        ValueRef::String(collection) => Namespace::new(db, collection).ok(),
        ValueRef::Document(doc) => {
            Namespace::new(&text(doc, "db").unwrap_or_else(|| db.to_owned()), &text(doc, "coll")?).ok()
        }
        _ => None,
    }
}

/// Returns the collection of users or roles that a request writes past the commands for them.
fn direct_mutation(request: &Incoming<'_>) -> Option<String> {
    match request.body.first()? {
        (
            "insert" | "update" | "delete" | "findAndModify" | "findandmodify",
            ValueRef::String(collection @ ("system.users" | "system.roles" | "system.version")),
        ) if request.db == "admin" => Some(format!("admin.{collection}")),
        _ => None,
    }
}
