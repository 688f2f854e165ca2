//! Records of the log as MongoDB shows them: the events of a record, and the documents of `local.oplog.rs`.

use arbor_bson::{ArrayBuf, Doc, DocBuf, Timestamp, ValueRef};
use arbor_txn::record::{Note, Record};

use crate::bytes::Decoded;
use crate::{Change, Kind, Malformed, Place, Retry, Statement};

/// One change of a record, with everything that is known of it.
#[derive(Clone, Debug)]
pub struct Event<'r> {
    pub time: Timestamp,
    /// Index of the change in its record.
    pub index: usize,
    /// The system's clock, milliseconds since 1970.
    pub wall: i64,
    pub statement: Option<Statement>,
    pub place: Place<'r>,
    pub change: Change<'r>,
    /// The document after an insert, a replacement or an update that has read it.
    pub after: Option<Doc<'r>>,
}

/// Returns the changes of a record in order. Records without notes have none.
pub fn events(record: &Record) -> Decoded<Vec<Event<'_>>> {
    let statement = Statement::decode(&record.logical)?;
    let event = |(index, note)| event(record, statement, index, note);
    record.notes.iter().enumerate().map(event).collect()
}

/// Returns one change of a record; `None` if `index` is out of range.
pub fn event_at(record: &Record, index: usize) -> Decoded<Option<Event<'_>>> {
    let Some(note) = record.notes.get(index) else { return Ok(None) };
    event(record, Statement::decode(&record.logical)?, index, note).map(Some)
}

fn event<'r>(record: &'r Record, statement: Option<Statement>, index: usize, note: &'r Note) -> Decoded<Event<'r>> {
    let place = record.place_of(note).ok_or(Malformed("a note without a place"))?;
    let change = Change::decode(&note.about)?;
    let after = record.value_of(note).map(Doc::trusted);
    if after.is_none() && matches!(change.kind, Kind::Insert | Kind::Replace | Kind::Update(_)) {
        return Err(Malformed("a change of a document without the document"));
    }
    Ok(Event {
        time: timestamp(record.stamp.time + index as u64),
        index,
        wall: record.stamp.wall,
        statement,
        place: Place::decode(place)?,
        change,
        after,
    })
}

/// Returns what names a document in all shards: the fields of the shard key that it has, under their paths, and `_id`, once.
pub fn document_key(shard_key: Option<Doc<'_>>, doc: Doc<'_>) -> DocBuf {
    let mut out = DocBuf::new();
    let paths = shard_key.into_iter().flat_map(|key| key.iter()).map(|(path, _)| path);
    for path in paths.clone().chain(Some("_id").filter(|id| !paths.clone().any(|path| path == *id))) {
        if let Some(value) = at_path(doc, path) {
            out.append(path, value);
        }
    }
    out
}

fn at_path<'d>(doc: Doc<'d>, path: &str) -> Option<ValueRef<'d>> {
    match path.split_once('.') {
        None => doc.get(path),
        Some((head, rest)) => match doc.get(head)? {
            ValueRef::Document(inner) => at_path(inner, rest),
            _ => None,
        },
    }
}

/// The hybrid time as BSON has it.
fn timestamp(time: u64) -> Timestamp {
    Timestamp { seconds: (time >> 32) as u32, increment: time as u32 }
}

/// Bytes of operations in one entry; with all around them it stays below the 16 MB of a document.
const ENTRY_BYTES_MAX: usize = 12 << 20;

/// The entries of a record in order: one per change, or, of a transaction, one for all of them: more than one document holds
/// are several, the earlier ones marked as partial. `term` is the epoch of the record in the log.
pub fn entries(record: &Record, term: i64) -> Decoded<Vec<DocBuf>> {
    entries_within(record, term, ENTRY_BYTES_MAX)
}

fn entries_within(record: &Record, term: i64, bytes_max: usize) -> Decoded<Vec<DocBuf>> {
    let events = events(record)?;
    match events.first() {
        Some(first) if first.is_of_transaction() => Ok(transaction(&events, term, bytes_max)),
        _ => Ok(events.iter().map(|event| entry(event, term)).collect()),
    }
}

fn entry(event: &Event<'_>, term: i64) -> DocBuf {
    let mut out = head(event.statement);
    event.append_change(&mut out);
    if let Some(statement) = event.change.statement {
        out.append("stmtId", statement);
    }
    tail(out, event, term)
}

