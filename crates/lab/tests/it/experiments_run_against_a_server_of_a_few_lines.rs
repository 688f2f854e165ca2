//! Small experiments against a mock server that keeps documents in a map: requests are understood, replies are
//! counted, the files of the run contain both; failures are reported and keep what was measured.

use crate::mock_server;
use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::net::TcpListener;
use std::path::Path;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, mpsc};
use std::time::Duration;

use arbor_bson::{ArrayBuf, Doc, DocBuf, ValueRef};
use arbor_lab::experiment::{Parameters, PhasePlan, Plan, RunLog, Scale, carry_out, find, judged, read};
use arbor_lab::results::{Clock, Ending, Event, Phase, Run, StepRecord};
use arbor_lab::run::{Interrupt, Interval, Ramp, Watch};
use arbor_lab::target::Driver;
use arbor_lab::target::managed::Setup;
use arbor_wire::Command;
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair};
use rustls::pki_types::PrivateKeyDer;
use rustls::{ServerConfig, ServerConnection, StreamOwned};

/// Capacity of a table in documents.
const FULL: usize = 20_000;

type Tables = Arc<Mutex<BTreeMap<String, BTreeMap<i64, DocBuf>>>>;

fn start() -> (String, Tables) {
    let tables = Tables::default();
    let shared = tables.clone();
    (mock_server::start(move |command| answer(command, &shared)), tables)
}

/// With TLS and a certificate by an authority whose own is left at `authority`.
fn start_with_tls(authority: &Path) -> String {
    let mut params = CertificateParams::default();
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let issuer = CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap();
    std::fs::write(authority, issuer.pem()).unwrap();
    let key = KeyPair::generate().unwrap();
    let params = CertificateParams::new(vec!["127.0.0.1".to_owned()]).unwrap();
    let certificate = params.signed_by(&key, &issuer).unwrap().der().clone();
    let config = ServerConfig::builder_with_provider(Arc::new(rustls::crypto::ring::default_provider()));
    let config = config.with_safe_default_protocol_versions().unwrap().with_no_client_auth();
    let config = config.with_single_cert(vec![certificate], PrivateKeyDer::try_from(key.serialize_der()).unwrap());
    let config = Arc::new(config.unwrap());
    let tables = Tables::default();
    let channel = move |socket| StreamOwned::new(ServerConnection::new(config.clone()).unwrap(), socket);
    mock_server::start_over(channel, move |command| answer(command, &tables))
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
            if table.len() >= FULL {
                return DocBuf::new().with("ok", 0.0).with("errmsg", "no space left on device").with("code", 14031);
            }
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
        // What full drivers ask for.
        ("hello" | "isMaster" | "ismaster", _) => DocBuf::new()
            .with("isWritablePrimary", true)
            .with("ismaster", true)
            .with("helloOk", true)
            .with("maxBsonObjectSize", 16_777_216)
            .with("maxMessageSizeBytes", 48_000_000)
            .with("maxWriteBatchSize", 100_000)
            .with("minWireVersion", 0)
            .with("maxWireVersion", 21),
        ("buildInfo" | "create" | "createIndexes" | "ping" | "endSessions", _) => {
            DocBuf::new().with("version", "7.0.0")
        }
        (other, _) => return DocBuf::new().with("ok", 0.0).with("errmsg", other).with("code", 59),
    };
    reply.with("ok", 1.0)
}

/// Ends the run after some intervals of a step.
struct After(Interrupt, Duration);

impl Watch for After {
    fn interval(&mut self, interval: &Interval) {
        if interval.phase == Phase::Run && interval.elapsed > self.1 {
            self.0.set();
        }
    }

    fn event(&mut self, _event: &Event) {}
}

/// Says when a step has measured something.
struct Measured(mpsc::Sender<()>);

impl Watch for Measured {
    fn interval(&mut self, interval: &Interval) {
        if interval.phase == Phase::Run && interval.recorder.count(interval.unit) > 0 {
            // only the first one is waited for
            let _ = self.0.send(());
        }
    }

    fn event(&mut self, _event: &Event) {}
}

