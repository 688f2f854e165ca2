//! The three experiments, small, against a stand-in that keeps documents in a map: what is sent is understood, what
//! comes back is counted, files and tables hold it.

use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use arbor_bson::{ArrayBuf, Doc, DocBuf, ValueRef};
use arbor_lab::experiment::{Plan, Scale, carry_out, find};
use arbor_lab::report::{Outcome, manifest, tables};
use arbor_lab::run::{Arrival, Interrupt, Interval, Watch};
use arbor_lab::target::managed::Setup;
use arbor_lab::target::mongodb::MongoDb;
use arbor_lab::workload::{Kind, Shape};
use arbor_wire::{Command, Limits, Scratch, decode, frame_length};

type Tables = Arc<Mutex<BTreeMap<String, BTreeMap<i64, DocBuf>>>>;

fn start() -> (String, Tables) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let tables = Tables::default();
    let shared = tables.clone();
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let tables = shared.clone();
            std::thread::spawn(move || serve(stream, &tables));
        }
    });
    (address, tables)
}

fn serve(mut stream: TcpStream, tables: &Tables) {
    stream.set_nodelay(true).unwrap();
    let (mut buffer, mut part, mut scratch) = (Vec::new(), vec![0; 1 << 16], Scratch::default());
    loop {
        while let Some(length) = frame_length(&buffer).unwrap().filter(|length| *length <= buffer.len()) {
            let command = decode(&buffer[..length], &mut scratch, Limits::default()).unwrap().into_command().unwrap();
            let mut out = Vec::new();
            command.reply_to.encode(1, answer(&command, tables).as_doc(), &mut out);
            drop(command);
            if stream.write_all(&out).is_err() {
                return;
            }
            buffer.drain(..length);
        }
        match stream.read(&mut part) {
            Ok(n) if n > 0 => buffer.extend_from_slice(&part[..n]),
            _ => return,
        }
    }
}

fn integer(value: Option<ValueRef<'_>>) -> i64 {
    match value {
        Some(ValueRef::Int32(n)) => n.into(),
        Some(ValueRef::Int64(n)) => n,
        other => panic!("{other:?}"),
    }
}

fn document<'a>(value: Option<ValueRef<'a>>) -> Doc<'a> {
    match value {
        Some(ValueRef::Document(doc)) => doc,
        other => panic!("{other:?}"),
    }
}

fn text<'a>(value: Option<ValueRef<'a>>) -> &'a str {
    match value {
        Some(ValueRef::String(text)) => text,
        other => panic!("{other:?}"),
    }
}

/// The ids a filter on `_id` selects.
fn ids(filter: Doc<'_>) -> std::ops::RangeInclusive<i64> {
    match filter.get("_id") {
        Some(ValueRef::Document(range)) => integer(range.get("$gte"))..=integer(range.get("$lte")),
        None => i64::MIN..=i64::MAX,
        id => integer(id)..=integer(id),
    }
}

fn first<'a>(value: Option<ValueRef<'a>>) -> Doc<'a> {
    match value {
        Some(ValueRef::Array(array)) => document(array.get(0)),
        other => panic!("{other:?}"),
    }
}

fn cursor(docs: &[DocBuf]) -> DocBuf {
    let docs: ArrayBuf = docs.iter().collect();
    let cursor = DocBuf::new().with("firstBatch", &docs).with("id", 0i64).with("ns", "sbtest.sbtest1");
    DocBuf::new().with("cursor", &cursor)
}

