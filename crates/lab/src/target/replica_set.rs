//! Managed servers as members of a replica set: one that is a set by itself, and several on this machine with an etcd each.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::PathBuf;
use std::process::Command;
use std::time::{Duration, Instant};

use arbor_bson::{ArrayBuf, Doc, DocBuf, ValueRef};
use arbor_client::{Client, Options};
use rustix::process::Signal;

use super::Target;
use super::managed::Setup;
use super::mongodb::MongoDb;
use super::ports::{etcd_port, free_ports};
use super::process::{Process, UseOfFiles, is_abandoned, signal};
use crate::observe::{children, memory_bytes};
use crate::{Error, Result};

const NAME: &str = "rs0";

/// Arguments of a server that is to be a member.
pub(crate) const ARGUMENTS: [&str; 2] = ["--replSet", NAME];

/// Timeout for a member to become primary.
const PRIMARY_TIMEOUT: Duration = Duration::from_secs(30);
/// Timeout for whatever several members do: they start, agree, follow. A busy machine takes its time.
const SET_TIMEOUT: Duration = Duration::from_secs(180);
/// Longest wait for a member's reply about itself; one that hangs is none to wait for.
const ASK_TIMEOUT: Duration = Duration::from_secs(1);
const POLL: Duration = Duration::from_millis(10);

/// Makes a set of the server unless it is one, and waits until it is the primary.
pub(crate) fn lead(server: &MongoDb) -> Result<()> {
    let mut client = server.client()?;
    let failed = |source| Error::Client { server: server.name().to_owned(), source };
    initiate(&mut client, &DocBuf::new()).map_err(failed)?;
    let begun = Instant::now();
    loop {
        if is_primary(&mut client).map_err(failed)? {
            return Ok(());
        }
        if begun.elapsed() > PRIMARY_TIMEOUT {
            return Err(Error::Usage(format!("{}: the member did not become primary", server.name())));
        }
        std::thread::sleep(Duration::from_millis(20));
    }
}

fn initiate(client: &mut Client, config: &DocBuf) -> std::result::Result<(), arbor_client::ClientError> {
    const ALREADY_INITIALIZED: i32 = 23;
    match client.command("admin", &DocBuf::new().with("replSetInitiate", config)) {
        Err(error) if error.code() != Some(ALREADY_INITIALIZED) => Err(error),
        _ => Ok(()),
    }
}

fn is_primary(client: &mut Client) -> std::result::Result<bool, arbor_client::ClientError> {
    let hello = client.command("admin", &DocBuf::new().with("hello", 1))?;
    Ok(matches!(hello.doc.get("isWritablePrimary"), Some(ValueRef::Bool(true))))
}

/// Returns true if the server at `address` says that it is the primary.
pub(crate) fn leads(address: &str) -> bool {
    let options = Options { timeout: Some(ASK_TIMEOUT), ..Options::default() };
    Client::connect_with(address, options).is_ok_and(|mut client| is_primary(&mut client).unwrap_or(false))
}

/// One process of a set; its address and its directory stay when it is started again.
struct Member {
    port: u16,
    directory: PathBuf,
    process: Option<Process>,
}

impl Member {
    fn address(&self) -> String {
        format!("127.0.0.1:{}", self.port)
    }

    fn pid(&self) -> Option<u32> {
        self.process.as_ref().map(Process::id)
    }

    /// Returns true if its etcd votes and is in touch with most of the others: one that has not joined yet refuses the question.
    fn has_coordinator(&self) -> bool {
        let ask = || -> std::io::Result<String> {
            let mut stream = TcpStream::connect(("127.0.0.1", etcd_port(self.port)))?;
            stream.set_read_timeout(Some(ASK_TIMEOUT))?;
            let head = "POST /v3/cluster/member/list HTTP/1.1\r\nHost: etcd\r\nConnection: close\r\nContent-Length: 2\r\n\r\n{}";
            stream.write_all(head.as_bytes())?;
            let mut reply = String::new();
            stream.read_to_string(&mut reply)?;
            Ok(reply)
        };
        ask().is_ok_and(|reply| reply.contains("\"members\""))
    }
}

