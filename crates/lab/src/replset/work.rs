//! Plain writes and transactions, over a hundred-byte document.

use arbor_bson::{ArrayBuf, DocBuf, ValueRef};
use arbor_client::{Client, ClientError, Reply};

pub(super) const DATABASE: &str = "lab_set";

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Work {
    /// One insert of this many documents.
    Insert(usize),
    /// A transaction with one insert of this many documents.
    InsertTransaction(usize),
    /// A transaction with this many updates, each a message of its own.
    UpdateTransaction(usize),
    /// This many updates without a transaction, each a message of its own.
    Updates(usize),
}

impl Work {
    pub(super) fn name(self) -> String {
        match self {
            Work::Insert(1) => "1 insert".to_owned(),
            Work::Insert(count) => format!("insert of {count}"),
            Work::InsertTransaction(1) => "transaction of 1 insert".to_owned(),
            Work::InsertTransaction(count) => format!("transaction, insert of {count}"),
            Work::UpdateTransaction(count) => format!("transaction of {count} updates"),
            Work::Updates(count) => format!("{count} updates"),
        }
    }

    pub(super) fn documents(self) -> usize {
        match self {
            Work::Insert(count)
            | Work::InsertTransaction(count)
            | Work::UpdateTransaction(count)
            | Work::Updates(count) => count,
        }
    }
}

/// Write concern of an operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Acknowledged {
    /// `w: 1, j: false`: as `w: 1`, said expressly.
    Unjournaled,
    /// `w: 1`: the log's buffers.
    Applied,
    /// `w: "majority"`, what a set does by itself: the disk.
    Durable,
    /// `w: N`: the disks of this many members.
    Members(u16),
}

impl Acknowledged {
    pub(super) fn name(self) -> String {
        match self {
            Acknowledged::Unjournaled => "w: 1, j: false".to_owned(),
            Acknowledged::Applied => "w: 1".to_owned(),
            Acknowledged::Durable => "w: majority".to_owned(),
            Acknowledged::Members(count) => format!("w: {count}"),
        }
    }

    fn concern(self) -> DocBuf {
        match self {
            Acknowledged::Unjournaled => DocBuf::new().with("w", 1).with("j", false),
            Acknowledged::Applied => DocBuf::new().with("w", 1),
            Acknowledged::Durable => DocBuf::new().with("w", "majority"),
            Acknowledged::Members(count) => DocBuf::new().with("w", i32::from(count)),
        }
    }
}

/// Returns the identity of a client's session.
pub(super) fn session(number: u32) -> DocBuf {
    let mut id = [0x5e; 16];
    id[..4].copy_from_slice(&number.to_le_bytes());
    id[4..8].copy_from_slice(&std::process::id().to_le_bytes());
    DocBuf::new().with("id", ValueRef::Binary { subtype: 4, bytes: &id })
}

/// Returns the error of a write that was not done as its write concern asks.
pub(super) fn failure_of(reply: &Reply<'_>) -> Option<ClientError> {
    let unkept = || match reply.doc.get("writeConcernError")? {
        ValueRef::Document(error) => {
            let code = if let Some(ValueRef::Int32(code)) = error.get("code") { code } else { 0 };
            let message = format!("writeConcernError {error:?}");
            Some(ClientError::Command { code, message, reply: reply.doc.to_buf() })
        }
        _ => None,
    };
    reply.first_write_error().or_else(unkept)
}

/// One client: its session, its transaction numbers, its documents.
pub(super) struct Worker {
    client: Client,
    concern: DocBuf,
    number: u32,
    lsid: DocBuf,
    transaction: i64,
    next: i64,
    pad: String,
}

pub(super) fn array(documents: impl IntoIterator<Item = DocBuf>) -> ArrayBuf {
    let mut array = ArrayBuf::new();
    for document in documents {
        array.push(&document);
    }
    array
}

/// Documents that one worker updates.
const OWN: i64 = 1000;

impl Worker {
    pub(super) fn new(client: Client, number: u32, acknowledged: Acknowledged) -> Worker {
        let lsid = session(number);
        Worker { client, concern: acknowledged.concern(), number, lsid, transaction: 0, next: 0, pad: "x".repeat(60) }
    }

    /// The documents that updates change.
    pub(super) fn prepare(&mut self) -> Result<(), ClientError> {
        let document = |n| DocBuf::new().with("_id", self.id(n)).with("n", 0).with("pad", self.pad.as_str());
        let documents = array((0..OWN).map(document));
        self.write(DocBuf::new().with("insert", "updated").with("documents", &documents))
    }

    pub(super) fn run(&mut self, work: Work) -> Result<(), ClientError> {
        match work {
            Work::Insert(count) => {
                let insert = self.insert(count);
                self.write(insert)
            }
            Work::Updates(count) => (0..count).try_for_each(|_| {
                let update = self.update();
                self.write(update)
            }),
            Work::InsertTransaction(count) => {
                let insert = self.insert(count);
                self.in_transaction([insert])
            }
            Work::UpdateTransaction(count) => {
                let updates: Vec<DocBuf> = (0..count).map(|_| self.update()).collect();
                self.in_transaction(updates)
            }
        }
    }

    fn in_transaction(&mut self, statements: impl IntoIterator<Item = DocBuf>) -> Result<(), ClientError> {
        self.transaction += 1;
        for (at, statement) in statements.into_iter().enumerate() {
            let mut statement = self.numbered(statement);
            if at == 0 {
                statement.append("startTransaction", true);
            }
            self.command(statement)?;
        }
        let commit = self.numbered(DocBuf::new().with("commitTransaction", 1)).with("writeConcern", &self.concern);
        self.client.command("admin", &commit).map(drop)
    }

    fn numbered(&self, statement: DocBuf) -> DocBuf {
        statement.with("lsid", &self.lsid).with("txnNumber", self.transaction).with("autocommit", false)
    }

    fn insert(&mut self, count: usize) -> DocBuf {
        let first = self.next;
        self.next += count as i64;
        let document = |n| DocBuf::new().with("_id", self.id(n)).with("n", n).with("pad", self.pad.as_str());
        let documents = array((first..self.next).map(document));
        DocBuf::new().with("insert", "inserted").with("documents", &documents)
    }

    fn update(&mut self) -> DocBuf {
        self.next += 1;
        // a step without a common divisor: neighbours of one transaction are different documents
        let query = DocBuf::new().with("_id", self.id(self.next * 7 % OWN));
        let change = DocBuf::new().with("$inc", &DocBuf::new().with("n", 1));
        let updates = array([DocBuf::new().with("q", &query).with("u", &change)]);
        DocBuf::new().with("update", "updated").with("updates", &updates)
    }

    fn id(&self, n: i64) -> i64 {
        (i64::from(self.number) << 40) + n
    }

    /// A write outside of a transaction.
    fn write(&mut self, command: DocBuf) -> Result<(), ClientError> {
        let command = command.with("writeConcern", &self.concern);
        self.command(command)
    }

    fn command(&mut self, command: DocBuf) -> Result<(), ClientError> {
        let reply = self.client.command(DATABASE, &command)?;
        failure_of(&reply).map_or(Ok(()), Err)
    }
}
