//! The agent's side.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::PathBuf;
use std::time::Duration;

use super::Refused;
use super::listen::serve_each;
use crate::experiment::environment;
use crate::observe::{Counters, Observed, disk_use, process_on_port};

const CONNECTIONS_MAX: usize = 16;
const REQUEST_BYTES_MAX: u64 = 64;
/// A silent connection is closed after this time.
const SILENCE_MAX: Duration = Duration::from_secs(600);

/// Server that is observed. Its process is searched for at each request: a server that was started again has another one.
pub(super) struct Subject {
    pub port: u16,
    pub directory: Option<PathBuf>,
}

/// Serves as long as the listener accepts.
pub(super) fn serve(listener: &TcpListener, subject: &Subject) {
    serve_each(listener, CONNECTIONS_MAX, |stream| converse(stream, subject));
}

fn converse(stream: &TcpStream, subject: &Subject) -> std::io::Result<()> {
    stream.set_read_timeout(Some(SILENCE_MAX))?;
    let (mut reader, mut out) = (BufReader::new(stream), stream);
    loop {
        let mut line = String::new();
        if (&mut reader).take(REQUEST_BYTES_MAX).read_line(&mut line)? == 0 {
            return Ok(());
        }
        let mut reply = reply(line.trim(), subject)?;
        reply.push('\n');
        out.write_all(reply.as_bytes())?;
    }
}

fn reply(request: &str, subject: &Subject) -> std::io::Result<String> {
    let directory = subject.directory.as_deref();
    let text = match request {
        "counters" => serde_json::to_string(&Counters::read(&Observed::of(process_on_port(subject.port), directory))?),
        "disk" => serde_json::to_string(&directory.map(disk_use)),
        "about" => serde_json::to_string(&environment(directory.unwrap_or("/".as_ref()))),
        _ => serde_json::to_string(&Refused { error: format!("unknown request {request:?}") }),
    };
    text.map_err(std::io::Error::other)
}
