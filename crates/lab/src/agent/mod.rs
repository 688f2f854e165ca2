//! `arbor lab agent`: counters of a server on another host, for a laboratory that runs on a third one.
//!
//! A connection sends lines with the name of a request and gets a line of JSON for each:
//!
//! | request | reply |
//! |---|---|
//! | `counters` | [`Counters`](crate::observe::Counters): of the host, the disk of the data directory, the server's process |
//! | `disk` | [`DiskUse`](crate::observe::DiskUse) of the data directory, or null |
//! | `about` | the machine, as env.json of a run has it |
//!
//! Everything else is refused by an object with the field `error`. The counters are no secret of the data, but all who reach the port can read them:
//! the agent listens on the loopback address unless another one is given.

mod listen;
mod remote;
mod serve;
mod target;

use std::path::PathBuf;

use clap::{ArgMatches, Command};
pub(crate) use listen::{connect, serve_each};
pub use remote::Agent;
pub(crate) use target::with_agent;

use crate::cli::{number, option, text};
use crate::results::Ending;
use crate::{Error, Result};

/// The port of an agent that names none.
const LISTEN: &str = "127.0.0.1:27900";

pub fn arguments() -> Command {
    Command::new("agent")
        .about("Serve the CPU, I/O, memory and disk use of a server on this host to a laboratory on another one (run --agent)")
        .arg(option("listen", "HOST:PORT", "Address to listen on; all who reach it can read the counters").default_value(LISTEN))
        .arg(option("port", "N", "Port of the server: the process that listens on it is observed (27017)"))
        .arg(option("dbpath", "DIR", "Data directory of the server: its size and the device below it are observed"))
}

/// Serves until it is ended.
pub fn run(matches: &ArgMatches) -> Result<Ending> {
    let listen = text(matches, "listen").unwrap_or(LISTEN);
    let port = number(matches, "port")?.unwrap_or(27017);
    let directory = text(matches, "dbpath").map(PathBuf::from);
    if let Some(missing) = directory.as_deref().filter(|directory| !directory.is_dir()) {
        return Err(Error::Usage(format!("--dbpath: {} is no directory", missing.display())));
    }
    let listener = std::net::TcpListener::bind(listen);
    let listener = listener.map_err(|error| Error::Usage(format!("--listen {listen}: {error}")))?;
    let address = listener.local_addr().map_or_else(|_| listen.to_owned(), |address| address.to_string());
    println!("agent for the server on port {port}, on {address}");
    serve::serve(&listener, &serve::Subject { port, directory });
    Ok(Ending::Complete)
}

/// Reply to a request that is none.
#[derive(serde::Serialize, serde::Deserialize)]
struct Refused {
    error: String,
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;

    use super::*;
    use crate::observe::{Counters, Observed, Sample};

    fn agent(port: u16, directory: Option<PathBuf>) -> Agent {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap().to_string();
        std::thread::spawn(move || serve::serve(&listener, &serve::Subject { port, directory }));
        Agent::connect(&address).unwrap()
    }

    #[test]
    fn an_agent_observes_what_this_process_would() {
        let directory = tempfile::tempdir().unwrap();
        std::fs::write(directory.path().join("file"), vec![1; 100_000]).unwrap();
        let server = TcpListener::bind("127.0.0.1:0").unwrap();
        let agent = agent(server.local_addr().unwrap().port(), Some(directory.path().to_owned()));
        assert!(agent.disk_use().unwrap().is_some_and(|disk| disk.apparent_bytes == 100_000));
        assert!(agent.about().unwrap()["processors"].as_u64().is_some_and(|count| count > 0));
        let observed = Observed { agent: Some(agent.into()), ..Observed::default() };
        let before = Sample::take(&observed).unwrap();
        let begun = std::time::Instant::now();
        while begun.elapsed().as_millis() < 50 {}
        let usage = Sample::take(&observed).unwrap().since(&before);
        assert!(usage.server_cpu_s.is_some_and(|seconds| seconds >= 0.0), "{usage:?}");
        assert!(usage.resident_bytes.is_some_and(|bytes| bytes > 1 << 20), "{usage:?}");
        assert!(usage.processors > 0 && usage.client_cpu_s > 0.0, "{usage:?}");
    }

    #[test]
    fn what_is_not_there_is_not_known() {
        let unused = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let agent = agent(unused, None);
        let counters = agent.counters().unwrap();
        assert!(counters.server.is_none() && counters.device.is_none());
        assert_eq!(agent.disk_use().unwrap(), None);
    }

    #[test]
    fn unknown_requests_and_missing_agents_are_errors() {
        let agent = agent(1, None);
        let error = agent.ask::<Counters>("everything").unwrap_err().to_string();
        assert!(error.contains("unknown request"), "{error}");
        assert!(agent.counters().is_ok(), "the connection continues");
        let closed = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
        assert!(Agent::connect(&closed.to_string()).is_err());
    }
}
