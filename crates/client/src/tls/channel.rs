//! A socket with TLS: one write to it for each message (up to 1 MB), one read for what has come (up to 64 KB).

use std::io::{ErrorKind, Read, Write};
use std::net::TcpStream;

use rustls::ClientConnection;
use rustls::pki_types::ServerName;

use super::{Tls, refusal};
use crate::ClientError;

/// `rustls` itself reads 4 KB at a time, which would be many reads for a large reply.
const READ_BYTES: usize = 64 * 1024;

#[derive(Debug)]
pub(crate) struct Channel {
    connection: ClientConnection,
    socket: TcpStream,
    /// `received[given..filled]` came from the socket and was not given to `connection` yet.
    received: Box<[u8]>,
    given: usize,
    filled: usize,
    tls: Tls,
}

impl Channel {
    /// Shakes hands with the server, whose certificate has to be `host`'s.
    pub(crate) fn open(socket: TcpStream, tls: &Tls, host: &str) -> Result<Channel, ClientError> {
        let wrong = |what: &dyn std::fmt::Display| ClientError::Tls(format!("{host:?}: {what}"));
        let name = ServerName::try_from(host.to_owned()).map_err(|error| wrong(&error))?;
        let mut connection = ClientConnection::new(tls.config.clone(), name).map_err(|error| wrong(&error))?;
        // A message is encrypted whole before it is sent.
        connection.set_buffer_limit(None);
        let received = vec![0; READ_BYTES].into_boxed_slice();
        let mut channel = Channel { connection, socket, received, given: 0, filled: 0, tls: tls.clone() };
        channel.shake_hands()?;
        Ok(channel)
    }

    pub(crate) fn socket(&self) -> &TcpStream {
        &self.socket
    }

    fn shake_hands(&mut self) -> Result<(), ClientError> {
        while self.connection.is_handshaking() {
            self.flush().map_err(refusal::hung_up)?;
            if self.connection.is_handshaking() && !self.receive().map_err(refusal::in_handshake)? {
                return Err(refusal::hung_up(ErrorKind::UnexpectedEof.into()));
            }
        }
        self.flush().map_err(refusal::hung_up)
    }

    pub(crate) fn write_all(&mut self, bytes: &[u8]) -> Result<(), ClientError> {
        self.connection.writer().write_all(bytes)?;
        self.flush().map_err(|error| self.last_word().unwrap_or(ClientError::Io(error)))
    }

    pub(crate) fn read(&mut self, into: &mut [u8]) -> Result<usize, ClientError> {
        loop {
            match self.connection.reader().read(into) {
                Err(error) if error.kind() == ErrorKind::WouldBlock => self.receive()?,
                // Most servers hang up without TLS's farewell.
                Err(error) if error.kind() == ErrorKind::UnexpectedEof => return Ok(0),
                read => return Ok(read?),
            };
        }
    }

    /// Sends what is encrypted.
    fn flush(&mut self) -> std::io::Result<()> {
        while self.connection.wants_write() {
            match self.connection.write_tls(&mut self.socket) {
                Ok(0) => return Err(ErrorKind::WriteZero.into()),
                Ok(_) => {}
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// Decrypts what was received, after a read from the socket when there is nothing; false at its end.
    fn receive(&mut self) -> Result<bool, ClientError> {
        if self.given == self.filled {
            (self.given, self.filled) = (0, self.socket.read(&mut self.received)?);
        }
        let mut rest = self.received.get(self.given..self.filled).unwrap_or_default();
        let taken = self.connection.read_tls(&mut rest)?;
        self.given += taken;
        if let Err(error) = self.connection.process_new_packets() {
            // Sends the alert with the reason to the server; a failure to send it changes nothing.
            let _ = self.flush();
            return Err(refusal::of_handshake(&error, self.tls.options()));
        }
        // Answers to requests of TLS itself, such as new keys.
        self.flush()?;
        Ok(taken > 0)
    }

    /// Why a server hung up, if it said so: one that does not like the client's certificate says it after the handshake.
    fn last_word(&mut self) -> Option<ClientError> {
        self.socket.set_nonblocking(true).ok()?;
        let said = self.read(&mut [0]).err();
        self.socket.set_nonblocking(false).ok()?;
        said.filter(|error| matches!(error, ClientError::Tls(_)))
    }
}
