//! The legacy opcodes: each as the command it means, and the replies on the way back.

use arbor_bson::{ArrayBuf, Doc, DocBuf, ValueRef};
use arbor_wire::legacy::{Back, Delete, GetMore, Query, Reply, Update, encode_insert, encode_kill_cursors, flag};
use arbor_wire::{Error, Form, Limits, Scratch, decode};

fn array(docs: &[DocBuf]) -> ArrayBuf {
    docs.iter().collect()
}

fn id(n: i32) -> DocBuf {
    DocBuf::new().with("_id", n)
}

fn query(namespace: &'static str, flags: u32, number_to_return: i32, query: &DocBuf) -> Vec<u8> {
    let mut bytes = Vec::new();
    Query { flags, namespace, skip: 0, number_to_return, query: query.as_doc(), projection: None }
        .encode(7, &mut bytes);
    bytes
}

/// The frame means `command` on `db`, answered in `form`.
fn check(bytes: &[u8], db: &str, command: &DocBuf, form: Form) {
    let mut scratch = Scratch::default();
    let got = decode(bytes, &mut scratch, Limits::default()).unwrap().into_command().unwrap();
    assert_eq!(got.body.as_doc().as_bytes(), command.as_bytes(), "{:?}\n{:?}", got.body.as_doc(), command);
    assert_eq!((got.db, got.reply_to.form, got.reply_to.request_id), (db, form, 7));
}

fn refused(bytes: &[u8]) -> String {
    match decode(bytes, &mut Scratch::default(), Limits::default()).and_then(|request| request.into_command().map(drop))
    {
        Ok(()) => "ok".to_owned(),
        Err(Error::Close(_)) => "close".to_owned(),
        Err(Error::Answer(refusal) | Error::AnswerAndClose(refusal)) => format!("answer {}", refusal.code),
    }
}

const CURSOR: Form = Form::Reply(Back::Cursor);
const COMMAND: Form = Form::Reply(Back::Command);

#[test]
fn queries_become_find() {
    let find = || DocBuf::new().with("find", "c").with("filter", &id(1));
    check(&query("d.c", 0, 0, &id(1)), "d", &find(), CURSOR);
    check(&query("d.c", flag::QUERY_SECONDARY_OK, 10, &id(1)), "d", &find().with("batchSize", 10), CURSOR);
    let limit = |n: i64| find().with("limit", n).with("singleBatch", true);
    check(&query("d.c", 0, 1, &id(1)), "d", &limit(1), CURSOR);
    check(&query("d.c", 0, -5, &id(1)), "d", &limit(5), CURSOR);
    check(&query("d.c", 0, i32::MIN, &id(1)), "d", &limit(1 << 31), CURSOR);
    let tail = flag::QUERY_TAILABLE | flag::QUERY_AWAIT_DATA;
    check(&query("d.c", tail, 0, &id(1)), "d", &find().with("tailable", true).with("awaitData", true), CURSOR);
    check(&query("d.c.e", 0, 0, &id(1)), "d", &DocBuf::new().with("find", "c.e").with("filter", &id(1)), CURSOR);

    let (filter, projection) = (id(1), DocBuf::new().with("a", 1));
    let mut bytes = Vec::new();
    let query = Query {
        flags: 0,
        namespace: "d.c",
        skip: 3,
        number_to_return: 0,
        query: filter.as_doc(),
        projection: Some(projection.as_doc()),
    };
    query.encode(7, &mut bytes);
    check(&bytes, "d", &find().with("projection", &projection).with("skip", 3), CURSOR);
}

#[test]
fn modifiers_at_the_level_of_the_query() {
    let by_a = DocBuf::new().with("a", -1);
    let wrapped = DocBuf::new()
        .with("$query", &id(1))
        .with("$orderby", &by_a)
        .with("$hint", "a_1")
        .with("$maxTimeMS", 5)
        .with("$snapshot", true);
    let find = DocBuf::new()
        .with("find", "c")
        .with("filter", &id(1))
        .with("sort", &by_a)
        .with("hint", "a_1")
        .with("maxTimeMS", 5);
    check(&query("d.c", 0, 0, &wrapped), "d", &find, CURSOR);

    let explained = DocBuf::new().with("query", &id(1)).with("$explain", true);
    let find = DocBuf::new().with("find", "c").with("filter", &id(1));
    check(&query("d.c", 0, 0, &explained), "d", &DocBuf::new().with("explain", &find), COMMAND);
    // A field named query that holds no document is a field.
    let field = DocBuf::new().with("query", 1);
    check(&query("d.c", 0, 0, &field), "d", &DocBuf::new().with("find", "c").with("filter", &field), CURSOR);
}

