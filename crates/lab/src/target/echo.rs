//! The bare peer: a child process of the same binary that answers every frame with one canned reply, on the runtime of
//! the real server. What a point query costs beyond it is the database.

use std::os::fd::BorrowedFd;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use arbor_client::{Client, Options};
use serde_json::{Value, json};

use super::mongodb::point_command;
use super::ports::free_port;
use super::process::{Process, UseOfFiles};
use super::template::Template;
use super::{Failure, Session, Sizes, Target};
use crate::workload::{Answer, Collection, Found, Operation, Statement};
use crate::{Error, Result};

pub const NAME: &str = "tcp-echo";
const START_TIMEOUT: Duration = Duration::from_secs(30);

#[derive(Debug)]
pub struct Echo {
    process: Process,
    address: String,
    reply_bytes: usize,
    log: PathBuf,
}

impl Echo {
    /// Starts `binary echo`, which answers with `reply_bytes` bytes.
    pub fn start(binary: &Path, root: &Path, reply_bytes: usize) -> Result<Echo> {
        let port = free_port()?;
        let address = format!("127.0.0.1:{port}");
        let log = root.join(format!("arbor-lab-echo-{}-{port}.log", std::process::id()));
        let mut command = Command::new(binary);
        command.args(["echo", "--port", &port.to_string(), "--bytes", &reply_bytes.to_string()]);
        let mut process = Process::start(NAME, &mut command, &log, UseOfFiles::Removed)?;
        process.wait_until(START_TIMEOUT, || std::net::TcpStream::connect(&address).is_ok())?;
        Ok(Echo { process, address, reply_bytes, log })
    }
}

impl Drop for Echo {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.log);
    }
}

impl Target for Echo {
    fn name(&self) -> &str {
        NAME
    }

    fn connect(&self) -> Result<Box<dyn Session>> {
        let client = Client::connect_with(&self.address, Options::default())
            .map_err(|source| Error::Client { server: NAME.to_owned(), source })?;
        Ok(Box::new(EchoSession { client, query: point_command(1) }))
    }

    fn process(&self) -> Option<u32> {
        Some(self.process.id())
    }

    fn directory(&self) -> Option<&Path> {
        None
    }

    fn about(&self) -> Result<Value> {
        Ok(json!({ "address": self.address, "reply_bytes": self.reply_bytes }))
    }
}

/// Sends the bytes of a point query whatever the operation is.
struct EchoSession {
    client: Client,
    query: Template,
}

fn unsupported() -> Failure {
    Failure::unsupported("the echo, which keeps no data,")
}

impl Session for EchoSession {
    fn execute(&mut self, operation: &Operation<'_>) -> std::result::Result<Answer, Failure> {
        let Operation::Sysbench(Statement::Point { id, .. }) = operation else { return Err(unsupported()) };
        self.client.call(self.query.with_ints(&[*id]))?;
        Ok(Answer::rows(1))
    }

    fn send(&mut self, operation: &Operation<'_>) -> std::result::Result<bool, Failure> {
        let Operation::Sysbench(Statement::Point { id, .. }) = operation else { return Ok(false) };
        self.client.request(self.query.with_ints(&[*id]))?;
        Ok(true)
    }

    fn receive(&mut self) -> std::result::Result<Answer, Failure> {
        self.client.receive()?;
        Ok(Answer::rows(1))
    }

    fn socket(&self) -> Option<BorrowedFd<'_>> {
        self.client.plain_socket()
    }

    fn create(&mut self, _collection: &Collection) -> std::result::Result<(), Failure> {
        Err(unsupported())
    }

    fn create_late_indexes(&mut self, _collection: &Collection) -> std::result::Result<(), Failure> {
        Err(unsupported())
    }

    fn remove(&mut self, _collection: &Collection) -> std::result::Result<(), Failure> {
        Err(unsupported())
    }

    fn find(&mut self, _collection: &Collection) -> std::result::Result<Found, Failure> {
        Err(unsupported())
    }

    fn scan(&mut self, _collection: &Collection) -> std::result::Result<u64, Failure> {
        Err(unsupported())
    }

    fn sizes(&mut self, _database: &str) -> std::result::Result<Sizes, Failure> {
        Ok(Sizes::default())
    }
}