fn plan(experiment: &str, address: &str) -> Plan {
    let setup = Setup {
        binary: "/nonexistent".into(),
        root: std::env::temp_dir(),
        arguments: Vec::new(),
        keep: false,
        disk: Default::default(),
        mysql: Vec::new(),
    };
    let mut plan = Plan::of(find(experiment).unwrap(), Scale::Small, setup);
    let parameters = &mut plan.parameters;
    parameters.targets = vec![format!("mock=mongodb://{address}")];
    for (name, value) in [("tables", 2), ("docs", 2000), ("batch", 100)] {
        parameters.settings.insert(name.to_owned(), value.into());
    }
    if !parameters.clients.is_empty() {
        parameters.clients = vec![1, 3];
    }
    (parameters.warm_s, parameters.seconds, parameters.interval_s) = (0.02, 0.3, 0.1);
    parameters.echo = false;
    plan
}

fn carried_out(plan: &Plan) -> Run {
    carried_out_until(plan, &Interrupt::default(), Vec::new())
}

fn carried_out_until(plan: &Plan, interrupt: &Interrupt, watchers: Vec<Box<dyn Watch>>) -> Run {
    let directory = tempfile::tempdir().unwrap();
    let mut log = RunLog::open(&directory.path().join("run"), plan, watchers).unwrap();
    carry_out(plan, &mut log, interrupt);
    log.close(interrupt.is_set());
    Run::read(log.directory()).unwrap()
}

fn failure(run: &Run, system: usize) -> &str {
    run.record.systems[system].failure.as_deref().unwrap_or("none")
}

fn steps(run: &Run, phase: Phase) -> Vec<&StepRecord> {
    run.record.systems[0].steps.iter().filter(|step| step.phase == phase).collect()
}

fn has_event(run: &Run, part: &str) -> bool {
    run.events.iter().any(|event| event.text.contains(part))
}

#[test]
fn point_queries() {
    let (address, tables_of_server) = start();
    let run = carried_out(&plan("001-point-queries", &address));
    assert_eq!((failure(&run, 0), run.record.ending), ("none", Ending::Complete));
    assert_eq!(tables_of_server.lock().unwrap().values().map(BTreeMap::len).collect::<Vec<_>>(), [2000, 2000]);
    assert_eq!(steps(&run, Phase::Load)[0].metric("units"), Some(4000.0));
    let measured = steps(&run, Phase::Run);
    assert_eq!(measured.iter().map(|step| step.name.as_str()).collect::<Vec<_>>(), ["c1", "c3"]);
    for step in &measured {
        let metric = |name: &str| step.metric(name).unwrap_or_else(|| panic!("{name}: {step:?}"));
        assert!(metric("per_second") > 0.0 && metric("cpu_per_unit") > 0.0, "{step:?}");
        assert!(metric("context_switches_per_unit") > 0.0, "{step:?}");
        assert_eq!((metric("errors"), metric("misses")), (0.0, 0.0));
        // Three intervals (two where the machine is busy), each with its own histogram; all together are the step.
        assert!(run.points("mock", &step.name, "ops.point_query").count() >= 2);
        let histogram = run.histogram("mock", &step.name, "point_query", Clock::Service).unwrap();
        let row = step.latency("point_query", Clock::Service).unwrap();
        assert_eq!((histogram.len(), metric("units")), (row.count, row.count as f64));
        assert!((histogram.value_at_quantile(0.99) as f64 / 1000.0 - row.p99).abs() < 1.0 + row.p99 * 0.01);
    }

    // The second time the tables are there.
    let run = carried_out(&plan("001-point-queries", &address));
    assert!(steps(&run, Phase::Load).is_empty() && has_event(&run, "not loaded again"));
    // Tables with other contents are not dropped.
    let mut other = plan("001-point-queries", &address);
    other.parameters.settings.insert("docs".to_owned(), 50_000.into());
    let run = carried_out(&other);
    assert!(failure(&run, 0).contains("--drop"), "{}", failure(&run, 0));
    assert_eq!(run.record.ending, Ending::Partial);
}

