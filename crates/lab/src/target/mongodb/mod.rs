//! A MongoDB server (Arbor or another) over the lean client; one file per family of operations.

mod iibench;
mod linkbench;
mod object_ids;
mod own;
mod percona;
mod sharded;
mod statistics;
mod sysbench;
mod ycsb;

use std::os::fd::BorrowedFd;
use std::path::{Path, PathBuf};
use std::time::Duration;

use arbor_bson::{ArrayBuf, Doc, DocBuf, ValueRef};
use arbor_client::{Client, ClientError, Options, Reply, Uri};
use serde_json::{Value, json};
pub(super) use sysbench::point_command;

use self::iibench::Iibench;
use self::linkbench::LinkBench;
use self::statistics::{ServerStatus, command_of};
use self::sysbench::Sysbench;
use self::ycsb::Ycsb;
use super::{ChunkMove, Failure, Session, Sizes, Statistics, Stored, Target};
use crate::workload::{Answer, Collection, Found, Index, Operation};
use crate::{Error, Result};

/// Longer than any operation of the experiments takes; a server that hangs ends the run instead of hanging it.
const TIMEOUT: Duration = Duration::from_secs(300);

/// A running server.
#[derive(Clone, Debug)]
pub struct MongoDb {
    name: String,
    address: String,
    options: Options,
    process: Option<u32>,
    directory: Option<PathBuf>,
}

impl MongoDb {
    /// `mongodb://host:port` or `name=mongodb://host:port`.
    pub fn parse(text: &str) -> Result<MongoDb> {
        let (name, uri) = super::split(text);
        let uri = Uri::parse(uri).map_err(|error| Error::Usage(error.to_string()))?;
        let mut target = MongoDb::at(name.unwrap_or(&uri.address), &uri.address);
        target.options = Options { app_name: target.options.app_name, timeout: Some(TIMEOUT), ..uri.options() };
        Ok(target)
    }

    pub fn at(name: &str, address: &str) -> MongoDb {
        let options = Options { app_name: "arbor lab".to_owned(), timeout: Some(TIMEOUT), ..Options::default() };
        MongoDb { name: name.to_owned(), address: address.to_owned(), options, process: None, directory: None }
    }

    /// `host:port`.
    pub fn address(&self) -> &str {
        &self.address
    }

    /// Returns the credentials of the clients.
    #[cfg(feature = "official-driver")]
    pub(super) fn credential(&self) -> Option<&arbor_client::Credential> {
        self.options.credential.as_ref()
    }

    /// Returns the TLS options of the clients.
    #[cfg(feature = "official-driver")]
    pub(super) fn tls(&self) -> Option<&arbor_client::TlsOptions> {
        self.options.tls.as_ref().map(arbor_client::Tls::options)
    }

    /// Sets the server's process and data directory, both on this machine.
    pub fn local(mut self, process: u32, directory: Option<&Path>) -> MongoDb {
        self.process = Some(process);
        self.directory = directory.map(Path::to_owned);
        self
    }

    /// Looks up the process of a server on this machine, so that its CPU time can be counted apart.
    pub fn discover(mut self) -> Result<MongoDb> {
        if self.address.starts_with("127.0.0.1:") || self.address.starts_with("localhost:") {
            let mut client = self.client()?;
            let status = client.command("admin", &DocBuf::new().with("serverStatus", 1));
            self.process = status.ok().and_then(|reply| reply.number("pid")).map(|pid| pid as u32);
        }
        Ok(self)
    }

    pub fn client(&self) -> Result<Client> {
        Client::connect_with(&self.address, self.options.clone()).map_err(|source| self.refused(source))
    }

    /// Returns why a connection failed, with its address.
    fn refused(&self, source: ClientError) -> Error {
        let server =
            if self.name == self.address { self.name.clone() } else { format!("{} ({})", self.name, self.address) };
        match source {
            ClientError::Frame(what) => {
                Error::Server { server, reason: format!("the server does not speak MongoDB's protocol: {what}") }
            }
            ClientError::Io(error) if error.kind() == std::io::ErrorKind::WouldBlock => {
                Error::Server { server, reason: "it accepts connections and does not reply".to_owned() }
            }
            ClientError::Io(error) if error.kind() == std::io::ErrorKind::UnexpectedEof => {
                let wants_tls = if self.options.tls.is_none() { "; it may require TLS (tls=true)" } else { "" };
                Error::Server { server, reason: format!("it closes connections without a reply{wants_tls}") }
            }
            source => Error::Client { server, source },
        }
    }
}

impl Target for MongoDb {
    fn name(&self) -> &str {
        &self.name
    }

    fn connect(&self) -> Result<Box<dyn Session>> {
        Ok(Box::new(Connection {
            client: self.client()?,
            iibench: Iibench::default(),
            linkbench: LinkBench::default(),
            sysbench: Sysbench::default(),
            ycsb: Ycsb::default(),
        }))
    }

