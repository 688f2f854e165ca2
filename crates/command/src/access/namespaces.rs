//! Namespaces that statements, pipelines and entries of an oplog touch. Nothing is validated here: what no parser accepts is refused by
//! the command itself. All fields of a name are looked at (rule A2).

use arbor_auth::Action::{self, *};
use arbor_auth::Target;
use arbor_bson::{Array, Doc, ValueRef};

use super::{Access, Needed};
use crate::incoming::Incoming;
use crate::registry;

/// Pipelines and entries within each other, deeper than any parser takes them.
const DEPTH_MAX: usize = 64;

fn fields<'a>(doc: Doc<'a>, name: &str) -> impl Iterator<Item = ValueRef<'a>> {
    doc.iter().filter(move |(own, _)| *own == name).map(|(_, value)| value)
}

/// Returns false only for what every reader of flags takes as false.
fn is_set(doc: Doc<'_>, name: &str) -> bool {
    fields(doc, name).any(|value| !matches!(value, ValueRef::Bool(false) | ValueRef::Null | ValueRef::Undefined))
}

/// Returns the documents of a field in the body and in the sequences of the message.
fn documents<'a>(request: &'a Incoming<'a>, name: &'a str) -> impl Iterator<Item = Doc<'a>> {
    let in_body = fields(request.body, name).filter_map(|value| match value {
        ValueRef::Array(values) => Some(values),
        _ => None,
    });
    let in_body = in_body.flat_map(|values| values.iter().filter_map(document));
    in_body.chain(request.sequences.iter().filter(move |each| each.name == name).flat_map(|each| each.iter()))
}

fn document(value: ValueRef<'_>) -> Option<Doc<'_>> {
    match value {
        ValueRef::Document(doc) => Some(doc),
        _ => None,
    }
}

/// Needs an action on the collection behind the command's name.
fn on_own(request: &Incoming<'_>, needed: &mut Needed<'_>, action: Action) {
    needed.column(&Access::Collection(action), request);
}

fn bypass(request: &Incoming<'_>, needed: &mut Needed<'_>) {
    if is_set(request.body, "bypassDocumentValidation") {
        on_own(request, needed, BypassDocumentValidation);
    }
}

pub(crate) fn insert(request: &Incoming<'_>, needed: &mut Needed<'_>) {
    on_own(request, needed, Insert);
    bypass(request, needed);
}

pub(crate) fn update(request: &Incoming<'_>, needed: &mut Needed<'_>) {
    on_own(request, needed, Update);
    if documents(request, "updates").any(|statement| is_set(statement, "upsert")) {
        on_own(request, needed, Insert);
    }
    bypass(request, needed);
}

pub(crate) fn find_and_modify(request: &Incoming<'_>, needed: &mut Needed<'_>) {
    let body = request.body;
    on_own(request, needed, Find);
    if is_set(body, "remove") {
        on_own(request, needed, Remove);
    }
    if !is_set(body, "remove") || body.get("update").is_some() {
        on_own(request, needed, Update);
    }
    if is_set(body, "upsert") {
        on_own(request, needed, Insert);
    }
    bypass(request, needed);
}

pub(crate) fn bulk_write(request: &Incoming<'_>, needed: &mut Needed<'_>) {
    let namespaces: Vec<Doc<'_>> = documents(request, "nsInfo").collect();
    let bypasses = is_set(request.body, "bypassDocumentValidation");
    for operation in documents(request, "ops") {
        let Some((kind, target)) = operation.first() else { continue };
        let number = match target {
            ValueRef::Int32(number) => i64::from(number),
            ValueRef::Int64(number) => number,
            ValueRef::Double(number) => number as i64,
            _ => -1,
        };
        let info = usize::try_from(number).ok().and_then(|number| namespaces.get(number));
        // an operation on no collection, or on one that cannot be found here, needs all of them
        let infos = info.map_or(&namespaces[..], std::slice::from_ref);
        for namespace in infos.iter().flat_map(|info| fields(*info, "ns")) {
            let ValueRef::String(namespace) = namespace else { continue };
            needed.on_namespace(
                namespace,
                match kind {
                    "insert" => Insert,
                    "delete" => Remove,
                    _ => Update,
                },
            );
            if kind == "update" && is_set(operation, "upsert") {
                needed.on_namespace(namespace, Insert);
            }
            if bypasses {
                needed.on_namespace(namespace, BypassDocumentValidation);
            }
        }
    }
}

pub(crate) fn aggregate(request: &Incoming<'_>, needed: &mut Needed<'_>) {
    let collection = match request.body.first() {
        Some((_, ValueRef::String(name) | ValueRef::Symbol(name))) => Some(name),
        _ => None,
    };
    let pipelines = fields(request.body, "pipeline").filter_map(|value| match value {
        ValueRef::Array(stages) => Some(stages),
        _ => None,
    });
    let mut any = false;
    for stages in pipelines {
        any = true;
        let source = Source { db: request.db, collection };
        source.pipeline(stages, needed, 0);
        if is_set(request.body, "bypassDocumentValidation") {
            source.bypass(stages, needed);
        }
    }
    if !any {
        on_own(request, needed, Find);
    }
}

/// Source of a pipeline.
#[derive(Clone, Copy)]
struct Source<'a> {
    db: &'a str,
    /// None: the pipeline makes its own documents.
    collection: Option<&'a str>,
}