#[test]
fn documents_and_statements_of_a_file_of_ones_own() {
    let (address, tables) = start();
    let root = PathBuf::from(std::env::var_os("CARGO_MANIFEST_DIR").unwrap());
    let file = root.join("../../docs/own-statements.yaml");
    let mut plan = plan(file.to_str().unwrap(), &address);
    plan.parameters.settings = [("orders".to_owned(), 2500.into())].into_iter().collect();
    plan.parameters.clients = vec![2];
    plan.check().unwrap();
    let run = carried_out(&plan);
    assert_eq!((failure(&run, 0), steps(&run, Phase::Load)[0].metric("units")), ("none", Some(2500.0)));
    let step = steps(&run, Phase::Run)[0];
    assert_eq!(step.metric("errors"), Some(0.0), "{step:?}");
    let count = |kind: &str| step.latency(kind, Clock::Service).map_or(0, |row| row.count) as f64;
    let (all, look_up) = (count("operation"), count("look_up"));
    // a starved machine executes too few to see a share
    assert!(all > 0.0 && (all < 100.0 || (look_up / all - 0.6).abs() < 0.25), "{look_up} of {all}");
    assert_eq!(all, count("look_up") + count("newest") + count("pay") + count("order"));
    let tables = tables.lock().unwrap();
    let orders = &tables["orders"];
    // those of the warm-up are not counted
    assert!(orders.len() as f64 >= 2500.0 + count("order"), "{}", orders.len());
    let shown = orders[&7].as_doc().to_string();
    assert!(shown.starts_with("{ _id: 7, customer: ") && shown.contains("note: \"order 7: "), "{shown}");
    // A server that is loaded by another run has the same documents.
    let (address, others) = start();
    let mut plan = plan.clone();
    plan.parameters.targets = vec![format!("mock=mongodb://{address}")];
    plan.parameters.clients.clear();
    carried_out(&plan);
    let without_time = |text: &str| text.split(", at:").next().unwrap().to_owned();
    assert_eq!(without_time(&others.lock().unwrap()["orders"][&7].as_doc().to_string()), without_time(&shown));
}

#[test]
fn thresholds_are_judged_on_each_system() {
    let (address, _) = start();
    let mut plan = plan("001-point-queries", &address);
    plan.parameters.clients = vec![1];
    plan.parameters.thresholds = ["rate>1", "errors<=0", "p99<0.0000001"].map(str::to_owned).into();
    let run = carried_out(&plan);
    let kept: Vec<(String, bool)> =
        judged(&run.record).into_iter().map(|judged| (judged.threshold, judged.is_kept)).collect();
    let expect = [("rate>1", true), ("errors<=0", true), ("p99<0.0000001", false)];
    assert_eq!(kept, expect.map(|(text, is_kept)| (text.to_owned(), is_kept)));
    let text = arbor_lab::report::text(&run);
    assert!(text.contains("NOT kept") && text.contains("thresholds\n==="), "{text}");
}

#[test]
fn a_ramp_changes_the_rate_within_a_step() {
    let (address, _) = start();
    let mut plan = plan("001-point-queries", &address);
    (plan.parameters.clients, plan.parameters.seconds) = (vec![2], 1.0);
    plan.parameters.ramp = Some(Ramp::parse(&["50@0", "250@1"].map(str::to_owned)).unwrap());
    plan.check().unwrap();
    let run = carried_out(&plan);
    // 150 are due in the measured second; what waits on a busy machine is in the backlog
    let step = steps(&run, Phase::Run)[0];
    let due = step.metric("units").unwrap() + step.metric("backlog").unwrap();
    assert!((140.0..165.0).contains(&due), "{step:?}");
    assert!(step.latency("point_query", Clock::Response).is_some());
    assert_eq!(run.record.schedule, "open, constant, 50@0,250@1 (rate/s at seconds)");
}

#[test]
fn a_search_ends_at_a_rate_that_keeps_the_bound_or_at_none() {
    let (address, _) = start();
    let mut plan = plan("001-point-queries", &address);
    (plan.parameters.clients, plan.parameters.seconds) = (vec![2], 0.1);
    let kept = |bound_ms: f64| {
        let mut plan = plan.clone();
        plan.parameters.search_p99_ms = Some(bound_ms);
        plan.check().unwrap();
        let run = carried_out(&plan);
        assert_eq!(failure(&run, 0), "none");
        let tries = steps(&run, Phase::Run);
        assert!(tries.len() >= 3 && tries[0].name == "c2-try0" && tries[1].name == "c2-try1", "{tries:?}");
        assert!(tries[1].metric("tried_rate") < tries[0].metric("per_second"));
        (tries.last().unwrap().metric("kept_rate").unwrap(), arbor_lab::report::text(&run))
    };
    let (none, text) = kept(1e-9);
    assert!(none == 0.0 && text.contains("mock, 2 clients  none"), "{none} {text}");
    let (some, text) = kept(60_000.0);
    assert!(some > 0.0 && text.contains("highest rate per second with p99 below 60000 ms"), "{some} {text}");
}