#[test]
fn commands_over_query() {
    let master = DocBuf::new().with("ismaster", 1);
    check(&query("admin.$cmd", 0, -1, &master), "admin", &master, COMMAND);
    let wrapped = DocBuf::new().with("$query", &master).with("$readPreference", &DocBuf::new().with("mode", "nearest"));
    check(&query("admin.$cmd", 0, -1, &wrapped), "admin", &master, COMMAND);
    check(
        &query("d.$cmd.sys.inprog", 0, -1, &id(1)),
        "admin",
        &DocBuf::new().with("currentOp", 1).with("_id", 1),
        COMMAND,
    );
    check(&query("d.$cmd.sys.unlock", 0, -1, &DocBuf::new()), "admin", &DocBuf::new().with("fsyncUnlock", 1), COMMAND);
}

#[test]
fn cursors() {
    let mut bytes = Vec::new();
    GetMore { namespace: "d.c", number_to_return: 4, cursor: 1 << 40 }.encode(7, &mut bytes);
    let get_more = DocBuf::new().with("getMore", 1i64 << 40).with("collection", "c").with("batchSize", 4i64);
    check(&bytes, "d", &get_more, Form::Reply(Back::GetMore));
    bytes.clear();
    encode_kill_cursors(7, &[3, -4], &mut bytes);
    let ids: ArrayBuf = [3i64, -4].into_iter().collect();
    let kill = DocBuf::new().with("killCursors", "$legacy").with("cursors", &ids);
    check(&bytes, "admin", &kill, Form::Nothing);
}

#[test]
fn writes() {
    let statement = |multi: bool, upsert: bool| {
        let update = DocBuf::new().with("$set", &DocBuf::new().with("a", 1));
        DocBuf::new().with("q", &id(1)).with("u", &update).with("upsert", upsert).with("multi", multi)
    };
    for (flags, upsert, multi) in [(0, false, false), (1, true, false), (2, false, true), (3, true, true)] {
        let set = DocBuf::new().with("$set", &DocBuf::new().with("a", 1));
        let selector = id(1);
        let mut bytes = Vec::new();
        Update { namespace: "d.c", flags, selector: selector.as_doc(), update: set.as_doc() }.encode(7, &mut bytes);
        let update = DocBuf::new().with("update", "c").with("updates", &array(&[statement(multi, upsert)]));
        check(&bytes, "d", &update, Form::Nothing);
    }
    for flags in [0, 1] {
        let selector = id(1);
        let mut bytes = Vec::new();
        Delete { namespace: "d.c", flags, selector: selector.as_doc() }.encode(7, &mut bytes);
        let delete = DocBuf::new().with("q", &id(1)).with("limit", flags as i32);
        check(&bytes, "d", &DocBuf::new().with("delete", "c").with("deletes", &array(&[delete])), Form::Nothing);
    }
}

#[test]
fn inserts_keep_their_documents_in_place() {
    let docs = [id(1), id(2), id(3)];
    let mut bytes = Vec::new();
    encode_insert(7, flag::INSERT_CONTINUE_ON_ERROR, "d.c", &docs, &mut bytes);
    check(&bytes, "d", &DocBuf::new().with("insert", "c").with("ordered", false), Form::Nothing);
    let mut scratch = Scratch::default();
    let command = decode(&bytes, &mut scratch, Limits::default()).unwrap().into_command().unwrap();
    let got: Vec<Doc<'_>> = command.sequences[0].iter().collect();
    assert_eq!(command.sequences[0].name, "documents");
    assert!(got.iter().zip(&docs).all(|(got, sent)| got.as_bytes() == sent.as_bytes()) && got.len() == 3);

    let key = DocBuf::new().with("a", 1);
    let index = DocBuf::new().with("ns", "d.c").with("key", &key).with("name", "a_1").with("unique", true);
    bytes.clear();
    encode_insert(7, 0, "d.system.indexes", &[index], &mut bytes);
    let index = DocBuf::new().with("key", &key).with("name", "a_1").with("unique", true);
    check(&bytes, "d", &DocBuf::new().with("createIndexes", "c").with("indexes", &array(&[index])), Form::Nothing);
}

