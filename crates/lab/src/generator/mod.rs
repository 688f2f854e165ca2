//! `arbor lab generator`: clients of a step on another host than the laboratory, for load that one host cannot make.
//!
//! | file | what |
//! |---|---|
//! | `task` | messages: the clients that a generator runs, and what they have done |
//! | `serve` | the generator's side |
//! | `remote` | the laboratory's side |
//!
//! A connection is one step: its first line is a [`Task`], the reply is `{"ready":true}` as soon as all clients are connected. Each further line,
//! `take`, is replied to by a [`Recording`]: what was recorded since the last one. The clients end with the connection. Every line is JSON; an object with
//! the field `error` says why a step cannot be.

mod remote;
mod serve;
mod task;

use clap::{ArgMatches, Command};
pub(crate) use remote::Generator;
pub use serve::serve;
pub(crate) use task::Task;

use crate::cli::{option, text};
use crate::results::Ending;
use crate::{Error, Result};

/// The port of a generator that names none.
const LISTEN: &str = "127.0.0.1:27901";

pub fn arguments() -> Command {
    Command::new("generator").about("Run clients for a laboratory on another host (run --generator)").arg(
        option("listen", "HOST:PORT", "Address to listen on; all who reach it can have it load any server")
            .default_value(LISTEN),
    )
}

/// Serves until it is ended.
pub fn run(matches: &ArgMatches) -> Result<Ending> {
    let listen = text(matches, "listen").unwrap_or(LISTEN);
    let listener = std::net::TcpListener::bind(listen);
    let listener = listener.map_err(|error| Error::Usage(format!("--listen {listen}: {error}")))?;
    let address = listener.local_addr().map_or_else(|_| listen.to_owned(), |address| address.to_string());
    println!("generator on {address}");
    serve(&listener);
    Ok(Ending::Complete)
}