#[test]
fn clients_that_share_threads() {
    let (address, _) = start();
    let mut plan = plan("001-point-queries", &address);
    plan.parameters.connections_per_thread = Some(2);
    let run = carried_out(&plan);
    assert_eq!((failure(&run, 0), run.record.ending), ("none", Ending::Complete));
    for step in steps(&run, Phase::Run) {
        let metric = |name: &str| step.metric(name).unwrap();
        assert_eq!((metric("errors"), metric("misses")), (0.0, 0.0));
        assert_eq!(metric("units"), step.latency("point_query", Clock::Service).unwrap().count as f64);
        assert!(step.per_second().unwrap() > 10.0, "{step:?}");
    }
    assert!(
        run.record
            .client_placement
            .ends_with("2 connections per client thread, which reads the reply that comes first")
    );
}

#[test]
fn clients_on_several_hosts() {
    let (address, _) = start();
    let hosts: Vec<String> = (0..2)
        .map(|_| {
            let listener = TcpListener::bind("127.0.0.1:0").unwrap();
            let address = listener.local_addr().unwrap().to_string();
            std::thread::spawn(move || arbor_lab::generator::serve(&listener));
            address
        })
        .collect();
    let shared = |experiment: &str, hosts: &[String]| {
        let mut plan = plan(experiment, &address);
        plan.parameters.generators = hosts.to_vec();
        plan.parameters.clients = vec![1, 4];
        plan
    };
    for experiment in ["001-point-queries", "sysbench"] {
        let run = carried_out(&shared(experiment, &hosts));
        assert_eq!((failure(&run, 0), run.record.ending), ("none", Ending::Complete), "{experiment}");
        for step in steps(&run, Phase::Run) {
            assert_eq!(step.metric("errors"), Some(0.0), "{step:?}");
            assert!(step.per_second().unwrap() > 10.0, "{step:?}");
        }
        assert!(run.record.client_placement.contains(&hosts[1]));
    }
    // all of them keep one rate
    let mut plan = shared("001-point-queries", &hosts);
    (plan.parameters.rate, plan.parameters.seconds) = (Some(90.0), 2.0);
    let run = carried_out(&plan);
    let rate = steps(&run, Phase::Run)[1].per_second().unwrap();
    assert!((60.0..=100.0).contains(&rate), "{rate}");
    // a host that is not there, and one that is no generator
    let closed = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().to_string();
    for (host, expect) in [(&closed, "Connection refused"), (&address, "the generator at")] {
        let run = carried_out(&shared("001-point-queries", std::slice::from_ref(host)));
        assert!(failure(&run, 0).contains(expect) && failure(&run, 0).contains(host.as_str()), "{}", failure(&run, 0));
    }
}

#[test]
fn a_server_with_tls() {
    let directory = tempfile::tempdir().unwrap();
    let authority = directory.path().join("authority.pem");
    let address = start_with_tls(&authority);
    let mut plan = plan("001-point-queries", &format!("{address}/?tls=true&tlsCAFile={}", authority.display()));
    plan.parameters.drivers = vec![Driver::Lean];
    if cfg!(feature = "official-driver") {
        plan.parameters.drivers.push(Driver::Official);
    }
    let run = carried_out(&plan);
    for (number, system) in run.record.systems.iter().enumerate() {
        assert_eq!(failure(&run, number), "none", "{}", system.name);
        let measured: Vec<_> = system.steps.iter().filter(|step| step.phase == Phase::Run).collect();
        assert_eq!(measured.len(), 2);
        assert!(measured.iter().all(|step| step.metric("errors") == Some(0.0) && step.per_second().unwrap() > 10.0));
    }
    assert_eq!(run.record.systems.len(), plan.parameters.drivers.len());

    for (options, expect) in [
        ("", "closes connections without a reply; it may require TLS (tls=true)"),
        ("/?tls=true&tlsCAFile=/nowhere", "tlsCAFile /nowhere: No such file"),
        ("/?tls=true&tlsAllowInvalidHostnames=true", "tlsCAFile"),
    ] {
        plan.parameters.targets = vec![format!("mock=mongodb://{address}{options}")];
        let run = carried_out(&plan);
        assert!(failure(&run, 0).contains(expect), "{}", failure(&run, 0));
    }
}