#[test]
fn what_is_refused() {
    for namespace in ["", "d", ".c", "d."] {
        assert_eq!(refused(&query(namespace, 0, 0, &id(1))), "answer 73", "{namespace:?}");
    }
    assert_eq!(refused(&query("d.c", flag::QUERY_EXHAUST, 0, &id(1))), "answer 2");
    let whole = query("d.c", 0, 0, &id(1));
    for cut in 16..whole.len() {
        let mut short = whole[..cut].to_vec();
        short[0] = cut as u8;
        assert_ne!(refused(&short), "ok", "cut at {cut}");
    }
    let mut longer = whole.clone();
    longer.extend_from_slice(id(1).as_bytes());
    longer.push(9);
    longer[0] = longer.len() as u8;
    assert_eq!(refused(&longer), "close");
    let mut insert = Vec::new();
    encode_insert(7, 0, "d.c", &[], &mut insert);
    assert_eq!(refused(&insert), "close");
    let mut kill = Vec::new();
    encode_kill_cursors(7, &[1], &mut kill);
    for count in [-1i32, 0, 2, i32::MAX] {
        kill[20..24].copy_from_slice(&count.to_le_bytes());
        assert_eq!(refused(&kill), "close", "{count}");
    }
}

/// The reply as a legacy client sees it: flags, cursor, documents.
fn back(request: &[u8], reply: &DocBuf) -> (u32, i64, Vec<DocBuf>) {
    let reply_to = decode(request, &mut Scratch::default(), Limits::default()).unwrap().reply_to();
    let mut out = Vec::new();
    reply_to.encode(9, reply.as_doc(), &mut out);
    let reply = Reply::decode(&out).unwrap();
    assert_eq!(reply.response_to, 7);
    (reply.flags, reply.cursor, reply.documents.iter().map(Doc::to_buf).collect())
}

#[test]
fn replies_go_back_as_op_reply() {
    let batch = |name: &str, cursor: i64| {
        let cursor = DocBuf::new().with(name, &array(&[id(1), id(2)])).with("id", cursor).with("ns", "d.c");
        DocBuf::new().with("cursor", &cursor).with("ok", 1.0)
    };
    let (flags, cursor, docs) = back(&query("d.c", 0, 0, &id(1)), &batch("firstBatch", 77));
    assert_eq!((flags, cursor, docs.len()), (flag::REPLY_AWAIT_CAPABLE, 77, 2));
    assert_eq!(docs[1].as_bytes(), id(2).as_bytes());

    let mut get_more = Vec::new();
    GetMore { namespace: "d.c", number_to_return: 0, cursor: 77 }.encode(7, &mut get_more);
    let (_, cursor, docs) = back(&get_more, &batch("nextBatch", 0));
    assert_eq!((cursor, docs.len()), (0, 2));

    let failed = |code: i32| DocBuf::new().with("ok", 0.0).with("errmsg", "no").with("code", code);
    let (flags, _, docs) = back(&query("d.c", 0, 0, &id(1)), &failed(2));
    assert_eq!((flags, docs.len()), (flag::REPLY_QUERY_FAILURE, 1));
    assert!(matches!(docs[0].get("$err"), Some(ValueRef::String("no"))));
    assert!(matches!(docs[0].get("code"), Some(ValueRef::Int32(2))));
    assert_eq!(back(&get_more, &failed(43)).0, flag::REPLY_CURSOR_NOT_FOUND);
    // A command's failure is the command's reply.
    let (flags, _, docs) = back(&query("d.$cmd", 0, -1, &id(1)), &failed(59));
    assert_eq!((flags, docs[0].as_bytes()), (flag::REPLY_AWAIT_CAPABLE, failed(59).as_bytes()));
}