    fn process(&self) -> Option<u32> {
        self.process
    }

    fn directory(&self) -> Option<&Path> {
        self.directory.as_deref()
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
            "driver": "our own lean client",
            "compressor": self.options.compressor.map(arbor_wire::Compressor::name),
        }))
    }

    fn point_reply_bytes(&self) -> Option<usize> {
        let mut client = self.client().ok()?;
        let reply = client.call(sysbench::point_command(1).with_ints(&[1])).ok()?;
        // Header, flags, section kind.
        Some(reply.doc.as_bytes().len() + 21)
    }

    fn statistics(&self) -> Option<Box<dyn Statistics>> {
        Some(Box::new(ServerStatus(self.client().ok()?)))
    }
}

struct Connection {
    client: Client,
    iibench: Iibench,
    linkbench: LinkBench,
    sysbench: Sysbench,
    ycsb: Ycsb,
}

impl Session for Connection {
    fn execute(&mut self, operation: &Operation<'_>) -> std::result::Result<Answer, Failure> {
        match operation {
            Operation::Sysbench(statement) => self.sysbench.execute(&mut self.client, statement).map(Answer::rows),
            Operation::Percona(statement) => percona::execute(&mut self.client, statement).map(Answer::rows),
            Operation::Sharded(statement) => sharded::execute(&mut self.client, statement).map(Answer::rows),
            Operation::Link(store, operation) => self.linkbench.execute(&mut self.client, store, operation),
            Operation::Ycsb(operation) => self.ycsb.execute(&mut self.client, operation).map(Answer::rows),
            Operation::Own(operation) => own::execute(&mut self.client, operation).map(Answer::rows),
            Operation::Iibench(operation) => self.iibench.execute(&mut self.client, operation).map(Answer::rows),
        }
    }

    fn send(&mut self, operation: &Operation<'_>) -> std::result::Result<bool, Failure> {
        match operation {
            Operation::Sysbench(statement) => self.sysbench.send(&mut self.client, statement),
            _ => Ok(false),
        }
    }

    fn receive(&mut self) -> std::result::Result<Answer, Failure> {
        Ok(Answer::rows(self.client.receive_find(|_| {})? as u64))
    }

    fn socket(&self) -> Option<BorrowedFd<'_>> {
        self.client.plain_socket()
    }

    fn create(&mut self, collection: &Collection) -> std::result::Result<(), Failure> {
        self.client.command(collection.database, &DocBuf::new().with("create", collection.name.as_str()))?;
        create_indexes(&mut self.client, collection, false)?;
        match &collection.sharding {
            Some(sharding) => sharded::shard(&mut self.client, collection, sharding),
            None => Ok(()),
        }
    }

    fn create_late_indexes(&mut self, collection: &Collection) -> std::result::Result<(), Failure> {
        create_indexes(&mut self.client, collection, true)
    }

    fn remove(&mut self, collection: &Collection) -> std::result::Result<(), Failure> {
        const NAMESPACE_NOT_FOUND: i32 = 26;
        match self.client.command(collection.database, &DocBuf::new().with("drop", collection.name.as_str())) {
            Err(error) if error.code() != Some(NAMESPACE_NOT_FOUND) => Err(error.into()),
            _ => Ok(()),
        }
    }

    fn find(&mut self, collection: &Collection) -> std::result::Result<Found, Failure> {
        let Collection { database, name, sequence, .. } = collection;
        let reply = self.client.command(database, &DocBuf::new().with("count", name.as_str()))?;
        let mut found = Found { documents: reply.number("n").unwrap_or(0.0) as u64, last_id: None };
        if *sequence && found.documents > 0 {
            let last = DocBuf::new().with("find", name.as_str()).with("sort", &DocBuf::new().with("_id", -1));
            let last = last.with("limit", 1).with("singleBatch", true);
            self.client.find(database, &last, |document| found.last_id = integer(document.get("_id")))?;
        }
        Ok(found)
    }

    fn scan(&mut self, collection: &Collection) -> std::result::Result<u64, Failure> {
        let command = DocBuf::new().with("find", collection.name.as_str()).with("batchSize", 10_000);
        Ok(self.client.find(collection.database, &command, |_| {})? as u64)
    }

    fn sizes(&mut self, database: &str) -> std::result::Result<Sizes, Failure> {
        let stats = self.client.command(database, &DocBuf::new().with("dbStats", 1))?;
        let mut sizes = Sizes {
            documents: stats.number("objects"),
            data_bytes: stats.number("dataSize"),
            storage_bytes: stats.number("storageSize"),
            index_bytes: stats.number("indexSize"),
            ..Sizes::default()
        };
        let status = self.client.command("admin", &DocBuf::new().with("serverStatus", 1))?;
        sizes.log_bytes = metric(status.doc, "arborLog", "bytes");
        sizes.engine_bytes = metric(status.doc, "engine", "diskBytes");
        sizes.engine_free_bytes = metric(status.doc, "engine", "freeBytes");
        Ok(sizes)
    }

    fn shards(&mut self) -> usize {
        sharded::shards(&mut self.client).map_or(0, |shards| shards.len())
    }

    fn moves(&mut self, collection: &Collection) -> std::result::Result<Vec<ChunkMove>, Failure> {
        sharded::moves(&mut self.client, collection)
    }

    fn stored(&mut self, collection: &Collection) -> std::result::Result<u64, Failure> {
        let command = DocBuf::new().with("collStats", collection.name.as_str());
        let reply = self.client.command(collection.database, &command)?;
        reply.number("count").map(|count| count as u64).ok_or_else(|| Failure::answer("collStats without count"))
    }

    fn validate(&mut self, collection: &Collection) -> std::result::Result<Stored, Failure> {
        sharded::validate(&mut self.client, collection)
    }

    fn command(&mut self, database: &str, command: &[(String, Value)]) -> std::result::Result<(), Failure> {
        let command = sharded::with_shard_names(&mut self.client, command)?;
        self.client.command(database, &command_of(&command))?;
        Ok(())
    }
}