/// `applyOps` with all changes.
fn transaction(events: &[Event<'_>], term: i64, bytes_max: usize) -> Vec<DocBuf> {
    let mut entries = Vec::new();
    let mut before = (Timestamp { seconds: 0, increment: 0 }, -1i64);
    let mut operations = ArrayBuf::new();
    for (at, event) in events.iter().enumerate() {
        let mut operation = DocBuf::new();
        event.append_change(&mut operation);
        operations.push(&operation);
        let next = events.get(at + 1).map(Event::size_bytes);
        let is_full = next.is_some_and(|next| operations.as_array().as_bytes().len() + next > bytes_max);
        if next.is_some() && !is_full {
            continue;
        }
        let mut command = DocBuf::new().with("applyOps", &operations);
        match next {
            Some(_) => drop(command.append("partialTxn", true)),
            None if entries.is_empty() => {}
            None => drop(command.append("count", events.len() as i64)),
        }
        operations = ArrayBuf::new();
        let previous = DocBuf::new().with("ts", ValueRef::Timestamp(before.0)).with("t", before.1);
        let out = head(event.statement).with("op", "c").with("ns", "admin.$cmd").with("o", &command);
        entries.push(tail(out, event, term).with("prevOpTime", &previous));
        before = (event.time, term);
    }
    entries
}

fn head(statement: Option<Statement>) -> DocBuf {
    match statement {
        None => DocBuf::new(),
        Some(statement) => DocBuf::new().with("lsid", &statement.session.to_doc()).with("txnNumber", statement.number),
    }
}

fn tail(out: DocBuf, event: &Event<'_>, term: i64) -> DocBuf {
    out.with("ts", ValueRef::Timestamp(event.time))
        .with("t", term)
        .with("v", 2i64)
        .with("wall", ValueRef::DateTime(event.wall))
}

impl<'r> Event<'r> {
    /// About what it takes in an entry.
    fn size_bytes(&self) -> usize {
        let shown = match self.change.kind {
            Kind::Insert | Kind::Replace => self.after,
            Kind::Update(doc) | Kind::Delete(doc) | Kind::Command(doc) | Kind::Noop(doc) => Some(doc),
            Kind::UnreadUpdate { delta, .. } => Some(delta),
        };
        shown.map_or(0, |doc| doc.as_bytes().len()) + self.place.namespace.len() + 256
    }

    /// `op`, `ns`, `ui`, `o`, `o2`.
    fn append_change(&self, out: &mut DocBuf) {
        let after = self.after.unwrap_or(Doc::empty());
        let code = match self.change.kind {
            Kind::Insert => "i",
            Kind::Replace | Kind::Update(_) | Kind::UnreadUpdate { .. } => "u",
            Kind::Delete(_) => "d",
            Kind::Command(_) => "c",
            Kind::Noop(_) => "n",
        };
        out.append("op", code).append("ns", self.place.namespace);
        if let Some(uuid) = &self.place.uuid {
            out.append("ui", ValueRef::Binary { subtype: 4, bytes: uuid.as_bytes() });
        }
        match self.change.kind {
            Kind::Insert | Kind::Replace => out.append("o", ValueRef::Document(after)),
            Kind::Update(delta) | Kind::UnreadUpdate { delta, .. } => {
                let versioned = DocBuf::new().with("$v", 2i32).with("diff", ValueRef::Document(delta));
                out.append("o", &versioned)
            }
            Kind::Delete(doc) | Kind::Command(doc) | Kind::Noop(doc) => out.append("o", ValueRef::Document(doc)),
        };
        if matches!(self.change.kind, Kind::Insert | Kind::Replace | Kind::Update(_) | Kind::UnreadUpdate { .. }) {
            out.append("o2", &self.document_key());
        }
        if let Some(before) = self.object2() {
            out.append("o2", ValueRef::Document(before));
        }
    }

    /// Returns the state before a change of the catalogue.
    pub fn object2(&self) -> Option<Doc<'r>> {
        self.change.before.filter(|_| matches!(self.change.kind, Kind::Command(_)))
    }

    /// All changes of its record are one transaction.
    pub fn is_of_transaction(&self) -> bool {
        self.statement.is_some_and(|statement| statement.retry == Retry::Transaction)
    }

    /// Returns the fields of the shard key and `_id` of the document that was changed, as they are after the change.
    pub fn document_key(&self) -> DocBuf {
        match self.change.kind {
            Kind::Delete(key) | Kind::UnreadUpdate { key, .. } => key.to_buf(),
            _ => self.after.map(|doc| document_key(self.place.shard_key, doc)).unwrap_or_default(),
        }
    }

    /// Returns the `_id` of the document that was changed.
    pub fn id(&self) -> Option<ValueRef<'r>> {
        match self.change.kind {
            Kind::Delete(key) | Kind::UnreadUpdate { key, .. } => key.get("_id"),
            _ => self.after.and_then(|doc| doc.get("_id")),
        }
    }
}

