//! Request path of this crate: decode, run, encode.

use std::sync::Arc;
use std::time::{Duration, Instant};

use arbor_base::Prefetch;
use arbor_base::memory::{self, Class};
use arbor_bson::{Code, DocBuf};
use arbor_protocol::log::{Log, events};
use arbor_protocol::metrics::Metrics;
use arbor_protocol::transport::{After, Place};
use arbor_query::{Database, prefetch_by_id};
use arbor_store::Namespace;
use arbor_wire::{Command, Error as WireError, Limits, ReplyTo, Request, decode, frame_length, unpacked_bytes};

use crate::cmd::diagnostics::hello;
use crate::commands::{Host, Options};
use crate::connection::{LastWrite, ReadFirst, Stream, Waiting};
use crate::execution::Done;
use crate::incoming::Incoming;
use crate::{Commands, Connection, Error, Parameters, place, registry};

/// Longest message of a connection without a login, unpacked: no command that begins one is longer.
const BYTES_BEFORE_LOGIN: usize = 16 << 10;

/// Longest time that a compressed message waits for memory.
const UNPACK_PATIENCE: Duration = Duration::from_secs(30);

impl Commands {
    /// Commands of the registry over this database.
    pub fn new(
        database: Database,
        log: Arc<Log>,
        parameters: Parameters,
        options: Options,
        host: Box<dyn Host>,
    ) -> Commands {
        let metrics = Metrics::new(registry::commands().map(|info| info.name));
        Commands::with_metrics(database, log, parameters, options, host, metrics)
    }

    /// Returns the thread on which a frame is to run. With fail points everything may block.
    pub fn place(&self, connection: &Connection, frame: &[u8]) -> Place {
        let follows = || self.several.handle().is_some() && !self.is_primary();
        match connection.idle_cursor {
            // Reads may wait for what other members have.
            _ if follows() => Place::Blocking,
            _ if self.router.is_some() && self.forwards(connection) && place::is_single_find(frame) => Place::Inline,
            // its answers, and the users, come from other servers
            _ if self.router.is_some() => Place::Blocking,
            _ if self.parameters.test_commands() || self.reads_may_wait() || self.profiler.is_active() => {
                Place::Blocking
            }
            Some(cursor) if place::is_get_more(frame, cursor) => Place::Inline,
            _ => place::of_frame(frame),
        }
    }

    /// Starts to read what a request that has its place on a network worker would wait for first.
    pub fn prefetch(&self, connection: &mut Connection, frame: &[u8]) -> Prefetch {
        if self.is_before_login(connection) || self.router.is_some() {
            return Prefetch::Unknown;
        }
        let Some((db, collection, id)) = place::find_by_id(frame) else { return Prefetch::Unknown };
        let Ok(namespace) = Namespace::new(db, collection) else { return Prefetch::Unknown };
        let prefetch = prefetch_by_id(&self.database, &namespace, id);
        if let Prefetch::Reading { bytes, .. } = prefetch {
            connection.read_first = Some(ReadFirst { begun: Instant::now(), bytes });
        }
        prefetch
    }

    /// Returns the length of the longest frame that a connection may send now.
    pub fn frame_bytes_max(&self, connection: &Connection) -> usize {
        if self.is_before_login(connection) { BYTES_BEFORE_LOGIN } else { usize::MAX }
    }

    /// Returns how long a connection may take until its next message is there; None: any time. Monitoring connections of clients never
    /// log in, and are silent between two heartbeats.
    pub fn silence_max(&self, connection: &Connection) -> Option<Duration> {
        if !self.is_before_login(connection) {
            return None;
        }
        let parameter = if connection.has_spoken() { "idleBeforeLoginTimeoutSecs" } else { "firstMessageTimeoutSecs" };
        let seconds = self.parameters.int(parameter).and_then(|seconds| u64::try_from(seconds).ok());
        seconds.filter(|seconds| *seconds > 0).map(Duration::from_secs)
    }

    fn is_before_login(&self, connection: &Connection) -> bool {
        self.accounts.enabled && connection.login.user.is_none()
    }

    /// Replies to one frame: appends the reply frame to `out`, or nothing.
    pub fn handle(&self, connection: &mut Connection, frame: &[u8], out: &mut Vec<u8>) -> After {
        // a short frame may unpack to a long message
        if self.is_before_login(connection) && unpacked_bytes(frame) > BYTES_BEFORE_LOGIN {
            return self.close_unread(connection, "too long before a login");
        }
        let mut memory = memory::process().reservation(Class::Message);
        if !memory.wait_for_all(unpacked_bytes(frame), UNPACK_PATIENCE) {
            return self.close_unread(connection, "no memory to unpack it");
        }
        let mut scratch = std::mem::take(&mut connection.scratch);
        let after = match decode(frame, &mut scratch, Limits::default()).and_then(Request::into_command) {
            Ok(command) => self.answer(connection, &command, out),
            Err(error) => self.refuse(connection, &error, out),
        };
        scratch.trim();
        connection.scratch = scratch;
        // of a request that was refused before it ran
        connection.read_first = None;
        after
    }

