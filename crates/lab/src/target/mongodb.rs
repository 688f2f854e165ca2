//! A MongoDB server (Arbor or another) over the lean client.

use std::path::{Path, PathBuf};
use std::time::Duration;

use arbor_bson::{ArrayBuf, Doc, DocBuf, ValueRef};
use arbor_wire::client::{Client, ClientError, Options, Uri};
use serde_json::{Value, json};

use super::template::{INT_HOLES, Template, text_hole};
use super::{Failure, Session, Sizes, Target};
use crate::workload::{C_BYTES, Columns, Operation, PAD_BYTES, Row};
use crate::{Error, Result};

const DATABASE: &str = "sbtest";
/// Longer than any operation of the experiments takes; a server that hangs ends the run instead of hanging it.
const TIMEOUT: Duration = Duration::from_secs(300);

/// A running server.
#[derive(Clone, Debug)]
pub struct MongoDb {
    name: String,
    address: String,
    options: Options,
    process: Option<u32>,
    folder: Option<PathBuf>,
}

impl MongoDb {
    /// `mongodb://host:port` or `name=mongodb://host:port`.
    pub fn parse(text: &str) -> Result<MongoDb> {
        let (name, uri) = match text.split_once('=') {
            Some((name, uri)) if !name.contains([':', '/']) => (Some(name), uri),
            _ => (None, text),
        };
        let uri = Uri::parse(uri).map_err(|error| Error::Usage(error.to_string()))?;
        let mut target = MongoDb::at(name.unwrap_or(&uri.address), &uri.address);
        target.options = Options { app_name: target.options.app_name, timeout: Some(TIMEOUT), ..uri.options() };
        Ok(target)
    }

    pub fn at(name: &str, address: &str) -> MongoDb {
        let options = Options { app_name: "arbor lab".to_owned(), timeout: Some(TIMEOUT), ..Options::default() };
        MongoDb { name: name.to_owned(), address: address.to_owned(), options, process: None, folder: None }
    }

    /// The same, run by a process of this machine on a folder of this machine.
    pub fn local(mut self, process: u32, folder: Option<&Path>) -> MongoDb {
        self.process = Some(process);
        self.folder = folder.map(Path::to_owned);
        self
    }

    /// Finds out the process of a server on this machine, so that its CPU time can be told from the rest.
    pub fn discover(mut self) -> Result<MongoDb> {
        if self.address.starts_with("127.0.0.1:") || self.address.starts_with("localhost:") {
            let mut client = self.client()?;
            let status = client.command("admin", &DocBuf::new().with("serverStatus", 1));
            self.process = status.ok().and_then(|reply| reply.number("pid")).map(|pid| pid as u32);
        }
        Ok(self)
    }

    pub fn client(&self) -> Result<Client> {
        Client::connect_with(&self.address, self.options.clone())
            .map_err(|source| Error::Client { server: self.name.clone(), source })
    }

    /// Bytes of the reply to a point query for row 1 of table 1.
    pub fn point_reply_bytes(&self) -> Result<usize> {
        let mut client = self.client()?;
        let mut templates = Templates::of_table(1);
        let reply = client
            .call(templates.point_all.with_ints(&[1]))
            .map_err(|source| Error::Client { server: self.name.clone(), source })?;
        // Header, flags, section kind.
        Ok(reply.doc.as_bytes().len() + 21)
    }
}

impl Target for MongoDb {
    fn name(&self) -> &str {
        &self.name
    }

    fn connect(&self) -> Result<Box<dyn Session>> {
        Ok(Box::new(Connection { client: self.client()?, templates: Vec::new(), documents: Vec::new() }))
    }

    fn process(&self) -> Option<u32> {
        self.process
    }

    fn folder(&self) -> Option<&Path> {
        self.folder.as_deref()
    }

    fn about(&self) -> Result<Value> {
        let mut client = self.client()?;
        let mut text = |command: &str, path: &[&str]| {
            let reply = client.command("admin", &DocBuf::new().with(command, 1)).ok()?;
            let (last, parents) = path.split_last()?;
            let parent = parents.iter().try_fold(reply.doc, |doc, field| match doc.get(field)? {
                ValueRef::Document(inner) => Some(inner),
                _ => None,
            })?;
            match parent.get(last)? {
                ValueRef::String(text) => Some(text.to_owned()),
                _ => None,
            }
        };
        Ok(json!({
            "address": self.address,
            "version": text("buildInfo", &["version"]),
            "git_version": text("buildInfo", &["gitVersion"]),
            "engine": text("serverStatus", &["storageEngine", "name"]),
            "write_concern": "w:1, j:false (server default)",
            "compressor": self.options.compressor.map(arbor_wire::Compressor::name),
        }))
    }
}

