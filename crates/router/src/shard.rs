//! Connections to the primary of one replica set: a shard or the config servers.
//!
//! S1: a connection is in the pool only between two whole replies. S2: a command is sent a second time only if it cannot have run, or if
//! running it twice does no harm: reads, and writes with a transaction number, which the shard remembers.

use std::collections::HashSet;
use std::io::ErrorKind;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll, ready};
use std::time::{Duration, Instant};

use arbor_bson::{ArrayBuf, Code, DEPTH_MAX, Doc, DocBuf, Limits, ValueRef, validate};
use arbor_client::{Client, ClientError};
use arbor_command::{Error, FENCING_TOKEN, Result, is_of_lock_holders};
use arbor_protocol::Error as ProtocolError;
use arbor_query::Interrupt;
use parking_lot::Mutex;
use tokio::io::Interest;
use tokio::net::TcpStream;
use tokio::runtime::Handle;
use uuid::Uuid;

use crate::clock::ClusterClock;
use crate::fields;
use crate::read_preference::Members;
use crate::transactions::Entered;

/// Idle connections that are kept.
const IDLE_MAX: usize = 64;
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
/// The interrupt is looked at this often while a reply is awaited.
const POLL: Duration = Duration::from_millis(100);
/// Longest search for a primary.
const PATIENCE: Duration = Duration::from_secs(15);
/// A reply has its documents a few levels down.
const LIMITS: Limits = Limits { depth_max: DEPTH_MAX + 20, size_max: 64 << 20 };
/// Ends operations by their keys.
const KILL: &str = "_killOperations";
/// Longest wait for that.
const KILL_MAX: Duration = Duration::from_secs(5);
/// More members no set has.
pub(crate) const HOSTS_MAX: usize = 50;

const NOT_PRIMARY: &[Code] = &[
    Code::NOT_WRITABLE_PRIMARY,
    Code::NOT_PRIMARY_NO_SECONDARY_OK,
    Code::NOT_PRIMARY_OR_SECONDARY,
    Code::PRIMARY_STEPPED_DOWN,
    Code::INTERRUPTED_DUE_TO_REPL_STATE_CHANGE,
    Code::SHUTDOWN_IN_PROGRESS,
    Code::INTERRUPTED_AT_SHUTDOWN,
];

/// Returns true for errors of a set that cannot be asked in the time that there is: it is not there, or has no primary.
pub(crate) fn is_unreachable(error: &Error) -> bool {
    is_lost(error) || error.code == Code::MAX_TIME_MS_EXPIRED
}

/// Returns true for errors that leave open whether a command has run, or whether what it has written stays.
pub(crate) fn is_lost(error: &Error) -> bool {
    error.code == Code::HOST_UNREACHABLE || NOT_PRIMARY.contains(&error.code)
}

/// Connects to a server and logs in there as a member of the cluster; the time is that of the connect, of each read and of each write.
pub type Connect = Arc<dyn Fn(&str, Duration) -> std::result::Result<Client, ClientError> + Send + Sync>;

pub(crate) struct Shard {
    pub name: String,
    pub set: String,
    connect: Connect,
    clock: Arc<ClusterClock>,
    state: Mutex<State>,
    /// The member by way of which this is the shard. None: the primary, whichever it is.
    member: Option<String>,
    pub members: Mutex<Members>,
    /// The log of the shard is known to have reached this time.
    logged: AtomicU64,
}

struct State {
    hosts: Vec<String>,
    primary: Option<String>,
    idle: Vec<(String, Link)>,
}

impl State {
    /// Takes the connection that became idle last, one that is watched or not if there is such a one.
    fn take_idle(&mut self, watched: bool) -> Option<(String, Link)> {
        let at = self.idle.iter().rposition(|(_, link)| link.is_watched() == watched);
        at.map(|at| self.idle.remove(at)).or_else(|| self.idle.pop())
    }
}

/// A reply with `ok: 1`, or the error of the server, or that of the connection.
pub(crate) type Outcome = std::result::Result<DocBuf, Failure>;

pub(crate) enum Failure {
    /// The server has refused the command.
    Refused(Error),
    /// The connection ended; `sent`: the command may have run.
    Lost { sent: bool, reason: String },
    /// This operation is to end.
    Ended(Error),
}