/// A set of several members, which are processes on this machine. Dropping it stops them and removes their directories.
///
/// The thread that starts a member has to live as long as the laboratory: the kernel ends a member with it.
pub(crate) struct ReplicaSet {
    name: String,
    engine: String,
    setup: Setup,
    /// Arguments of each member beyond the setup's.
    arguments: Vec<String>,
    directory: PathBuf,
    members: Vec<Member>,
    keep: bool,
}

impl ReplicaSet {
    /// Starts `count` processes and initiates a set of the first `initial` of them.
    pub(crate) fn start(
        engine: &str,
        setup: &Setup,
        count: u16,
        initial: usize,
        arguments: &[&str],
    ) -> Result<ReplicaSet> {
        let first = free_ports(count)?;
        let directory = setup.root.join(format!("arbor-lab-{engine}-set-{}-{first}", std::process::id()));
        let member = |port: u16| {
            let directory = directory.join(format!("member{}", port - first));
            Member { port, directory, process: None }
        };
        let mut set = ReplicaSet {
            name: format!("{engine}, set of {initial}"),
            engine: engine.to_owned(),
            setup: setup.clone(),
            arguments: arguments.iter().map(|argument| (*argument).to_owned()).collect(),
            members: (first..first + count).map(member).collect(),
            // From here on the directory belongs to the set, also when the start fails.
            directory,
            keep: setup.keep,
        };
        let outcome = (0..set.members.len())
            .try_for_each(|number| set.start_member(number).map(drop))
            .and_then(|()| set.initiate(initial));
        // Its logs are named in the error.
        set.keep |= matches!(outcome, Err(Error::Start { .. })) && !is_abandoned();
        outcome.map(|()| set)
    }

    fn initiate(&self, initial: usize) -> Result<()> {
        let members = self.addresses().into_iter().take(initial).enumerate();
        let members: Vec<DocBuf> =
            members.map(|(id, host)| DocBuf::new().with("_id", id as i32).with("host", &*host)).collect();
        let members = members.iter().collect::<ArrayBuf>();
        let config = DocBuf::new().with("_id", NAME).with("members", &members);
        let failed = |source| Error::Client { server: self.name.clone(), source };
        initiate(&mut self.client(0)?, &config).map_err(failed)?;
        self.settle(initial)
    }

    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    pub(crate) fn addresses(&self) -> Vec<String> {
        self.members.iter().map(Member::address).collect()
    }

    fn log_of(&self, number: usize) -> PathBuf {
        self.directory.join(format!("member{number}.log"))
    }

    pub(crate) fn is_running(&self, number: usize) -> bool {
        self.members.get(number).is_some_and(|member| member.process.is_some())
    }

    /// Starts the member and waits until it replies; returns the time that took.
    pub(crate) fn start_member(&mut self, number: usize) -> Result<Duration> {
        let log = self.log_of(number);
        let share = memory_bytes().map(|bytes| bytes / 5 * 4 / self.members.len() as u64);
        let member = self.members.get_mut(number).expect("members are numbered from 0");
        std::fs::create_dir_all(&member.directory).map_err(Error::file(&member.directory))?;
        let mut command = Command::new(&self.setup.binary);
        command.args(["serve", "--bind_ip", "127.0.0.1", "--port", &member.port.to_string()]);
        command.arg("--dbpath").arg(&member.directory).args(["--storageEngine", &self.engine]).args(ARGUMENTS);
        // they share the machine
        if let Some(share) = share {
            command.args(["--memoryLimit", &share.to_string()]);
        }
        command.args(&self.arguments).args(&self.setup.arguments);
        let use_of_files = if self.setup.keep { UseOfFiles::Kept } else { UseOfFiles::Removed };
        let name = format!("{}, member {number}", self.name);
        let (address, begun) = (member.address(), Instant::now());
        let process = member.process.insert(Process::start(&name, &mut command, &log, use_of_files)?);
        let options = Options { timeout: Some(ASK_TIMEOUT), ..Options::default() };
        process.wait_until(SET_TIMEOUT, || Client::connect_with(&address, options.clone()).is_ok())?;
        Ok(begun.elapsed())
    }

