//! A connection to the primary of a deployment, made again when it breaks.

use std::time::{Duration, Instant};

use arbor_bson::{Doc, DocBuf, Value, ValueRef};
use arbor_client::{Client, ClientError, Options, Uri};

use super::{Error, Result};

/// A build of an index takes its time.
const REPLY_TIMEOUT: Duration = Duration::from_secs(3600);
/// Time for which a server may be away.
const AWAY: Duration = Duration::from_secs(60);
const RETRY: Duration = Duration::from_millis(500);

/// Errors after which another member may be the primary: shutdowns and step-downs.
const NOT_PRIMARY: [i32; 8] = [10107, 13435, 13436, 11600, 11602, 91, 189, 10058];
pub(super) const NAMESPACE_NOT_FOUND: i32 = 26;
pub(super) const NAMESPACE_EXISTS: i32 = 48;
const DUPLICATE_KEY: i32 = 11000;

pub(super) struct Server {
    /// `source` or `target`.
    name: &'static str,
    addresses: Vec<String>,
    options: Options,
    client: Option<Client>,
    /// It was there once, so it may come back.
    is_known: bool,
}

/// A cursor of the server.
pub(super) struct Cursor {
    pub id: i64,
    collection: String,
    pub batch: Vec<DocBuf>,
    pub token: Option<DocBuf>,
    /// The reply's `operationTime`, in the form of an integer.
    pub time: u64,
}

impl Server {
    pub(super) fn new(name: &'static str, uri: &str) -> std::result::Result<Server, ClientError> {
        let uri = Uri::parse(uri)?;
        let mut options = uri.options();
        options.app_name = "arbor migrate".to_owned();
        options.timeout = options.timeout.or(Some(REPLY_TIMEOUT));
        Ok(Server { name, addresses: uri.addresses, options, client: None, is_known: false })
    }

    fn failed(&self, error: ClientError) -> Error {
        Error::Client { server: format!("{} ({})", self.name, self.addresses.join(",")), error }
    }

    /// Connects to the member that takes writes.
    fn connect(&self) -> std::result::Result<Client, ClientError> {
        let mut reason = None;
        for address in &self.addresses {
            let connected = Client::connect_with(address, self.options.clone()).and_then(|mut client| {
                let hello = client.command("admin", &DocBuf::new().with("hello", 1))?.doc.to_buf();
                Ok((client, hello))
            });
            match connected {
                Ok((client, hello)) if matches!(hello.get("isWritablePrimary"), Some(ValueRef::Bool(true))) => {
                    return Ok(client);
                }
                Ok(_) => reason = Some(ClientError::Protocol(format!("{address} is no primary"))),
                Err(error) => reason = Some(error),
            }
        }
        Err(reason.unwrap_or_else(|| ClientError::Uri("no host".to_owned())))
    }

    /// Runs a command; again when the server was away. Requires that it may be repeated.
    pub(super) fn run(&mut self, db: &str, command: &DocBuf) -> Result<DocBuf> {
        self.run_with(db, command, &[])
    }

    pub(super) fn run_with(&mut self, db: &str, command: &DocBuf, sequences: &[(&str, &[DocBuf])]) -> Result<DocBuf> {
        let since = Instant::now();
        loop {
            let error = match self.try_run(db, command, sequences) {
                Ok(reply) => return Ok(reply),
                Err(error) => error,
            };
            let is_final = match &error {
                ClientError::Command { code, .. } => !NOT_PRIMARY.contains(code),
                ClientError::Authentication { code, .. } => code.is_some(),
                ClientError::Uri(_) | ClientError::Tls(_) | ClientError::Frame(_) => true,
                ClientError::Io(_) | ClientError::Protocol(_) => false,
            };
            if is_final || !self.is_known || since.elapsed() >= AWAY {
                return Err(self.failed(error));
            }
            self.client = None;
            std::thread::sleep(RETRY);
        }
    }

    fn try_run(
        &mut self,
        db: &str,
        command: &DocBuf,
        sequences: &[(&str, &[DocBuf])],
    ) -> std::result::Result<DocBuf, ClientError> {
        let mut client = match self.client.take() {
            Some(client) => client,
            None => self.connect()?,
        };
        self.is_known = true;
        let reply = client.command_with(db, command, sequences).map(|reply| reply.doc.to_buf());
        if reply.as_ref().err().is_none_or(ClientError::is_answer) {
            self.client = Some(client);
        }
        reply
    }

    /// Runs statements. Errors of single ones are errors, but for documents that are there already.
    pub(super) fn write(&mut self, db: &str, command: &DocBuf, sequences: &[(&str, &[DocBuf])]) -> Result<()> {
        let reply = self.run_with(db, command, sequences)?;
        let Some(ValueRef::Array(errors)) = reply.get("writeErrors") else { return Ok(()) };
        for error in errors.iter() {
            let ValueRef::Document(error) = error else { continue };
            if !matches!(error.get("code"), Some(ValueRef::Int32(DUPLICATE_KEY))) {
                let message = format!("{:?}", error.get("errmsg"));
                return Err(Error::Refused(format!("{} ({}): {message}", self.name, self.addresses.join(","))));
            }
        }
        Ok(())
    }

