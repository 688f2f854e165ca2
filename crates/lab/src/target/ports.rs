//! A free port, for a server we are about to start.

use std::net::TcpListener;

/// Another program may take the port between this and the server's bind; the server then reports it and the run ends.
pub(crate) fn free_port() -> std::io::Result<u16> {
    Ok(TcpListener::bind("127.0.0.1:0")?.local_addr()?.port())
}