    /// kill -9 of the member, and with it of its etcd.
    pub(crate) fn kill(&mut self, number: usize) -> Result<()> {
        let process = self.members.get_mut(number).and_then(|member| member.process.take());
        process.map_or(Ok(()), |mut process| process.kill())
    }

    /// Stops the processes of a member for a while, as a machine that hangs.
    pub(crate) fn hang(&self, number: usize, time: Duration) {
        let own = self.members.get(number).and_then(Member::pid);
        let all: Vec<u32> = own.into_iter().flat_map(|pid| [pid].into_iter().chain(children(pid))).collect();
        all.iter().for_each(|pid| signal(*pid, Signal::STOP));
        std::thread::sleep(time);
        all.iter().for_each(|pid| signal(*pid, Signal::CONT));
    }

    pub(crate) fn target(&self, number: usize) -> Result<MongoDb> {
        let member = self.members.get(number).expect("members are numbered from 0");
        let target = MongoDb::at(&self.name, &member.address());
        Ok(match member.pid() {
            Some(pid) => target.local(pid, Some(&member.directory)),
            None => target,
        })
    }

    pub(crate) fn client(&self, number: usize) -> Result<Client> {
        self.target(number)?.client()
    }

    /// Returns the number of the primary.
    pub(crate) fn primary(&self) -> Result<usize> {
        self.wait("a primary", || {
            let running = self.members.iter().enumerate().filter(|(_, member)| member.process.is_some());
            running.map(|(number, member)| (number, member.address())).find(|(_, address)| leads(address))
        })
        .map(|(number, _)| number)
    }

    /// Returns the number of a secondary, another one for another `turn`.
    pub(crate) fn secondary(&self, turn: usize) -> Result<usize> {
        let primary = self.primary()?;
        let others: Vec<usize> = (0..self.members.len()).filter(|number| *number != primary).collect();
        Ok(others.get(turn % others.len().max(1)).copied().unwrap_or(primary))
    }

    /// Returns `rs.status()` of a member with its last initial sync; `None` while it does not say.
    pub(crate) fn status(&self, number: usize) -> Option<DocBuf> {
        let options = Options { timeout: Some(ASK_TIMEOUT), ..Options::default() };
        let mut client = Client::connect_with(&self.members.get(number)?.address(), options).ok()?;
        let status = client.command("admin", &DocBuf::new().with("replSetGetStatus", 1).with("initialSync", 1)).ok()?;
        Some(status.doc.to_buf())
    }

    /// Waits until `count` members are in sync, and the etcd of each takes part in the agreement, so that any one can be lost.
    pub(crate) fn settle(&self, count: usize) -> Result<()> {
        self.wait(&format!("{count} members in sync, each with its etcd"), || {
            let running = || self.members.iter().enumerate().filter(|(_, member)| member.process.is_some());
            let primary = running().find(|(_, member)| leads(&member.address()))?.0;
            let are_there = in_sync(&self.status(primary)?).len() == count
                && running().filter(|(_, member)| member.has_coordinator()).count() >= count;
            are_there.then_some(())
        })
    }

