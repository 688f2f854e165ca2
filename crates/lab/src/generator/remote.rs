//! The laboratory's side.

use std::io::{BufRead, BufReader, Error, ErrorKind, Result, Write};
use std::net::TcpStream;
use std::time::Duration;

use serde::de::DeserializeOwned;

use super::task::{Ready, Recording, Refused, Task};
use crate::agent::connect;
use crate::run::Recorder;
use crate::workload::Workload;

/// Until all clients are connected to the server.
const READY_MAX: Duration = Duration::from_secs(60);

/// Clients of one step on another host; dropping it ends them.
pub(crate) struct Generator {
    address: String,
    stream: BufReader<TcpStream>,
}

impl Generator {
    /// Starts the clients of a task. Errors: nothing listens there, or the task cannot be done.
    pub(crate) fn start(address: &str, task: &Task) -> Result<Generator> {
        let stream = connect(address).map_err(|error| named(address, &error))?;
        let timeout = stream.read_timeout()?;
        stream.set_read_timeout(Some(READY_MAX))?;
        let mut generator = Generator { address: address.to_owned(), stream: BufReader::new(stream) };
        let task = serde_json::to_string(task).map_err(Error::other)?;
        let Ready { ready } = generator.ask(&task)?;
        generator.stream.get_ref().set_read_timeout(timeout)?;
        if ready { Ok(generator) } else { Err(named(address, &"it is not ready")) }
    }

    /// Returns what was recorded since the last call, and how many operations are due and not begun.
    pub(crate) fn take(&mut self, workload: &dyn Workload) -> Result<(Recorder, Option<f64>)> {
        let taken: Recording = self.ask("take")?;
        Ok((taken.recorder(workload)?, taken.backlog))
    }

    fn ask<T: DeserializeOwned>(&mut self, request: &str) -> Result<T> {
        let mut line = String::new();
        let mut exchanged = || {
            self.stream.get_mut().write_all(format!("{request}\n").as_bytes())?;
            match self.stream.read_line(&mut line)? {
                0 => Err(Error::from(ErrorKind::UnexpectedEof)),
                _ => Ok(()),
            }
        };
        exchanged().map_err(|error: Error| named(&self.address, &error))?;
        if let Ok(Refused { error }) = serde_json::from_str(&line) {
            return Err(named(&self.address, &error));
        }
        serde_json::from_str(&line).map_err(|error| named(&self.address, &error))
    }
}

fn named(address: &str, reason: &dyn std::fmt::Display) -> Error {
    Error::other(format!("the generator at {address}: {reason}"))
}
