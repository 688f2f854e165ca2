//! The text report and the page of a run, from its directory alone.

use std::collections::BTreeMap;
use std::path::Path;

use arbor_lab::report::{draw, draw_index, page, text};
use arbor_lab::results::{
    Clock, Ending, Event, EventKind, LatencyRow, Phase, Point, Record, Run, StepRecord, SystemRecord, Writer,
};
use serde_json::{Value, json};

fn record(experiment: &str, systems: Vec<SystemRecord>) -> Record {
    Record {
        format: 1,
        experiment: experiment.to_owned(),
        about: "what it is about".to_owned(),
        founding_text: None,
        scale: "small".to_owned(),
        mode: "compat".to_owned(),
        seed: 7,
        unit: "point_query".to_owned(),
        kinds: vec!["point_query".to_owned()],
        schedule: "closed loop".to_owned(),
        parameters: json!({"docs": 5}),
        arbor_version: "0.1.0".to_owned(),
        command_line: Vec::new(),
        client_placement: String::new(),
        started: "2026-11-21T21:00:00Z".to_owned(),
        ended: None,
        ending: Ending::Running,
        remarks: Vec::new(),
        systems,
        text: "name: x\n".to_owned(),
    }
}

fn step(name: &str, clients: usize, rate: f64, settings: &[(&str, Value)]) -> StepRecord {
    StepRecord {
        name: name.to_owned(),
        phase: Phase::Run,
        clients,
        repeat: 1,
        settings: settings.iter().map(|(name, value)| ((*name).to_owned(), value.clone())).collect(),
        begin_s: 0.0,
        end_s: 10.0,
        unit: "point_query".to_owned(),
        metrics: BTreeMap::from([("per_second".to_owned(), rate), ("cpu_per_unit".to_owned(), 215.0)]),
        ..StepRecord::default()
    }
}

fn system(name: &str, steps: Vec<StepRecord>) -> SystemRecord {
    SystemRecord { name: name.to_owned(), steps, ..SystemRecord::default() }
}

fn written(record: &Record, fill: impl FnOnce(&mut Writer)) -> Run {
    let directory = tempfile::tempdir().unwrap();
    let mut writer = Writer::create(directory.path(), record, &json!({"processors": 2})).unwrap();
    fill(&mut writer);
    drop(writer);
    Run::read(directory.path()).unwrap()
}

fn has_chart(page: &str, id: &str) -> bool {
    page.contains(&format!("data-figure=\"{id}\""))
}

/// Returns the offset of a text, for checks of order.
fn place(text: &str, part: &str) -> usize {
    text.find(part).unwrap_or_else(|| panic!("{part:?} is not in:\n{text}"))
}

#[test]
fn a_ladder_has_the_founding_texts_table_and_its_published_rows() {
    let clients = [1, 2, 4, 8, 16, 32, 40];
    let steps = clients.map(|clients| step(&format!("c{clients}"), clients, 1000.4 * clients as f64, &[]));
    let run = written(&record("001-point-queries", vec![system("ftree", steps.to_vec())]), |_| {});
    let text = text(&run);
    let table = "point queries per second\n    1      2      4       8      16      32      40  clients\n 1000   2001   4002    \
                 8003   16006   32013   40016  ftree\n17864  32397  60294  106374  184566  298276  350665  fb56.handler (published)\n";
    place(&text, table);
    assert!(place(&text, "(CPU_utilization / QPS) * 1,000,000") > place(&text, table));
    // What was published about other columns comes last, with its conclusions.
    assert!(place(&text, "HANDLER is faster than SELECT.") > place(&text, "published: Concurrent, read-only & cached"));
}

#[test]
fn other_columns_than_published_stay_apart() {
    let steps = vec![step("c1", 1, 10.0, &[]), step("c2", 2, 20.0, &[])];
    let run = written(&record("001-point-queries", vec![system("ftree", steps)]), |_| {});
    let text = text(&run);
    assert!(place(&text, "published: point queries per second") > place(&text, "1      2  clients"));
    assert!(page(&run).contains("id=\"figure-published-rate\" class=\"published\""));
}