    /// Makes a process of the set a member of it.
    pub(crate) fn add(&self, number: usize) -> Result<()> {
        let failed = |source| Error::Client { server: self.name.clone(), source };
        let mut client = self.client(self.primary()?)?;
        let reply = client.command("admin", &DocBuf::new().with("replSetGetConfig", 1)).map_err(failed)?;
        let Some(ValueRef::Document(config)) = reply.doc.get("config") else {
            return Err(Error::Server { server: self.name.clone(), reason: "no configuration".to_owned() });
        };
        let address = self.members.get(number).expect("members are numbered from 0").address();
        let added = DocBuf::new().with("_id", number as i32).with("host", &*address);
        let mut grown = DocBuf::new();
        for (name, value) in config.iter() {
            match (name, value) {
                ("version", ValueRef::Int32(version)) => grown.append(name, version + 1),
                ("version", ValueRef::Int64(version)) => grown.append(name, version + 1),
                ("members", ValueRef::Array(members)) => {
                    let mut members = members.to_buf();
                    members.push(&added);
                    grown.append(name, &members)
                }
                _ => grown.append(name, value),
            };
        }
        client.command("admin", &DocBuf::new().with("replSetReconfig", &grown)).map_err(failed)?;
        Ok(())
    }

    /// Waits until there is something.
    pub(crate) fn wait<T>(&self, what: &str, ask: impl FnMut() -> Option<T>) -> Result<T> {
        self.wait_every(POLL, what, ask)
    }

    pub(crate) fn wait_every<T>(&self, every: Duration, what: &str, mut ask: impl FnMut() -> Option<T>) -> Result<T> {
        let until = Instant::now() + SET_TIMEOUT;
        loop {
            if let Some(found) = ask() {
                return Ok(found);
            }
            // Members that were killed for an interrupt do nothing any more.
            if is_abandoned() || Instant::now() >= until {
                let reason = format!("waited {} s in vain for {what}", SET_TIMEOUT.as_secs());
                return Err(Error::Server { server: self.name.clone(), reason });
            }
            std::thread::sleep(every);
        }
    }
}

impl Drop for ReplicaSet {
    fn drop(&mut self) {
        // A clean end of one after the other would be a failover each; what they hold is not read again.
        for member in &mut self.members {
            if let Some(process) = member.process.as_mut().filter(|_| !self.keep) {
                let _ = process.kill();
            }
            member.process = None;
        }
        if !self.keep {
            let _ = std::fs::remove_dir_all(&self.directory);
        }
    }
}

/// Returns the addresses of the members in sync that a status shows.
pub(crate) fn in_sync(status: &DocBuf) -> Vec<String> {
    let Some(ValueRef::Document(arbor)) = status.get("arbor") else { return Vec::new() };
    let Some(ValueRef::Array(hosts)) = arbor.get("inSync") else { return Vec::new() };
    let host = |host| if let ValueRef::String(host) = host { Some(host.to_owned()) } else { None };
    hosts.iter().filter_map(host).collect()
}

/// Returns what a status shows of the member at `address`.
pub(crate) fn member_of<'a>(status: &'a DocBuf, address: &str) -> Option<Doc<'a>> {
    let ValueRef::Array(members) = status.get("members")? else { return None };
    let member = |member| if let ValueRef::Document(member) = member { Some(member) } else { None };
    members
        .iter()
        .filter_map(member)
        .find(|member| matches!(member.get("name"), Some(ValueRef::String(name)) if name == address))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_status_is_read() {
        let member = |name: &str, position: i64| DocBuf::new().with("name", name).with("position", position);
        let members = [member("a:1", 7), member("b:2", 9)].iter().collect::<ArrayBuf>();
        let hosts = ["a:1"].into_iter().collect::<ArrayBuf>();
        let status = DocBuf::new().with("members", &members).with("arbor", &DocBuf::new().with("inSync", &hosts));
        assert_eq!(in_sync(&status), ["a:1"]);
        assert!(matches!(member_of(&status, "b:2").unwrap().get("position"), Some(ValueRef::Int64(9))));
        assert!(member_of(&status, "c:3").is_none() && in_sync(&DocBuf::new()).is_empty());
    }
}