#[test]
fn sysbench_transactions() {
    let (address, _) = start();
    let run = carried_out(&plan("sysbench", &address));
    for step in steps(&run, Phase::Run) {
        let count = |kind| step.latency(kind, Clock::Service).map_or(0, |row| row.count);
        assert!(count("transaction") > 0);
        // Ten point queries and one of each other statement to a transaction; those under way at the ends may differ,
        // and a table's row may be missing or there twice because remove and insert are two statements.
        let slack = 2 * step.clients as u64 + step.metric("errors").unwrap() as u64;
        assert!(count("point_query").abs_diff(10 * count("transaction")) <= 10 * slack);
        assert!(count("insert").abs_diff(count("transaction")) <= slack);
    }
    assert!(run.record.kinds.contains(&"sum_query".to_owned()));
}

#[test]
fn a_rate_is_held_and_response_times_are_recorded() {
    let (address, _) = start();
    let mut plan = plan("001-point-queries", &address);
    (plan.parameters.rate, plan.parameters.seconds, plan.parameters.clients) = (Some(200.0), 1.0, vec![2]);
    let run = carried_out(&plan);
    assert_eq!(run.record.schedule, "open, constant, 200/s");
    let measured = steps(&run, Phase::Run);
    let rate = measured[0].per_second().unwrap();
    assert!((150.0..250.0).contains(&rate), "{rate}");
    let row = |clock| measured[0].latency("point_query", clock).unwrap();
    assert_eq!(row(Clock::Response).count, row(Clock::Service).count);
    assert!(row(Clock::Response).mean >= row(Clock::Service).mean);
    assert!(run.histogram("mock", "c2", "point_query", Clock::Response).is_some());
}

#[test]
fn a_load_alone() {
    let (address, _) = start();
    let run = carried_out(&plan("load", &address));
    assert_eq!(failure(&run, 0), "none");
    let loads = steps(&run, Phase::Load);
    assert_eq!((loads.len(), run.record.systems[0].steps.len()), (1, 1));
    assert_eq!((loads[0].metric("units"), loads[0].latencies[0].count), (Some(4000.0), 40));
    assert!(loads[0].metric("storage_bytes").is_some());
    assert!(run.points("mock", "load", "ops.document").next().is_some());
}

#[test]
fn repeats_rounds_and_phases_are_steps_of_their_own() {
    let (address, _) = start();
    let mut plan = plan("sysbench", &address);
    let parameters = &mut plan.parameters;
    (parameters.repeats, parameters.rounds, parameters.seconds, parameters.clients) = (2, 2, 0.1, vec![1]);
    let phase = |name: &str, reload| PhasePlan { name: name.to_owned(), reload, ..PhasePlan::default() };
    parameters.phases = vec![phase("a", false), phase("b", true)];
    let run = carried_out(&plan);
    let names: Vec<&str> = run.record.systems[0].steps.iter().map(|step| step.name.as_str()).collect();
    assert_eq!((names.len(), names[0], names[5]), (10, "load", "load-b"), "{names:?}");
    assert!(names.contains(&"a-round2-c1-r1") && names.contains(&"b-round1-c1-r2"), "{names:?}");
    let last = &run.record.systems[0].steps[9];
    assert_eq!((last.settings["workload"].clone(), last.settings["round"].clone()), ("b".into(), 2.into()));
}

#[test]
fn an_interrupt_keeps_what_was_measured() {
    let (address, _) = start();
    let mut plan = plan("001-point-queries", &address);
    plan.parameters.seconds = 60.0;
    let interrupt = Interrupt::default();
    let after = After(interrupt.clone(), Duration::from_millis(150));
    let run = carried_out_until(&plan, &interrupt, vec![Box::new(after)]);
    let measured = steps(&run, Phase::Run);
    assert_eq!((run.record.ending, measured.len()), (Ending::Interrupted, 1));
    assert!(measured[0].interrupted && measured[0].per_second().unwrap() > 10.0);
    assert!(measured[0].marks.iter().any(|mark| mark.contains("interrupted")));
}

#[test]
fn a_failed_start_is_reported_and_the_next_server_runs() {
    let (address, _) = start();
    let mut plan = plan("load", &address);
    plan.parameters.engines = vec!["nothing".to_owned()];
    let run = carried_out(&plan);
    assert!(failure(&run, 0).contains("/nonexistent"), "{}", failure(&run, 0));
    assert_eq!((failure(&run, 1), run.record.systems[1].steps.len()), ("none", 1));
}

#[test]
fn a_refused_connection_is_reported() {
    let address = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let run = carried_out(&plan("load", &address.to_string()));
    assert!(failure(&run, 0).starts_with(&format!("mock ({address}): ")), "{}", failure(&run, 0));
    assert!(has_event(&run, "refused"), "{:?}", run.events);
}