/// The commands on one table.
struct Templates {
    point_all: Template,
    point_c: Template,
    range: Template,
    order: Template,
    distinct: Template,
    index_update: Template,
    non_index_update: Template,
    delete: Template,
    insert: Template,
}

fn table_name(table: u32) -> String {
    format!("sbtest{table}")
}

impl Templates {
    fn of_table(table: u32) -> Templates {
        let name = table_name(table);
        let [first, second] = INT_HOLES;
        let over = |command: &str| DocBuf::new().with(command, name.as_str());
        let in_db = |command: DocBuf| Template::new(command.with("$db", DATABASE));
        let by_id = DocBuf::new().with("_id", first);
        let range = id_range();
        let only_c = DocBuf::new().with("c", 1).with("_id", 0);
        let find_one = || over("find").with("filter", &by_id);
        let find_range = || over("find").with("filter", &range).with("projection", &only_c);
        let update = |change: DocBuf| {
            let statement = DocBuf::new().with("q", &by_id).with("u", &change);
            over("update").with("updates", &array(&[statement])).with("ordered", true)
        };
        // The driver's remove({_id: x}) puts no limit.
        let delete = DocBuf::new().with("q", &by_id).with("limit", 0);
        let row = DocBuf::new()
            .with("_id", first)
            .with("k", second)
            .with("c", text_hole(C_BYTES).as_str())
            .with("pad", text_hole(PAD_BYTES).as_str());
        let set_c = DocBuf::new().with("c", text_hole(C_BYTES).as_str());
        Templates {
            point_all: in_db(find_one().with("limit", 1).with("singleBatch", true)),
            point_c: in_db(find_one().with("projection", &only_c).with("limit", 1).with("singleBatch", true)),
            range: in_db(find_range()),
            order: in_db(find_range().with("sort", &DocBuf::new().with("c", 1))),
            distinct: in_db(over("distinct").with("key", "c").with("query", &range)),
            index_update: in_db(update(DocBuf::new().with("$inc", &DocBuf::new().with("k", 1)))),
            non_index_update: in_db(update(DocBuf::new().with("$set", &set_c))),
            delete: in_db(over("delete").with("deletes", &array(&[delete])).with("ordered", true)),
            insert: in_db(over("insert").with("documents", &array(&[row])).with("ordered", true)),
        }
    }
}

/// The point query of all columns on a table, as other targets send it too.
pub(super) fn point_command(table: u32) -> Template {
    Templates::of_table(table).point_all
}

fn id_range() -> DocBuf {
    let [first, second] = INT_HOLES;
    DocBuf::new().with("_id", &DocBuf::new().with("$gte", first).with("$lte", second))
}

fn array(docs: &[DocBuf]) -> ArrayBuf {
    docs.iter().collect()
}

/// The row as it is loaded: `_id` is an int64 (spec/workloads.md 2.2).
pub fn loaded_document(row: &Row) -> DocBuf {
    DocBuf::new().with("_id", row.id).with("k", row.k).with("c", row.c.as_str()).with("pad", row.pad.as_str())
}

struct Connection {
    client: Client,
    /// By table number - 1, made when first used.
    templates: Vec<Option<Box<Templates>>>,
    documents: Vec<DocBuf>,
}

/// The templates of a table; free of `self` so that the client can be borrowed beside them.
fn templates_of(all: &mut Vec<Option<Box<Templates>>>, table: u32) -> &mut Templates {
    let index = table as usize;
    if all.len() <= index {
        all.resize_with(index + 1, || None);
    }
    all[index].get_or_insert_with(|| Box::new(Templates::of_table(table)))
}