#[test]
fn a_matrix_is_one_table_and_a_chart_for_each_dimension() {
    let cache = |mb: u64, clients: usize, rate: f64| {
        step(&format!("cache{mb}-c{clients}"), clients, rate, &[("cache_mb", json!(mb))])
    };
    let steps = |by: f64| {
        vec![cache(64, 1, 11.0 * by), cache(64, 16, 64.0 * by), cache(1024, 1, 12.0 * by), cache(1024, 16, 99.0 * by)]
    };
    let systems = vec![system("ftree", steps(1.0)), system("lmdb", steps(2.0))];
    let run = written(&record("x", systems), |_| {});
    let table = "point queries per second\n   1     16  clients\n11.0   64.0  ftree, cache 64 MB\n22.0    128  lmdb, cache 64 MB\n\
                 12.0   99.0  ftree, cache 1024 MB\n24.0    198  lmdb, cache 1024 MB\n";
    place(&text(&run), table);
    let page = page(&run);
    assert!(page.contains("figure-ladder-clients") && page.contains("figure-ladder-cache_mb"));
    assert!(page.contains("<option value=\"1\" selected>cache 1024 MB</option>"));
}

#[test]
fn phases_of_the_engines_alone_are_compared_with_a_peer() {
    let phase = |name: &str, rate: f64, seconds: f64, by_time: f64| {
        let mut step = step(name, 1, rate, &[("phase", json!(name))]);
        step.metrics.extend([("seconds".to_owned(), seconds), ("by_time".to_owned(), by_time)]);
        step.metrics.insert("cpu_per_unit".to_owned(), rate - 2.0);
        let unit = step.unit.clone();
        step.latencies.push(LatencyRow { kind: unit, p99: rate / 10.0, ..LatencyRow::default() });
        step
    };
    let systems = vec![
        system("ftree", vec![phase("get-x1", 300.0, 1.0, 0.0), phase("reopen", 2.0, 0.5, 1.0)]),
        system("lmdb", vec![phase("get-x1", 200.0, 1.0, 0.0), phase("reopen", 0.5, 2.0, 1.0)]),
    ];
    let mut record = record("kv", systems);
    let run = written(&record, |_| {});
    let text_of = |run: &Run| text(run);
    let first = text_of(&run);
    place(&first, "operations per second, or seconds (s); ratios above 1 are better than lmdb");
    place(&first, "    300      200        1.50  get-x1\n0.500 s  2.000 s        4.00  reopen\n");
    place(&first, "p99 of a call in microseconds: a batch, a get, a scan\nftree   lmdb  phase\n   30     20  get-x1\n");
    assert!(!first.contains("average response time") && !first.contains("latency in microseconds"), "{first}");
    let names = |n: u64| format!("a-phase-with-a-long-name-{n}-of-which-there-are-many");
    let wide = |n| StepRecord { metrics: BTreeMap::new(), ..phase(&names(n), 1.0, 1.0, 0.0) };
    let wide = text_of(&written(&self::record("kv", vec![system("ftree", (0..4).map(wide).collect())]), |_| {}));
    assert!(!wide.contains("CPU_utilization"), "a metric that no step has is no table: {wide}");
    let page = page(&run);
    assert!(has_chart(&page, "ratios") && has_chart(&page, "times"));
    assert!(page.contains("times as good as lmdb") && page.contains("\"start\":1"));
    // of costs, too; what is 0 has no bar
    assert!(page.contains("\"log\":true,\"name\":\"(CPU_utilization / QPS) * 1,000,000\",\"start\":100"), "{page}");
    record.parameters = json!({ "peer": "ftree" });
    let other = text_of(&written(&record, |_| {}));
    place(&other, "    300      200        0.67  get-x1\n0.500 s  2.000 s        0.25  reopen\n");
}

#[test]
fn a_comparison_has_a_page() {
    let run = |by: f64| {
        let steps = (1..=5).map(|number| StepRecord { clients: 4, ..repeat(number, 4, by + f64::from(number)) });
        written(&record("<x>", vec![system("ftree", steps.collect())]), |_| {})
    };
    let page = without_library(&arbor_lab::compare::page(&[run(100.0), run(200.0)]));
    assert!(has_chart(&page, "differences-0") && page.contains("[0,97.087,") && !page.contains("<x>"));
    let row = "<td>c4</td><td>point_query/s</td><td>103.0</td><td>203.0</td><td>+97.1</td>";
    assert!(page.contains(row) && page.contains("<td>better</td>") && page.contains("<td>worse</td>"), "{page}");
    let nothing = written(&record("x", Vec::new()), |_| {});
    assert!(arbor_lab::compare::page(&[run(1.0), nothing]).contains("They have no step in common."));
}