impl<'s> Source<'s> {
    fn pipeline(self, stages: Array<'_>, needed: &mut Needed<'_>, depth: usize) {
        if depth > DEPTH_MAX {
            return needed.everything();
        }
        let mut first = true;
        for stage in stages.iter().filter_map(document) {
            for (name, options) in stage {
                if !(std::mem::take(&mut first) && self.first_stage(name, options, needed)) {
                    self.stage(name, options, needed, depth);
                }
            }
        }
        if first {
            self.read(needed);
        }
    }

    fn read(self, needed: &mut Needed<'_>) {
        self.need(needed, Find);
    }

    fn need(self, needed: &mut Needed<'_>, action: Action) {
        match self.collection {
            Some(collection) => needed.on_collection(self.db, collection, action),
            None => needed.on_database(self.db, action),
        }
    }

    /// Needs what a first stage reads; returns true if that was all of the stage.
    fn first_stage(self, name: &str, options: ValueRef<'_>, needed: &mut Needed<'_>) -> bool {
        let asks = |flag: &str| document(options).is_some_and(|options| is_set(options, flag));
        match name {
            "$collStats" => self.need(needed, CollStats),
            "$indexStats" => self.need(needed, IndexStats),
            "$planCacheStats" => self.need(needed, PlanCacheRead),
            "$currentOp" if asks("allUsers") => needed.on_cluster(Inprog),
            "$listLocalSessions" | "$listSessions" => {
                let of_others = document(options).is_some_and(|options| options.get("users").is_some());
                if asks("allUsers") || of_others {
                    needed.on_cluster(ListSessions);
                }
            }
            "$backupCursor" | "$backupCursorExtend" => needed.on_cluster(Fsync),
            "$listSampledQueries" => needed.on_cluster(ListSampledQueries),
            "$querySettings" => needed.on_cluster(QuerySettings),
            "$queryStats" => {
                needed.on_cluster(QueryStatsRead);
                if document(options).is_some_and(|options| options.get("transformIdentifiers").is_some()) {
                    needed.on_cluster(QueryStatsReadTransformed);
                }
            }
            // on `admin` the collections of all databases
            "$listClusterCatalog" if self.db == "admin" => {
                needed.on_cluster(ListDatabases);
                needed.on_database("", ListCollections);
            }
            "$listClusterCatalog" => needed.on_database(self.db, ListCollections),
            "$changeStream" => {
                let whole = asks("allChangesForCluster");
                for action in [ChangeStream, Find] {
                    match whole {
                        // the pattern of all databases, tried with one that has no privileges of its own
                        true => needed.need(Target::Database(""), action),
                        false => self.need(needed, action),
                    }
                }
            }
            // own operations; documents of the stage itself
            "$currentOp" | "$documents" => {}
            _ => {
                self.read(needed);
                return false;
            }
        }
        true
    }

