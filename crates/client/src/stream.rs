//! Transport of a client: a socket, plain or with TLS.

use std::io::{Read, Write};
use std::net::{TcpStream, ToSocketAddrs};
use std::time::Duration;

use crate::ClientError;
use crate::tls::{Channel, Tls};

#[derive(Debug)]
pub(crate) enum Stream {
    Plain(TcpStream),
    Secure(Box<Channel>),
}

impl Stream {
    /// Connects to `host:port` and, for TLS, shakes hands; `timeout` is for the connect and for every read and write.
    pub(crate) fn open(address: &str, tls: Option<&Tls>, timeout: Option<Duration>) -> Result<Stream, ClientError> {
        let socket = connect(address, timeout)?;
        socket.set_nodelay(true)?;
        socket.set_read_timeout(timeout)?;
        socket.set_write_timeout(timeout)?;
        match tls {
            None => Ok(Stream::Plain(socket)),
            Some(tls) => Ok(Stream::Secure(Box::new(Channel::open(socket, tls, host_of(address))?))),
        }
    }

    pub(crate) fn socket(&self) -> &TcpStream {
        match self {
            Stream::Plain(socket) => socket,
            Stream::Secure(channel) => channel.socket(),
        }
    }

    #[inline]
    pub(crate) fn write_all(&mut self, bytes: &[u8]) -> Result<(), ClientError> {
        match self {
            Stream::Plain(socket) => Ok(socket.write_all(bytes)?),
            Stream::Secure(channel) => channel.write_all(bytes),
        }
    }

    /// 0 at the end, as [`Read::read`].
    #[inline]
    pub(crate) fn read(&mut self, into: &mut [u8]) -> Result<usize, ClientError> {
        match self {
            Stream::Plain(socket) => Ok(socket.read(into)?),
            Stream::Secure(channel) => channel.read(into),
        }
    }
}

fn connect(address: &str, timeout: Option<Duration>) -> std::io::Result<TcpStream> {
    let Some(timeout) = timeout else { return TcpStream::connect(address) };
    let mut last = std::io::Error::from(std::io::ErrorKind::AddrNotAvailable);
    for address in address.to_socket_addrs()? {
        match TcpStream::connect_timeout(&address, timeout) {
            Ok(stream) => return Ok(stream),
            Err(error) => last = error,
        }
    }
    Err(last)
}

/// Without the port, and without the brackets of an IPv6 address.
fn host_of(address: &str) -> &str {
    let host = address.rsplit_once(':').map_or(address, |(host, _)| host);
    host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hosts() {
        for (address, host) in [("h:1", "h"), ("127.0.0.1:27017", "127.0.0.1"), ("[::1]:5", "::1")] {
            assert_eq!(host_of(address), host);
        }
    }
}
