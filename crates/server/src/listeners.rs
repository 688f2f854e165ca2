//! Listening sockets, bound before the runtime starts so that a busy port is an error of the start.

use std::io;
use std::net::{SocketAddr, TcpListener, ToSocketAddrs};

use crate::{Error, Result};

pub type Listeners = Vec<TcpListener>;

/// Binds every address of every name; the sockets listen only once [`listen`] is called: a busy port is found at once, and no
/// client connects to a server that is still recovering. Port 0 lets the system choose (one port for the first address, reused
/// for the rest).
pub fn bind(names: &[String], port: u16, ipv6: bool) -> Result<Listeners> {
    let mut listeners: Listeners = Vec::new();
    let mut port = port;
    for address in resolve(names, ipv6)? {
        let listener = bind_one(SocketAddr::new(address.ip(), port))?;
        if port == 0 {
            port = listener.local_addr().map(|a| a.port()).unwrap_or(0);
        }
        listeners.push(listener);
    }
    Ok(listeners)
}

/// Begins to take connections, which wait until the server runs.
pub fn listen(listeners: &[TcpListener]) -> Result<()> {
    for listener in listeners {
        rustix::net::listen(listener, 4096).map_err(|errno| cannot(listener.local_addr(), errno))?;
    }
    Ok(())
}

fn cannot(address: io::Result<SocketAddr>, errno: rustix::io::Errno) -> Error {
    let address = address.unwrap_or_else(|_| SocketAddr::from(([0, 0, 0, 0], 0)));
    match errno {
        rustix::io::Errno::ADDRINUSE => Error::AddressInUse { address },
        errno => Error::Listen { address, source: io::Error::from(errno) },
    }
}

fn resolve(names: &[String], ipv6: bool) -> Result<Vec<SocketAddr>> {
    let mut addresses: Vec<SocketAddr> = Vec::new();
    for name in names {
        let name = name.trim();
        let found = (name, 0).to_socket_addrs().map_err(|source| Error::Resolve { name: name.to_owned(), source })?;
        let literal = name.parse::<std::net::IpAddr>().is_ok();
        for address in found.filter(|a| literal || ipv6 || a.is_ipv4()) {
            if !addresses.contains(&address) {
                addresses.push(address);
            }
        }
    }
    Ok(addresses)
}

fn bind_one(address: SocketAddr) -> Result<TcpListener> {
    use rustix::net::{AddressFamily, SocketFlags, SocketType, bind, socket_with, sockopt};
    let family = if address.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 };
    let listener = || -> rustix::io::Result<_> {
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        let socket = socket_with(family, SocketType::STREAM, flags, None)?;
        sockopt::set_socket_reuseaddr(&socket, true)?;
        if address.is_ipv6() {
            sockopt::set_ipv6_v6only(&socket, true)?;
        }
        bind(&socket, &address)?;
        Ok(socket)
    };
    listener().map(TcpListener::from).map_err(|errno| cannot(Ok(address), errno))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_busy_port_is_named() {
        let first = bind(&["127.0.0.1".to_owned()], 0, false).unwrap();
        listen(&first).unwrap();
        let port = first[0].local_addr().unwrap().port();
        let error = bind(&["127.0.0.1".to_owned()], port, false).unwrap_err();
        assert!(matches!(error, Error::AddressInUse { address } if address.port() == port), "{error}");
    }
}