impl Shard {
    /// `hosts` is `set/host:port,...`.
    pub(crate) fn new(
        name: &str,
        hosts: &str,
        connect: Connect,
        clock: Arc<ClusterClock>,
    ) -> std::result::Result<Shard, String> {
        let (set, members) = members_of(hosts)?;
        let state = State { hosts: members, primary: None, idle: Vec::new() };
        Ok(Shard {
            name: name.to_owned(),
            set: set.to_owned(),
            connect,
            clock,
            state: Mutex::new(state),
            member: None,
            members: Mutex::default(),
            logged: AtomicU64::new(0),
        })
    }

    /// Returns this shard by way of one member, for reads.
    pub(crate) fn by_way_of(&self, host: &str) -> Shard {
        Shard {
            name: self.name.clone(),
            set: self.set.clone(),
            connect: self.connect.clone(),
            clock: self.clock.clone(),
            state: Mutex::new(State { hosts: vec![host.to_owned()], primary: Some(host.to_owned()), idle: Vec::new() }),
            member: Some(host.to_owned()),
            members: Mutex::default(),
            logged: AtomicU64::new(0),
        }
    }

    /// Ensures that the log of the shard reaches a time that another shard has had: a member that follows shows nothing of a time before its
    /// log has reached it, and nothing may be written here for long.
    pub(crate) fn log_past(&self, time: u64, interrupt: &Interrupt) -> Result<()> {
        if self.logged.load(Ordering::Acquire) >= time {
            return Ok(());
        }
        let data = DocBuf::new().with("msg", "read on a secondary after a time of the cluster");
        self.call("admin", &DocBuf::new().with("appendOplogNote", 1i32).with("data", &data), interrupt)?;
        self.logged.fetch_max(time, Ordering::AcqRel);
        Ok(())
    }

    pub(crate) fn is_by_way_of(&self, host: &str) -> bool {
        self.member.as_deref() == Some(host)
    }

    pub(crate) fn known_hosts(&self) -> Vec<String> {
        self.state.lock().hosts.clone()
    }

    /// Returns the reply of a member to `hello`, and the time that it took. None: it could not be reached.
    pub(crate) fn hello(&self, host: &str) -> Option<(DocBuf, Duration)> {
        let mut client = self.connect(host).ok()?;
        let begun = Instant::now();
        let reply = client.command("admin", &DocBuf::new().with("hello", 1i32)).ok()?.doc.to_buf();
        Some((reply, begun.elapsed()))
    }

    /// `set/host:port,...`
    pub(crate) fn hosts(&self) -> String {
        format!("{}/{}", self.set, self.state.lock().hosts.join(","))
    }

    pub(crate) fn idle_connections(&self) -> usize {
        self.state.lock().idle.len()
    }

    /// Runs a command on the primary. Errors: that of the server, or HostUnreachable.
    pub(crate) fn call(&self, db: &str, command: &DocBuf, interrupt: &Interrupt) -> Result<DocBuf> {
        self.call_with(db, command, &[], interrupt)
    }

    pub(crate) fn call_with(
        &self,
        db: &str,
        command: &DocBuf,
        sequences: &[(&str, &[DocBuf])],
        interrupt: &Interrupt,
    ) -> Result<DocBuf> {
        let begun = self.begin(db, command, sequences, interrupt);
        self.end(begun, db, command, sequences, interrupt)
    }

    /// Sends a command, so that several shards work at once; [`Shard::end`] reads the reply.
    pub(crate) fn begin(
        &self,
        db: &str,
        command: &DocBuf,
        sequences: &[(&str, &[DocBuf])],
        interrupt: &Interrupt,
    ) -> Begun {
        let name = command.as_doc().first().map_or("", |(name, _)| name);
        assert!(
            !is_of_lock_holders(name) || command.get(FENCING_TOKEN).is_some(),
            "A2: {name} is sent by the holder of a lock alone"
        );
        let (host, mut client) = match self.check_out(interrupt) {
            Ok(connection) => connection,
            Err(failure) => return Begun::Ended(Err(failure)),
        };
        let timed = self.clock.shown_to(command);
        let command = timed.as_ref().unwrap_or(command);
        let anywhere = self.member.is_some().then(|| {
            let preference = DocBuf::new().with("mode", "secondaryPreferred");
            fields::without(command.as_doc(), &["$readPreference"]).with("$readPreference", &preference)
        });
        let command = anywhere.as_ref().unwrap_or(command);
        let (keyed, key) = keyed(command);
        match client.send(db, keyed.as_ref().unwrap_or(command), sequences) {
            Ok(()) => Begun::Sent(Box::new(Sent { host, client, key })),
            Err(error) => Begun::Ended(Err(Failure::Lost { sent: true, reason: format!("{host}: {error}") })),
        }
    }

