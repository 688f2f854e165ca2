//! `arbor lab kv` with its real processes: an engine each, stopped between turns, killed at the end.

use std::process::Command;

#[test]
fn engines_take_turns_in_processes_of_their_own() {
    let directory = tempfile::tempdir().unwrap();
    let record = directory.path().join("kv.json");
    let data = directory.path().join("data");
    std::fs::create_dir(&data).unwrap();
    let output = Command::new(env!("CARGO_BIN_EXE_arbor"))
        .args(["lab", "kv", "--rows", "3000", "--engines", "ftree,lmdb", "--calls", "300", "--cache-mb", "16"])
        .args(["--only", "load-rand,get,increment,get-cold,reopen-kill", "--out"])
        .arg(&record)
        .arg("--data")
        .arg(&data)
        .output()
        .unwrap();
    let (out, errors) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{out}\n{errors}");
    assert!(out.contains("side by side"), "{out}");
    let record: serde_json::Value = serde_json::from_str(&std::fs::read_to_string(record).unwrap()).unwrap();
    let phases = record["engines"][1]["phases"].as_array().unwrap();
    let names: Vec<&str> = phases.iter().map(|phase| phase["phase"].as_str().unwrap()).collect();
    let expected = "load-rand get-x1 get-x2 get-x4 increment get-cold-x1 get-cold-x4 reopen-kill";
    assert_eq!(names.join(" "), expected);
    let note = phases[7]["figures"]["note"].as_str().unwrap();
    assert!(note.starts_with("3000 rows were logged, "), "{note}");
    assert_eq!(data.read_dir().unwrap().count(), 0, "the data is removed");
}

#[test]
fn unknown_phases_and_engines_are_named() {
    for (arguments, expected) in [
        (["--only", "frob"], "unknown phase \"frob\"; known are load-seq"),
        (["--engines", "paper"], "\"paper\" is not in this build; it has "),
        (["--peer", "paper"], "\"paper\" is not among --engines"),
    ] {
        let output = Command::new(env!("CARGO_BIN_EXE_arbor")).args(["lab", "kv"]).args(arguments).output().unwrap();
        let errors = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.code() == Some(2) && errors.contains(expected), "{errors}");
    }
}
