//! Our own MongoDB client, lean and blocking: one thread, one connection, buffers that are used again.
//!
//! It drives the laboratory's load, where the generator shares the machine with the server, so an operation costs one
//! write, one read and no allocation: the request is built in one buffer, the reply is read into another and borrowed
//! from there. Replies are checked as far as reading them in place needs, not validated deeply (doc.rs, I1: on bytes
//! that break it the iterator ends early and never panics).

#![deny(clippy::unwrap_used, clippy::indexing_slicing)]

mod credential;
mod cursor;
mod error;
mod scram;
mod stream;
mod tls;
mod uri;

use std::os::fd::{AsFd, BorrowedFd};
use std::time::Duration;

use arbor_bson::{ArrayBuf, Doc, DocBuf, ValueRef};
use arbor_wire::message::{self, Outgoing};
use arbor_wire::{Compressor, Fault, Header, MESSAGE_BYTES_MAX, Opcode, compress};
use rustix::io::Errno;
use rustix::net::{RecvFlags, recv};

pub use arbor_auth::Mechanism;
pub use credential::Credential;
pub use error::ClientError;
use stream::Stream;
pub use tls::{Tls, TlsOptions, Trust};
pub use uri::Uri;

/// Bytes read at least at a time; replies to point reads fit, larger ones grow the buffer in steps.
const READ_BYTES: usize = 64 * 1024;
/// A server that takes connections and says nothing to them is found out after this long.
const HELLO_TIMEOUT: Duration = Duration::from_secs(30);

#[derive(Clone, Debug)]
pub struct Options {
    /// Named in the handshake; shows in the server's log.
    pub app_name: String,
    /// Asked for in the handshake; used when the server agrees.
    pub compressor: Option<Compressor>,
    /// Every message carries a CRC-32C (uncompressed ones only).
    pub checksum: bool,
    /// Timeout of a connect, one read or one write; `None` waits indefinitely.
    pub timeout: Option<Duration>,
    pub credential: Option<Credential>,
    /// Logs in as the user, or the member, that the client's certificate of TLS names (MONGODB-X509).
    pub by_certificate: bool,
    /// `None`: what is sent can be read on its way.
    pub tls: Option<Tls>,
}

impl Default for Options {
    fn default() -> Options {
        Options {
            app_name: "arbor".to_owned(),
            compressor: None,
            checksum: false,
            timeout: None,
            credential: None,
            by_certificate: false,
            tls: None,
        }
    }
}

/// One connection. After an [`ClientError::Io`] or [`ClientError::Protocol`] it is of no more use; connect again.
#[derive(Debug)]
pub struct Client {
    stream: Stream,
    options: Options,
    /// Compressor agreed on in the handshake.
    compressor: Option<Compressor>,
    last_id: i32,
    out: Vec<u8>,
    /// `input[..filled]` was received and not consumed yet; the frame before it is at `..frame` until the next read.
    input: Vec<u8>,
    filled: usize,
    frame: usize,
    plain: Vec<u8>,
}

/// A command's reply, borrowed from the client's buffer.
#[derive(Clone, Copy, Debug)]
pub struct Reply<'a> {
    pub doc: Doc<'a>,
    /// Another reply to the same request follows; read it with [`Client::receive`].
    pub more_to_come: bool,
}

impl Client {
    /// Connects to `mongodb://host:port/?options` or `host:port` and says hello.
    pub fn connect(target: &str) -> Result<Client, ClientError> {
        let uri = Uri::parse(target)?;
        Client::connect_with(&uri.address, uri.options())
    }

    /// Connects to `host:port`, says hello and shows who it is. Where there is a timeout, that is answered sooner than other
    /// commands.
    pub fn connect_with(address: &str, options: Options) -> Result<Client, ClientError> {
        let timeout = options.timeout;
        let mut client = Client::connect_silently(address, options)?;
        client.stream.socket().set_read_timeout(timeout.map(|timeout| timeout.min(HELLO_TIMEOUT)))?;
        client.hello()?;
        client.stream.socket().set_read_timeout(timeout)?;
        Ok(client)
    }