    /// All documents of a cursor; read again from the first when the cursor is lost.
    pub(super) fn all(&mut self, db: &str, command: &DocBuf) -> Result<Vec<DocBuf>> {
        let mut found = Vec::new();
        let mut cursor = self.open(db, command)?;
        found.append(&mut cursor.batch);
        while cursor.id != 0 {
            self.more(db, &mut cursor, None)?;
            found.append(&mut cursor.batch);
        }
        Ok(found)
    }

    pub(super) fn open(&mut self, db: &str, command: &DocBuf) -> Result<Cursor> {
        let reply = self.run(db, command)?;
        let mut cursor = Cursor { id: 0, collection: String::new(), batch: Vec::new(), token: None, time: 0 };
        self.read_cursor(&reply, "firstBatch", &mut cursor)?;
        Ok(cursor)
    }

    /// Reads the next batch in the place of the one before.
    pub(super) fn more(&mut self, db: &str, cursor: &mut Cursor, wait: Option<Duration>) -> Result<()> {
        let mut command = DocBuf::new().with("getMore", cursor.id).with("collection", cursor.collection.as_str());
        if let Some(wait) = wait {
            command.append("maxTimeMS", wait.as_millis() as i64);
        }
        let reply = self.run(db, &command)?;
        self.read_cursor(&reply, "nextBatch", cursor)
    }

    fn read_cursor(&self, reply: &DocBuf, batch: &str, cursor: &mut Cursor) -> Result<()> {
        let no_cursor = || self.failed(ClientError::Protocol("the reply has no cursor".to_owned()));
        let Some(ValueRef::Document(found)) = reply.get("cursor") else { return Err(no_cursor()) };
        let Some(ValueRef::Array(documents)) = found.get(batch) else { return Err(no_cursor()) };
        cursor.id = match found.get("id") {
            Some(ValueRef::Int64(id)) => id,
            Some(ValueRef::Int32(id)) => id.into(),
            _ => return Err(no_cursor()),
        };
        if let Some(ValueRef::String(namespace)) = found.get("ns") {
            cursor.collection = namespace.split_once('.').map_or("", |(_, collection)| collection).to_owned();
        }
        cursor.batch = documents.iter().filter_map(document).collect();
        cursor.token = found.get("postBatchResumeToken").and_then(document);
        cursor.time = time_of(reply.as_doc(), "operationTime");
        Ok(())
    }

    /// The set by its name, or the server by its address.
    pub(super) fn identity(&mut self) -> Result<String> {
        let hello = self.run("admin", &DocBuf::new().with("hello", 1))?;
        let mut hosts: Vec<String> = match hello.get("hosts") {
            Some(ValueRef::Array(hosts)) => hosts.iter().filter_map(text).collect(),
            _ => self.addresses.clone(),
        };
        hosts.sort();
        let set = hello.get("setName").and_then(text).map_or(String::new(), |set| format!("{set}/"));
        Ok(format!("{set}{}", hosts.join(",")))
    }

    pub(super) fn drop_collection(&mut self, db: &str, collection: &str) -> Result<()> {
        match self.run(db, &DocBuf::new().with("drop", collection)) {
            Err(error) if error.code() == Some(NAMESPACE_NOT_FOUND) => Ok(()),
            dropped => dropped.map(drop),
        }
    }
}

fn document(value: ValueRef<'_>) -> Option<DocBuf> {
    match value {
        ValueRef::Document(document) => Some(document.to_buf()),
        _ => None,
    }
}

pub(super) fn text(value: ValueRef<'_>) -> Option<String> {
    match value {
        ValueRef::String(text) => Some(text.to_owned()),
        _ => None,
    }
}

pub(super) fn number(value: ValueRef<'_>) -> Option<u64> {
    match value {
        ValueRef::Int32(number) => u64::try_from(number).ok(),
        ValueRef::Int64(number) => u64::try_from(number).ok(),
        ValueRef::Double(number) if number >= 0.0 => Some(number as u64),
        _ => None,
    }
}

/// A timestamp in the form of an integer; 0 if there is none.
pub(super) fn time_of(doc: Doc<'_>, name: &str) -> u64 {
    match doc.get(name) {
        Some(ValueRef::Timestamp(time)) => u64::from(time.seconds) << 32 | u64::from(time.increment),
        _ => 0,
    }
}

pub(super) fn id_of(document: &DocBuf) -> Option<Value> {
    document.get("_id").map(ValueRef::to_value)
}
