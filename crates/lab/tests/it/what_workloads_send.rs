//! Every workload's commands on the wire against spec/workloads.md: forms, how many make an operation, and the mix.

use std::collections::BTreeMap;

use crate::capture::{Answers, Capture, client, form, workload};
use arbor_lab::workload::linkbench::{FIRST_LINK_TYPE, Link, LinkOperation, List, Node, Schema, Store};
use arbor_lab::workload::{Mode, Operation, Unit};
use serde_json::json;

#[test]
fn point_queries_ask_for_whole_documents() {
    let (mut capture, workload) =
        (Capture::new(Answers::Found), workload("pointquery", Mode::Compat, json!({"tables": 1})));
    capture.unit(&mut *client(&*workload, 1));
    assert_eq!(
        capture.forms(),
        [r#"{find: "sbtest1", filter: {_id: int}, limit: 1, singleBatch: true, $db: "sbtest"}"#]
    );
}

/// The rows of the table in 2.4; what is loaded has int64 ids, what is inserted again int32.
#[test]
fn a_transaction_of_sysbench_is_eighteen_commands() {
    let mut capture = Capture::new(Answers::Found);
    let workload = workload("sysbench", Mode::Compat, json!({"tables": 1, "docs": 2000}));
    capture.unit(&mut *workload.loaders(1).remove(0));
    let documents = "[1000 x {_id: long, k: int, c: text119, pad: text59}]";
    assert_eq!(
        capture.forms(),
        [format!(r#"{{insert: "sbtest1", ordered: true, $db: "sbtest", documents: {documents}}}"#)]
    );
    capture.unit(&mut *client(&*workload, 1));
    let forms = capture.forms();
    let (points, rest) = forms.split_at(10);
    let point = r#"{find: "sbtest1", filter: {_id: int}, projection: { c: 1, _id: 0 }, limit: 1, singleBatch: true, $db: "sbtest"}"#;
    assert!(points.iter().all(|form| form == &flat(point)), "{points:#?}");
    let range = "{_id: {$gte: int, $lte: int}}";
    let expected = [
        format!(r#"{{find: "sbtest1", filter: {range}, projection: {{c: 1, _id: 0}}, $db: "sbtest"}}"#),
        format!(
            r#"{{aggregate: "sbtest1", pipeline: [{{$match: {range}}}, {{$project: {{k: int, _id: int}}}}, {{$group: {{_id: null, average: {{$sum: "$k"}}}}}}], cursor: {{}}, $db: "sbtest"}}"#
        ),
        format!(r#"{{find: "sbtest1", filter: {range}, projection: {{c: 1, _id: 0}}, sort: {{c: 1}}, $db: "sbtest"}}"#),
        // A key is literal here because it is one of the fields an index has.
        format!(r#"{{distinct: "sbtest1", key: "c", query: {range}, $db: "sbtest"}}"#),
        r#"{update: "sbtest1", updates: [{q: {_id: int}, u: {$inc: {k: int}}}], ordered: true, $db: "sbtest"}"#.to_owned(),
        r#"{update: "sbtest1", updates: [{q: {_id: int}, u: {$set: {c: text119}}}], ordered: true, $db: "sbtest"}"#.to_owned(),
        r#"{delete: "sbtest1", deletes: [{q: {_id: int}, limit: 0}], ordered: true, $db: "sbtest"}"#.to_owned(),
        r#"{insert: "sbtest1", documents: [{_id: int, k: int, c: text119, pad: text59}], ordered: true, $db: "sbtest"}"#.to_owned(),
    ];
    assert_eq!(rest, expected);
}

/// The shell's spaces inside braces are not part of a form.
fn flat(text: &str) -> String {
    text.replace("{ ", "{").replace(" }", "}")
}

fn link(data: &[u8]) -> Link<'_> {
    Link { id1: 1, link_type: FIRST_LINK_TYPE, id2: 2, data, time: 3, version: 0 }
}

/// Returns the commands that one operation of LinkBench sends.
fn sent(schema: Schema, mode: Mode, answers: Answers, operation: LinkOperation<'_>) -> Vec<String> {
    let mut capture = Capture::new(answers);
    let store = Store { schema, mode, transactions: false };
    capture.session().execute(&Operation::Link(store, operation)).unwrap();
    let database = format!(", $db: \"{}\"", store.database());
    capture.forms().iter().map(|form| form.replace(&database, "")).collect()
}

fn list() -> List {
    List { id1: 1, link_type: FIRST_LINK_TYPE, time_min: 0, time_max: i64::MAX, offset: 0, limit: 10_000 }
}

/// Server commands per operation: the table in 7.7.
#[test]
fn linkbench_sends_as_many_commands_as_its_stores_did() {
    let delete = LinkOperation::DeleteLink { id1: 1, link_type: FIRST_LINK_TYPE, id2: 2, time: 3 };
    let node = Node { id: 5, version: 1, time: 6, data: b"x" };
    let count = LinkOperation::CountLink { id1: 1, link_type: FIRST_LINK_TYPE };
    let multiget = LinkOperation::MultigetLink { id1: 1, link_type: FIRST_LINK_TYPE, id2s: &[1, 2, 3] };
    use Answers::{Found, Nothing};
    use Mode::{Compat, Fixed};
    use Schema::{Lbm, Lbx};
    for (operation, found, expected) in [
        // LinkBenchX as it was, LinkBenchX as meant, the fork as it is, the fork as meant.
        (LinkOperation::AddLink(link(b"x")), Nothing, [3, 2, 2, 2]),
        (LinkOperation::AddLink(link(b"x")), Found, [4, 1, 1, 1]),
        (LinkOperation::UpdateLink(link(b"x")), Found, [4, 1, 1, 1]),
        (delete, Found, [6, 2, 2, 2]),
        (delete, Nothing, [1, 1, 1, 1]),
        (count, Found, [1, 1, 1, 1]),
        (multiget, Found, [2, 1, 3, 1]),
        (LinkOperation::GetLinkList(list()), Found, [2, 1, 1, 1]),
        (LinkOperation::GetLinkList(list()), Nothing, [1, 1, 1, 1]),
        (LinkOperation::AddNode(node), Found, [1, 1, 1, 1]),
        (LinkOperation::UpdateNode(node), Found, [1, 1, 1, 1]),
        (LinkOperation::DeleteNode { id: 5 }, Found, [1, 1, 1, 1]),
        (LinkOperation::GetNode { id: 5 }, Found, [1, 1, 1, 1]),
    ] {
        let counts = [(Lbx, Compat), (Lbx, Fixed), (Lbm, Compat), (Lbm, Fixed)]
            .map(|(schema, mode)| sent(schema, mode, found, operation).len());
        assert_eq!(counts, expected, "{operation:?}, {found:?}");
    }
}

#[test]
fn linkbenchx_sends_its_own_forms() {
    let original = |answers, operation| sent(Schema::Lbx, Mode::Compat, answers, operation);
    let key = "{link_type: long, id1: long, id2: long}";
    let count = "{id: long, link_type: long}";
    assert_eq!(
        original(Answers::Found, LinkOperation::AddLink(link(b"x"))),
        [
            format!(
                "{{update: \"link\", updates: [{{q: {key}, u: {{$set: {{visibility: int}}, $setOnInsert: {{data: bytes, time: long, version: int}}}}, upsert: true}}], ordered: true}}"
            ),
            format!(
                "{{update: \"count\", updates: [{{q: {count}, u: {{id: long, link_type: long, time: long}}, upsert: true}}], ordered: true}}"
            ),
            format!("{{update: \"count\", updates: [{{q: {count}, u: {{$inc: {{version: long}}}}}}], ordered: true}}"),
            format!(
                "{{update: \"link\", updates: [{{q: {key}, u: {{$set: {{visibility: int, data: bytes, time: long, version: int}}}}}}], ordered: true}}"
            ),
        ]
    );
    let filter = "{id1: long, link_type: long, visibility: int, time: {$gte: long, $lte: long}}";
    assert_eq!(
        original(Answers::Found, LinkOperation::GetLinkList(list())),
        [
            format!("{{count: \"link\", query: {filter}, limit: 10000, skip: 0}}"),
            format!("{{find: \"link\", filter: {filter}, sort: {{time: -1}}, limit: 10000}}"),
        ]
    );
    let multiget = LinkOperation::MultigetLink { id1: 1, link_type: FIRST_LINK_TYPE, id2s: &[1, 2] };
    let filter = "{id1: long, link_type: long, id2: {$in: [long, long]}}";
    assert_eq!(
        original(Answers::Found, multiget),
        [format!("{{count: \"link\", query: {filter}}}"), format!("{{find: \"link\", filter: {filter}}}")]
    );
    let node = Node { id: 5, version: 2, time: 6, data: b"x" };
    assert_eq!(
        original(Answers::Found, LinkOperation::UpdateNode(node)),
        [
            "{update: \"node\", updates: [{q: {_id: long, type: 2048}, u: {$set: {version: long, time: int, data: bytes}}}], ordered: true}"
        ]
    );
    assert_eq!(
        original(Answers::Found, LinkOperation::AddNode(node)),
        [
            "{insert: \"node\", ordered: true, documents: [{_id: long, type: 2048, version: long, time: int, data: bytes}]}"
        ]
    );
}

#[test]
fn lists_of_other_stores_are_covered_and_keys_of_the_fork_are_bytes() {
    let covered = "{_id: 0, id1: 1, link_type: 1, visibility: 1, time: 1, id2: 1, version: 1, data: 1}";
    for schema in [Schema::Lbx, Schema::Lbm] {
        let forms = sent(schema, Mode::Fixed, Answers::Found, LinkOperation::GetLinkList(list()));
        assert!(forms[0].contains(&format!("projection: {covered}, sort: {{time: -1}}, limit: 10000")), "{forms:?}");
    }
    let forms = sent(Schema::Lbm, Mode::Compat, Answers::Nothing, LinkOperation::AddLink(link(b"x")));
    assert_eq!(
        forms,
        [
            "{findAndModify: \"linktable\", query: {_id: bytes}, update: {$set: {visibility: int, data: bytes, time: long, version: int}, $setOnInsert: {id1: long, link_type: long, id2: long}}, fields: {visibility: 1, _id: 0}, upsert: true}",
            "{update: \"counttable\", updates: [{q: {_id: bytes}, u: {$inc: {count: long, version: long}, $set: {time: long}, $setOnInsert: {id: long, link_type: long}}, upsert: true}], ordered: true}",
        ]
    );
}

#[test]
fn operations_of_the_fork_are_transactions_when_asked_for() {
    let mut capture = Capture::new(Answers::Nothing);
    let store = Store { schema: Schema::Lbm, mode: Mode::Compat, transactions: true };
    for _ in 0..2 {
        capture.session().execute(&Operation::Link(store, LinkOperation::AddLink(link(b"x")))).unwrap();
    }
    let commands = capture.taken();
    let names: Vec<&str> = commands.iter().map(|command| command.as_doc().first().unwrap().0).collect();
    assert_eq!(names, ["findAndModify", "update", "commitTransaction", "findAndModify", "update", "commitTransaction"]);
    let forms: Vec<String> = commands.iter().map(|command| form(command.as_doc())).collect();
    assert!(
        forms.iter().all(|form| form.contains("lsid: {id: uuid}, txnNumber: long, autocommit: false")),
        "{forms:#?}"
    );
    let begins: Vec<bool> = forms.iter().map(|form| form.contains("startTransaction: true")).collect();
    assert_eq!(begins, [true, false, false, true, false, false]);
}

/// Units of a workload, and how many commands of each name (and collection) they were.
fn mix(name: &str, mode: Mode, settings: serde_json::Value, answers: Answers, units: usize) -> BTreeMap<String, f64> {
    let (mut capture, workload) = (Capture::new(answers), workload(name, mode, settings));
    let (mut client, mut counts) = (client(&*workload, 7), BTreeMap::new());
    for _ in 0..units {
        assert!(matches!(capture.unit(&mut *client), Unit::Complete(_)));
    }
    for command in capture.taken() {
        let (name, collection) = command.as_doc().first().unwrap();
        let sorted = if command.get("sort").is_some() { " sorted" } else { "" };
        let skipped = if command.get("skip").is_some() { " window" } else { "" };
        *counts.entry(format!("{name} {collection}{sorted}{skipped}").replace('"', "")).or_insert(0.0) += 1.0;
    }
    counts.into_iter().map(|(name, count)| (name, count / units as f64)).collect()
}

fn assert_mix(found: &BTreeMap<String, f64>, expected: &[(&str, f64)]) {
    for (name, share) in expected {
        let found = found.get(*name).copied().unwrap_or(0.0);
        assert!((found - share).abs() < 0.01, "{name}: {found}, not {share}");
    }
    let (all, known): (f64, f64) = (found.values().sum(), expected.iter().map(|(_, share)| share).sum());
    assert!((all - known).abs() < 0.02, "{found:#?}");
}

/// The left column of the table in 7.4, as commands of LinkBenchX where everything is found.
#[test]
fn linkbenchs_mix_is_that_of_2011() {
    let settings = json!({"maxid1": 100_001});
    let (added, deleted, counted, multiget, lists) =
        (0.089886601 + 0.080122125, 0.029907664, 0.048863567, 0.005261142, 0.507119145);
    let nodes = [
        ("find node", 0.129326683),
        ("insert node", 0.025732789),
        ("update node", 0.07366437),
        ("delete node", 0.010115914),
    ];
    let found = mix("linkbench", Mode::Compat, settings.clone(), Answers::Found, 20_000);
    assert_mix(
        &found,
        &[
            &nodes[..],
            &[
                // Twice for what is there already; once more for a visible link that is hidden.
                ("update link", 2.0 * added + deleted),
                // A count is replaced and increased; after a deletion it is mended too.
                ("update count", 2.0 * added + 3.0 * deleted),
                ("find link", deleted + multiget),
                ("find count", counted + deleted),
                ("count link", multiget),
                ("count link window", lists),
                ("find link sorted", lists),
            ],
        ]
        .concat(),
    );
    let fixed = mix("linkbench", Mode::Fixed, settings, Answers::Nothing, 20_000);
    assert_mix(
        &fixed,
        &[
            &nodes[..],
            &[
                ("findAndModify link", added + deleted),
                ("update count", added),
                ("find count", counted),
                ("find link", multiget),
                ("find link sorted", lists),
            ],
        ]
        .concat(),
    );
}

#[test]
fn ycsb_sends_the_commands_of_8_5() {
    let mut capture = Capture::new(Answers::Found);
    let fields = (0..10).map(|number| format!("field{number}: bytes")).collect::<Vec<_>>().join(", ");
    let ycsb = |mode, settings| workload("ycsb", mode, settings);
    capture.unit(&mut *ycsb(Mode::Fixed, json!({"records": 300, "batch": 100})).loaders(1).remove(0));
    let form = &capture.forms()[0];
    assert!(form.starts_with(r#"{insert: "usertable", ordered: false, $db: "ycsb", documents: [{_id: text"#), "{form}");
    assert!(form.contains(&fields), "{form}");
    // In compat mode as in 2015: a replacement that inserts.
    capture.unit(&mut *ycsb(Mode::Compat, json!({"records": 300})).loaders(1).remove(0));
    let replace = format!(
        r#"{{update: "usertable", updates: [{{q: {{_id: text23}}, u: {{_id: text23, {fields}}}, upsert: true}}], ordered: true, $db: "ycsb"}}"#
    );
    assert_eq!(capture.forms(), [replace]);
    for (letter, name, expected) in [
        ("c", "find", r#"{find: "usertable", filter: {_id: text}, limit: 1, singleBatch: true, $db: "ycsb"}"#.to_owned()),
        (
            "a",
            "update",
            r#"{update: "usertable", updates: [{q: {_id: text}, u: {$set: {fieldN: bytes}}}], ordered: true, $db: "ycsb"}"#.to_owned(),
        ),
        (
            "e",
            "find",
            r#"{find: "usertable", filter: {_id: {$gte: text}}, sort: {_id: 1}, limit: N, $db: "ycsb"}"#.to_owned(),
        ),
        ("d", "insert", format!(r#"{{insert: "usertable", ordered: true, $db: "ycsb", documents: [{{_id: text, {fields}}}]}}"#)),
    ] {
        let workload = ycsb(Mode::Compat, json!({"workload": letter, "records": 1000}));
        let mut client = client(&*workload, 1);
        (0..100).for_each(|_| _ = capture.unit(&mut *client));
        let commands: Vec<String> = capture.forms().into_iter().filter(|form| form.starts_with(&format!("{{{name}"))).collect();
        assert!(!commands.is_empty());
        for command in commands {
            assert_eq!(without_numbers(&command, letter != "d"), without_numbers(&expected, letter != "d"), "{letter}");
        }
    }
}

/// A form with the lengths of texts, field numbers and limits left out.
fn without_numbers(form: &str, all: bool) -> String {
    let mut plain = form.replace("fieldN", "field").replace("limit: N", "limit: ");
    for prefix in ["text", "limit: "].iter().chain(if all { &["field"][..] } else { &[] }) {
        let mut parts = plain.split(prefix);
        let first = parts.next().unwrap_or_default().to_owned();
        plain = parts.fold(first, |text, part| text + prefix + part.trim_start_matches(|c: char| c.is_ascii_digit()));
    }
    plain
}

/// The table in 8.4.
#[test]
fn ycsbs_mixes_are_those_of_the_stock_files() {
    for (letter, expected) in [
        ("a", &[("find usertable", 0.5), ("update usertable", 0.5)][..]),
        ("b", &[("find usertable", 0.95), ("update usertable", 0.05)]),
        ("c", &[("find usertable", 1.0)]),
        ("d", &[("find usertable", 0.95), ("insert usertable", 0.05)]),
        ("e", &[("find usertable sorted", 0.95), ("insert usertable", 0.05)]),
        ("f", &[("find usertable", 1.0), ("update usertable", 0.5)]),
    ] {
        assert_mix(&mix("ycsb", Mode::Compat, json!({"workload": letter}), Answers::Found, 10_000), expected);
    }
}

#[test]
fn iibench_inserts_purchases_and_asks_three_queries() {
    let mut capture = Capture::new(Answers::Found);
    let settings = json!({"query_threads": 1, "query_begin": 1000, "char_fields": 2});
    let iibench = workload("iibench", Mode::Compat, settings);
    let mut writer = iibench.client(arbor_lab::workload::Place { number: 0, of: 2 }, 1);
    capture.unit(&mut *writer);
    let purchase = "{_id: objectId, dateandtime: long, cashregisterid: int, customerid: int, productid: int, price: double, cf1: text1000, cf2: text1000}";
    assert_eq!(
        capture.forms(),
        [format!(r#"{{insert: "purchases_index", ordered: true, $db: "iibench", documents: [1000 x {purchase}]}}"#)]
    );
    let mut querier = iibench.client(arbor_lab::workload::Place { number: 1, of: 2 }, 1);
    (0..3).for_each(|_| _ = capture.unit(&mut *querier));
    let query = |cases: &str, fields: &str| {
        format!(
            r#"{{find: "purchases_index", filter: {{$or: [{cases}]}}, projection: {{{fields}, _id: 0}}, limit: 10, $db: "iibench"}}"#
        )
    };
    assert_eq!(
        capture.forms(),
        [
            query(
                "{price: double, dateandtime: long, customerid: {$gte: int}}, {price: double, dateandtime: {$gt: long}}, {price: {$gt: double}}",
                "price: 1, dateandtime: 1, customerid: 1"
            ),
            query("{price: double, customerid: {$gte: int}}, {price: {$gt: double}}", "price: 1, customerid: 1"),
            query(
                "{cashregisterid: int, price: double, customerid: {$gte: int}}, {cashregisterid: int, price: {$gt: double}}, {cashregisterid: {$gt: int}}",
                "cashregisterid: 1, price: 1, customerid: 1"
            ),
        ]
    );
    capture.session().create(&iibench.collections()[0]).unwrap();
    let forms = capture.forms();
    let keys = [
        "{price: 1, customerid: 1}",
        "{cashregisterid: 1, price: 1, customerid: 1}",
        "{price: 1, dateandtime: 1, customerid: 1}",
    ];
    assert!(forms[1].starts_with("{createIndexes") && keys.iter().all(|key| forms[1].contains(key)), "{forms:#?}");
}

/// 3.1, left column: 17 commands, and none of them does what its name says but the first and the sixth.
#[test]
fn perconas_driver_sends_what_it_really_sent() {
    let mut capture = Capture::new(Answers::Found);
    let percona = workload("percona", Mode::Compat, json!({"tables": 1, "docs": 1000}));
    capture.unit(&mut *percona.loaders(4).remove(0));
    let documents = "[1000 x {_id: int, k: int, c: text120, pad: text60}]";
    assert_eq!(
        capture.forms(),
        [format!(r#"{{insert: "sbtest1", ordered: false, $db: "sbtest", documents: {documents}}}"#)]
    );
    capture.unit(&mut *client(&*percona, 1));
    let forms = capture.forms();
    assert_eq!(forms.len(), 17);
    // One collection under the default distribution: everything goes to one that does not exist.
    assert!(forms.iter().all(|form| form.contains("\"sbtest0\"")));
    let forms: Vec<String> =
        forms.iter().skip(10).map(|form| form.replace(", $db: \"sbtest\"", "").replace("sbtest0", "t")).collect();
    let (closed, open) = ("{_id: {$gte: int, $lte: int}}", "{_id: {$gt: int, $lt: int}}");
    assert_eq!(
        forms,
        [
            format!(r#"{{find: "t", filter: {closed}, projection: {{c: 1, _id: 0}}}}"#),
            format!(r#"{{aggregate: "t", pipeline: [{{$match: {open}}}, {{$group: {{_id: null, total: {{$sum: "k"}}}}}}], cursor: {{}}}}"#),
            format!(r#"{{find: "t", filter: {closed}, projection: {{c: 1, _id: 0}}, sort: {{k: 1}}}}"#),
            format!(r#"{{distinct: "t", key: "k", query: {open}}}"#),
            r#"{update: "t", updates: [{q: {_id: int}, u: {$inc: {k: int}}}], ordered: true}"#.to_owned(),
            r#"{update: "t", updates: [{q: {_id: int}, u: {$set: {c: text11}}}], ordered: true}"#.to_owned(),
            r#"{findAndModify: "t", query: {_id: int}, update: {_id: int, k: int, c: text124, pad: text64}, upsert: true}"#.to_owned(),
        ]
    );
}

#[test]
fn perconas_rewrite_uses_pipelines() {
    let mut capture = Capture::new(Answers::Found);
    capture.unit(&mut *client(&*workload("percona", Mode::Compat, json!({"tool": "sbl", "tables": 1})), 1));
    let forms: Vec<String> =
        capture.forms().iter().skip(11).map(|form| form.replace(", $db: \"sbtest\"", "")).collect();
    let range = "{$match: {_id: {$gte: int, $lte: int}}}";
    assert_eq!(
        forms,
        [
            format!(r#"{{aggregate: "sbtest1", pipeline: [{range}, {{$group: {{_id: null, sum: {{$sum: "$k"}}}}}}, {{$project: {{_id: int, sum: int}}}}], cursor: {{}}}}"#),
            format!(r#"{{aggregate: "sbtest1", pipeline: [{range}, {{$sort: {{c: int}}}}, {{$project: {{c: int}}}}], cursor: {{}}}}"#),
            format!(r#"{{aggregate: "sbtest1", pipeline: [{range}, {{$group: {{_id: text2}}}}, {{$sort: {{_id: int}}}}], cursor: {{}}}}"#),
            r#"{update: "sbtest1", updates: [{q: {_id: int}, u: {$inc: {k: int}}}], ordered: true}"#.to_owned(),
            r#"{update: "sbtest1", updates: [{q: {_id: int}, u: {$set: {c: text119}}}], ordered: true}"#.to_owned(),
            r#"{delete: "sbtest1", deletes: [{q: {_id: int}, limit: 0}], ordered: true}"#.to_owned(),
            r#"{findAndModify: "sbtest1", query: {_id: int}, update: {$set: {k: int, c: text119, pad: text59}}, upsert: true}"#.to_owned(),
        ]
    );
}

#[test]
fn every_statement_on_shards_names_the_whole_key() {
    let mut capture = Capture::new(Answers::Found);
    let sharded = workload("sharded", Mode::Fixed, json!({"collections": 6, "docs": 1000, "chunk_docs": 500}));
    capture.session().create(&sharded.collections()[0]).unwrap();
    let forms = capture.forms();
    let of =
        |name: &str| forms.iter().filter(|form| form.starts_with(&format!("{{{name}:"))).cloned().collect::<Vec<_>>();
    assert!(forms.iter().any(
        |form| form == r#"{shardCollection: "sbtest.sbtest", key: {collectionId: 1, documentId: 1}, $db: "admin"}"#
    ));
    assert_eq!((of("split").len(), of("moveChunk").len()), (11, 12));
    // Two collection numbers, of two chunks each, to a shard.
    let shards: Vec<bool> = of("moveChunk")
        .iter()
        .zip(["rs0", "rs1", "rs2"].iter().flat_map(|shard| [shard; 4]))
        .map(|(form, shard)| form.contains(shard))
        .collect();
    assert_eq!(shards, [true; 12]);
    capture.unit(&mut *client(&*sharded, 1));
    let forms = capture.forms();
    assert_eq!(forms.len(), 18);
    assert!(forms.iter().all(|form| form.contains("collectionId: int") && form.contains("documentId: ")), "{forms:#?}");
    assert!(
        forms[17]
            .contains("documents: [{_id: long, collectionId: int, documentId: int, k: int, c: text119, pad: text59}]")
    );
}