    /// The next reply of a stream, or the one of a request that waits for news.
    pub fn more(&self, connection: &mut Connection, out: &mut Vec<u8>) -> After {
        let (stream, may_stream, waited_until) = match (connection.waiting.take(), connection.stream.take()) {
            (Some(Waiting { request, may_stream, until }), _) => (request, may_stream, Some(until)),
            (None, Some(stream)) => (stream, true, None),
            (None, None) => return After::Continue,
        };
        let request = Incoming {
            db: &stream.db,
            body: stream.command.as_doc(),
            sequences: &[],
            reply_to: stream.reply_to,
            may_stream,
            waited_until,
        };
        self.run(connection, &request, out)
    }

    /// Returns the thread on which [`Commands::more`] is to run.
    pub fn place_of_more(&self, connection: &Connection) -> Place {
        if connection.sent.as_ref().is_some_and(|sent| sent.forwarded.has_succeeded()) {
            return Place::Inline;
        }
        if let Some(Waiting { request, until, .. }) = &connection.waiting
            && !hello::is_one(request.command.as_doc())
            && (self.router.is_some() || Instant::now() < *until)
        {
            // there are news, and documents to be read, or a router is to read them elsewhere
            return Place::Blocking;
        }
        let batches = connection.waiting.is_none()
            && connection.stream.as_ref().is_some_and(|stream| !hello::is_one(stream.command.as_doc()));
        if batches || self.parameters.test_commands() { Place::Blocking } else { Place::Inline }
    }

    /// Replies that the request was ended by a panic.
    pub fn panicked(&self, connection: &mut Connection, frame: &[u8], message: &str, out: &mut Vec<u8>) {
        connection.slot.end();
        self.log.error(events::REQUEST_PANICKED, &connection.name, DocBuf::new().with("message", message));
        let mut scratch = std::mem::take(&mut connection.scratch);
        if let Ok(request) = decode(frame, &mut scratch, Limits::default()) {
            let error = Error::new(Code::INTERNAL_ERROR, format!("internal error: {message}"));
            request.reply_to().encode(connection.next_reply_id(), error.to_reply().as_doc(), out);
        }
    }

    /// Replies to a request, of which only the beginning was received, that it is larger than `bytes_max`, the memory for messages.
    /// A message other than OP_MSG closes the connection: whether it expects a reply is not known yet, or it expects none.
    pub fn too_large(&self, connection: &mut Connection, head: &[u8], bytes_max: u64, out: &mut Vec<u8>) -> After {
        let length = frame_length(head).ok().flatten().unwrap_or_default();
        let text = format!("a message of {length} bytes is larger than the memory for messages, {bytes_max} bytes");
        let Some(reply_to) = ReplyTo::of_beginning(head) else { return self.close_unread(connection, &text) };
        let error = Error::new(Code::EXCEEDED_MEMORY_LIMIT, text);
        reply_to.encode(connection.next_reply_id(), error.to_reply().as_doc(), out);
        After::Continue
    }

    fn close_unread(&self, connection: &Connection, reason: &str) -> After {
        let attributes = DocBuf::new().with("remote", &connection.peer.client());
        self.log.info(events::BAD_FRAME, &connection.name, attributes.with("error", reason));
        After::Close
    }

    fn refuse(&self, connection: &mut Connection, error: &WireError, out: &mut Vec<u8>) -> After {
        match error {
            WireError::Close(fault) => {
                let attributes = DocBuf::new().with("remote", &connection.peer.client());
                self.log.info(events::BAD_FRAME, &connection.name, attributes.with("error", &fault.to_string()));
                After::Close
            }
            WireError::Answer(refusal) | WireError::AnswerAndClose(refusal) => {
                let reply = Error::from(refusal).to_reply();
                refusal.reply_to.encode(connection.next_reply_id(), reply.as_doc(), out);
                if matches!(error, WireError::Answer(_)) { After::Continue } else { After::Close }
            }
        }
    }

    fn answer(&self, connection: &mut Connection, command: &Command<'_>, out: &mut Vec<u8>) -> After {
        let request = Incoming {
            db: command.db,
            body: command.body.as_doc(),
            sequences: &command.sequences,
            reply_to: command.reply_to,
            may_stream: command.exhaust_allowed,
            waited_until: None,
        };
        self.run(connection, &request, out)
    }

    fn run(&self, connection: &mut Connection, request: &Incoming<'_>, out: &mut Vec<u8>) -> After {
        let Some(Done { mut reply, reply_memory, streams, wait_until }) = self.execute(connection, request) else {
            return After::Close;
        };
        connection.reply_memory = reply_memory;
        if let Some(until) = wait_until {
            let Incoming { reply_to, may_stream, .. } = *request;
            let request = Stream { db: request.db.to_owned(), command: request.body.to_buf(), reply_to };
            connection.waiting = Some(Waiting { request, may_stream, until });
            return After::Wait { until };
        }
        let mut after = After::Continue;
        if request.reply_to.wants_answer() {
            let reply_id = connection.next_reply_id();
            self.append_time(&mut reply);
            request.reply_to.encode_with(reply_id, streams, reply.as_doc(), out);
            if streams {
                let reply_to = ReplyTo { request_id: reply_id, ..request.reply_to };
                let (db, command) = (request.db.to_owned(), hello::next(request.body, reply.as_doc()));
                connection.stream = Some(Stream { db, command, reply_to });
                after = After::More;
            }
        } else {
            let inserts = request.body.first().is_some_and(|(name, _)| name == "insert");
            connection.last_write = Some(LastWrite { inserts, reply });
        }
        after
    }
}
