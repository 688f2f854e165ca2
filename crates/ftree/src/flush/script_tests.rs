//! Scripts in `testdata/flush`: commands, `----`, and what is printed. With `ARBOR_REWRITE=1` the expected text is written
//! again; a review then shows how a change changed the trees.
//!
//! | command | does |
//! |---|---|
//! | `put 10..20 [bytes]`, `del 10..20` | one batch; keys are `k` and the number with four digits |
//! | `range-del 10..20` | `..20` and `10..` leave an end open |
//! | `freeze` | the memtable is handed over to be absorbed |
//! | `step`, `run` | the most urgent task; all of them |
//! | `hold`, `release` | registers a snapshot; lets all go |
//! | `reopen` | makes a checkpoint and opens the directory again, as after a crash |
//! | `rows` | how many rows a new reader sees, and their keys |
//! | `show` | the tree |

use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use arbor_base::{Position, TreeId};
use arbor_disk::FaultyDisk;
use arbor_engine::{Batch, Engine, Op, TreeOptions};

use crate::forest::Forest;
use crate::snapshots::Registered;
use crate::tree::{Bounds, Child, Inner};
use crate::work::Task;
use crate::{Codec, Options, TreeSettings};

const TREE: TreeId = TreeId(1);

#[test]
fn scripts() {
    let dir = PathBuf::from(std::env::var_os("CARGO_MANIFEST_DIR").unwrap()).join("testdata/flush");
    let mut paths: Vec<PathBuf> = std::fs::read_dir(&dir).unwrap().map(|entry| entry.unwrap().path()).collect();
    paths.sort();
    assert!(!paths.is_empty());
    for path in paths {
        let text = std::fs::read_to_string(&path).unwrap();
        let played = play(&text);
        if std::env::var_os("ARBOR_REWRITE").is_some() {
            std::fs::write(&path, played).unwrap();
        } else {
            assert!(played == text, "{} now plays as\n{played}", path.display());
        }
    }
}

/// The script with what it prints.
fn play(text: &str) -> String {
    let mut stage = Stage::new();
    let mut played = String::new();
    for part in text.split("\n\n").filter(|part| !part.trim().is_empty()) {
        let (commands, _) = part.split_once("----").unwrap_or((part, ""));
        let mut printed = String::new();
        for command in commands.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with('#')) {
            stage.obey(command, &mut printed);
        }
        writeln!(played, "{}\n----\n{printed}", commands.trim()).unwrap();
    }
    played
}

struct Stage {
    options: Options,
    forest: Forest,
    held: Vec<Registered>,
}

impl Stage {
    fn new() -> Stage {
        let mut options = Options::new(Arc::new(FaultyDisk::new()), 64 << 20);
        options.threads = 0;
        options.checkpoint_interval_ms = 0;
        options.tree = TreeSettings {
            codec: Codec::None,
            block_bytes: 256,
            leaf_bytes: 1 << 10,
            fanout: 4,
            run_bytes: 256,
            ..TreeSettings::default()
        };
        let forest = Forest::open(Path::new("/data"), options.clone()).unwrap();
        let stage = Stage { options, forest, held: Vec::new() };
        stage.take(vec![Op::CreateTree { tree: TREE, options: TreeOptions::default() }]);
        stage
    }

    /// Applies without doing what is due.
    fn take(&self, ops: Vec<Op>) {
        let position = Position(self.forest.applied().0 + 1);
        self.forest.core().take(&[&Batch { position, ops }]);
    }