fn answer(command: &Command<'_>, tables: &Tables) -> DocBuf {
    let body = command.body.as_doc();
    let mut tables = tables.lock().unwrap();
    let n = |count: usize| DocBuf::new().with("n", count as i32);
    let mut table = |name: &str| tables.entry(name.to_owned()).or_default().clone();
    let reply = match body.first().unwrap() {
        ("find", name) => {
            let table = table(text(Some(name)));
            let docs: Vec<DocBuf> = table
                .range(ids(document(body.get("filter").or(Some(ValueRef::Document(Doc::empty()))))))
                .map(|(_, doc)| doc.clone())
                .collect();
            cursor(&docs)
        }
        ("count", name) => n(table(text(Some(name))).len()),
        ("distinct", name) => {
            let table = table(text(Some(name)));
            let values: ArrayBuf =
                table.range(ids(document(body.get("query")))).filter_map(|(_, doc)| doc.get("c")).collect();
            DocBuf::new().with("values", &values)
        }
        ("aggregate", name) => {
            let range = ids(document(first(body.get("pipeline")).get("$match")));
            let sum: i64 = table(text(Some(name))).range(range).map(|(_, doc)| integer(doc.get("k"))).sum();
            cursor(&[DocBuf::new().with("_id", ValueRef::Null).with("average", sum)])
        }
        ("insert", name) => {
            let sequences = command.sequences.iter().flat_map(|sequence| sequence.iter());
            let inline = match body.get("documents") {
                Some(ValueRef::Array(docs)) => vec![document(docs.get(0))],
                _ => Vec::new(),
            };
            let docs: Vec<Doc<'_>> = sequences.chain(inline).collect();
            let table = tables.entry(text(Some(name)).to_owned()).or_default();
            let twice = docs.iter().any(|doc| table.insert(integer(doc.get("_id")), doc.to_buf()).is_some());
            let error = DocBuf::new().with("index", 0).with("code", 11000).with("errmsg", "E11000 duplicate key");
            let errors: ArrayBuf = [&error].into_iter().collect();
            if twice { n(0).with("writeErrors", &errors) } else { n(docs.len()) }
        }
        ("update", name) => {
            let id = *ids(document(first(body.get("updates")).get("q"))).start();
            n(table(text(Some(name))).contains_key(&id) as usize)
        }
        ("delete", name) => {
            let id = *ids(document(first(body.get("deletes")).get("q"))).start();
            n(tables.entry(text(Some(name)).to_owned()).or_default().remove(&id).is_some() as usize)
        }
        ("drop", name) => n(tables.remove(text(Some(name))).map_or(0, |table| table.len())),
        ("serverStatus", _) => DocBuf::new()
            .with("pid", std::process::id() as i32)
            .with("arborLog", &DocBuf::new().with("bytes", 4_000_000i64)),
        ("dbStats", _) => {
            let count: usize = tables.values().map(BTreeMap::len).sum();
            DocBuf::new()
                .with("objects", count as i64)
                .with("dataSize", count as f64 * 221.0)
                .with("storageSize", 512_000)
                .with("indexSize", 64_000)
        }
        ("hello" | "buildInfo" | "create" | "createIndexes", _) => DocBuf::new().with("version", "7.0.0"),
        (other, _) => return DocBuf::new().with("ok", 0.0).with("errmsg", other).with("code", 59),
    };
    reply.with("ok", 1.0)
}

#[derive(Default)]
struct Seen {
    intervals: usize,
    phases: Vec<String>,
}

impl Watch for Seen {
    fn interval(&mut self, _system: &str, interval: &Interval) {
        self.intervals += 1;
        assert!(interval.usage.seconds > 0.0);
    }

    fn phase(&mut self, _system: &str, what: &str) {
        self.phases.push(what.to_owned());
    }
}

fn plan(experiment: &str, address: &str) -> Plan {
    let setup = Setup { binary: "/nonexistent".into(), root: std::env::temp_dir(), arguments: Vec::new(), keep: false };
    let mut plan = Plan::of(find(experiment).unwrap(), Scale::Small, setup);
    plan.targets = vec![MongoDb::parse(&format!("stand-in=mongodb://{address}")).unwrap()];
    plan.shape = Shape { tables: 2, rows: 2000 };
    plan.batch = 100;
    if !plan.clients.is_empty() {
        plan.clients = vec![1, 3];
    }
    plan.pace.warm = Duration::from_millis(20);
    plan.pace.measured = Duration::from_millis(300);
    plan.pace.interval = Duration::from_millis(100);
    plan.echo = false;
    plan
}

fn carried_out(plan: &Plan) -> (Outcome, Seen) {
    let mut seen = Seen::default();
    let outcome = carry_out(plan, &Interrupt::default(), &mut seen);
    assert_eq!(outcome.systems[0].failure, None);
    (outcome, seen)
}