#[test]
fn the_site_has_all_runs_with_medians_sizes_and_prices() {
    let directory = tempfile::tempdir().unwrap();
    let run = |name: &str, by: f64, started: &str| {
        let steps = [(3, 8, 90.0), (2, 8, 52.0), (1, 8, 50.0)];
        let mut steps = steps.map(|(number, clients, rate)| repeat(number, clients, rate * by)).to_vec();
        steps[0].metrics.insert("du_bytes".to_owned(), 7000.0);
        let mut record = record("<x>", vec![system("ftree", steps)]);
        record.systems[0].about = json!({ "compression": "zstd:1" });
        record.started = started.to_owned();
        let path = directory.path().join(name);
        Writer::create(&path, &record, &json!({ "processors": 2, "host": "h" })).unwrap();
        path
    };
    let runs = [run("later", 2.0, "2026-11-22T00:00:00Z"), run("first", 1.0, "2026-11-21T00:00:00Z")];
    let prices = directory.path().join("prices.yaml");
    std::fs::write(&prices, "instances: {two: {per_hour: 1, processors: 2}, four: {per_hour: 2, processors: 4}}")
        .unwrap();
    let prices = arbor_lab::site::Prices::read(&prices).unwrap();
    let html = arbor_lab::site::page(&directory.path().join("site.html"), "All", &runs, Some(&prices)).unwrap();
    let html = without_library(&html);
    let (_, data) = html.split_once("id=\"data\">").unwrap();
    let data: Value = serde_json::from_str(data.split_once("</script>").unwrap().0).unwrap();
    let links: Vec<&str> = data["runs"].as_array().unwrap().iter().map(|run| run["link"].as_str().unwrap()).collect();
    assert_eq!(links, ["first/report.html", "later/report.html"]);
    let entries = data["entries"].as_array().unwrap();
    let shown = |n: usize, name: &str| entries[n][name].clone();
    assert_eq!((shown(0, "rate"), shown(0, "step"), shown(0, "p99")), (json!(52.0), json!("c8"), json!(5200.0)));
    assert_eq!((shown(1, "bytes"), shown(1, "note")), (json!(7000.0), json!("zstd:1")));
    assert_eq!((shown(2, "run"), shown(2, "rate")), (json!(1), json!(104.0)));
    assert_eq!(data["runs"][0]["instances"], json!([{ "name": "two", "per_hour": 1.0 }]));
    assert!(
        !html.contains("<x>") && html.contains("href=\"first/report.html\"") && html.contains("default-src 'none'")
    );
}

#[test]
fn a_million_operations_have_a_price() {
    let mut record = record("x", vec![system("ftree", vec![step("c1", 1, 1000.0, &[])])]);
    let one = |name: &str, per_hour: f64| json!({ "name": name, "per_hour": per_hour });
    record.parameters =
        json!({ "prices": { "currency": "EUR", "instances": [one("small", 0.36), one("large", 3.6)] } });
    let text = text(&written(&record, |_| {}));
    // 0.0001 a second, for a thousand operations
    place(
        &text,
        "price of a million point queries, EUR, 1 client\n                small           large\nftree           0.1000          1.0000\n",
    );
}

#[test]
fn an_echo_that_is_no_bound_is_remarked() {
    let steps = |rate: f64| vec![step("c1", 1, rate, &[]), step("c2", 2, 100.0, &[])];
    let systems = vec![system("ftree", steps(60.0)), system("tcp-echo", steps(50.0))];
    let text = text(&written(&record("x", systems), |_| {}));
    place(&text, "ftree, 1 client: as fast as tcp-echo or faster, which is no bound there\n");
}

#[test]
fn inserts_are_drawn_over_the_rows_with_the_published_exit() {
    let mut inserts = step("c1", 1, 100.0, &[]);
    inserts.unit = "insert".to_owned();
    let mut record = record("iibench", vec![system("ftree", vec![inserts])]);
    record.unit = "insert".to_owned();
    let run = written(&record, |writer| {
        for t in 1..=20 {
            let point = Point {
                system: "ftree".to_owned(),
                step: "c1".to_owned(),
                clients: 1,
                phase: Phase::Run,
                t_s: f64::from(t),
                series: "ops.insert".to_owned(),
                value: 2000.0 - f64::from(t) * 50.0,
            };
            writer.points(&[point]).unwrap();
        }
    });
    let text = text(&run);
    place(&text, "ftree                      1925            1025\n");
    place(&text, "tokumx (published)         -               10609.63\n");
    let page = page(&run);
    // the last point: 20 s of 2000 - 50 t
    assert!(has_chart(&page, "rows") && page.contains("[29500,1000]"));
    assert!(page.contains("tokumx, exit rate published") && page.contains("[[0,10610],[29500,10610]]"));
}