#[cfg(test)]
mod tests {
    use arbor_base::TreeId;
    use arbor_engine::Op;
    use arbor_notation::{doc, show};
    use arbor_txn::Stamp;
    use arbor_txn::record::NoteValue;
    use uuid::Uuid;

    use super::*;
    use crate::SessionId;

    const TREE: TreeId = TreeId(20);

    fn record(statement: Option<Statement>, changes: &[(Change<'_>, Option<&DocBuf>)]) -> Record {
        let place = Place { namespace: "db.c", uuid: Some(Uuid::from_u128(5)), shard_key: None };
        let mut record = Record {
            stamp: Stamp { time: (100 << 32) + 7, wall: 100_250 },
            logical: statement.map(|statement| statement.encode()).unwrap_or_default(),
            places: vec![(TREE, place.encode())],
            ..Record::default()
        };
        for (change, after) in changes {
            let value = after.map_or(NoteValue::Nothing, |_| NoteValue::Op(record.ops.len()));
            record.ops.extend(after.map(|after| Op::Put {
                tree: TREE,
                key: Vec::new(),
                value: after.as_bytes().to_vec(),
            }));
            record.notes.push(Note { tree: TREE, about: change.encode(), value });
        }
        Record::decode(&record.encode()).unwrap()
    }

    fn shown(record: &Record) -> Vec<String> {
        entries(record, 1).unwrap().iter().map(|entry| show(entry.into())).collect()
    }

    const UUID: &str = r#"Binary(4, "00000000000000000000000000000005")"#;

    fn expect(text: &str) -> String {
        show((&doc(&text.replace("UI", UUID))).into())
    }

    #[test]
    fn a_document_key_has_the_shard_key_first_and_the_id_once() {
        let document = doc("{_id: 1, b: {c: 2}, a: [3]}");
        for (key, expected) in [
            (None, "{_id: 1}"),
            (Some("{_id: 1}"), "{_id: 1}"),
            (Some("{'b.c': 1, missing: 1}"), "{'b.c': 2, _id: 1}"),
            (Some("{a: 'hashed', _id: 1, b: 1}"), "{a: [3], _id: 1, b: {c: 2}}"),
        ] {
            let key = key.map(doc);
            let found = document_key(key.as_ref().map(DocBuf::as_doc), document.as_doc());
            assert_eq!(show((&found).into()), show((&doc(expected)).into()));
        }
    }

    #[test]
    fn every_change_is_an_entry() {
        let (after, delta, key) = (doc("{_id: 1, a: 2}"), doc("{u: {a: 2}}"), doc("{_id: 1}"));
        let (create, old) = (doc("{create: 'c'}"), doc("{was: 1}"));
        let modified = Change { before: Some(old.as_doc()), ..Change::of(Kind::Command(create.as_doc())) };
        let retried = Change { kind: Kind::Update(delta.as_doc()), statement: Some(4), before: None };
        let record = record(
            None,
            &[
                (Change::of(Kind::Insert), Some(&after)),
                (retried, Some(&after)),
                (Change::of(Kind::Replace), Some(&after)),
                (Change::of(Kind::Delete(key.as_doc())), None),
                (Change::of(Kind::Command(create.as_doc())), None),
                (modified, None),
                (Change::of(Kind::UnreadUpdate { key: key.as_doc(), delta: delta.as_doc() }), None),
            ],
        );
        let tail = |at: u32| {
            format!("ts: Timestamp(100, {at}), t: Long(1), v: Long(2), wall: Date(\"1970-01-01T00:01:40.25Z\")")
        };
        let expected = [
            format!("{{op: 'i', ns: 'db.c', ui: UI, o: {{_id: 1, a: 2}}, o2: {{_id: 1}}, {}}}", tail(7)),
            format!(
                "{{op: 'u', ns: 'db.c', ui: UI, o: {{$v: 2, diff: {{u: {{a: 2}}}}}}, o2: {{_id: 1}}, stmtId: 4, {}}}",
                tail(8)
            ),
            format!("{{op: 'u', ns: 'db.c', ui: UI, o: {{_id: 1, a: 2}}, o2: {{_id: 1}}, {}}}", tail(9)),
            format!("{{op: 'd', ns: 'db.c', ui: UI, o: {{_id: 1}}, {}}}", tail(10)),
            format!("{{op: 'c', ns: 'db.c', ui: UI, o: {{create: 'c'}}, {}}}", tail(11)),
            format!("{{op: 'c', ns: 'db.c', ui: UI, o: {{create: 'c'}}, o2: {{was: 1}}, {}}}", tail(12)),
            format!(
                "{{op: 'u', ns: 'db.c', ui: UI, o: {{$v: 2, diff: {{u: {{a: 2}}}}}}, o2: {{_id: 1}}, {}}}",
                tail(13)
            ),
        ];
        assert_eq!(
            format!("{:?}", event_at(&record, 3)),
            format!("{:?}", Ok::<_, Malformed>(events(&record).unwrap().get(3)))
        );
        assert!(event_at(&record, 7).unwrap().is_none());
        assert_eq!(shown(&record), expected.map(|entry| expect(&entry)));
    }

    #[test]
    fn a_transaction_is_one_entry() {
        let session = SessionId { id: Uuid::from_u128(5), user: [0; 32] };
        let statement = Statement { session, number: 3, retry: Retry::Transaction };
        let (after, key) = (doc("{_id: 1}"), doc("{_id: 2}"));
        let record = record(
            Some(statement),
            &[(Change::of(Kind::Insert), Some(&after)), (Change::of(Kind::Delete(key.as_doc())), None)],
        );
        let entry = entries(&record, 1).unwrap();
        assert_eq!(entry.len(), 1);
        let operations = r#"{applyOps: [{op: 'i', ns: 'db.c', ui: UI, o: {_id: 1}, o2: {_id: 1}}, {op: 'd', ns: 'db.c', ui: UI, o: {_id: 2}}]}"#;
        assert_eq!(show(entry[0].get("o").unwrap()), expect(operations));
        assert_eq!(show(entry[0].get("txnNumber").unwrap()), "Long(3)");
        assert!(matches!(entry[0].get("ts"), Some(ValueRef::Timestamp(Timestamp { seconds: 100, increment: 8 }))));
    }

    #[test]
    fn a_large_transaction_is_several_entries() {
        let session = SessionId { id: Uuid::from_u128(5), user: [0; 32] };
        let statement = Statement { session, number: 3, retry: Retry::Transaction };
        let documents: Vec<DocBuf> =
            (0..5i32).map(|id| DocBuf::new().with("_id", id).with("t", "x".repeat(300).as_str())).collect();
        let changes: Vec<_> = documents.iter().map(|doc| (Change::of(Kind::Insert), Some(doc))).collect();
        let record = record(Some(statement), &changes);
        let entries = entries_within(&record, 1, 1300).unwrap();
        let values_of = |name: &str| -> Vec<String> {
            let of = |entry: &DocBuf| match entry.get("o") {
                Some(ValueRef::Document(o)) => o.get(name).map_or(String::new(), show),
                other => panic!("{other:?}"),
            };
            entries.iter().map(of).collect()
        };
        assert_eq!(values_of("partialTxn"), ["true", "true", ""]);
        assert_eq!(values_of("count"), ["", "", "Long(5)"]);
        assert_eq!(values_of("applyOps").iter().map(|all| all.matches("\"i\"").count()).collect::<Vec<_>>(), [2, 2, 1]);
        let times: Vec<String> = entries.iter().map(|entry| show(entry.get("ts").unwrap())).collect();
        let before = |entry: &DocBuf| match entry.get("prevOpTime") {
            Some(ValueRef::Document(before)) => show(before.get("ts").unwrap()),
            other => panic!("{other:?}"),
        };
        assert_eq!(entries[1..].iter().map(before).collect::<Vec<_>>(), times[..2]);
        assert!(before(&entries[0]).contains("seconds: 0"));
    }

    #[test]
    fn damaged_notes_are_errors() {
        let after = doc("{_id: 1}");
        let whole = record(None, &[(Change::of(Kind::Insert), Some(&after))]);
        let mut without_place = whole.clone();
        without_place.places.clear();
        assert_eq!(entries(&without_place, 1).unwrap_err(), Malformed("a note without a place"));
        let mut without_value = whole.clone();
        without_value.notes[0].value = NoteValue::Nothing;
        assert_eq!(entries(&without_value, 1).unwrap_err(), Malformed("a change of a document without the document"));
        let mut bad_logical = whole;
        bad_logical.logical = vec![9];
        assert!(entries(&bad_logical, 1).is_err());
    }
}
