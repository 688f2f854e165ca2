//! The client against a server of a few lines on the same codecs.

use std::io::{Read, Write};
use std::net::TcpListener;

use arbor_bson::{ArrayBuf, DocBuf, ValueRef};
use arbor_client::{Client, ClientError};
use arbor_wire::{Compressor, Limits, Scratch, decode, frame_length};

const DOCUMENTS: i32 = 250;
const BATCH: i32 = 100;

type Seen = Vec<(String, Option<Compressor>)>;

/// Serves one connection; gives the address and, at its end, the names of the commands with their compressor.
fn serve() -> (String, std::thread::JoinHandle<Seen>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let thread = std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        let (mut seen, mut buffer, mut scratch) = (Vec::new(), Vec::new(), Scratch::default());
        loop {
            let mut part = [0; 777];
            let n = stream.read(&mut part).unwrap();
            if n == 0 {
                return seen;
            }
            buffer.extend_from_slice(&part[..n]);
            while let Some(length) = frame_length(&buffer).unwrap().filter(|length| *length <= buffer.len()) {
                let request = decode(&buffer[..length], &mut scratch, Limits::default()).unwrap();
                let compressor = request.compressor;
                let command = request.into_command().unwrap();
                seen.push((command.name().to_owned(), compressor));
                let mut out = Vec::new();
                command.reply_to.encode(1, answer(&command).as_doc(), &mut out);
                drop(command);
                // In two parts, so that the client has to wait for the second.
                let (first, second) = out.split_at(out.len().min(19));
                stream.write_all(first).unwrap();
                stream.flush().unwrap();
                stream.write_all(second).unwrap();
                buffer.drain(..length);
            }
        }
    });
    (address, thread)
}

fn answer(command: &arbor_wire::Command<'_>) -> DocBuf {
    let batch = |name: &str, from: i32| {
        let to = (from + BATCH).min(DOCUMENTS);
        let docs: Vec<DocBuf> = (from..to).map(|n| DocBuf::new().with("_id", n)).collect();
        let docs: ArrayBuf = docs.iter().collect();
        let id = if to == DOCUMENTS { 0i64 } else { i64::from(to) };
        let cursor = DocBuf::new().with(name, &docs).with("id", id).with("ns", "d.c");
        DocBuf::new().with("cursor", &cursor).with("ok", 1.0)
    };
    let body = command.body.as_doc();
    match command.name() {
        "hello" => match body.get("compression") {
            Some(ValueRef::Array(names)) => DocBuf::new().with("compression", names).with("ok", 1.0),
            _ => DocBuf::new().with("ok", 1.0),
        },
        "find" => batch("firstBatch", 0),
        "getMore" => match body.get("getMore") {
            Some(ValueRef::Int64(id)) => batch("nextBatch", id as i32),
            other => panic!("{other:?}"),
        },
        "insert" => DocBuf::new().with("n", command.sequences[0].len() as i32).with("ok", 1),
        _ => DocBuf::new().with("ok", 0.0).with("errmsg", "no such command").with("code", 59),
    }
}

fn exercise(target: &str, expect: Option<Compressor>) {
    let (address, server) = serve();
    let mut client = Client::connect(&target.replace("ADDRESS", &address)).unwrap();
    assert_eq!(client.compressor(), expect);
    let mut ids = Vec::new();
    let find = DocBuf::new().with("find", "c");
    let count = client
        .find("d", &find, |doc| {
            if let Some(ValueRef::Int32(id)) = doc.get("_id") {
                ids.push(id);
            }
        })
        .unwrap();
    assert_eq!((count as i32, ids), (DOCUMENTS, (0..DOCUMENTS).collect()));
    let raw = DocBuf::new().with("find", "c").with("$db", "d");
    assert_eq!(client.find_raw(raw.as_bytes(), |_| {}).unwrap() as i32, DOCUMENTS);

    // 100 documents of 10 KB: past the first buffer in both directions.
    let large: Vec<DocBuf> =
        (0..100).map(|n| DocBuf::new().with("_id", n).with("x", "y".repeat(10_000).as_str())).collect();
    let insert = DocBuf::new().with("insert", "c");
    let reply = client.command_with("d", &insert, &[("documents", &large)]).unwrap();
    assert_eq!(reply.number("n"), Some(100.0));

    match client.command("d", &DocBuf::new().with("frob", 1)) {
        Err(error @ ClientError::Command { .. }) => assert_eq!((error.code(), error.is_answer()), (Some(59), true)),
        other => panic!("{other:?}"),
    }
    drop(client);
    let seen = server.join().unwrap();
    let names: Vec<&str> = seen.iter().map(|(name, _)| name.as_str()).collect();
    let find = ["find", "getMore", "getMore"];
    assert_eq!(names, [&["hello"], &find[..], &find[..], &["insert", "frob"]].concat());
    assert!(seen[0].1.is_none() && seen[1..].iter().all(|(_, compressor)| *compressor == expect));
}

#[test]
fn plain() {
    exercise("ADDRESS", None);
    exercise("mongodb://ADDRESS/?checksum=true", None);
}

#[test]
fn compressed() {
    for compressor in Compressor::ALL {
        exercise(&format!("mongodb://ADDRESS/?compressors={}", compressor.name()), Some(compressor));
    }
}

#[test]
fn a_closed_connection_is_an_error() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let thread = std::thread::spawn(move || drop(listener.accept()));
    assert!(matches!(Client::connect(&address), Err(ClientError::Io(_))));
    thread.join().unwrap();
}