/// A step with a mean latency and a p99 that follow from its rate.
fn repeat(repeat: u32, clients: usize, rate: f64) -> StepRecord {
    let latency = LatencyRow {
        kind: "point_query".to_owned(),
        count: 10,
        mean: rate * 10.0,
        p99: rate * 100.0,
        ..LatencyRow::default()
    };
    let mut step = step(&format!("c{clients}-r{repeat}"), clients, rate, &[]);
    step.metrics.insert("read_kb_per_unit".to_owned(), rate / 1000.0);
    StepRecord { repeat, latencies: vec![latency], ..step }
}

#[test]
fn repeats_are_shown_by_their_median_and_spread() {
    // In the order of a run, which is random; the last step is neither the top of the ladder nor the usual one.
    let steps = [(1, 1, 10.0), (2, 8, 90.0), (3, 8, 52.0), (2, 1, 30.0), (1, 8, 50.0), (3, 1, 12.0)];
    let steps = steps.map(|(number, clients, rate)| repeat(number, clients, rate));
    let run = written(&record("x", vec![system("ftree", steps.to_vec())]), |_| {});
    let text = text(&run);
    place(&text, "12.0 \u{b1}10.0  52.0 \u{b1}20.0  ftree\n");
    place(&text, "average response time in milliseconds, 8 clients, median of 3 repeats");
    place(&text, "ftree           0.520 \u{b1}0.200");
    place(&text, "ftree: latency in microseconds, 8 clients, median of 3 repeats");
    let p99 = place(&text, "ftree: p99 in microseconds\n");
    assert!(text[p99..].contains("1200 \u{b1}1000  5200 \u{b1}2000  point_query\n"), "{text}");
    place(&text, "0.052 \u{b1}0.020");
    assert!(page(&run).contains("[0,12,10,30]"));
}

#[test]
fn charts_over_time_are_of_the_median_not_of_what_ran_last() {
    let steps = [(2, 8, 90.0), (3, 8, 52.0), (1, 8, 50.0), (1, 1, 12.0)];
    let steps = steps.map(|(number, clients, rate)| repeat(number, clients, rate));
    let run = written(&record("x", vec![system("ftree", steps.to_vec())]), |writer| {
        for step in &steps {
            let point = |series: &str, value| Point {
                system: "ftree".to_owned(),
                step: step.name.clone(),
                clients: step.clients,
                phase: Phase::Run,
                t_s: 7.0,
                series: series.to_owned(),
                value,
            };
            let rate = step.per_second().unwrap();
            let points = [point("ops.point_query", rate), point("p99_us.point_query", rate * 1000.0)];
            writer.points(&points).unwrap();
        }
    });
    let page = without_library(&page(&run));
    for (kept, others) in [("[7,52]", ["[7,90]", "[7,50]"]), ("[7,52000]", ["[7,90000]", "[7,50000]"])] {
        assert!(page.contains(kept) && !others.iter().any(|other| page.contains(other)), "{kept}");
    }
    assert!(page.contains("8 clients, median of 3 repeats"));
}

#[test]
fn repeated_recoveries_are_one_row() {
    let recovery = |repeat: u32, seconds: f64| {
        let metrics = BTreeMap::from([("serve_s".to_owned(), seconds)]);
        let name = format!("recovery-c1-r{repeat}");
        StepRecord { phase: Phase::Recovery, repeat, metrics, ..step(&name, 1, 0.0, &[("syncdelay_s", json!(5))]) }
    };
    let steps = vec![recovery(2, 0.5), recovery(1, 0.1), recovery(3, 0.2)];
    let run = written(&record("x", vec![system("ftree", steps)]), |_| {});
    place(&text(&run), "ftree, syncdelay 5 s  0.20 \u{b1}0.20\n");
}