    fn stage(self, name: &str, options: ValueRef<'_>, needed: &mut Needed<'_>, depth: usize) {
        match (name, options) {
            ("$lookup", ValueRef::Document(options)) => {
                let mut from = Source { db: self.db, collection: None };
                let mut found = false;
                for value in fields(options, "from") {
                    found = true;
                    from = self.named(value, needed, Find);
                }
                self.inner(from, options, "pipeline", needed, depth, found);
            }
            ("$graphLookup", ValueRef::Document(options)) => {
                fields(options, "from").for_each(|value| {
                    self.named(value, needed, Find);
                });
            }
            ("$unionWith", ValueRef::Document(options)) => {
                let other = fields(options, "db").find_map(text).unwrap_or(self.db);
                let mut from = Source { db: other, collection: None };
                let mut found = false;
                for value in fields(options, "coll") {
                    found = true;
                    from = Source { db: other, collection: None }.named(value, needed, Find);
                }
                self.inner(from, options, "pipeline", needed, depth, found);
            }
            ("$unionWith", value) => {
                self.named(value, needed, Find);
            }
            ("$facet", ValueRef::Document(facets)) => {
                for (_, value) in facets {
                    if let ValueRef::Array(stages) = value {
                        // a facet reads what the pipeline has read
                        for stage in stages.iter().filter_map(document) {
                            stage.iter().for_each(|(name, options)| self.stage(name, options, needed, depth + 1));
                        }
                    }
                }
            }
            ("$out", value) => {
                self.named(value, needed, Insert);
                self.named(value, needed, Remove);
            }
            ("$merge", ValueRef::Document(options)) => {
                let matched = |way: &str| fields(options, "whenMatched").any(|value| text(value) == Some(way));
                for value in fields(options, "into") {
                    self.named(value, needed, Insert);
                    if !(matched("fail") || matched("keepExisting")) {
                        self.named(value, needed, Update);
                    }
                }
            }
            ("$merge", value) => {
                self.named(value, needed, Insert);
                self.named(value, needed, Update);
            }
            _ => {}
        }
    }

    /// The pipeline inside a stage; without a collection it begins with documents of its own.
    fn inner(self, from: Source<'_>, options: Doc<'_>, name: &str, needed: &mut Needed<'_>, depth: usize, found: bool) {
        for value in fields(options, name) {
            let ValueRef::Array(stages) = value else { continue };
            if !found && !begins_with_documents(stages) {
                needed.on_database(self.db, Find);
            }
            // the collection was asked for by its name already
            for stage in stages.iter().filter_map(document) {
                for (name, options) in stage {
                    if depth >= DEPTH_MAX {
                        needed.everything();
                    } else if matches!(name, "$collStats" | "$indexStats" | "$planCacheStats" | "$changeStream") {
                        from.first_stage(name, options, needed);
                    } else {
                        from.stage(name, options, needed, depth + 1);
                    }
                }
            }
        }
    }

    /// Needs an action on a collection that a stage names: `"c"` or `{db, coll}`.
    fn named<'n>(self, value: ValueRef<'n>, needed: &mut Needed<'_>, action: Action) -> Source<'n>
    where
        's: 'n,
    {
        let source = match value {
            ValueRef::String(name) | ValueRef::Symbol(name) => Source { db: self.db, collection: Some(name) },
            ValueRef::Document(doc) => {
                let mut source = Source { db: self.db, collection: None };
                for db in fields(doc, "db").filter_map(text) {
                    source.db = db;
                    for collection in fields(doc, "coll").filter_map(text) {
                        source.collection = Some(collection);
                        source.need(needed, action);
                    }
                }
                source.collection = fields(doc, "coll").find_map(text);
                source
            }
            _ => Source { db: self.db, collection: None },
        };
        source.need(needed, action);
        source
    }

    fn bypass(self, stages: Array<'_>, needed: &mut Needed<'_>) {
        for (name, options) in stages.iter().filter_map(document).flat_map(Doc::iter) {
            match (name, options) {
                ("$merge", ValueRef::Document(options)) => fields(options, "into").for_each(|value| {
                    self.named(value, needed, BypassDocumentValidation);
                }),
                ("$out" | "$merge", value) => {
                    self.named(value, needed, BypassDocumentValidation);
                }
                _ => {}
            }
        }
    }
}

fn text(value: ValueRef<'_>) -> Option<&str> {
    match value {
        ValueRef::String(text) | ValueRef::Symbol(text) => Some(text),
        _ => None,
    }
}

fn begins_with_documents(stages: Array<'_>) -> bool {
    stages.iter().next().and_then(document).and_then(Doc::first).is_some_and(|(name, _)| name == "$documents")
}

