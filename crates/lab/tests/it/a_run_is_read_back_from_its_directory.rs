//! A run reads back as it was written, also after a crash in the middle of a line.

use std::collections::BTreeMap;
use std::path::Path;

use arbor_lab::results::{
    Clock, Ending, ErrorCount, Event, EventKind, LatencyRow, Phase, Point, Record, Row, Run, StepRecord, SystemRecord,
    Table, Writer,
};
use hdrhistogram::Histogram;
use serde_json::json;

fn record() -> Record {
    let step = StepRecord {
        name: "c16-r2".to_owned(),
        phase: Phase::Run,
        clients: 16,
        repeat: 2,
        settings: BTreeMap::from([("cache_mb".to_owned(), json!(64))]),
        begin_s: 12.5,
        end_s: 17.5,
        unit: "transaction".to_owned(),
        metrics: BTreeMap::from([("per_second".to_owned(), 1234.5), ("read_kb_per_unit".to_owned(), 0.25)]),
        latencies: vec![LatencyRow {
            kind: "transaction".to_owned(),
            count: 6172,
            p99: 812.0,
            ..LatencyRow::default()
        }],
        errors: vec![ErrorCount { code: "11000".to_owned(), count: 3, first: "E11000: \"a\", b".to_owned() }],
        interrupted: false,
        marks: vec!["the generator used 81 % of its processors".to_owned()],
    };
    let system =
        SystemRecord { name: "ftree".to_owned(), about: json!({"version": "7.0.0"}), steps: vec![step], failure: None };
    Record {
        format: 1,
        experiment: "002-readonly-cache-ladder".to_owned(),
        about: "a: line".to_owned(),
        founding_text: Some("002".to_owned()),
        scale: "small".to_owned(),
        mode: "compat".to_owned(),
        seed: 1,
        unit: "transaction".to_owned(),
        kinds: vec!["transaction".to_owned(), "point_query".to_owned()],
        schedule: "constant 15/s".to_owned(),
        parameters: json!({"clients": [1, 16], "mix": {"points": 10}, "empty": []}),
        arbor_version: "0.1.0".to_owned(),
        command_line: vec!["arbor".to_owned(), "lab".to_owned()],
        client_placement: "same host".to_owned(),
        started: "2026-11-21T21:00:00Z".to_owned(),
        ended: None,
        ending: Ending::Running,
        remarks: Vec::new(),
        systems: vec![system],
        text: "# a file\nname: x\n\nsmall: {}\n".to_owned(),
    }
}

fn point(series: &str, t_s: f64, value: f64) -> Point {
    let (system, step, series) = ("ftree".to_owned(), "c16-r2".to_owned(), series.to_owned());
    Point { system, step, clients: 16, phase: Phase::Run, t_s, series, value }
}

fn write(directory: &Path) -> (Record, Vec<Point>) {
    let record = record();
    let mut writer = Writer::create(directory, &record, &json!({"processors": 2})).unwrap();
    let points = vec![point("ops.transaction", 13.5, 1200.0), point("server.a,b", 13.5, 0.125)];
    writer.points(&points).unwrap();
    for second in 0..2 {
        let mut histogram = Histogram::<u64>::new(3).unwrap();
        (1..=1000).for_each(|n| histogram.record(n * 1000 * (second + 1)).unwrap());
        writer
            .histograms(|log| {
                log.append(["ftree", "c16-r2", "transaction"], Clock::Service, second as f64, 1.0, &histogram)?;
                log.append(["ftree", "c16-r2", "transaction"], Clock::Response, second as f64, 1.0, &histogram)
            })
            .unwrap();
    }
    let event = |t_s, end_s, kind| Event { t_s, end_s, system: "ftree".to_owned(), kind, text: "x".to_owned() };
    writer.event(&event(1.0, None, EventKind::Kill)).unwrap();
    writer.event(&event(2.0, Some(3.5), EventKind::Stall)).unwrap();
    (record, points)
}

