//! A mock server that keeps the requests it receives, and replies as if it held the requested data, or nothing.

use std::fmt::Write as _;
use std::sync::{Arc, Mutex};

use arbor_bson::{ArrayBuf, Doc, DocBuf, ValueRef};
use arbor_lab::target::mongodb::MongoDb;
use arbor_lab::target::{Session, Target};
use arbor_lab::workload::{Client, Mode, Place, Unit, Workload, build};
use arbor_wire::Command;

use crate::mock_server;

/// Behaviour of the server's replies to every command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Answers {
    /// Queries find something visible, updates match.
    Found,
    /// Queries find nothing, upserts insert.
    Nothing,
}

/// A session on a server that keeps what it is sent.
pub(crate) struct Capture {
    /// Bodies with their document sequences put in as arrays.
    commands: Arc<Mutex<Vec<DocBuf>>>,
    session: Box<dyn Session>,
}

impl Capture {
    pub(crate) fn new(answers: Answers) -> Capture {
        let commands = Arc::new(Mutex::new(Vec::new()));
        let (nothing, kept) = (answers == Answers::Nothing, commands.clone());
        let address = mock_server::start(move |command| {
            let whole = whole(command);
            let reply = answer(whole.as_doc(), nothing);
            kept.lock().unwrap().push(whole);
            reply
        });
        let session = MongoDb::at("capture", &address).connect().unwrap();
        commands.lock().unwrap().clear();
        Capture { commands, session }
    }

    pub(crate) fn session(&mut self) -> &mut dyn Session {
        &mut *self.session
    }

    /// Runs one unit of a stream; failures of its operations end the test.
    pub(crate) fn unit(&mut self, client: &mut dyn Client) -> Unit {
        client.unit(&mut |operation| {
            Some(self.session.execute(operation).unwrap_or_else(|failure| panic!("{operation:?}: {failure}")))
        })
    }

    /// Returns the commands sent since the last call.
    pub(crate) fn taken(&mut self) -> Vec<DocBuf> {
        std::mem::take(&mut *self.commands.lock().unwrap())
    }

    /// The forms of what was sent since the last time.
    pub(crate) fn forms(&mut self) -> Vec<String> {
        self.taken().iter().map(|command| form(command.as_doc())).collect()
    }
}

pub(crate) fn workload(name: &str, mode: Mode, settings: serde_json::Value) -> Box<dyn Workload> {
    build(name, mode, settings.as_object().unwrap()).unwrap()
}

pub(crate) fn client(workload: &dyn Workload, seed: u64) -> Box<dyn Client> {
    workload.client(Place { number: 0, of: workload.threads(1) }, seed)
}

fn whole(command: &Command<'_>) -> DocBuf {
    let mut whole = command.body.as_doc().to_buf();
    for sequence in &command.sequences {
        let documents: ArrayBuf = sequence.iter().collect();
        whole.append(sequence.name, &documents);
    }
    whole
}

fn length(command: Doc<'_>, name: &str) -> i32 {
    match command.get(name) {
        Some(ValueRef::Array(array)) => array.iter().count() as i32,
        _ => 0,
    }
}

fn answer(command: Doc<'_>, nothing: bool) -> DocBuf {
    let doc = DocBuf::new;
    let found = doc().with("_id", 7).with("visibility", 1).with("type", 2048).with("time", 5i64).with("c", "x");
    let found: ArrayBuf = if nothing { ArrayBuf::new() } else { [&found].into_iter().collect() };
    let (name, _) = command.first().unwrap();
    let reply = match name {
        "find" | "aggregate" => {
            let cursor = doc().with("firstBatch", &found).with("id", 0i64).with("ns", "a.b");
            doc().with("cursor", &cursor)
        }
        "count" => doc().with("n", if nothing { 0 } else { 5 }),
        "distinct" => doc().with("values", &found),
        "findAndModify" => match found.as_array().get(0) {
            Some(value) => doc().with("value", value),
            None => doc().with("value", ValueRef::Null),
        },
        "update" => {
            let count = length(command, "updates");
            let inserted: ArrayBuf = [&doc().with("index", 0).with("_id", 1)].into_iter().collect();
            let upsert = nothing && form(command).contains("upsert: true");
            let reply = doc().with("n", count);
            if upsert { reply.with("upserted", &inserted) } else { reply }
        }
        "insert" => doc().with("n", length(command, "documents")),
        "delete" => doc().with("n", if nothing { 0 } else { length(command, "deletes") }),
        "listShards" => {
            let shards: ArrayBuf =
                ["rs0", "rs1", "rs2"].iter().map(|name| doc().with("_id", *name)).collect::<Vec<_>>().iter().collect();
            doc().with("shards", &shards)
        }
        _ => doc().with("version", "7.0.0"),
    };
    reply.with("ok", 1.0)
}

/// Fields whose values are part of a command's form; of others only the type is.
const LITERAL: [&str; 18] = [
    "limit",
    "skip",
    "singleBatch",
    "ordered",
    "upsert",
    "projection",
    "fields",
    "sort",
    "key",
    "unique",
    "name",
    "middle",
    "startTransaction",
    "autocommit",
    "$sum",
    "$db",
    "to",
    "type",
];

/// A command with types in place of values.
pub(crate) fn form(command: Doc<'_>) -> String {
    let mut text = String::new();
    write_document(command, false, true, &mut text);
    text
}

fn write_document(document: Doc<'_>, literal: bool, command: bool, text: &mut String) {
    text.push('{');
    for (at, (name, value)) in document.iter().enumerate() {
        let comma = if at == 0 { "" } else { ", " };
        write!(text, "{comma}{name}: ").unwrap();
        write_value(value, literal || LITERAL.contains(&name) || (command && at == 0), text);
    }
    text.push('}');
}

fn write_value(value: ValueRef<'_>, literal: bool, text: &mut String) {
    match value {
        ValueRef::Document(document) => write_document(document, literal, false, text),
        ValueRef::Array(array) => {
            text.push('[');
            // More of the same are counted.
            let forms: Vec<String> = array
                .iter()
                .map(|value| {
                    let mut text = String::new();
                    write_value(value, literal, &mut text);
                    text
                })
                .collect();
            match forms.split_first() {
                Some((first, rest)) if rest.len() > 2 && rest.iter().all(|form| form == first) => {
                    write!(text, "{} x {first}", forms.len()).unwrap();
                }
                _ => text.push_str(&forms.join(", ")),
            }
            text.push(']');
        }
        value if literal => write!(text, "{value}").unwrap(),
        ValueRef::Int32(_) => text.push_str("int"),
        ValueRef::Int64(_) => text.push_str("long"),
        ValueRef::Double(_) => text.push_str("double"),
        ValueRef::String(value) => write!(text, "text{}", value.len()).unwrap(),
        ValueRef::Binary { subtype: 4, .. } => text.push_str("uuid"),
        ValueRef::Binary { .. } => text.push_str("bytes"),
        ValueRef::ObjectId(_) => text.push_str("objectId"),
        other => write!(text, "{other}").unwrap(),
    }
}