    pub(crate) fn end(
        &self,
        begun: Begun,
        db: &str,
        command: &DocBuf,
        sequences: &[(&str, &[DocBuf])],
        interrupt: &Interrupt,
    ) -> Result<DocBuf> {
        let patience = Instant::now() + PATIENCE;
        let mut outcome = self.receive(begun, interrupt);
        loop {
            let failure = match outcome {
                Ok(reply) => return Ok(reply),
                Err(failure) => failure,
            };
            let again = match &failure {
                Failure::Refused(error) => {
                    NOT_PRIMARY.contains(&error.code) && !is_statement_of_transaction(command.as_doc())
                }
                Failure::Lost { sent, .. } => !sent || may_run_twice(command.as_doc()),
                Failure::Ended(_) => false,
            };
            if self.member.is_some() {
                return Err(self.member_error(failure));
            }
            match &failure {
                Failure::Refused(error) if !NOT_PRIMARY.contains(&error.code) => {}
                Failure::Refused(_) | Failure::Lost { .. } => self.forget_primary(),
                Failure::Ended(_) => {}
            }
            if !again || Instant::now() > patience {
                return Err(self.error(failure));
            }
            interrupt.check()?;
            std::thread::sleep(POLL);
            let begun = self.begin(db, command, sequences, interrupt);
            outcome = self.receive(begun, interrupt);
        }
    }

    fn error(&self, failure: Failure) -> Error {
        match failure {
            Failure::Refused(error) | Failure::Ended(error) => error,
            Failure::Lost { reason, .. } => {
                Error::new(Code::HOST_UNREACHABLE, format!("shard {} cannot be reached: {reason}", self.name))
            }
        }
    }

    /// Returns the error of a read by way of a member. Where the member is the reason, another one may do it.
    fn member_error(&self, failure: Failure) -> Error {
        match failure {
            Failure::Refused(error) if NOT_PRIMARY.contains(&error.code) => {
                let text = format!("a member of the shard {} takes no reads: {}", self.name, error.message);
                Error::new(Code::HOST_UNREACHABLE, text)
            }
            Failure::Lost { .. } => {
                self.state.lock().idle.clear();
                self.error(failure)
            }
            other => self.error(other),
        }
    }

    /// Searches for the primary. Errors: HostUnreachable after about `patience`.
    pub(crate) fn reach(&self, patience: Duration, interrupt: &Interrupt) -> Result<()> {
        let until = Instant::now() + patience;
        loop {
            match self.check_out(interrupt) {
                Ok((host, client)) => {
                    self.state.lock().idle.push((host, Link::Plain(client)));
                    return Ok(());
                }
                Err(failure) if matches!(failure, Failure::Ended(_)) || Instant::now() > until => {
                    return Err(self.error(failure));
                }
                Err(_) => std::thread::sleep(POLL),
            }
        }
    }

    fn forget_primary(&self) {
        let mut state = self.state.lock();
        state.primary = None;
        state.idle.clear();
    }

    fn connect(&self, host: &str) -> std::result::Result<Client, ClientError> {
        let client = (self.connect)(host, CONNECT_TIMEOUT)?;
        client.set_read_timeout(Some(POLL))?;
        Ok(client)
    }