    /// Connects to another member of a cluster and logs in by the first of the shared keys that it accepts. Several are there while
    /// one is replaced by another. Without keys the options decide.
    pub fn connect_as_member(address: &str, options: Options, keys: &[String]) -> Result<Client, ClientError> {
        let Some((last, others)) = keys.split_last() else { return Client::connect_with(address, options) };
        let with = |key: &str| Options { credential: Some(Credential::of_member(key)), ..options.clone() };
        for key in others {
            match Client::connect_with(address, with(key)) {
                Err(ClientError::Authentication { .. }) => {}
                outcome => return outcome,
            }
        }
        Client::connect_with(address, with(last))
    }

    /// Connects without a hello: for tests of what a server takes before it.
    pub fn connect_silently(address: &str, options: Options) -> Result<Client, ClientError> {
        let soon = options.timeout.map(|timeout| timeout.min(HELLO_TIMEOUT));
        let stream = Stream::open(address, options.tls.as_ref(), soon)?;
        stream.socket().set_read_timeout(options.timeout)?;
        stream.socket().set_write_timeout(options.timeout)?;
        Ok(Client {
            stream,
            options,
            compressor: None,
            last_id: 0,
            out: Vec::with_capacity(4096),
            input: vec![0; READ_BYTES],
            filled: 0,
            frame: 0,
            plain: Vec::new(),
        })
    }

    fn hello(&mut self) -> Result<(), ClientError> {
        let compression: ArrayBuf = self.options.compressor.iter().map(|compressor| compressor.name()).collect();
        let application = DocBuf::new().with("name", self.options.app_name.as_str());
        let driver = DocBuf::new().with("name", "arbor-wire").with("version", env!("CARGO_PKG_VERSION"));
        let os = DocBuf::new().with("type", std::env::consts::OS).with("architecture", std::env::consts::ARCH);
        let metadata = DocBuf::new().with("application", &application).with("driver", &driver).with("os", &os);
        let mut hello = DocBuf::new()
            .with("hello", 1)
            .with("helloOk", true)
            .with("client", &metadata)
            .with("compression", &compression);
        let credential = self.options.credential.clone();
        if let Some(credential) = &credential {
            hello.append("saslSupportedMechs", credential.full_name().as_str());
        }
        let compressor = self.options.compressor;
        let reply = self.command("admin", &hello)?;
        let agreed = match reply.doc.get("compression") {
            Some(ValueRef::Array(names)) => names.iter().any(|name| {
                matches!(name, ValueRef::String(name) if compressor.is_some_and(|own| Compressor::by_name(name) == Some(own)))
            }),
            _ => false,
        };
        let login = credential.map(|credential| {
            let mechanism = credential.choose(reply.doc.get("saslSupportedMechs"));
            (credential, mechanism)
        });
        self.compressor = compressor.filter(|_| agreed);
        match login {
            Some((credential, mechanism)) => self.authenticate(&credential, mechanism),
            None if self.options.by_certificate => self.authenticate_by_certificate(),
            None => Ok(()),
        }
    }

    /// The compressor the handshake agreed on.
    pub fn compressor(&self) -> Option<Compressor> {
        self.compressor
    }