#[test]
fn sizes_name_their_compression() {
    let mut run_step = step("c1", 1, 10.0, &[]);
    run_step.metrics.insert("storage_bytes".to_owned(), 5000.0);
    let mut systems = vec![system("ftree", vec![run_step.clone()]), system("h:1", vec![run_step])];
    systems[0].about = json!({ "compression": "zstd:1" });
    let run = written(&record("x", systems), |_| {});
    place(&text(&run), "ftree      zstd:1      5,000\nh:1        not known   5,000\n");
    place(&page(&run), "Compression: ftree zstd:1, h:1 not known.");
}

#[test]
fn a_run_that_has_just_begun_is_drawn() {
    for systems in [Vec::new(), vec![system("ftree", Vec::new())]] {
        let directory = tempfile::tempdir().unwrap();
        Writer::create(directory.path(), &record("001-point-queries", systems), &Value::Null).unwrap();
        let run = draw(directory.path()).unwrap();
        assert!(text(&run).contains("not ended"));
        let html = std::fs::read_to_string(directory.path().join("report.html")).unwrap();
        assert!(html.contains("class=\"warning\"") && !has_chart(&html, "throughput"));
    }
}

#[test]
fn a_failed_system_its_stalls_and_marks_are_said() {
    let mut record = record("x", vec![system("ftree", vec![step("c1", 1, 10.0, &[])]), system("lmdb", Vec::new())]);
    record.systems[1].failure = Some("the server did not start".to_owned());
    record.systems[0].steps[0].marks.push("the generator used 81 % of its processors".to_owned());
    (record.ending, record.ended) = (Ending::Partial, Some("2026-11-21T22:00:00Z".to_owned()));
    let run = written(&record, |writer| {
        let stall = |t_s, end_s| Event {
            t_s,
            end_s,
            system: "ftree".to_owned(),
            kind: EventKind::Stall,
            text: "30 % of the median".to_owned(),
        };
        writer.event(&stall(3.0, Some(5.5))).unwrap();
    });
    let (text, page) = (text(&run), page(&run));
    for part in [
        "lmdb: ended early: the server did not start",
        "ftree, 1 client: the generator used 81 %",
        "30 % of the median",
    ] {
        assert!(text.contains(part) && page.contains(part), "{part}");
    }
    place(&text, "stalls\n      3.0 ftree stall 2.5 s: 30 % of the median (3.0 s in c1)\n");
}

/// Returns the page without the charts library.
fn without_library(page: &str) -> String {
    let library = include_str!("../../assets/echarts.min.js");
    assert!(page.contains(library), "the library is part of the page");
    page.replace(library, "")
}

#[test]
fn a_page_needs_nothing_else_and_trusts_nothing() {
    let evil = "</script><img src=x onerror=alert(1)>";
    let mut record = record(evil, vec![system(evil, vec![step(evil, 1, 10.0, &[(evil, json!(evil))])])]);
    record.remarks.push(evil.to_owned());
    record.systems[0].steps[0].latencies.push(LatencyRow {
        kind: evil.to_owned(),
        clock: Clock::Response,
        ..LatencyRow::default()
    });
    let run = written(&record, |writer| {
        let (system, step, series) = (evil.to_owned(), evil.to_owned(), format!("ops.{evil}"));
        let point = |t_s| Point {
            system: system.clone(),
            step: step.clone(),
            clients: 1,
            phase: Phase::Run,
            t_s,
            series: series.clone(),
            value: 5.0,
        };
        writer.points(&[point(1.0), point(2.0)]).unwrap();
    });
    let page = without_library(&page(&run));
    assert!(page.contains("default-src 'none'") && has_chart(&page, "throughput"));
    for part in ["<img", "http://", "https://", "@import", "url(", "<link", "src="] {
        assert!(!page.replace("&lt;img src=x", "").replace("\\u003cimg src=x", "").contains(part), "{part}");
    }
}

#[test]
fn the_index_is_in_the_directory_of_its_runs() {
    let directory = tempfile::tempdir().unwrap();
    let run = |name: &str| {
        let path = directory.path().join(name);
        Writer::create(&path, &record(name, Vec::new()), &json!({})).unwrap();
        path
    };
    let runs = [run("first run"), run("second")];
    let index = draw_index(directory.path(), "All of them", &runs).unwrap();
    let html = std::fs::read_to_string(index).unwrap();
    assert!(html.contains("href=\"first%20run/report.html\"") && html.contains("href=\"second/report.html\""));
    assert!(draw_index(directory.path(), "none", &[Path::new("/nowhere").to_owned()]).is_err());
}