    fn check_out(&self, interrupt: &Interrupt) -> std::result::Result<(String, Client), Failure> {
        loop {
            let Some((host, link)) = self.state.lock().take_idle(false) else { break };
            let client = link.into_client().ok().filter(Client::is_open);
            if let Some(client) = client {
                return Ok((host, client));
            }
        }
        interrupt.check().map_err(|error| Failure::Ended(error.into()))?;
        let known = self.state.lock().primary.clone();
        if let Some(host) = known
            && let Ok(client) = self.connect(&host)
        {
            return Ok((host, client));
        }
        match &self.member {
            Some(host) => Err(Failure::Lost { sent: false, reason: format!("no connection to {host}") }),
            None => self.find_primary(),
        }
    }

    /// Asks the members one after another, and those that they name.
    fn find_primary(&self) -> std::result::Result<(String, Client), Failure> {
        let mut waiting = self.state.lock().hosts.clone();
        let mut asked = HashSet::new();
        let mut reasons = Vec::new();
        while let Some(host) = waiting.pop() {
            if !asked.insert(host.clone()) || asked.len() > HOSTS_MAX {
                continue;
            }
            let hello = self.connect(&host).and_then(|mut client| {
                let reply = client.command("admin", &DocBuf::new().with("hello", 1i32))?.doc.to_buf();
                Ok((client, reply))
            });
            let (client, reply) = match hello {
                Ok(answered) => answered,
                Err(error) => {
                    reasons.push(format!("{host}: {error}"));
                    continue;
                }
            };
            if fields::string(reply.as_doc(), "setName") != Some(&self.set) {
                reasons.push(format!("{host} is not a member of the set {}", self.set));
                continue;
            }
            let members: Vec<String> = match reply.get("hosts") {
                Some(ValueRef::Array(hosts)) => hosts.iter().filter_map(fields::text).map(str::to_owned).collect(),
                _ => Vec::new(),
            };
            if matches!(reply.get("isWritablePrimary"), Some(ValueRef::Bool(true))) {
                let mut state = self.state.lock();
                if !members.is_empty() && members.len() <= HOSTS_MAX {
                    state.hosts = members;
                }
                state.primary = Some(host.clone());
                return Ok((host, client));
            }
            reasons.push(format!("{host} is not the primary"));
            waiting.extend(fields::string(reply.as_doc(), "primary").map(str::to_owned));
            waiting.extend(members);
        }
        Err(Failure::Lost {
            sent: false,
            reason: format!("no primary of {} was found: {}", self.set, reasons.join("; ")),
        })
    }

    /// Ends an operation whose reply is not awaited any more. Where that fails, the shard ends a read when it sees that its client has
    /// left.
    fn kill(&self, key: Uuid) {
        let key = ValueRef::Binary { subtype: 4, bytes: key.as_bytes() };
        let keys: ArrayBuf = std::iter::once(key).collect();
        let kill = DocBuf::new().with(KILL, 1i32).with("operationKeys", &keys);
        let _ = self.call("admin", &kill, &Interrupt::never().within(KILL_MAX));
    }

    fn receive(&self, mut begun: Begun, interrupt: &Interrupt) -> Outcome {
        loop {
            begun = match begun {
                Begun::Ended(outcome) => return outcome,
                Begun::Sent(sent) => self.look(sent, interrupt),
            };
        }
    }

    /// Waits a moment for a reply.
    fn look(&self, mut sent: Box<Sent>, interrupt: &Interrupt) -> Begun {
        let reply = match sent.client.receive() {
            Ok(reply) => reply.doc.to_buf(),
            // interrupted: this process was stopped for a time
            Err(ClientError::Io(error))
                if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut | ErrorKind::Interrupted) =>
            {
                // the shard has the same time limit; its reply says more
                let late = interrupt.remaining().is_none_or(|left| left.is_zero());
                return match interrupt.check() {
                    Err(error) if !matches!(error, arbor_query::Error::TimeExpired) || late => {
                        self.give_up(*sent);
                        Begun::Ended(Err(Failure::Ended(error.into())))
                    }
                    _ => Begun::Sent(sent),
                };
            }
            Err(error) => {
                let reason = format!("{}: {error}", sent.host);
                return Begun::Ended(Err(Failure::Lost { sent: true, reason }));
            }
        };
        let Sent { host, client, .. } = *sent;
        Begun::Ended(self.take(host, Link::Plain(client), reply))
    }

    /// Ends an operation whose reply is not awaited any more.
    fn give_up(&self, Sent { key, client, .. }: Sent) {
        drop(client);
        key.into_iter().for_each(|key| self.kill(key));
    }

    /// Takes the reply of a connection, which becomes idle.
    fn take(&self, host: String, link: Link, reply: DocBuf) -> Outcome {
        if validate(reply.as_bytes(), LIMITS).is_err() {
            let reason = format!("{host} sent a reply that is no document");
            return Err(Failure::Ended(Error::new(Code::INTERNAL_ERROR, format!("shard {}: {reason}", self.name))));
        }
        self.clock.see(reply.as_doc());
        let mut state = self.state.lock();
        if state.idle.len() < IDLE_MAX && state.primary.as_ref().is_none_or(|primary| *primary == host) {
            state.idle.push((host, link));
        }
        drop(state);
        if fields::is_ok(reply.as_doc()) { Ok(reply) } else { Err(Failure::Refused(error_of(reply.as_doc()))) }
    }
}

