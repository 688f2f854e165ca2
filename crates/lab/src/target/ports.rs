//! A port nobody listens on, for a server we are about to start.

use std::net::TcpListener;

/// Between this and the server's bind another program may take the port; the server then says so and the run ends.
pub(crate) fn free_port() -> std::io::Result<u16> {
    Ok(TcpListener::bind("127.0.0.1:0")?.local_addr()?.port())
}
