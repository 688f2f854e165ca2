//! Errors before a connection exists; errors of one connection end only that connection.

use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;

pub type Result<T> = std::result::Result<T, Error>;

#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("address already in use: {address}")]
    AddressInUse { address: SocketAddr },
    #[error("cannot listen on {address}: {source}")]
    Listen { address: SocketAddr, source: io::Error },
    #[error("cannot listen on the Unix socket {path}: {source}", path = path.display())]
    UnixSocket { path: PathBuf, source: io::Error },
    #[error("cannot resolve the address {name:?}: {source}")]
    Resolve { name: String, source: io::Error },
    #[error("cannot start the network runtime: {source}")]
    Runtime { source: io::Error },
}