impl Session for Connection {
    fn execute(&mut self, operation: &Operation<'_>) -> std::result::Result<u64, Failure> {
        let Connection { client, templates, .. } = self;
        let table = operation.table();
        let of = templates_of(templates, table);
        match *operation {
            Operation::Point { id, columns: Columns::All, .. } => read(client, of.point_all.with_ints(&[id])),
            Operation::Point { id, columns: Columns::C, .. } => read(client, of.point_c.with_ints(&[id])),
            Operation::Range { ids, .. } => read(client, of.range.with_ints(&[ids.from, ids.to])),
            Operation::Order { ids, .. } => read(client, of.order.with_ints(&[ids.from, ids.to])),
            Operation::Sum { ids, name, .. } => read(client, sum_command(table, ids.from, ids.to, name).as_bytes()),
            Operation::Distinct { ids, .. } => {
                let reply = client.call(of.distinct.with_ints(&[ids.from, ids.to]))?;
                match reply.doc.get("values") {
                    Some(ValueRef::Array(values)) => Ok(values.len() as u64),
                    _ => Err(Failure::answer("distinct without values")),
                }
            }
            Operation::IndexUpdate { id, .. } => write(client, of.index_update.with_ints(&[id])),
            Operation::NonIndexUpdate { id, c, .. } => write(client, of.non_index_update.with(&[id], &[c])),
            Operation::Delete { id, .. } => write(client, of.delete.with_ints(&[id])),
            Operation::Insert { row, .. } => {
                write(client, of.insert.with(&[row.id as i32, row.k], &[&row.c, &row.pad]))
            }
        }
    }

    fn create_table(&mut self, table: u32) -> std::result::Result<(), Failure> {
        let index = DocBuf::new().with("key", &DocBuf::new().with("k", 1)).with("name", "k_1");
        let command = DocBuf::new().with("createIndexes", table_name(table).as_str()).with("indexes", &array(&[index]));
        self.client.command(DATABASE, &command)?;
        Ok(())
    }

    fn drop_table(&mut self, table: u32) -> std::result::Result<(), Failure> {
        const NAMESPACE_NOT_FOUND: i32 = 26;
        match self.client.command(DATABASE, &DocBuf::new().with("drop", table_name(table).as_str())) {
            Err(error) if error.code() != Some(NAMESPACE_NOT_FOUND) => Err(error.into()),
            _ => Ok(()),
        }
    }

    fn count_rows(&mut self, table: u32) -> std::result::Result<u64, Failure> {
        let reply = self.client.command(DATABASE, &DocBuf::new().with("count", table_name(table).as_str()))?;
        Ok(reply.number("n").unwrap_or(0.0) as u64)
    }

    fn insert_rows(&mut self, table: u32, rows: &[Row]) -> std::result::Result<(), Failure> {
        self.documents.clear();
        self.documents.extend(rows.iter().map(loaded_document));
        let command = DocBuf::new().with("insert", table_name(table).as_str()).with("ordered", true);
        let reply = self.client.command_with(DATABASE, &command, &[("documents", &self.documents)])?;
        reply.first_write_error().map_or(Ok(()), |error| Err(error.into()))
    }

    fn scan_table(&mut self, table: u32) -> std::result::Result<u64, Failure> {
        let command = DocBuf::new().with("find", table_name(table).as_str()).with("batchSize", 10_000);
        Ok(self.client.find(DATABASE, &command, |_| {})? as u64)
    }

    fn sizes(&mut self) -> std::result::Result<Sizes, Failure> {
        let stats = self.client.command(DATABASE, &DocBuf::new().with("dbStats", 1))?;
        let mut sizes = Sizes {
            documents: stats.number("objects"),
            data_bytes: stats.number("dataSize"),
            storage_bytes: stats.number("storageSize"),
            index_bytes: stats.number("indexSize"),
            ..Sizes::default()
        };
        let status = self.client.command("admin", &DocBuf::new().with("serverStatus", 1))?;
        sizes.log_bytes = figure(status.doc, "arborLog", "bytes");
        sizes.engine_bytes = figure(status.doc, "engine", "diskBytes");
        sizes.engine_free_bytes = figure(status.doc, "engine", "freeBytes");
        Ok(sizes)
    }
}

/// A number of a section of serverStatus that only Arbor has.
fn figure(status: Doc<'_>, section: &str, field: &str) -> Option<f64> {
    let Some(ValueRef::Document(section)) = status.get(section) else { return None };
    match section.get(field)? {
        ValueRef::Int64(figure) => Some(figure as f64),
        ValueRef::Int32(figure) => Some(figure.into()),
        ValueRef::Double(figure) => Some(figure),
        _ => None,
    }
}