/// Needs what the explained command needs.
pub(crate) fn explain(request: &Incoming<'_>, needed: &mut Needed<'_>) {
    let Some((_, ValueRef::Document(inner))) = request.body.first() else { return };
    let name = inner.first().map_or("", |(name, _)| name);
    if let Some((_, _, access)) = registry::find(name).filter(|(info, ..)| info.name != "explain") {
        let request = Incoming { body: inner, sequences: &[], ..*request };
        needed.column(access, &request);
    }
}

/// Needs that the definition of a view reads nothing that its author may not read.
fn view(request: &Incoming<'_>, needed: &mut Needed<'_>) {
    for source in fields(request.body, "viewOn").filter_map(text) {
        let source = Source { db: request.db, collection: Some(source) };
        source.read(needed);
        for value in fields(request.body, "pipeline") {
            if let ValueRef::Array(stages) = value {
                source.pipeline(stages, needed, 0);
            }
        }
    }
}

pub(crate) fn create(request: &Incoming<'_>, needed: &mut Needed<'_>) {
    on_own(request, needed, CreateCollection);
    view(request, needed);
}

pub(crate) fn begin_load(request: &Incoming<'_>, needed: &mut Needed<'_>) {
    for name in fields(request.body, "ns").filter_map(text) {
        needed.on_collection(request.db, name, CreateCollection);
        needed.on_collection(request.db, name, CreateIndex);
    }
}

pub(crate) fn coll_mod(request: &Incoming<'_>, needed: &mut Needed<'_>) {
    on_own(request, needed, CollMod);
    view(request, needed);
}

/// Without a database, the indexes of all are read.
pub(crate) fn validate_metadata(request: &Incoming<'_>, needed: &mut Needed<'_>) {
    let mut any = false;
    for db in fields(request.body, "db").filter_map(text) {
        any = true;
        needed.on_database(db, Validate);
    }
    if !any {
        needed.on_database("", Validate);
    }
}

/// Reads one collection and makes another.
pub(crate) fn clone_as_capped(request: &Incoming<'_>, needed: &mut Needed<'_>) {
    on_own(request, needed, Find);
    for target in fields(request.body, "toCollection").filter_map(text) {
        for action in [Insert, CreateIndex, ConvertToCapped] {
            needed.on_collection(request.db, target, action);
        }
    }
}

/// `dataSize` has the whole name of the collection.
pub(crate) fn data_size(request: &Incoming<'_>, needed: &mut Needed<'_>) {
    match request.body.first() {
        Some((_, ValueRef::String(namespace))) => needed.on_namespace(namespace, Find),
        _ => needed.on_database(request.db, Find),
    }
}

pub(crate) fn rename_collection(request: &Incoming<'_>, needed: &mut Needed<'_>) {
    let Some((_, ValueRef::String(from))) = request.body.first() else { return needed.on_cluster(RenameCollection) };
    let (db, collection) = from.split_once('.').unwrap_or((from, ""));
    let source = Target::Collection { db, collection };
    for to in fields(request.body, "to").filter_map(text) {
        let (to_db, to_collection) = to.split_once('.').unwrap_or((to, ""));
        let target = Target::Collection { db: to_db, collection: to_collection };
        if is_set(request.body, "dropTarget") {
            needed.need(target, DropCollection);
        }
        let readable = needed.may(source, Find) || !needed.may(target, Find);
        let of_database = db == to_db && readable && needed.may(Target::Database(db), RenameCollectionSameDb);
        let is_system = |db, collection| arbor_auth::resource::is_system(db, collection);
        if of_database && !is_system(db, collection) && !is_system(to_db, to_collection) {
            continue;
        }
        for action in [Find, DropCollection] {
            needed.need(source, action);
        }
        for action in [Insert, CreateIndex] {
            needed.need(target, action);
        }
    }
}

/// Names and types of one's own collections are for everybody.
pub(crate) fn list_collections(request: &Incoming<'_>, needed: &mut Needed<'_>) {
    let own = is_set(request.body, "nameOnly") && is_set(request.body, "authorizedCollections");
    if !own {
        needed.on_database(request.db, ListCollections);
    }
}

/// One's own operations are for everybody.
pub(crate) fn current_op(request: &Incoming<'_>, needed: &mut Needed<'_>) {
    if !is_set(request.body, "$ownOps") {
        needed.on_cluster(Inprog);
    }
}