    /// Runs `command` on `db`. A reply with `ok: 0` is [`ClientError::Command`]; write errors of single statements are
    /// in the reply ([`Reply::first_write_error`]).
    pub fn command(&mut self, db: &str, command: &DocBuf) -> Result<Reply<'_>, ClientError> {
        self.command_with(db, command, &[])
    }

    /// `command` with document sequences, which spare the server an array and the client a copy.
    pub fn command_with(
        &mut self,
        db: &str,
        command: &DocBuf,
        sequences: &[(&str, &[DocBuf])],
    ) -> Result<Reply<'_>, ClientError> {
        self.send(db, command, sequences)?;
        self.receive()?.ok()
    }

    /// Sends one command without reading its reply, which [`Client::receive`] reads.
    pub fn send(&mut self, db: &str, command: &DocBuf, sequences: &[(&str, &[DocBuf])]) -> Result<(), ClientError> {
        let bytes = command.as_bytes();
        let name = command.as_doc().first().map_or("", |(name, _)| name);
        let compressible = !arbor_wire::must_not_be_compressed(name);
        self.send_with(compressible, 0, |out| {
            // The document's length is patched once `$db` is appended after its fields.
            let start = out.len();
            out.extend_from_slice(bytes.get(..bytes.len().saturating_sub(1)).unwrap_or_default());
            append_db(db, out);
            message::patch_length(start, out.len() - start, out);
            for (name, documents) in sequences {
                message::encode_sequence(name, documents, out);
            }
        })
    }

    /// Sends one command whose bytes are complete, `$db` included, and reads its reply. The fastest path: a caller that
    /// keeps one document and patches a number in it pays for one copy, one write and one read.
    pub fn call(&mut self, command: &[u8]) -> Result<Reply<'_>, ClientError> {
        self.request(command)?;
        self.receive()?.ok()
    }

    /// Sends one command whose bytes are complete, without reading its reply.
    pub fn request(&mut self, command: &[u8]) -> Result<(), ClientError> {
        self.send_with(true, 0, |out| out.extend_from_slice(command))
    }

    /// Returns the connection, to wait for the beginning of a reply; `None`: of a connection by TLS, whose bytes say nothing of replies.
    pub fn plain_socket(&self) -> Option<BorrowedFd<'_>> {
        match &self.stream {
            Stream::Plain(socket) => Some(socket.as_fd()),
            Stream::Secure(_) => None,
        }
    }

    /// Sends one OP_MSG; `fill` appends the body and any kind 1 sections.
    fn send_with(
        &mut self,
        compressible: bool,
        flags: u32,
        fill: impl FnOnce(&mut Vec<u8>),
    ) -> Result<(), ClientError> {
        self.last_id = self.last_id.wrapping_add(1);
        let compressor = self.compressor.filter(|_| compressible);
        let checksum = self.options.checksum && compressor.is_none();
        let outgoing = Outgoing { request_id: self.last_id, flags, checksum, ..Outgoing::default() };
        self.out.clear();
        outgoing.begin(&mut self.out);
        fill(&mut self.out);
        outgoing.finish(0, &mut self.out);
        if self.out.len() > MESSAGE_BYTES_MAX {
            return Err(Fault::Length { announced: self.out.len().try_into().unwrap_or(i32::MAX) }.into());
        }
        if let Some(compressor) = compressor {
            compress::compress(compressor, 0, &mut self.out).map_err(|error| ClientError::Frame(error.to_string()))?;
        }
        self.stream.write_all(&self.out)
    }

    /// Sets the longest wait of one read from now on.
    pub fn set_read_timeout(&self, timeout: Option<Duration>) -> Result<(), ClientError> {
        Ok(self.stream.socket().set_read_timeout(timeout)?)
    }

    /// Returns false if the server has closed the connection. Requires that no reply is awaited.
    pub fn is_open(&self) -> bool {
        let peeked = recv(self.stream.socket(), &mut [0; 1], RecvFlags::PEEK | RecvFlags::DONTWAIT);
        matches!(peeked, Err(Errno::WOULDBLOCK))
    }

    /// Reads one reply to the last request.
    pub fn receive(&mut self) -> Result<Reply<'_>, ClientError> {
        self.begin_frame();
        while !self.has_frame()? {
            self.read_some()?;
        }
        self.reply()
    }

    /// Reads the reply to the last request if all of it is there, and what is there of it otherwise. Requires [`Client::plain_socket`].
    pub fn receive_now(&mut self) -> Result<Option<Reply<'_>>, ClientError> {
        self.begin_frame();
        while !self.has_frame()? {
            self.make_room();
            let room = self.input.get_mut(self.filled..).unwrap_or_default();
            match recv(self.stream.socket(), room, RecvFlags::DONTWAIT) {
                Ok((_, 0)) => return Err(std::io::Error::from(std::io::ErrorKind::UnexpectedEof).into()),
                Ok((_, received)) => self.filled += received,
                Err(Errno::WOULDBLOCK) => return Ok(None),
                Err(Errno::INTR) => {}
                Err(error) => return Err(std::io::Error::from(error).into()),
            }
        }
        self.reply().map(Some)
    }

    /// Returns the reply whose frame was received.
    fn reply(&mut self) -> Result<Reply<'_>, ClientError> {
        let mut frame = self.input.get(..self.frame).unwrap_or_default();
        let mut header = Header::parse(frame)?;
        if header.opcode == Opcode::Compressed as i32 {
            compress::decompress(frame, MESSAGE_BYTES_MAX, &mut self.plain)?;
            frame = &self.plain;
            header = Header::parse(frame)?;
        }
        if header.response_to != self.last_id {
            return Err(ClientError::Protocol(format!(
                "a reply to request {} came for request {}",
                header.response_to, self.last_id
            )));
        }
        reply_of(frame, header)
    }

    /// Sends bytes as they are: for tests of what a server does with bad frames.
    pub fn send_raw(&mut self, bytes: &[u8]) -> Result<(), ClientError> {
        self.stream.write_all(bytes)
    }

    /// Forgets the frame before the next one.
    fn begin_frame(&mut self) {
        self.input.copy_within(self.frame..self.filled, 0);
        self.filled -= self.frame;
        self.frame = 0;
    }

    /// Returns true if the next frame is at `input[..frame]`.
    fn has_frame(&mut self) -> Result<bool, ClientError> {
        let length = arbor_wire::frame_length(self.input.get(..self.filled).unwrap_or_default())?;
        let Some(length) = length.filter(|length| *length <= self.filled) else { return Ok(false) };
        self.frame = length;
        Ok(true)
    }

    fn make_room(&mut self) {
        if self.filled == self.input.len() {
            self.input.resize(self.input.len() * 2, 0);
        }
    }

    fn read_some(&mut self) -> Result<(), ClientError> {
        self.make_room();
        let received = self.stream.read(self.input.get_mut(self.filled..).unwrap_or_default())?;
        if received == 0 {
            return Err(std::io::Error::from(std::io::ErrorKind::UnexpectedEof).into());
        }
        self.filled += received;
        Ok(())
    }
}