/// A command on its way.
pub(crate) enum Begun {
    Sent(Box<Sent>),
    Ended(Outcome),
}

/// A read on its way to one of several shards.
pub(crate) struct Read {
    pub shard: Arc<Shard>,
    pub command: DocBuf,
    begun: Option<Begun>,
    pub reply: Option<DocBuf>,
    entered: Option<Entered>,
    failed: Option<Error>,
}

impl Read {
    /// `entered`: it is a statement of a transaction.
    pub(crate) fn begin(
        shard: Arc<Shard>,
        db: &str,
        (command, entered): (DocBuf, Option<Entered>),
        interrupt: &Interrupt,
    ) -> Read {
        let begun = Some(shard.begin(db, &command, &[], interrupt));
        Read { shard, command, begun, reply: None, entered, failed: None }
    }

    /// Waits a moment for the reply.
    fn look(&mut self, db: &str, interrupt: &Interrupt) -> Result<()> {
        let begun = match self.begun.take() {
            Some(Begun::Sent(sent)) => self.shard.look(sent, interrupt),
            Some(ended) => ended,
            None => return Ok(()),
        };
        match begun {
            sent @ Begun::Sent(_) => self.begun = Some(sent),
            ended => {
                let outcome = self.shard.end(ended, db, &self.command, &[], interrupt);
                self.entered.iter().for_each(|entered| entered.ended(outcome.as_ref().map(DocBuf::as_doc)));
                self.reply = Some(outcome?);
            }
        }
        Ok(())
    }
}

/// Reads the replies to reads of several shards. Errors: the first one of any; those of the other shards are ended, but for statements of a
/// transaction, whose parts continue. What the others have replied is there.
pub(crate) fn end_reads(reads: &mut [Read], db: &str, interrupt: &Interrupt) -> Result<()> {
    while reads.iter().any(|read| read.begun.is_some()) {
        let in_transaction = reads.iter().any(|read| read.entered.is_some());
        if in_transaction {
            for read in reads.iter_mut() {
                read.failed = read.look(db, interrupt).err().or(read.failed.take());
            }
            continue;
        }
        let failed = reads.iter_mut().find_map(|read| read.look(db, interrupt).err());
        if let Some(error) = failed {
            for read in reads {
                if let Some(Begun::Sent(sent)) = read.begun.take() {
                    read.shard.give_up(*sent);
                }
            }
            return Err(error);
        }
    }
    reads.iter_mut().find_map(|read| read.failed.take()).map_or(Ok(()), Err)
}

/// The connection on which a reply is awaited.
pub(crate) struct Sent {
    host: String,
    client: Client,
    /// Ends the operation on the shard.
    key: Option<Uuid>,
}

impl Shard {
    /// Sends a read whose reply no thread waits for. None: there is no idle connection for that.
    pub(crate) fn send_watched(&self, db: &str, command: &DocBuf) -> Option<Way> {
        let is_large = command.as_bytes().len() > WATCHED_BYTES_MAX;
        if is_large || self.member.is_some() || Handle::try_current().is_err() {
            return None;
        }
        let (host, link) = self.state.lock().take_idle(true)?;
        let mut link = link.watched()?;
        let timed = self.clock.shown_to(command);
        let command = timed.as_ref().unwrap_or(command);
        let (keyed, key) = keyed(command);
        link.client.send(db, keyed.as_ref().unwrap_or(command), &[]).ok()?;
        Some(Way { host, link, key, reply: None })
    }