    fn obey(&mut self, command: &str, out: &mut String) {
        let core = self.forest.core();
        let mut words = command.split_whitespace();
        let (verb, range) = (words.next().unwrap_or_default(), words.next().unwrap_or_default());
        let bytes: usize = words.next().map_or(20, |word| word.parse().unwrap());
        match verb {
            "put" => self.take(keys(range).map(|key| Op::Put { tree: TREE, key, value: vec![b'v'; bytes] }).collect()),
            "del" => self.take(keys(range).map(|key| Op::Delete { tree: TREE, key }).collect()),
            "range-del" => {
                let (from, to) = range.split_once("..").unwrap();
                let to = (!to.is_empty()).then(|| key(to.parse().unwrap()));
                let from = if from.is_empty() { Vec::new() } else { key(from.parse().unwrap()) };
                self.take(vec![Op::DeleteRange { tree: TREE, from, to }]);
            }
            "freeze" => {
                core.freeze();
                core.work.scheduler.absorb();
            }
            "step" => match core.work.scheduler.try_next() {
                None => out.push_str("nothing to do\n"),
                Some(task) => {
                    match &task {
                        Task::Absorb => out.push_str("absorb\n"),
                        Task::Flush(job) => {
                            let verb = if job.combines { "combine" } else { "flush" };
                            writeln!(out, "{verb} level {} {}", job.place.level, print(&job.place.bounds)).unwrap();
                        }
                    }
                    core.run(task);
                }
            },
            "run" => core.run_due(),
            "hold" => self.held.push(core.snapshots.register(&core.visible)),
            "release" => self.held.clear(),
            "reopen" => self.reopen(),
            "rows" => self.rows(out),
            "show" => self.show(out),
            other => panic!("an unknown command {other}"),
        }
    }

    fn reopen(&mut self) {
        self.forest.checkpoint().unwrap();
        let elsewhere = Options { disk: Arc::new(FaultyDisk::new()), ..self.options.clone() };
        self.forest = Forest::open(Path::new("/data"), elsewhere).unwrap();
        self.forest = Forest::open(Path::new("/data"), self.options.clone()).unwrap();
    }

    fn rows(&self, out: &mut String) {
        let snapshot = self.forest.snapshot().unwrap();
        let mut cursor = snapshot.cursor(TREE).unwrap();
        let mut keys = Vec::new();
        let mut more = cursor.first().unwrap();
        while more {
            keys.push(text(cursor.key()));
            more = cursor.next().unwrap();
        }
        let ends = [keys.first(), keys.last()].map(|key| key.cloned().unwrap_or_default());
        writeln!(out, "{} rows {}..={}", keys.len(), ends[0], ends[1]).unwrap();
    }

    fn show(&self, out: &mut String) {
        let version = self.forest.core().trees.alive(TREE).unwrap().version.load_full();
        let frozen: Vec<usize> = version.frozen.iter().map(|part| part.entries()).collect();
        writeln!(out, "memtable {} frozen {frozen:?}", version.active.entries()).unwrap();
        show_node(&version.root, &Bounds::all(), 0, out);
    }
}

fn show_node(node: &Inner, own: &Bounds, depth: usize, out: &mut String) {
    for (at, slot) in node.slots.iter().enumerate() {
        let bounds = node.bounds_of(at, own);
        write!(out, "{}{} level {}", "  ".repeat(depth), print(&bounds), node.level).unwrap();
        for run in &slot.runs {
            let tombstones = if run.table.meta.has_tombstones { " with ranges" } else { "" };
            write!(out, ", run of {} ({} here{tombstones})", run.table.meta.rows, run.bytes).unwrap();
        }
        match &slot.child {
            Child::Empty => out.push('\n'),
            Child::Leaf(leaf) => writeln!(out, ", leaf of {}", leaf.meta.rows).unwrap(),
            Child::Inner(inner) => {
                out.push('\n');
                show_node(inner, &bounds, depth + 1, out);
            }
        }
    }
}

fn key(number: u32) -> Vec<u8> {
    format!("k{number:04}").into_bytes()
}

fn keys(range: &str) -> impl Iterator<Item = Vec<u8>> {
    let (from, to) = range.split_once("..").unwrap();
    (from.parse::<u32>().unwrap()..to.parse().unwrap()).map(key)
}

fn text(key: &[u8]) -> String {
    String::from_utf8_lossy(key).into_owned()
}

fn print(bounds: &Bounds) -> String {
    format!("{}..{}", text(&bounds.from), bounds.to.as_deref().map(text).unwrap_or_default())
}