/// Reading the level needs less than setting it.
pub(crate) fn profile(request: &Incoming<'_>, needed: &mut Needed<'_>) {
    let reads = matches!(request.body.first(), Some((_, ValueRef::Int32(-1) | ValueRef::Int64(-1))))
        || matches!(request.body.first(), Some((_, ValueRef::Double(level))) if level == -1.0);
    let options = ["slowms", "sampleRate", "filter"];
    let reads = reads && !options.iter().any(|name| request.body.get(name).is_some());
    let profile = Target::Collection { db: request.db, collection: "system.profile" };
    if !(reads && needed.may(profile, Find)) {
        needed.on_database(request.db, EnableProfiler);
    }
}

pub(crate) fn apply_ops(request: &Incoming<'_>, needed: &mut Needed<'_>) {
    needed.on_cluster(ApplyOps);
    let Some((_, ValueRef::Array(operations))) = request.body.first() else { return };
    for operation in operations.iter().filter_map(document) {
        let namespace = fields(operation, "ns").find_map(text).unwrap_or_default();
        match fields(operation, "op").find_map(text) {
            Some("n") => {}
            Some("i" | "u") => {
                needed.on_namespace(namespace, Insert);
                needed.on_namespace(namespace, Update);
            }
            Some("d") => needed.on_namespace(namespace, Remove),
            // commands, and what is none of these
            _ => needed.everything(),
        }
        if fields(operation, "ns").count() > 1 || fields(operation, "op").count() > 1 {
            needed.everything();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use arbor_auth::{ActionSet, Privilege, Privileges, Resource};
    use arbor_notation::doc;
    use arbor_wire::{Form, ReplyTo};

    /// May do all on `d.a`, and find in `d.b`.
    fn privileges() -> Privileges {
        let find = ActionSet::of(&[Find]);
        [
            Privilege::new(Resource::collection("d", "a"), ActionSet::any()),
            Privilege::new(Resource::collection("d", "b"), find),
        ]
        .iter()
        .collect()
    }

    fn permitted(find: fn(&Incoming<'_>, &mut Needed<'_>), body: &str) -> bool {
        let (body, privileges) = (doc(body), privileges());
        let request = Incoming {
            db: "d",
            body: body.as_doc(),
            sequences: &[],
            reply_to: ReplyTo { request_id: 1, form: Form::Nothing, compressor: None },
            may_stream: false,
            waited_until: None,
        };
        let mut needed = Needed::new(&privileges);
        find(&request, &mut needed);
        needed.is_permitted()
    }

    #[test]
    fn every_namespace_of_a_pipeline_counts() {
        for (pipeline, expect) in [
            ("[]", true),
            ("[{ $match: { x: 1 } }]", true),
            ("[{ $lookup: { from: 'b', as: 'x' } }]", true),
            ("[{ $lookup: { from: 'c', as: 'x' } }]", false),
            ("[{ $lookup: { from: 'b', from: 'c', as: 'x' } }]", false),
            ("[{ $lookup: { from: { db: 'e', coll: 'b' }, as: 'x' } }]", false),
            ("[{ $lookup: { from: 'b', pipeline: [{ $unionWith: 'c' }], as: 'x' } }]", false),
            ("[{ $lookup: { from: 'b', pipeline: [{ $unionWith: 'a' }], as: 'x' } }]", true),
            ("[{ $lookup: { pipeline: [{ $documents: [] }], as: 'x' } }]", true),
            ("[{ $lookup: { pipeline: [], as: 'x' } }]", false),
            ("[{ $graphLookup: { from: 'c' } }]", false),
            ("[{ $graphLookup: { from: 'b' } }]", true),
            ("[{ $unionWith: 'b' }]", true),
            ("[{ $unionWith: 'c' }]", false),
            ("[{ $unionWith: { coll: 'c', pipeline: [] } }]", false),
            ("[{ $unionWith: { coll: 'b', db: 'e' } }]", false),
            ("[{ $unionWith: { coll: 'b', pipeline: [{ $lookup: { from: 'c' } }] } }]", false),
            ("[{ $facet: { x: [{ $unionWith: 'c' }] } }]", false),
            ("[{ $facet: { x: [{ $lookup: { from: 'b' } }] } }]", true),
            ("[{ $out: 'a' }]", true),
            ("[{ $out: 'b' }]", false),
            ("[{ $out: { db: 'd', coll: 'b' } }]", false),
            ("[{ $merge: 'b' }]", false),
            ("[{ $merge: { into: 'a' } }]", true),
            ("[{ $merge: { into: { db: 'e', coll: 'a' } } }]", false),
            ("[{ $collStats: {} }]", true),
            ("[{ $match: {} }, { $unionWith: { coll: 'b', pipeline: [{ $collStats: {} }] } }]", false),
        ] {
            let body = format!("{{ aggregate: 'a', pipeline: {pipeline} }}");
            assert_eq!(permitted(aggregate, &body), expect, "{pipeline}");
        }
        assert!(!permitted(aggregate, "{ aggregate: 'c', pipeline: [] }"));
        assert!(!permitted(aggregate, "{ aggregate: 'c' }"));
        assert!(!permitted(aggregate, "{ aggregate: 'a', pipeline: [], pipeline: [{ $unionWith: 'c' }] }"));
        assert!(!permitted(aggregate, "{ aggregate: 1, pipeline: [{ $currentOp: { allUsers: true } }] }"));
        assert!(!permitted(aggregate, "{ aggregate: 1, pipeline: [{ $backupCursor: {} }] }"));
        assert!(permitted(aggregate, "{ aggregate: 1, pipeline: [{ $currentOp: {} }] }"));
        assert!(permitted(aggregate, "{ aggregate: 1, pipeline: [{ $documents: [] }] }"));
        assert!(!permitted(aggregate, "{ aggregate: 1, pipeline: [{ $changeStream: {} }] }"));
        assert!(!permitted(
            aggregate,
            "{ aggregate: 'a', pipeline: [{ $changeStream: { allChangesForCluster: true } }] }"
        ));
    }

    #[test]
    fn statements_need_their_actions() {
        for (find, body, expect) in [
            (
                update as fn(&Incoming<'_>, &mut Needed<'_>),
                "{ update: 'a', updates: [{ q: {}, u: {}, upsert: true }] }",
                true,
            ),
            (update, "{ update: 'b', updates: [] }", false),
            (insert, "{ insert: 'b', documents: [] }", false),
            (find_and_modify, "{ findAndModify: 'b', update: {} }", false),
            (find_and_modify, "{ findAndModify: 'b', remove: true }", false),
            (find_and_modify, "{ findAndModify: 'a', remove: true }", true),
            (bulk_write, "{ bulkWrite: 1, ops: [{ insert: 0 }], nsInfo: [{ ns: 'd.a' }] }", true),
            (bulk_write, "{ bulkWrite: 1, ops: [{ insert: 1 }], nsInfo: [{ ns: 'd.a' }, { ns: 'd.b' }] }", false),
            (bulk_write, "{ bulkWrite: 1, ops: [{ delete: 0 }], nsInfo: [{ ns: 'd.b' }] }", false),
            (bulk_write, "{ bulkWrite: 1, ops: [{ insert: 'x' }], nsInfo: [{ ns: 'd.b' }] }", false),
            (create, "{ create: 'a' }", true),
            (create, "{ create: 'a', viewOn: 'b' }", true),
            (create, "{ create: 'a', viewOn: 'c' }", false),
            (create, "{ create: 'a', viewOn: 'b', pipeline: [{ $lookup: { from: 'c' } }] }", false),
            (coll_mod, "{ collMod: 'a', viewOn: 'c', pipeline: [] }", false),
            (rename_collection, "{ renameCollection: 'd.a', to: 'd.b' }", false),
            (rename_collection, "{ renameCollection: 'd.a', to: 'd.a' }", true),
            (data_size, "{ dataSize: 'd.b' }", true),
            (data_size, "{ dataSize: 'd.c' }", false),
            (explain, "{ explain: { find: 'b' } }", true),
            (explain, "{ explain: { find: 'c' } }", false),
            (explain, "{ explain: { aggregate: 'a', pipeline: [{ $unionWith: 'c' }] } }", false),
            (apply_ops, "{ applyOps: [{ op: 'i', ns: 'd.a', o: {} }] }", false),
            (list_collections, "{ listCollections: 1, nameOnly: true, authorizedCollections: true }", true),
            (list_collections, "{ listCollections: 1, nameOnly: true }", false),
            (profile, "{ profile: -1 }", false),
        ] {
            assert_eq!(permitted(find, body), expect, "{body}");
        }
    }
}
