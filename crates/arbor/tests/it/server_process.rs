//! The real binary in a process of its own: CRUD, argument errors, kill -9 and restart, clean stop, messages of the start.

use std::io::{BufRead, BufReader, Read};
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use arbor_bson::{ArrayBuf, Doc, DocBuf, ValueRef};
use arbor_client::{Client, ClientError};

struct Server {
    process: Child,
    address: String,
}

impl Server {
    /// Starts on a port that the system chooses and waits for the line that says it.
    fn start(dbpath: &Path, flags: &[&str]) -> Server {
        let mut process = command(dbpath).args(["--port", "0"]).args(flags).spawn().unwrap();
        let lines = BufReader::new(process.stdout.take().unwrap());
        let mut address = None;
        let mut seen = String::new();
        for line in lines.lines().map_while(Result::ok) {
            seen.push_str(&line);
            let line: serde_json::Value = serde_json::from_str(&line).unwrap();
            if line["msg"] == "Waiting for connections" {
                address = Some(format!("127.0.0.1:{}", line["attr"]["port"]));
                break;
            }
        }
        let address = address.unwrap_or_else(|| panic!("the server did not start: {seen}"));
        Server { process, address }
    }

    fn client(&self) -> Client {
        Client::connect(&self.address).unwrap()
    }

    fn signal(&self, name: &str) {
        let id = self.process.id().to_string();
        assert!(Command::new("kill").args([name, &id]).status().unwrap().success());
    }

