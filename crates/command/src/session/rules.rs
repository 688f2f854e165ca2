//! Commands and options that are allowed inside a multi-document transaction.

use arbor_bson::{Code, Doc, ValueRef};
use arbor_protocol::CommandInfo;
use arbor_protocol::generic::Generic;
use arbor_protocol::request::Numbered;
use arbor_query::Database;
use arbor_session::Intent;
use arbor_store::Namespace;

use crate::{Error, Result};

/// Ends a part of a transaction over several shards, up to the decision.
pub(crate) const PREPARE: &str = "prepareTransaction";

/// Commands that run inside a transaction.
const IN_TRANSACTION: &[&str] = &[
    "_shardsvrStatement",
    "abortLoad",
    "abortTransaction",
    "aggregate",
    "beginLoad",
    "bulkWrite",
    "commitLoad",
    "commitTransaction",
    "coordinateCommitTransaction",
    "create",
    "createIndexes",
    "delete",
    "distinct",
    "find",
    "findAndModify",
    "findandmodify",
    "getMore",
    "insert",
    "killCursors",
    PREPARE,
    "update",
];

/// Commands that report on the server; not allowed first in a transaction.
const INFORMATIONAL: &[&str] =
    &["buildInfo", "buildinfo", "connectionStatus", "hello", "isMaster", "ismaster", "killCursors", "ping"];

/// Stages that read or write what no transaction covers.
const NOT_IN_TRANSACTION: &[&str] = &[
    "$changeStream",
    "$collStats",
    "$currentOp",
    "$indexStats",
    "$listLocalSessions",
    "$listSessions",
    "$merge",
    "$out",
    "$planCacheStats",
];

/// Returns true if a command may run inside a transaction.
pub(crate) fn runs_in_transaction(command: &str) -> bool {
    IN_TRANSACTION.contains(&command)
}

fn not_supported<T>(text: String) -> Result<T> {
    Err(Error::new(Code::OPERATION_NOT_SUPPORTED_IN_TRANSACTION, text))
}

/// Refuses what cannot run in a transaction. Nothing of the transaction has changed by then.
pub(crate) fn check(
    database: &Database,
    info: &CommandInfo,
    db: &str,
    body: Doc<'_>,
    generic: &Generic<'_>,
    numbered: Numbered,
) -> Result<()> {
    if !numbered.is_transaction() {
        return Ok(());
    }
    let ends = matches!(numbered.intent, Intent::Commit | Intent::Abort);
    check_command(info, numbered.intent)?;
    check_concerns(body, generic, numbered.intent, ends)?;
    if ends || info.name == PREPARE {
        return Ok(());
    }
    // the results of a bulkWrite are a cursor of that database
    let of_bulk_write = info.name == "bulkWrite"
        || info.name == "getMore" && matches!(body.get("collection"), Some(ValueRef::String("$cmd.bulkWrite")));
    if matches!(db, "admin" | "config" | "local") && !of_bulk_write && !INFORMATIONAL.contains(&info.name) {
        return not_supported(format!("Cannot run command against the '{db}' database in a transaction."));
    }
    check_pipeline(body)?;
    match body.first() {
        Some((_, ValueRef::String(collection))) if info.takes_write_concern() && info.name != "aggregate" => {
            check_collection(database, info, db, collection)
        }
        _ => Ok(()),
    }
}

fn check_command(info: &CommandInfo, intent: Intent) -> Result<()> {
    if intent == Intent::Begin && INFORMATIONAL.contains(&info.name) {
        return not_supported(format!(
            "Cannot run {} as the first operation in a multi-document transaction.",
            info.name
        ));
    }
    if runs_in_transaction(info.name) || INFORMATIONAL.contains(&info.name) {
        return Ok(());
    }
    let more = match info.name {
        "count" => " Please see http://dochub.mongodb.org/core/transaction-count for a recommended alternative.",
        _ => "",
    };
    not_supported(format!("Cannot run '{}' in a multi-document transaction.{more}", info.name))
}

fn check_concerns(body: Doc<'_>, generic: &Generic<'_>, intent: Intent, ends: bool) -> Result<()> {
    let invalid = |text: &str| Err(Error::new(Code::INVALID_OPTIONS, text));
    if generic.has_write_concern && !ends {
        return invalid("writeConcern is not allowed within a multi-statement transaction");
    }
    match body.get("readConcern") {
        Some(ValueRef::Document(concern)) if !concern.is_empty() && intent != Intent::Begin => {
            invalid("Only the first command in a transaction may specify a readConcern")
        }
        Some(ValueRef::Document(concern)) => match concern.get("level") {
            None | Some(ValueRef::String("local" | "majority" | "snapshot")) => Ok(()),
            Some(_) => invalid(
                "The readConcern level must be either 'local' (default), 'majority' or 'snapshot' in order to run in a \
                 transaction",
            ),
        },
        _ => Ok(()),
    }
}

fn check_pipeline(body: Doc<'_>) -> Result<()> {
    let Some(ValueRef::Array(pipeline)) = body.get("pipeline") else { return Ok(()) };
    for stage in pipeline.iter() {
        let ValueRef::Document(stage) = stage else { continue };
        if let Some((name, _)) = stage.first().filter(|(name, _)| NOT_IN_TRANSACTION.contains(name)) {
            return not_supported(format!("Stage not supported inside of a multi-document transaction: {name}"));
        }
    }
    Ok(())
}

fn check_collection(database: &Database, info: &CommandInfo, db: &str, collection: &str) -> Result<()> {
    if collection.starts_with("system.") {
        let text = format!("Cannot write to system collection {db}.{collection} within a transaction.");
        return Err(Error::new(Code(50791), text));
    }
    let Ok(namespace) = Namespace::new(db, collection) else { return Ok(()) };
    if database.store.buckets_of(&namespace).is_some() {
        let what = if info.name == "insert" { "insert into" } else { "write to" };
        return not_supported(format!(
            "Cannot {what} a time-series collection in a multi-document transaction: {namespace}"
        ));
    }
    Ok(())
}
