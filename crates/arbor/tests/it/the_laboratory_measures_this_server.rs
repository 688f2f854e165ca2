//! `arbor lab` with servers of its own binary: kill -9 under load and the return, the same run again, two runs compared.

use std::path::Path;
use std::process::{Command, Output};

use arbor_lab::results::{Ending, EventKind, Phase, Run};

fn lab(arguments: &[&str]) -> Output {
    let output = Command::new(env!("CARGO_BIN_EXE_arbor")).arg("lab").args(arguments).output().unwrap();
    assert!(output.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
    output
}

fn path(directory: &Path, name: &str) -> String {
    directory.join(name).to_string_lossy().into_owned()
}

#[test]
fn a_killed_server_returns_and_the_run_can_be_repeated() {
    let directory = tempfile::tempdir().unwrap();
    let (first, second) = (path(directory.path(), "first"), path(directory.path(), "second"));
    let data = path(directory.path(), "data");
    lab(&[
        "run",
        "002-recovery",
        "--engine",
        "ftree",
        "--tables",
        "1",
        "--docs",
        "1000",
        "--clients",
        "2",
        "--repeats",
        "1",
        "--seconds",
        "1",
        "--warm",
        "0.1",
        "--interval",
        "0.25",
        "--syncdelay",
        "1,30",
        "--cache-mb",
        "64",
        "--data",
        &data,
        "--out",
        &first,
    ]);
    let run = Run::read(Path::new(&first)).unwrap();
    let steps = &run.record.systems[0].steps;
    assert_eq!((run.record.ending, run.record.systems[0].failure.as_deref()), (Ending::Complete, None));
    let names: Vec<&str> = steps.iter().map(|step| step.name.as_str()).collect();
    assert_eq!(names, ["load", "sync1-c2", "sync1-recovery-c2", "sync30-c2", "sync30-recovery-c2"]);
    for step in steps.iter().filter(|step| step.phase == Phase::Recovery) {
        let seconds = step.metric("serve_s").unwrap();
        assert!(seconds > 0.0 && seconds <= step.metric("answer_s").unwrap(), "{step:?}");
    }
    let count = |kind| run.events.iter().filter(|event| event.kind == kind).count();
    assert_eq!((count(EventKind::Kill), count(EventKind::Serving)), (2, 2));
    // Server-side statistics are recorded along with those of the clients.
    assert!(run.points("ftree", "sync1-c2", "server.engine.diskBytes").count() > 0);
    assert!(run.points("ftree", "sync1-c2", "rss_bytes").all(|point| point.value > 1e6));
    assert_eq!(std::fs::read_dir(&data).unwrap().count(), 0, "the servers' directories are gone");

    lab(&["replay", &first, "--data", &data, "--out", &second]);
    assert_eq!(Run::read(Path::new(&second)).unwrap().record.parameters, run.record.parameters);
    let compared = String::from_utf8(lab(&["compare", &first, &second]).stdout).unwrap();
    assert!(compared.contains("ftree sync1-recovery-c2 seconds to serve"), "{compared}");
    assert!(compared.contains("too few data"), "{compared}");
}