fn sum_command(table: u32, from: i32, to: i32, name: &str) -> DocBuf {
    let range = DocBuf::new().with("_id", &DocBuf::new().with("$gte", from).with("$lte", to));
    let project = DocBuf::new().with("k", 1).with("_id", 0);
    let group = DocBuf::new().with("_id", ValueRef::Null).with(name, &DocBuf::new().with("$sum", "$k"));
    let pipeline = array(&[
        DocBuf::new().with("$match", &range),
        DocBuf::new().with("$project", &project),
        DocBuf::new().with("$group", &group),
    ]);
    DocBuf::new()
        .with("aggregate", table_name(table).as_str())
        .with("pipeline", &pipeline)
        .with("cursor", &DocBuf::new())
        .with("$db", DATABASE)
}

fn read(client: &mut Client, command: &[u8]) -> std::result::Result<u64, Failure> {
    Ok(client.find_raw(command, |_| {})? as u64)
}

fn write(client: &mut Client, command: &[u8]) -> std::result::Result<u64, Failure> {
    let reply = client.call(command)?;
    match reply.first_write_error() {
        Some(error) => Err(error.into()),
        None => Ok(reply.number("n").unwrap_or(0.0) as u64),
    }
}

impl Failure {
    fn answer(message: &str) -> Failure {
        Failure { code: "reply".to_owned(), message: message.to_owned(), broken: false }
    }
}

impl From<ClientError> for Failure {
    fn from(error: ClientError) -> Failure {
        let code = match &error {
            ClientError::Command { code, .. } => code.to_string(),
            ClientError::Io(error) => format!("io: {}", error.kind()),
            _ => "protocol".to_owned(),
        };
        Failure { code, message: error.to_string(), broken: !error.is_answer() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workload::Random;

    #[test]
    fn documents_have_the_sizes_of_sysbench() {
        let row = Row::random(1, 1000, &mut Random::new(1));
        assert_eq!(loaded_document(&row).as_bytes().len(), 221);
        let mut templates = Templates::of_table(1);
        let insert = Doc::parse(templates.insert.with(&[1, 2], &[&row.c, &row.pad])).unwrap();
        let Some(ValueRef::Array(documents)) = insert.get("documents") else { panic!("{insert:?}") };
        let Some(ValueRef::Document(document)) = documents.get(0) else { panic!("{insert:?}") };
        assert_eq!(document.as_bytes().len(), 217);
        assert!(matches!(document.get("_id"), Some(ValueRef::Int32(1))));
        assert!(matches!(document.get("pad"), Some(ValueRef::String(pad)) if pad == row.pad));
    }

    #[test]
    fn templates_are_the_commands_they_stand_for() {
        let mut templates = Templates::of_table(3);
        let expected = DocBuf::new()
            .with("find", "sbtest3")
            .with("filter", &DocBuf::new().with("_id", &DocBuf::new().with("$gte", 5).with("$lte", 104)))
            .with("projection", &DocBuf::new().with("c", 1).with("_id", 0))
            .with("$db", "sbtest");
        assert_eq!(templates.range.with_ints(&[5, 104]), expected.as_bytes());
        let set = DocBuf::new().with("$set", &DocBuf::new().with("c", "z".repeat(119).as_str()));
        let statement = DocBuf::new().with("q", &DocBuf::new().with("_id", 9)).with("u", &set);
        let expected = DocBuf::new()
            .with("update", "sbtest3")
            .with("updates", &array(&[statement]))
            .with("ordered", true)
            .with("$db", "sbtest");
        assert_eq!(templates.non_index_update.with(&[9], &[&"z".repeat(119)]), expected.as_bytes());
    }

    #[test]
    fn targets_may_have_names() {
        let check = |text: &str, name: &str, address: &str| {
            let target = MongoDb::parse(text).unwrap();
            assert_eq!((target.name.as_str(), target.address.as_str()), (name, address));
        };
        check("mongodb://h:1", "h:1", "h:1");
        check("mongo7=mongodb://h:1/?appName=x", "mongo7", "h:1");
        check("mongodb://h:1/?appName=x", "h:1", "h:1");
        assert!(MongoDb::parse("mongodb://u:p@h").is_err());
    }
}