#[test]
fn point_queries() {
    let (address, tables_of_server) = start();
    let (outcome, seen) = carried_out(&plan("pointquery", &address));
    let system = &outcome.systems[0];
    assert_eq!(tables_of_server.lock().unwrap().values().map(BTreeMap::len).collect::<Vec<_>>(), [2000, 2000]);
    assert_eq!(system.load.as_ref().unwrap().documents, 4000);
    assert_eq!(system.steps.iter().map(|step| step.clients).collect::<Vec<_>>(), [1, 3]);
    for step in &system.steps {
        assert!(step.rate() > 100.0 && step.recorder.error_count() == 0 && step.recorder.misses() == 0);
        assert!(step.cpu_per_unit() > 0.0 && step.context_switches_per_unit() > 0.0);
    }
    assert!(seen.intervals >= 6, "{}", seen.intervals);
    let text = tables(&outcome);
    for title in ["point queries per second", "(CPU_utilization / QPS) * 1,000,000", "context switch per query"] {
        assert!(text.contains(&format!("\n{title}\n")) || text.starts_with(title), "{title}:\n{text}");
    }
    assert!(text.contains("1      3  clients\n"), "{text}");
    let record = manifest(&outcome);
    assert_eq!(record["systems"][0]["steps"][1]["clients"], 3);
    assert!(record["systems"][0]["steps"][1]["latency_us"]["point_query"]["service"]["p99.9"].as_f64().unwrap() > 0.0);

    // The second time the tables are there.
    let (outcome, seen) = carried_out(&plan("pointquery", &address));
    assert!(outcome.systems[0].load.is_none() && seen.phases.iter().any(|phase| phase.contains("not loaded again")));
    // Tables with other contents are nobody's to drop.
    let mut other = plan("pointquery", &address);
    other.shape.rows = 50_000;
    let outcome = carry_out(&other, &Interrupt::default(), &mut Seen::default());
    assert!(outcome.systems[0].failure.as_ref().unwrap().contains("--drop"), "{:?}", outcome.systems[0].failure);
}

#[test]
fn sysbench_transactions() {
    let (address, _) = start();
    let (outcome, _) = carried_out(&plan("sysbench", &address));
    for step in &outcome.systems[0].steps {
        let count = |kind| step.recorder.count(kind);
        assert!(count(Kind::TRANSACTION) > 0);
        // Ten point queries and one of each other statement to a transaction; those under way at the ends may differ,
        // and a table's row may be missing or there twice because remove and insert are two statements.
        let slack = 2 * step.clients as u64 + step.recorder.error_count();
        assert!(count(Kind::POINT_QUERY).abs_diff(10 * count(Kind::TRANSACTION)) <= 10 * slack);
        assert!(count(Kind::INSERT).abs_diff(count(Kind::TRANSACTION)) <= slack);
    }
    let text = tables(&outcome);
    assert!(
        text.contains("transactions per second")
            && text.contains("stand-in: p99, microseconds")
            && text.contains("  sum_query\n"),
        "{text}"
    );
}

#[test]
fn a_rate_is_held_and_response_times_are_recorded() {
    let (address, _) = start();
    let mut plan = plan("pointquery", &address);
    plan.pace.rate = Some((200.0, Arrival::Constant));
    plan.pace.measured = Duration::from_millis(1000);
    plan.clients = vec![2];
    let (outcome, _) = carried_out(&plan);
    let step = &outcome.systems[0].steps[0];
    assert!((150.0..250.0).contains(&step.rate()), "{}", step.rate());
    let latencies = step.recorder.latencies(Kind::POINT_QUERY).unwrap();
    let response = latencies.response.as_ref().unwrap();
    assert_eq!(response.len(), latencies.service.len());
    assert!(response.mean() >= latencies.service.mean());
}

#[test]
fn the_load_prints_bytes_per_document() {
    let (address, _) = start();
    let (outcome, _) = carried_out(&plan("load", &address));
    let load = outcome.systems[0].load.as_ref().unwrap();
    assert_eq!((load.documents, load.recorder.count(Kind::INSERT_BATCH)), (4000, 40));
    assert!(outcome.systems[0].steps.is_empty());
    let text = tables(&outcome);
    assert!(text.contains("docs/s") && text.contains("stand-in"), "{text}");
}

#[test]
fn an_interrupt_keeps_what_was_measured() {
    let (address, _) = start();
    let mut plan = plan("pointquery", &address);
    plan.pace.measured = Duration::from_secs(60);
    let interrupt = Interrupt::default();
    struct After(Interrupt);
    impl Watch for After {
        fn interval(&mut self, _system: &str, interval: &Interval) {
            if interval.phase == "run" && interval.elapsed > Duration::from_millis(150) {
                self.0.set();
            }
        }
        fn phase(&mut self, _system: &str, _what: &str) {}
    }
    let outcome = carry_out(&plan, &interrupt, &mut After(interrupt.clone()));
    let steps = &outcome.systems[0].steps;
    assert!(outcome.interrupted && steps.len() == 1 && steps[0].interrupted && steps[0].rate() > 10.0);
    assert!(tables(&outcome).contains("INTERRUPTED"));
}

#[test]
fn a_server_that_does_not_start_is_reported_and_the_next_goes_on() {
    let (address, _) = start();
    let mut plan = plan("load", &address);
    plan.engines = vec!["nothing".to_owned()];
    let outcome = carry_out(&plan, &Interrupt::default(), &mut Seen::default());
    assert!(outcome.systems[0].failure.is_some());
    assert!(outcome.systems[1].failure.is_none() && outcome.systems[1].load.is_some());
}