/// Starts a server that replies to every connection with some bytes, and closes it.
fn stranger(bytes: &'static [u8]) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    std::thread::spawn(move || {
        for mut stream in listener.incoming().flatten() {
            let mut request = [0; 1 << 12];
            let _ = stream.read(&mut request);
            let _ = stream.write_all(bytes);
        }
    });
    address
}

#[test]
fn a_refusing_server_is_reported_and_the_next_server_runs() {
    let (address, _) = start();
    for (bytes, expect) in [
        (&b""[..], "closes connections without a reply"),
        (b"HTTP/1.1 400 Bad Request\r\n\r\n", "does not speak MongoDB's protocol"),
    ] {
        let mut plan = plan("load", &address);
        plan.parameters.targets.insert(0, format!("stranger=mongodb://{}", stranger(bytes)));
        plan.drop = true;
        let run = carried_out(&plan);
        assert!(failure(&run, 0).contains(expect), "{}", failure(&run, 0));
        assert_eq!((failure(&run, 1), run.record.systems[1].steps.len()), ("none", 1));
    }
}

#[test]
fn too_little_disk_is_said_before_a_server_is_started() {
    let mut plan = plan("load", "127.0.0.1:1");
    plan.parameters.targets.clear();
    plan.parameters.engines = vec!["nothing".to_owned()];
    plan.parameters.settings.extend([("tables".to_owned(), 100_000.into()), ("docs".to_owned(), 10_000_000.into())]);
    let run = carried_out(&plan);
    assert!(failure(&run, 0).contains("MB of disk, and "), "{}", failure(&run, 0));
}

#[test]
fn a_disk_that_fills_during_a_step_ends_it_and_leaves_what_was_measured() {
    let (address, tables) = start();
    let mut plan = plan("sysbench", &address);
    (plan.parameters.seconds, plan.parameters.interval_s) = (60.0, 0.05);
    // The first insert of a transaction finds no room.
    plan.parameters.settings.insert("tables".to_owned(), 1.into());
    let (measured, has_measured) = mpsc::channel();
    let filler = std::thread::spawn(move || {
        has_measured.recv().unwrap();
        let mut tables = tables.lock().unwrap();
        let table = tables.get_mut("sbtest1").unwrap();
        table.extend((1_000_000..1_000_000 + FULL as i64 + 10).map(|id| (id, DocBuf::new().with("_id", id))));
    });
    let run = carried_out_until(&plan, &Interrupt::default(), vec![Box::new(Measured(measured))]);
    filler.join().unwrap();
    assert!(failure(&run, 0).contains("the server's disk is full: no space left"), "{}", failure(&run, 0));
    let measured = steps(&run, Phase::Run);
    assert_eq!((measured.len(), run.record.ending), (1, Ending::Partial));
    let marked = measured[0].marks.iter().any(|mark| mark.contains("disk is full"));
    assert!(measured[0].metric("units").unwrap() > 0.0 && marked, "{:?}", measured[0]);
}

#[test]
fn a_disk_that_fills_during_the_load_leaves_what_was_loaded() {
    let (address, tables) = start();
    let mut plan = plan("load", &address);
    plan.parameters.settings.insert("tables".to_owned(), 1.into());
    plan.parameters.settings.insert("docs".to_owned(), (FULL + 5000).into());
    let run = carried_out(&plan);
    assert!(failure(&run, 0).contains("no space left"), "{}", failure(&run, 0));
    let loads = steps(&run, Phase::Load);
    assert_eq!(loads[0].metric("units"), Some(FULL as f64));
    assert!(loads[0].marks[0].contains("no space left"));
    assert_eq!(tables.lock().unwrap()["sbtest1"].len(), FULL);
}

#[test]
fn what_was_run_can_be_run_again() {
    let (address, _) = start();
    let mut plan = plan("sysbench", &address);
    (plan.parameters.rate, plan.parameters.poisson, plan.parameters.seed) = (Some(150.0), true, 77);
    let record = carried_out(&plan).record;
    let again: Parameters = serde_json::from_value(record.parameters).unwrap();
    assert_eq!(again, plan.parameters);
    let experiment = read("run.yaml", &record.text).unwrap();
    assert_eq!((experiment.name, experiment.workload), (plan.experiment.name, plan.experiment.workload));
}