#[test]
fn everything_comes_back() {
    let directory = tempfile::tempdir().unwrap();
    let (record, points) = write(directory.path());
    let run = Run::read(directory.path()).unwrap();
    assert_eq!((run.record, &run.series), (record.clone(), &points));
    assert_eq!(run.environment["processors"], 2);
    assert_eq!(
        run.events.iter().map(|event| (event.kind, event.end_s)).collect::<Vec<_>>(),
        [(EventKind::Kill, None), (EventKind::Stall, Some(3.5))]
    );
    assert_eq!(run.histograms.len(), 4);
    // The key of `metrics` in files of earlier versions.
    let text = std::fs::read_to_string(directory.path().join("run.yaml")).unwrap();
    assert!(text.contains("figures:\n") && !text.contains("metrics:"), "{text}");

    let run = Run::read(directory.path()).unwrap();
    let all = run.histogram("ftree", "c16-r2", "transaction", Clock::Service).unwrap();
    assert_eq!(all.len(), 2000);
    assert!((1_995_000..=2_005_000).contains(&all.max()), "{}", all.max());
    assert!(run.histogram("ftree", "c16-r2", "insert", Clock::Service).is_none());
    assert_eq!(run.points("ftree", "c16-r2", "server.a,b").map(|point| point.value).collect::<Vec<_>>(), [0.125]);
}

#[test]
fn the_record_and_tables_are_replaced_at_the_end() {
    let directory = tempfile::tempdir().unwrap();
    let mut record = record();
    let writer = Writer::create(directory.path(), &record, &json!({})).unwrap();
    (record.ending, record.ended) = (Ending::Complete, Some("2026-11-21T22:00:00Z".to_owned()));
    writer.record(&record).unwrap();
    let row = Row { name: "fb56.sql".to_owned(), cells: vec!["11730".to_owned()], published: true };
    let (columns, rows) = (vec!["1".to_owned()], vec![row]);
    let tables =
        vec![Table { title: "QPS".to_owned(), legend: "clients".to_owned(), columns, rows, ..Table::default() }];
    writer.tables(&tables).unwrap();
    let run = Run::read(directory.path()).unwrap();
    assert_eq!((run.record, run.tables), (record, tables));
    // Nothing half-written is left.
    let names =
        std::fs::read_dir(directory.path()).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap());
    assert!(!names.into_iter().any(|name| name.ends_with(".new")));
}

#[test]
fn results_are_never_mixed() {
    let directory = tempfile::tempdir().unwrap();
    write(directory.path());
    let error = Writer::create(directory.path(), &record(), &json!({})).unwrap_err();
    assert!(error.to_string().contains("another run"), "{error}");
}

#[test]
fn a_run_that_died_in_a_line_is_read_up_to_there() {
    let directory = tempfile::tempdir().unwrap();
    let (_, points) = write(directory.path());
    for (name, torn) in [("series.csv", "ftree,c1"), ("events.ndjson", "{\"t_s\": 4"), ("hist.hlog", "Tag=a/b/c,1.0,1")]
    {
        let path = directory.path().join(name);
        let text = std::fs::read_to_string(&path).unwrap() + torn;
        std::fs::write(&path, text).unwrap();
    }
    let run = Run::read(directory.path()).unwrap();
    assert_eq!((run.series, run.events.len(), run.histograms.len()), (points, 2, 4));
}

#[test]
fn what_is_unreadable_is_named_with_its_line() {
    for (name, text, what) in [
        ("series.csv", "a,b\n", "line 1"),
        ("series.csv", "system,step,clients,phase,t_s,series,value\na,b,1,run,x,y,1\n", "line 2"),
        ("events.ndjson", "{}\n", "line 1"),
        ("hist.hlog", "#[x]\nTag=a/b/c,1.0,1.0,1.0,????\n", "line 2"),
        ("run.yaml", "format: 99\n", "newer"),
        ("run.yaml", "experiment: x\n", "format"),
        ("run.yaml", "a: [\n", "run.yaml"),
        ("tables.json", "{", "tables.json"),
        ("env.json", "{", "env.json"),
    ] {
        let directory = tempfile::tempdir().unwrap();
        write(directory.path());
        std::fs::write(directory.path().join(name), text).unwrap();
        let error = Run::read(directory.path()).unwrap_err().to_string();
        assert!(error.contains(what) && error.contains(name), "{name}: {error}");
    }
    let error = Run::read(Path::new("/nonexistent")).unwrap_err().to_string();
    assert!(error.contains("no run.yaml"), "{error}");
}