    fn wait(mut self) -> ExitStatus {
        self.process.wait().unwrap()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

fn command(dbpath: &Path) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_arbor"));
    command.arg("serve").arg("--dbpath").arg(dbpath).stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

fn run(client: &mut Client, command: DocBuf) -> Result<DocBuf, (i32, String)> {
    run_on(client, "test", command)
}

fn run_on(client: &mut Client, db: &str, command: DocBuf) -> Result<DocBuf, (i32, String)> {
    match client.command(db, &command) {
        Ok(reply) => Ok(reply.doc.to_buf()),
        Err(ClientError::Command { code, message, .. }) => Err((code, message)),
        Err(error) => panic!("{error}"),
    }
}

fn array(docs: impl IntoIterator<Item = DocBuf>) -> ArrayBuf {
    let mut array = ArrayBuf::new();
    for doc in docs {
        array.push(&doc);
    }
    array
}

fn numbered(range: std::ops::Range<i32>) -> ArrayBuf {
    array(range.map(|n| DocBuf::new().with("_id", n).with("n", n % 10)))
}

fn int(doc: Doc<'_>, field: &str) -> i64 {
    match doc.get(field) {
        Some(ValueRef::Int32(n)) => n.into(),
        Some(ValueRef::Int64(n)) => n,
        Some(ValueRef::Double(n)) => n as i64,
        other => panic!("{field}: {other:?} in {doc:?}"),
    }
}

fn found(client: &mut Client, filter: DocBuf) -> usize {
    let find = DocBuf::new().with("find", "c").with("filter", &filter).with("batchSize", 7i32);
    client.find("test", &find, |_| {}).unwrap()
}

#[test]
fn documents_are_written_found_changed_and_kept_over_kill_9() {
    write_find_change_and_kill(&[], "ftree");
}

#[test]
fn documents_are_kept_over_kill_9_on_lmdb() {
    write_find_change_and_kill(&["--storageEngine", "mmapv1"], "lmdb");
}

#[test]
fn documents_are_kept_over_kill_9_with_options_of_tokumx() {
    let flags =
        ["--cacheSize", "64M", "--tokuftCollectionCompression", "quicklz", "--tokuftIndexReadPageSize", "16384"];
    let others =
        ["--setParameter", "defaultCompression=zlib", "--checkpointPeriod", "1", "--storageEngine", "PerconaFT"];
    write_find_change_and_kill(&[&flags[..], &others[..]].concat(), "ftree");
}

/// Runs `arbor` to its end: exit code, standard output, standard error.
fn arbor(arguments: &[&str], dbpath: &Path) -> (Option<i32>, String, String) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_arbor"));
    let output = command.args(arguments).arg("--dbpath").arg(dbpath).stdin(Stdio::null()).output().unwrap();
    let text = |bytes: Vec<u8>| String::from_utf8_lossy(&bytes).into_owned();
    (output.status.code(), text(output.stdout), text(output.stderr))
}

fn insert_some(server: &Server) {
    let insert = DocBuf::new().with("insert", "c").with("documents", &numbered(0..100));
    run(&mut server.client(), insert).unwrap();
}

fn insert_more(server: &Server, collection: &str, ids: std::ops::Range<i32>) {
    let journaled = DocBuf::new().with("j", true);
    let insert = DocBuf::new().with("insert", collection).with("documents", &numbered(ids));
    run(&mut server.client(), insert.with("writeConcern", &journaled)).unwrap();
}

#[test]
fn a_directory_keeps_its_engine() {
    let dir = tempfile::tempdir().unwrap();
    let server = Server::start(dir.path(), &["--storageEngine", "lmdb"]);
    insert_some(&server);
    server.signal("-TERM");
    server.wait();
    // The directory says which engine it is, as long as the user says no other.
    let server = Server::start(dir.path(), &[]);
    assert_eq!(found(&mut server.client(), DocBuf::new()), 100);
    server.signal("-TERM");
    server.wait();
    let (code, out, errors) = arbor(&["inspect"], dir.path());
    assert!(
        code == Some(0) && out.contains("engine lmdb at position ") && out.contains(": 100 rows, "),
        "{out}{errors}"
    );
    let (code, out, errors) = arbor(&["serve", "--port", "0", "--storageEngine", "paper"], dir.path());
    assert!(code == Some(2) && (out + &errors).contains("paper"), "{errors}");
}

fn documents(client: &mut Client, collection: &str) -> usize {
    let find = DocBuf::new().with("find", collection).with("filter", &DocBuf::new());
    client.find("test", &find, |_| {}).unwrap()
}

/// Another engine than the directory's is where new collections go; what is on both survives together.
#[test]
fn one_directory_holds_collections_on_two_engines() {
    let dir = tempfile::tempdir().unwrap();
    let server = Server::start(dir.path(), &["--storageEngine", "lmdb"]);
    insert_some(&server);
    server.signal("-TERM");
    server.wait();
    let server = Server::start(dir.path(), &["--storageEngine", "ftree"]);
    let insert = DocBuf::new().with("insert", "other").with("documents", &numbered(0..50));
    run(&mut server.client(), insert.with("writeConcern", &DocBuf::new().with("j", true))).unwrap();
    insert_more(&server, "c", 100..120);
    server.signal("-KILL");
    server.wait();
    let server = Server::start(dir.path(), &[]);
    let mut client = server.client();
    assert_eq!((documents(&mut client, "c"), documents(&mut client, "other")), (120, 50));
    let status = run(&mut client, DocBuf::new().with("serverStatus", 1i32)).unwrap();
    let status = status.as_doc();
    let name = |doc: Doc<'_>| doc.get("name").map(|name| format!("{name:?}"));
    assert!(
        matches!(status.get("storageEngine"), Some(ValueRef::Document(doc)) if name(doc).unwrap().contains("lmdb"))
    );
    assert!(status.get("ftree").is_some() && status.get("lmdb").is_some());
    server.signal("-TERM");
    server.wait();
    // What is gone underneath does not take the rest with it.
    std::fs::remove_dir_all(dir.path().join("ftree")).unwrap();
    let server = Server::start(dir.path(), &[]);
    let mut client = server.client();
    assert_eq!(documents(&mut client, "c"), 120);
    let find = DocBuf::new().with("find", "other").with("filter", &DocBuf::new());
    let error = format!("{:?}", client.find("test", &find, |_| {}).unwrap_err());
    assert!(error.contains("ftree is not available") && error.contains("is missing"), "{error}");
    insert_more(&server, "c", 120..130);
    let insert = DocBuf::new().with("insert", "other").with("documents", &numbered(50..51));
    let refused = format!("{:?}", run(&mut client, insert));
    assert!(refused.contains("ftree is not available"), "{refused}");
    assert_eq!(documents(&mut client, "c"), 130);
}

/// A byte of each table's first block is changed: the check names file and offset, what is whole is carried over.
#[test]
fn damage_is_named_and_what_is_whole_is_carried_over() {
    let dir = tempfile::tempdir().unwrap();
    let server = Server::start(dir.path(), &[]);
    insert_some(&server);
    server.signal("-TERM");
    server.wait();
    let file = dir.path().join("ftree/ftree.data");
    let mut bytes = std::fs::read(&file).unwrap();
    let tables: Vec<usize> =
        (0..bytes.len()).step_by(4096).filter(|at| bytes[*at..].starts_with(b"ARBORTBL")).collect();
    assert!(!tables.is_empty());
    tables.iter().for_each(|at| bytes[at + 80] ^= 1);
    std::fs::write(&file, bytes).unwrap();
    let (code, out, errors) = arbor(&["check"], dir.path());
    assert_eq!(code, Some(100), "{out}{errors}");
    assert!(out.contains("PROBLEM") && out.contains("ftree.data at "), "{out}{errors}");
    assert!(errors.contains("'arbor salvage' carries over what can be read"), "{errors}");
    let into = tempfile::tempdir().unwrap();
    let (code, out, errors) = arbor(&["salvage", "--into", into.path().to_str().unwrap()], dir.path());
    assert!(code == Some(0) && out.contains("ftree.data at "), "{out}{errors}");
    // The log still has everything.
    let (code, out, errors) = arbor(&["check"], into.path());
    assert!(code == Some(0) && out.contains("test.c 100 documents"), "{out}{errors}");
}

#[test]
fn wrong_options_of_the_engine_end_the_start() {
    let dir = tempfile::tempdir().unwrap();
    let (code, out, errors) = arbor(&["serve", "--port", "0", "--ftreeCompression", "best"], dir.path());
    assert_eq!(code, Some(2), "{out}{errors}");
    assert!((out + &errors).contains("invalid option compression"), "{errors}");
}

#[test]
fn trees_are_shown_and_damaged_directories_salvaged() {
    let dir = tempfile::tempdir().unwrap();
    let server = Server::start(dir.path(), &[]);
    insert_some(&server);
    server.signal("-TERM");
    server.wait();
    let (code, out, errors) = arbor(&["inspect"], dir.path());
    assert!(code == Some(0) && out.contains("ftree.data: applied"), "{out}{errors}");
    let (code, out, errors) = arbor(&["check"], dir.path());
    assert!(code == Some(0) && out.contains("data file: ") && out.contains("test.c 100 documents"), "{out}{errors}");

    // Documents after the last checkpoint come from the log.
    let server = Server::start(dir.path(), &[]);
    let insert = DocBuf::new().with("insert", "c").with("documents", &numbered(100..120));
    run(&mut server.client(), insert.with("writeConcern", &DocBuf::new().with("j", true))).unwrap();
    server.signal("-KILL");
    server.wait();
    let into = tempfile::tempdir().unwrap();
    let target = into.path().to_str().unwrap();
    let (code, out, errors) = arbor(&["salvage", "--into", target], dir.path());
    assert!(code == Some(0) && out.contains("rows of"), "{out}{errors}");
    let (code, out, errors) = arbor(&["check"], into.path());
    assert!(code == Some(0) && out.contains("test.c 120 documents"), "{out}{errors}");
    let (code, _, errors) = arbor(&["salvage", "--into", target], dir.path());
    assert!(code == Some(2) && errors.contains("the directory is not empty"), "{errors}");
}

/// Rows of LMDB come from a copy of its files, those after its last checkpoint from the log; without its files from the log.
#[test]
fn other_engines_are_shown_and_salvaged() {
    let dir = tempfile::tempdir().unwrap();
    let server = Server::start(dir.path(), &[]);
    let options = DocBuf::new().with("lmdb", &DocBuf::new());
    run(&mut server.client(), DocBuf::new().with("create", "l").with("storageEngine", &options)).unwrap();
    let insert = |collection: &str, ids: std::ops::Range<i32>| {
        DocBuf::new().with("insert", collection).with("documents", &numbered(ids))
    };
    run(&mut server.client(), insert("l", 0..50)).unwrap();
    insert_some(&server);
    server.signal("-TERM");
    server.wait();
    let (code, out, errors) = arbor(&["inspect"], dir.path());
    assert!(
        code == Some(0) && out.contains("engine ftree\n") && out.contains("engine lmdb at position "),
        "{out}{errors}"
    );
    assert!(out.contains(": 50 rows, "), "{out}");
    let server = Server::start(dir.path(), &[]);
    let journaled = DocBuf::new().with("j", true);
    run(&mut server.client(), insert("l", 50..70).with("writeConcern", &journaled)).unwrap();
    server.signal("-KILL");
    server.wait();
    let salvaged = |expect: &str| {
        let into = tempfile::tempdir().unwrap();
        let (code, out, errors) = arbor(&["salvage", "--into", into.path().to_str().unwrap()], dir.path());
        assert!(code == Some(0) && out.contains(expect), "{out}{errors}");
        let (code, out, errors) = arbor(&["check"], into.path());
        assert!(code == Some(0) && out.contains("test.l 70 documents"), "{out}{errors}");
        assert!(out.contains("test.c 100 documents"), "{out}{errors}");
    };
    salvaged("rows of");
    for file in std::fs::read_dir(dir.path().join("lmdb")).unwrap() {
        std::fs::write(file.unwrap().path(), "not what it was").unwrap();
    }
    // The log still has everything.
    salvaged("the rows in the engine 'lmdb' come only as far as the log holds them: ");
    let (code, out, errors) = arbor(&["inspect"], dir.path());
    assert!(code == Some(0) && out.contains("engine lmdb does not open: "), "{out}{errors}");
}

#[test]
fn documents_are_kept_over_kill_9_on_rocksdb() {
    let flags = ["--storageEngine", "rocksdb", "--rocksdbCacheSizeGB", "0.01", "--rocksdbCompression", "zstd"];
    write_find_change_and_kill(&flags, "rocksdb");
}

fn write_find_change_and_kill(flags: &[&str], engine: &str) {
    let dir = tempfile::tempdir().unwrap();
    let server = Server::start(dir.path(), flags);
    assert!(dir.path().join(engine).is_dir());
    let mut client = server.client();
    let concern = DocBuf::new().with("j", true);
    let insert = DocBuf::new().with("insert", "c").with("documents", &numbered(0..100));
    assert_eq!(int(run(&mut client, insert.with("writeConcern", &concern)).unwrap().as_doc(), "n"), 100);
    assert_eq!(found(&mut client, DocBuf::new()), 100);
    assert_eq!(found(&mut client, DocBuf::new().with("_id", 5i32)), 1);
    assert_eq!(found(&mut client, DocBuf::new().with("n", 3i32)), 10);

    let index = DocBuf::new().with("key", &DocBuf::new().with("n", 1i32)).with("name", "n_1");
    let created = run(&mut client, DocBuf::new().with("createIndexes", "c").with("indexes", &array([index]))).unwrap();
    assert_eq!(int(created.as_doc(), "numIndexesAfter"), 2);
    assert_eq!(found(&mut client, DocBuf::new().with("n", 3i32)), 10);

    let set = DocBuf::new().with("$set", &DocBuf::new().with("n", 77i32));
    let update = DocBuf::new().with("q", &DocBuf::new().with("n", 3i32)).with("u", &set).with("multi", true);
    let updated = run(&mut client, DocBuf::new().with("update", "c").with("updates", &array([update]))).unwrap();
    assert_eq!((int(updated.as_doc(), "n"), int(updated.as_doc(), "nModified")), (10, 10));
    let delete = DocBuf::new().with("q", &DocBuf::new().with("n", 4i32)).with("limit", 0i32);
    let delete = DocBuf::new().with("delete", "c").with("deletes", &array([delete])).with("writeConcern", &concern);
    assert_eq!(int(run(&mut client, delete).unwrap().as_doc(), "n"), 10);

    server.signal("-KILL");
    server.wait();
    let server = Server::start(dir.path(), flags);
    let mut client = server.client();
    assert_eq!(found(&mut client, DocBuf::new()), 90);
    assert_eq!(found(&mut client, DocBuf::new().with("n", 77i32)), 10);
    assert_eq!(found(&mut client, DocBuf::new().with("n", 3i32)), 0);
    let report = run(&mut client, DocBuf::new().with("validate", "c").with("full", true)).unwrap();
    assert!(matches!(report.get("valid"), Some(ValueRef::Bool(true))), "{report:?}");

    server.signal("-TERM");
    assert_eq!(server.wait().code(), Some(0));
    let check =
        Command::new(env!("CARGO_BIN_EXE_arbor")).arg("check").arg("--dbpath").arg(dir.path()).output().unwrap();
    let text = String::from_utf8_lossy(&check.stdout).into_owned();
    assert!(check.status.success() && text.contains("test.c 90 documents, 2 indexes"), "{text}");
}

#[test]
fn errors_have_mongodbs_codes() {
    let dir = tempfile::tempdir().unwrap();
    let server = Server::start(dir.path(), &[]);
    let mut client = server.client();
    let empty = ArrayBuf::new();
    for (command, code, text) in [
        (DocBuf::new().with("foo", 1i32), 59, "no such command: 'foo'"),
        (DocBuf::new().with("find", "c").with("foo", 1i32), 40415, "BSON field 'find.foo' is an unknown field."),
        (
            DocBuf::new().with("find", "c").with("filter", "x"),
            14,
            "BSON field 'find.filter' is the wrong type 'string', expected type 'object'",
        ),
        (DocBuf::new().with("insert", "c"), 40414, "BSON field 'insert.documents' is missing but a required field"),
        (
            DocBuf::new().with("insert", "c").with("documents", &empty),
            16,
            "Write batch sizes must be between 1 and 100000",
        ),
        (DocBuf::new().with("find", ""), 73, "Invalid namespace specified 'test.'"),
        (DocBuf::new().with("find", 1i32), 73, "collection name has invalid type int"),
        (DocBuf::new().with("listDatabases", 1i32), 13, "may only be run against the admin database"),
        (DocBuf::new().with("getMore", 77i64).with("collection", "c"), 43, "cursor id 77 not found"),
        (
            DocBuf::new().with("create", "c").with("capped", true),
            72,
            "the 'size' field is required when 'capped' is true",
        ),
        (
            DocBuf::new().with("create", "c").with("timeseries", &DocBuf::new().with("metaField", "m")),
            40414,
            "timeField' is missing but a required field",
        ),
        (DocBuf::new().with("configureFailPoint", "failCommand"), 13, "admin"),
        (DocBuf::new().with("ping", 1i32).with("txnNumber", 1i64), 72, "Transaction number requires a session ID"),
    ] {
        let (found, message) = run(&mut client, command.clone()).expect_err(&format!("{command:?}"));
        assert!(found == code && message.contains(text), "{command:?} -> {found} {message}");
    }
}

#[test]
fn statistics_are_counted() {
    let dir = tempfile::tempdir().unwrap();
    let server = Server::start(dir.path(), &["--setParameter", "enableTestCommands=1"]);
    let mut client = server.client();
    run(&mut client, DocBuf::new().with("insert", "c").with("documents", &numbered(0..5))).unwrap();
    found(&mut client, DocBuf::new().with("_id", 1i32));
    let status = run_on(&mut client, "admin", DocBuf::new().with("serverStatus", 1i32)).unwrap();
    let section = |name: &str| match status.get(name) {
        Some(ValueRef::Document(section)) => section,
        other => panic!("{name}: {other:?}"),
    };
    assert_eq!(int(section("opcounters"), "insert"), 5);
    assert_eq!(int(section("opcounters"), "query"), 1);
    assert_eq!(int(section("connections"), "current"), 1);
    assert!(int(section("network"), "bytesIn") > 100 && int(section("arborLog"), "records") > 0);
    assert!(int(section("mem"), "resident") > 0);

    let data = DocBuf::new().with("failCommands", &["ping"].into_iter().collect::<ArrayBuf>()).with("errorCode", 91i32);
    let mode = DocBuf::new().with("times", 1i32);
    let fail = DocBuf::new().with("configureFailPoint", "failCommand").with("mode", &mode).with("data", &data);
    run_on(&mut client, "admin", fail).unwrap();
    assert_eq!(run(&mut client, DocBuf::new().with("ping", 1i32)).unwrap_err().0, 91);
    run(&mut client, DocBuf::new().with("ping", 1i32)).unwrap();
    let _ = client.command("admin", &DocBuf::new().with("shutdown", 1i32));
    assert_eq!(server.wait().code(), Some(0));
}

/// An OP_INSERT, as the clients of the founding texts send it.
fn op_insert(namespace: &str, documents: &[DocBuf]) -> Vec<u8> {
    let mut body = vec![0; 4];
    body.extend_from_slice(namespace.as_bytes());
    body.push(0);
    documents.iter().for_each(|doc| body.extend_from_slice(doc.as_bytes()));
    let header = [16 + body.len() as i32, 1, 0, 2002].map(i32::to_le_bytes).concat();
    [header, body].concat()
}

#[test]
fn get_last_error_reports_unacknowledged_writes() {
    let dir = tempfile::tempdir().unwrap();
    let server = Server::start(dir.path(), &[]);
    let mut client = server.client();
    let ids = |ids: &[i32]| ids.iter().map(|id| DocBuf::new().with("_id", *id)).collect::<Vec<_>>();
    let ask = DocBuf::new().with("getlasterror", 1i32).with("j", true);
    client.send_raw(&op_insert("test.c", &ids(&[1, 2]))).unwrap();
    let reply = run(&mut client, ask.clone()).unwrap();
    assert!(matches!(reply.get("err"), Some(ValueRef::Null)), "{reply:?}");
    client.send_raw(&op_insert("test.c", &ids(&[2]))).unwrap();
    let reply = run(&mut client, ask).unwrap();
    assert_eq!(int(reply.as_doc(), "code"), 11000);
    assert_eq!(found(&mut client, DocBuf::new()), 2);
}

/// Returns the exit code and the output of a start that has to fail; one that does not is ended after a minute.
fn failed_start(mut command: Command) -> (Option<i32>, String) {
    let mut process = command.spawn().unwrap();
    let started = Instant::now();
    while process.try_wait().unwrap().is_none() {
        if started.elapsed() > Duration::from_secs(60) {
            process.kill().unwrap();
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    let mut text = String::new();
    process.stdout.take().unwrap().read_to_string(&mut text).unwrap();
    process.stderr.take().unwrap().read_to_string(&mut text).unwrap();
    (process.wait().unwrap().code(), text)
}

#[test]
fn starts_that_cannot_be_end_with_a_message_and_mongods_code() {
    let (dir, other) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let running = Server::start(dir.path(), &[]);
    let port = running.address.rsplit(':').next().unwrap().to_owned();
    let start = |dbpath: &Path, flags: &[&str]| {
        let mut command = command(dbpath);
        command.args(flags);
        failed_start(command)
    };
    for (outcome, code, text) in [
        (start(other.path(), &["--port", &port]), 48, format!("Address already in use: 127.0.0.1:{port}")),
        (start(dir.path(), &["--port", "0"]), 100, "is in use".to_owned()),
        (start(&other.path().join("missing"), &["--port", "0"]), 100, "Create the missing directory".to_owned()),
        (start(other.path(), &["--noSuchFlag"]), 2, "noSuchFlag".to_owned()),
        (start(other.path(), &["--config", "/nowhere.conf"]), 2, "/nowhere.conf".to_owned()),
        (start(other.path(), &["--transitionToAuth"]), 2, "transitionToAuth: members need a key file".to_owned()),
        (start(other.path(), &["--setParameter", "noSuch=1"]), 2, "Unknown server parameter: 'noSuch'".to_owned()),
    ] {
        assert!(outcome.0 == Some(code) && outcome.1.contains(&text), "{outcome:?}, expected {code} {text}");
    }
    let mut client = running.client();
    run(&mut client, DocBuf::new().with("ping", 1i32)).unwrap();
}

#[test]
fn a_server_in_the_background_listens_when_the_parent_ends() {
    let dir = tempfile::tempdir().unwrap();
    let data = dir.path().join("data");
    std::fs::create_dir(&data).unwrap();
    let (log, pid) = (dir.path().join("server.log"), dir.path().join("pid"));
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port().to_string();
    drop(listener);
    let mut parent = command(&data);
    parent.args(["--port", &port, "--fork", "--logpath"]).arg(&log).arg("--pidfilepath").arg(&pid);
    let (code, text) = failed_start(parent);
    assert!(code == Some(0) && text.contains("child process started successfully"), "{text}");
    let mut client = Client::connect(&format!("127.0.0.1:{port}")).unwrap();
    run(&mut client, DocBuf::new().with("ping", 1i32)).unwrap();
    let id = std::fs::read_to_string(&pid).unwrap();
    let _ = client.command("admin", &DocBuf::new().with("shutdown", 1i32));
    for _ in 0..500 {
        if !Path::new(&format!("/proc/{}", id.trim())).exists() {
            break;
        }
        std::thread::sleep(std::time::Duration::from_millis(10));
    }
    let text = std::fs::read_to_string(&log).unwrap();
    assert!(text.contains("\"exitCode\":0"), "{text}");
}
