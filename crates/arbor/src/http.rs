//! The HTTP port: metrics and health for what watches the server, and the console.
//!
//! It is there before the recovery, so that `/readyz` can say that the server is not ready yet.

use std::io::{self, Read, Write};
use std::net::{IpAddr, SocketAddr, TcpListener};
use std::sync::Arc;
use std::thread::JoinHandle;

use arbor_bson::DocBuf;
use arbor_metrics::{Connection, Options, Secure, Source, Timed};
use arbor_protocol::log::{Log, events};
use arbor_server::{Stop, Tls};
use rustls::{ServerConnection, StreamOwned};

use crate::config::Settings;
use crate::failure::{BAD_OPTIONS, CANNOT_LISTEN, Failure};
use crate::front::CommandsCell;

struct Watched(CommandsCell);

impl Source for Watched {
    fn statistics(&self) -> Result<DocBuf, String> {
        Ok(self.0.get().ok_or(RECOVERING)?.statistics())
    }

    fn console(&self, operations: bool, collections: bool) -> Result<DocBuf, String> {
        Ok(self.0.get().ok_or(RECOVERING)?.console(operations, collections))
    }

    fn kill(&self, operation: u64) -> Result<(), String> {
        self.0.get().ok_or(RECOVERING)?.kill_operation(operation);
        Ok(())
    }

    fn health(&self) -> Result<(), String> {
        // A long recovery is no reason for a restart.
        self.0.get().map_or(Ok(()), |commands| commands.health())
    }

    fn readiness(&self) -> Result<(), String> {
        self.0.get().ok_or(RECOVERING)?.readiness()
    }
}

/// The certificates and rules of the clients' port.
struct HttpTls(Arc<Tls>);

impl Secure for HttpTls {
    fn is_required(&self) -> bool {
        self.0.is_required()
    }

    fn encrypted(&self, stream: Timed) -> io::Result<Box<dyn Connection>> {
        let connection = self.0.connection().map_err(io::Error::other)?;
        Ok(Box::new(Encrypted(StreamOwned::new(connection, stream))))
    }
}

/// A connection that reports its end to the peer.
struct Encrypted(StreamOwned<ServerConnection, Timed>);

impl Read for Encrypted {
    fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        self.0.read(bytes)
    }
}

impl Write for Encrypted {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.0.flush()
    }
}

impl Drop for Encrypted {
    fn drop(&mut self) {
        self.0.conn.send_close_notify();
        let _the_peer_may_be_gone = self.0.flush();
    }
}

const RECOVERING: &str = "the server starts";

/// Starts the thread of the port, if one was asked for.
pub(crate) fn start(
    settings: &Settings,
    commands: &CommandsCell,
    stop: &Stop,
    tls: Option<Arc<Tls>>,
    log: &Log,
) -> Result<Option<JoinHandle<()>>, Failure> {
    let Some(port) = settings.http.port else { return Ok(None) };
    let refused = |reason: String| Failure::new(BAD_OPTIONS, reason);
    let bind_ip = settings.http.bind_ip.as_deref().unwrap_or("127.0.0.1");
    let ip: IpAddr = bind_ip.parse().map_err(|_| refused(format!("--httpBindIp {bind_ip}: this is no IP address")))?;
    let token_file = settings.http.token_file.clone();
    if settings.has_access_control() && !ip.is_loopback() && token_file.is_none() {
        return Err(refused(format!(
            "--httpBindIp {bind_ip}: with access control, metrics that others than this machine reach need --httpTokenFile"
        )));
    }
    if let Some(file) = &token_file {
        let token = std::fs::read_to_string(file)
            .map_err(|error| refused(format!("--httpTokenFile {}: {error}", file.display())))?;
        if token.trim().is_empty() {
            return Err(refused(format!("--httpTokenFile {}: the file is empty", file.display())));
        }
    }
    let address = SocketAddr::new(ip, port);
    let cannot = |error: std::io::Error| Failure::new(CANNOT_LISTEN, format!("--httpPort: {address}: {error}"));
    let listener = TcpListener::bind(address).map_err(cannot)?;
    let bound = listener.local_addr().map_err(cannot)?;
    log.info(events::LISTENING, "http", DocBuf::new().with("address", &bound.to_string()));
    let options = Options {
        secure: tls.map(|tls| Arc::new(HttpTls(tls)) as Arc<dyn Secure>),
        token_file,
        has_access_control: settings.has_access_control(),
        collections_max: settings.http.collections_max,
    };
    let (source, stop) = (Arc::new(Watched(commands.clone())), stop.clone());
    let thread = std::thread::Builder::new().name("arbor-http".to_owned());
    let serve = move || arbor_metrics::serve(&listener, options, source, || stop.is_stopping());
    thread.spawn(serve).map(Some).map_err(Failure::cannot_start)
}