    /// Takes the reply of a read that was sent, for which this waits if it has not arrived.
    pub(crate) fn end_watched(&self, way: Way, interrupt: &Interrupt) -> Outcome {
        let Way { host, link, key, reply } = way;
        match reply {
            Some(Ok(reply)) => self.take(host, Link::Watched(link), reply),
            Some(Err(error)) => Err(Failure::Lost { sent: true, reason: format!("{host}: {error}") }),
            None => {
                let client = match link.into_client() {
                    Ok(client) => client,
                    Err(error) => return Err(Failure::Lost { sent: true, reason: format!("{host}: {error}") }),
                };
                self.receive(Begun::Sent(Box::new(Sent { host, client, key })), interrupt)
            }
        }
    }
}

/// Longest command that is sent by a thread that must not wait: it has room in the buffers of an idle connection.
const WATCHED_BYTES_MAX: usize = 16 << 10;

/// A connection to a member of a shard.
enum Link {
    Plain(Client),
    Watched(Watched),
}

/// A connection in plain text whose replies the runtime reports.
struct Watched {
    client: Client,
    /// Another descriptor of its socket, which is not blocking.
    socket: TcpStream,
}

impl Link {
    fn is_watched(&self) -> bool {
        matches!(self, Link::Watched(_))
    }

    /// Errors: the socket cannot be made a blocking one again.
    fn into_client(self) -> std::io::Result<Client> {
        match self {
            Link::Plain(client) => Ok(client),
            Link::Watched(watched) => watched.into_client(),
        }
    }

    /// None: it cannot be watched.
    fn watched(self) -> Option<Watched> {
        match self {
            Link::Watched(watched) => Some(watched),
            Link::Plain(client) => {
                let socket = std::net::TcpStream::from(client.plain_socket()?.try_clone_to_owned().ok()?);
                socket.set_nonblocking(true).ok()?;
                Some(Watched { client, socket: TcpStream::from_std(socket).ok()? })
            }
        }
    }
}

impl Watched {
    fn into_client(self) -> std::io::Result<Client> {
        self.socket.into_std()?.set_nonblocking(false)?;
        Ok(self.client)
    }
}

/// A read on its way whose reply no thread waits for.
pub(crate) struct Way {
    host: String,
    link: Watched,
    key: Option<Uuid>,
    /// None: it has not arrived.
    reply: Option<std::result::Result<DocBuf, ClientError>>,
}

impl Way {
    pub(crate) fn has_succeeded(&self) -> bool {
        matches!(&self.reply, Some(Ok(reply)) if fields::is_ok(reply.as_doc()))
    }

    /// Reads the reply as far as it is there.
    pub(crate) fn poll(&mut self, context: &mut Context<'_>) -> Poll<()> {
        let Way { link, reply, .. } = self;
        let Watched { client, socket } = link;
        while reply.is_none() {
            if let Err(error) = ready!(socket.poll_read_ready(context)) {
                *reply = Some(Err(error.into()));
                break;
            }
            // the rest, or the next reply, is still to come: the socket is reported as empty
            let _empty: std::io::Result<()> = socket.try_io(Interest::READABLE, || {
                *reply = match client.receive_now() {
                    Ok(received) => received.map(|received| Ok(received.doc.to_buf())),
                    Err(error) => Some(Err(error)),
                };
                Err(ErrorKind::WouldBlock.into())
            });
        }
        Poll::Ready(())
    }
}

/// Returns the command with a key by which it can be ended. None: it is the command that ends others.
fn keyed(command: &DocBuf) -> (Option<DocBuf>, Option<Uuid>) {
    const FIELD: &str = "clientOperationKey";
    if matches!(command.as_doc().first(), Some((KILL, _))) {
        return (None, None);
    }
    // not from the system for each request
    let key = uuid::Builder::from_random_bytes(rand::random()).into_uuid();
    let plain = match command.get(FIELD) {
        Some(_) => fields::without(command.as_doc(), &[FIELD]),
        None => command.clone(),
    };
    (Some(plain.with(FIELD, ValueRef::Binary { subtype: 4, bytes: key.as_bytes() })), Some(key))
}