/// Appends the element `$db` and the final NUL of a document.
fn append_db(db: &str, out: &mut Vec<u8>) {
    out.extend_from_slice(b"\x02$db\0");
    out.extend_from_slice(&(db.len() as u32 + 1).to_le_bytes());
    out.extend_from_slice(db.as_bytes());
    out.extend_from_slice(&[0, 0]);
}

/// The body of an OP_MSG reply: one kind 0 section directly behind the flags, as every server writes it.
fn reply_of(frame: &[u8], header: Header) -> Result<Reply<'_>, ClientError> {
    if header.opcode != Opcode::Message as i32 {
        return Err(Fault::Opcode(header.opcode).into());
    }
    let (flags, sections) = message::sections_of(frame)?;
    let body = sections.strip_prefix(&[0]).ok_or_else(|| ClientError::Protocol("a reply without a body".to_owned()))?;
    let length = body.first_chunk::<4>().map_or(0, |length| u32::from_le_bytes(*length) as usize);
    if length != body.len() || length < 5 || body.last() != Some(&0) {
        return Err(ClientError::Protocol("a reply of more or less than one document".to_owned()));
    }
    Ok(Reply { doc: Doc::trusted(body), more_to_come: flags & message::flag::MORE_TO_COME != 0 })
}

impl<'a> Reply<'a> {
    /// The reply, if it says `ok: 1`.
    fn ok(self) -> Result<Reply<'a>, ClientError> {
        let ok = match self.doc.get("ok") {
            Some(ValueRef::Double(ok)) => ok == 1.0,
            Some(ValueRef::Int32(ok)) => ok == 1,
            Some(ValueRef::Int64(ok)) => ok == 1,
            Some(ValueRef::Bool(ok)) => ok,
            _ => false,
        };
        if ok { Ok(self) } else { Err(ClientError::command(self.doc)) }
    }

    /// The first of `writeErrors` as an error.
    pub fn first_write_error(&self) -> Option<ClientError> {
        match self.doc.get("writeErrors")? {
            ValueRef::Array(errors) => match errors.get(0)? {
                ValueRef::Document(error) => Some(ClientError::command(error)),
                _ => None,
            },
            _ => None,
        }
    }

    /// A number of the reply, whatever its type.
    pub fn number(&self, field: &str) -> Option<f64> {
        match self.doc.get(field)? {
            ValueRef::Int32(value) => Some(value.into()),
            ValueRef::Int64(value) => Some(value as f64),
            ValueRef::Double(value) => Some(value),
            _ => None,
        }
    }
}