/// Creates the indexes that are made before the load, or those made after it.
fn create_indexes(client: &mut Client, collection: &Collection, after_load: bool) -> std::result::Result<(), Failure> {
    let indexes = collection.indexes.iter().filter(|index| index.after_load == after_load);
    let indexes: Vec<DocBuf> = indexes.map(index_document).collect();
    if !indexes.is_empty() {
        let command = DocBuf::new().with("createIndexes", collection.name.as_str()).with("indexes", &array(&indexes));
        client.command(collection.database, &command)?;
    }
    Ok(())
}

fn index_document(index: &Index) -> DocBuf {
    let key: DocBuf = index.fields.iter().map(|field| (field, 1)).collect();
    let document = DocBuf::new().with("key", &key).with("name", index.name().as_str());
    if index.unique { document.with("unique", true) } else { document }
}

fn integer(value: Option<ValueRef<'_>>) -> Option<i64> {
    match value? {
        ValueRef::Int32(number) => Some(number.into()),
        ValueRef::Int64(number) => Some(number),
        _ => None,
    }
}

fn array(docs: &[DocBuf]) -> ArrayBuf {
    docs.iter().collect()
}

/// A number of a section of serverStatus that only Arbor has.
fn metric(status: Doc<'_>, section: &str, field: &str) -> Option<f64> {
    let Some(ValueRef::Document(section)) = status.get(section) else { return None };
    match section.get(field)? {
        ValueRef::Int64(metric) => Some(metric as f64),
        ValueRef::Int32(metric) => Some(metric.into()),
        ValueRef::Double(metric) => Some(metric),
        _ => None,
    }
}

/// Runs update statements as a document sequence, unordered, and returns how many documents they matched or inserted.
fn update_many(
    client: &mut Client,
    database: &str,
    collection: &str,
    statements: &[DocBuf],
) -> std::result::Result<u64, Failure> {
    let command = DocBuf::new().with("update", collection).with("ordered", false);
    let reply = client.command_with(database, &command, &[("updates", statements)])?;
    written(reply)
}

/// Inserts `documents` as a document sequence and returns how many were inserted.
fn insert_many(
    client: &mut Client,
    database: &str,
    collection: &str,
    ordered: bool,
    documents: &[DocBuf],
) -> std::result::Result<u64, Failure> {
    let command = DocBuf::new().with("insert", collection).with("ordered", ordered);
    let reply = client.command_with(database, &command, &[("documents", documents)])?;
    written(reply)
}

fn read(client: &mut Client, command: &[u8]) -> std::result::Result<u64, Failure> {
    Ok(client.find_raw(command, |_| {})? as u64)
}

fn write(client: &mut Client, command: &[u8]) -> std::result::Result<u64, Failure> {
    written(client.call(command)?)
}

/// Returns the number of rows that a write statement changed, or the first error in its reply.
fn written(reply: Reply<'_>) -> std::result::Result<u64, Failure> {
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
            ClientError::Tls(_) => "tls".to_owned(),
            _ => "protocol".to_owned(),
        };
        Failure { code, message: error.to_string(), broken: !error.is_answer() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn targets_may_have_names() {
        let check = |text: &str, name: &str, address: &str| {
            let target = MongoDb::parse(text).unwrap();
            assert_eq!((target.name.as_str(), target.address.as_str()), (name, address));
        };
        check("mongodb://h:1", "h:1", "h:1");
        check("mongo7=mongodb://h:1/?appName=x", "mongo7", "h:1");
        check("mongodb://h:1/?appName=x", "h:1", "h:1");
        check("mongodb://u:p@h:1/?authSource=d", "h:1", "h:1");
    }
}