/// Splits `set/host:port,...` into the name of the set and its members.
pub(crate) fn members_of(hosts: &str) -> std::result::Result<(&str, Vec<String>), String> {
    let malformed = || format!("'{hosts}' is not of the form set/host:port,...");
    let (set, members) = hosts.split_once('/').ok_or_else(malformed)?;
    let members: Vec<String> = members.split(',').filter(|host| !host.is_empty()).map(with_port).collect();
    match set.is_empty() || members.is_empty() || members.len() > HOSTS_MAX {
        true => Err(malformed()),
        false => Ok((set, members)),
    }
}

fn with_port(host: &str) -> String {
    if host.contains(':') { host.to_owned() } else { format!("{host}:27018") }
}

fn is_in_transaction(command: Doc<'_>) -> bool {
    command.get("autocommit").is_some()
}

/// A member that has begun to lead knows no statement of before, but how transactions have ended.
fn is_statement_of_transaction(command: Doc<'_>) -> bool {
    is_in_transaction(command) && !may_run_twice(command)
}

/// Commands that change nothing, or that the server recognizes the second time.
fn may_run_twice(command: Doc<'_>) -> bool {
    const READS: &[&str] = &[
        "find",
        "count",
        "distinct",
        "explain",
        "listCollections",
        "listIndexes",
        "listDatabases",
        "collStats",
        "dbStats",
        "hello",
        "ping",
    ];
    let name = command.first().map_or("", |(name, _)| name);
    !is_in_transaction(command) && (READS.contains(&name) || command.get("txnNumber").is_some())
        || matches!(
            name,
            "commitTransaction"
                | "abortTransaction"
                | "coordinateCommitTransaction"
                | "_shardsvrForgetDecisions"
                | "_shardsvrPreparedTransactions"
                | "_shardsvrSettleTransaction"
                | "_shardsvrTransactionDecision"
        )
}

/// Returns the error of a reply with all that it says.
pub(crate) fn error_of(reply: Doc<'_>) -> Error {
    let code = fields::number(reply, "code").map_or(Code::INTERNAL_ERROR, |code| Code(code as i32));
    let mut error = ProtocolError::new(code, fields::string(reply, "errmsg").unwrap_or("unknown error"));
    let own = ["ok", "errmsg", "code", "codeName", "errorLabels", "topologyVersion"];
    let details: DocBuf = reply.iter().filter(|(name, _)| !own.contains(name)).collect();
    if !details.as_doc().is_empty() {
        error.details = Some(details);
    }
    if let Some(ValueRef::Array(labels)) = reply.get("errorLabels") {
        error.labels = labels.iter().filter_map(fields::text).map(str::to_owned).collect();
    }
    error.into()
}

#[cfg(test)]
mod tests {
    use super::*;
    use arbor_notation::doc;

    #[test]
    fn hosts_are_read_or_refused() {
        assert_eq!(members_of("rs/a:1,b").unwrap(), ("rs", vec!["a:1".to_owned(), "b:27018".to_owned()]));
        for bad in ["a:1", "/a:1", "rs/", ""] {
            assert!(members_of(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn errors_keep_what_they_say() {
        let error = error_of(
            doc("{ok: 0, errmsg: 'no', code: 11000, codeName: 'DuplicateKey', keyValue: {a: 1}, errorLabels: ['x']}")
                .as_doc(),
        );
        assert_eq!(
            (error.code.0, error.message.as_str(), error.labels.as_slice()),
            (11000, "no", &["x".to_owned()][..])
        );
        assert!(error.details.as_ref().is_some_and(|details| details.get("keyValue").is_some()));
    }

    #[test]
    fn only_harmless_commands_run_twice() {
        for (command, expect) in [
            ("{find: 'c'}", true),
            ("{insert: 'c'}", false),
            ("{insert: 'c', txnNumber: Long(1)}", true),
            ("{find: 'c', txnNumber: Long(1), autocommit: false}", false),
            ("{aggregate: 'c'}", false),
        ] {
            assert_eq!(may_run_twice(doc(command).as_doc()), expect, "{command}");
        }
    }
}
