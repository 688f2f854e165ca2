//! Rights that the commands of a cluster need: the actions that MongoDB has for them, and for some of them the right to write the
//! collections of `config` that they change.

use arbor_auth::Action::{self, *};
use arbor_auth::Target;
use arbor_bson::ValueRef;

use super::Needed;
use crate::incoming::Incoming;

/// Returns the database or namespace behind the command's name; empty if it is no text.
fn named<'a>(request: &Incoming<'a>) -> &'a str {
    match request.body.first() {
        Some((_, ValueRef::String(name) | ValueRef::Symbol(name))) => name,
        _ => "",
    }
}

fn on_config(needed: &mut Needed<'_>, collection: &str, action: Action) {
    needed.on_collection("config", collection, action);
}

pub(crate) fn of_database(request: &Incoming<'_>, needed: &mut Needed<'_>) {
    needed.on_database(named(request), EnableSharding);
}

pub(crate) fn shard_collection(request: &Incoming<'_>, needed: &mut Needed<'_>) {
    needed.on_namespace(named(request), EnableSharding);
}

pub(crate) fn move_chunk(request: &Incoming<'_>, needed: &mut Needed<'_>) {
    needed.on_namespace(named(request), MoveChunk);
}

pub(crate) fn clear_jumbo(request: &Incoming<'_>, needed: &mut Needed<'_>) {
    needed.on_namespace(named(request), ClearJumboFlag);
}

pub(crate) fn analyze(request: &Incoming<'_>, needed: &mut Needed<'_>) {
    needed.on_namespace(named(request), AnalyzeShardKey);
}

pub(crate) fn configure_analyzer(request: &Incoming<'_>, needed: &mut Needed<'_>) {
    needed.on_namespace(named(request), ConfigureQueryAnalyzer);
}

pub(crate) fn refine(request: &Incoming<'_>, needed: &mut Needed<'_>) {
    needed.on_namespace(named(request), RefineCollectionShardKey);
}

/// Needs the right on what is compared: the cluster, a database or a collection.
pub(crate) fn consistency(request: &Incoming<'_>, needed: &mut Needed<'_>) {
    match (named(request), request.db) {
        ("", "admin") => needed.on_cluster(CheckMetadataConsistency),
        ("", db) => needed.on_database(db, CheckMetadataConsistency),
        (collection, db) => needed.on_collection(db, collection, CheckMetadataConsistency),
    }
}

/// Needs the right to give the collection another shard key.
pub(crate) fn reshard(request: &Incoming<'_>, needed: &mut Needed<'_>) {
    needed.on_namespace(named(request), ReshardCollection);
}

pub(crate) fn move_primary(request: &Incoming<'_>, needed: &mut Needed<'_>) {
    needed.on_database(named(request), MoveChunk);
}

/// Needs the right to split chunks, or to move them, which includes it.
pub(crate) fn split(request: &Incoming<'_>, needed: &mut Needed<'_>) {
    let namespace = named(request);
    let (db, collection) = namespace.split_once('.').unwrap_or((namespace, ""));
    if !needed.may(Target::Collection { db, collection }, SplitChunk) {
        needed.on_namespace(namespace, MoveChunk);
    }
}

pub(crate) fn shard_version(request: &Incoming<'_>, needed: &mut Needed<'_>) {
    needed.on_namespace(named(request), GetShardVersion);
}

pub(crate) fn zone_of_shard(_: &Incoming<'_>, needed: &mut Needed<'_>) {
    on_config(needed, "shards", Update);
}

pub(crate) fn zone_of_range(_: &Incoming<'_>, needed: &mut Needed<'_>) {
    on_config(needed, "shards", Find);
    for action in [Find, Update, Remove] {
        on_config(needed, "tags", action);
    }
}

pub(crate) fn balancer_switch(_: &Incoming<'_>, needed: &mut Needed<'_>) {
    on_config(needed, "settings", Update);
}

pub(crate) fn balancer_status(_: &Incoming<'_>, needed: &mut Needed<'_>) {
    on_config(needed, "settings", Find);
}
