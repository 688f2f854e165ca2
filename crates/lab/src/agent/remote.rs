//! The laboratory's side.

use std::io::{BufRead, BufReader, Error, Result, Write};
use std::net::TcpStream;

use parking_lot::Mutex;
use serde::de::DeserializeOwned;
use serde_json::Value;

use super::Refused;
use super::listen::connect;
use crate::observe::{Counters, DiskUse};

/// A connection to an agent; a lost one is opened again, once per request.
#[derive(Debug)]
pub struct Agent {
    address: String,
    stream: Mutex<Option<BufReader<TcpStream>>>,
}

impl Agent {
    /// Errors: nothing listens there.
    pub fn connect(address: &str) -> Result<Agent> {
        let stream = connect(address)?;
        Ok(Agent { address: address.to_owned(), stream: Mutex::new(Some(BufReader::new(stream))) })
    }

    pub(crate) fn counters(&self) -> Result<Counters> {
        self.ask("counters")
    }

    pub(crate) fn disk_use(&self) -> Result<Option<DiskUse>> {
        self.ask("disk")
    }

    pub(crate) fn about(&self) -> Result<Value> {
        self.ask("about")
    }

    pub(super) fn ask<T: DeserializeOwned>(&self, request: &str) -> Result<T> {
        let mut stream = self.stream.lock();
        let kept = stream.take();
        let was_kept = kept.is_some();
        let again = || connect(&self.address).and_then(|fresh| exchange(BufReader::new(fresh), request));
        let sent = kept.map_or_else(again, |kept| exchange(kept, request));
        let (line, kept) =
            sent.or_else(|error| if was_kept { again() } else { Err(error) }).map_err(|error| self.failed(&error))?;
        *stream = Some(kept);
        if let Ok(Refused { error }) = serde_json::from_str(&line) {
            return Err(self.failed(&error));
        }
        serde_json::from_str(&line).map_err(|error| self.failed(&error))
    }

    fn failed(&self, reason: &dyn std::fmt::Display) -> Error {
        Error::other(format!("the agent at {}: {reason}", self.address))
    }
}

fn exchange(mut stream: BufReader<TcpStream>, request: &str) -> Result<(String, BufReader<TcpStream>)> {
    stream.get_mut().write_all(format!("{request}\n").as_bytes())?;
    let mut line = String::new();
    if stream.read_line(&mut line)? == 0 {
        return Err(std::io::ErrorKind::UnexpectedEof.into());
    }
    Ok((line, stream))
}
