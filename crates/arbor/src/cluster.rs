//! `arbor cluster`: a replica set, or a sharded cluster, on one machine by one command, for development and demonstrations. Each member is an
//! `arbor serve` of its own, as on as many machines; with `--shards` there are a config set, the shards and a router.
//!
//! A thread for each process starts it, waits for its end and starts it again after a second. The main thread initiates the sets and then waits
//! for a signal; at its end every process is asked to stop, by its process id.

use std::ffi::OsString;
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command as Process, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use arbor_bson::{ArrayBuf, Code, DocBuf, ValueRef};
use arbor_client::{Client, ClientError, Options};
use clap::{Arg, ArgAction, ArgMatches, Command, value_parser};
use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::iterator::Signals;

use crate::failure::{BAD_OPTIONS, CANNOT_LISTEN, Failure};
use crate::supervised;

const MEMBERS_MAX: u16 = 7;
const SHARDS_MAX: u16 = 50;
const CONFIG_SET: &str = "cfg";
const AGAIN_AFTER: Duration = Duration::from_secs(1);
const POLL: Duration = Duration::from_millis(50);
/// A member whose data is large takes its time to recover.
const READY_MAX: Duration = Duration::from_secs(300);
/// From the request to stop until a member is killed.
const STOP_MAX: Duration = Duration::from_secs(60);

pub(crate) fn command() -> Command {
    let arg = |name: &'static str, value: &'static str, default: &'static str| {
        Arg::new(name).long(name).value_name(value).default_value(default)
    };
    Command::new("cluster")
        .about(
            "Runs a replica set or a sharded cluster on this machine: starts its processes, initiates it and prints how to connect",
        )
        .arg(
            Arg::new("shards")
                .long("shards")
                .value_name("N")
                .value_parser(value_parser!(u16).range(1..=i64::from(SHARDS_MAX)))
                .help("Shards, 1 to 50, with a config set and a router; without it: one replica set"),
        )
        .arg(
            arg("members", "N", "3")
                .value_parser(value_parser!(u16).range(1..=i64::from(MEMBERS_MAX)))
                .help("Members of each set, 1 to 7"),
        )
        .arg(
            Arg::new("configMembers")
                .long("configMembers")
                .value_name("N")
                .requires("shards")
                .value_parser(value_parser!(u16).range(1..=i64::from(MEMBERS_MAX)))
                .help("Members of the config set, where it has another number than the shards"),
        )
        .arg(arg("dbpath", "DIR", "data").help("Directory of the members' directories"))
        .arg(
            arg("port", "PORT", "27017")
                .value_parser(value_parser!(u16).range(1..))
                .help("Port of the router or of the first member; the others count up"),
        )
        .arg(arg("replSet", "NAME", "rs0").conflicts_with("shards").help("Name of the set; of shards: s0, s1, ..."))
        .arg(
            Arg::new("options")
                .action(ArgAction::Append)
                .trailing_var_arg(true)
                .allow_hyphen_values(true)
                .value_parser(value_parser!(OsString))
                .help("Options of every member, after --"),
        )
}

pub(crate) fn run(matches: &ArgMatches) -> Result<(), Failure> {
    let cluster = Arc::new(Cluster::of(matches)?);
    let mut signals = Signals::new([SIGINT, SIGTERM]).map_err(Failure::cannot_start)?;
    let mut threads = Vec::new();
    for index in 0..cluster.parts.len() {
        let own = cluster.clone();
        threads.push(thread::spawn(move || own.parts.get(index).into_iter().for_each(|part| own.keep(part))));
    }
    let (own, handle) = (cluster.clone(), signals.handle());
    let begin = thread::spawn(move || {
        let outcome = own.begin();
        if outcome.is_err() {
            own.stop.store(true, Ordering::Release);
            handle.close();
        }
        outcome
    });
    // A signal, or the end of a begin that failed.
    let _signal = signals.forever().next();
    cluster.stop.store(true, Ordering::Release);
    threads.into_iter().for_each(|thread| drop(thread.join()));
    begin.join().unwrap_or_else(|_| Err(Failure::cannot_start("the set could not be initiated")))
}

/// One process.
struct Part {
    /// Name of its directory.
    name: String,
    port: u16,
    /// Its command and options, without the ports and files that all have.
    arguments: Vec<OsString>,
    is_router: bool,
}

/// A replica set with the ports of its members.
struct Set {
    name: String,
    ports: Vec<u16>,
}

impl Set {
    /// `set/host:port,...`
    fn address(&self) -> String {
        format!("{}/{}", self.name, self.hosts())
    }

    fn hosts(&self) -> String {
        let hosts: Vec<String> = self.ports.iter().map(|port| format!("127.0.0.1:{port}")).collect();
        hosts.join(",")
    }
}

struct Cluster {
    dbpath: PathBuf,
    parts: Vec<Part>,
    /// The config set is the first one where there is a router.
    sets: Vec<Set>,
    router: Option<u16>,
    stop: AtomicBool,
}

impl Cluster {
    fn of(matches: &ArgMatches) -> Result<Cluster, Failure> {
        let number = |name: &str| matches.get_one::<u16>(name).copied().unwrap_or_default();
        let text = |name: &str| matches.get_one::<String>(name).cloned().unwrap_or_default();
        let (first, members) = (number("port"), number("members"));
        let shards = matches.get_one::<u16>("shards").copied();
        let config_members = matches.get_one::<u16>("configMembers").copied().unwrap_or(members);
        let names: Vec<(String, Option<&str>, u16)> = match shards {
            None => vec![(text("replSet"), None, members)],
            Some(shards) => std::iter::once((CONFIG_SET.to_owned(), Some("--configsvr"), config_members))
                .chain((0..shards).map(|index| (format!("s{index}"), Some("--shardsvr"), members)))
                .collect(),
        };
        let options: Vec<OsString> = matches.get_many::<OsString>("options").into_iter().flatten().cloned().collect();
        let count =
            names.iter().map(|(_, _, members)| usize::from(*members)).sum::<usize>() + usize::from(shards.is_some());
        let none = || Failure::new(BAD_OPTIONS, format!("there are no {count} ports from {first} on"));
        let mut ports = (0..count).map(|index| u16::try_from(index).ok().and_then(|index| first.checked_add(index)));
        let mut next = || ports.next().flatten().ok_or_else(none);
        let router = shards.map(|_| next()).transpose()?;
        let (mut sets, mut parts) = (Vec::new(), Vec::new());
        for (name, role, members) in names {
            let mut set = Set { name, ports: Vec::new() };
            for index in 0..members {
                let port = next()?;
                set.ports.push(port);
                let mut arguments: Vec<OsString> = ["serve", "--replSet", &set.name].map(Into::into).into();
                arguments.extend(role.map(Into::into));
                arguments.extend(options.iter().cloned());
                // One set has the names that it always had.
                let name = if role.is_some() { format!("{}-{index}", set.name) } else { format!("member{index}") };
                parts.push(Part { name, port, arguments, is_router: false });
            }
            sets.push(set);
        }
        if let (Some(port), Some(config)) = (router, sets.first()) {
            let arguments = ["route", "--configdb", &config.address()].map(Into::into).into();
            parts.push(Part { name: "router".to_owned(), port, arguments, is_router: true });
        }
        assert_eq!(parts.len(), count, "each process has its port");
        for Part { port, .. } in &parts {
            TcpListener::bind(("127.0.0.1", *port))
                .map_err(|error| Failure::new(CANNOT_LISTEN, format!("port {port} of 127.0.0.1: {error}")))?;
        }
        Ok(Cluster { dbpath: PathBuf::from(text("dbpath")), parts, sets, router, stop: AtomicBool::new(false) })
    }

    fn stopped(&self) -> bool {
        self.stop.load(Ordering::Acquire)
    }

    fn uri(&self) -> String {
        match (self.router, self.sets.first()) {
            (Some(port), _) => format!("mongodb://127.0.0.1:{port}/"),
            (None, Some(set)) => format!("mongodb://{}/?replicaSet={}", set.hosts(), set.name),
            (None, None) => unreachable!("there is a set"),
        }
    }

    /// Runs a process until the end, again after a second whenever it ends.
    fn keep(&self, part: &Part) {
        while !self.stopped() {
            match self.start(part) {
                Ok(mut child) => {
                    if let Some(status) = self.wait(&mut child) {
                        let log = self.dbpath.join(&part.name).join("arbor.log");
                        eprintln!("{} ended ({status}), see {}; it is started again", part.name, log.display());
                    }
                }
                Err(error) => eprintln!("{} cannot be started: {error}", part.name),
            }
            let again_at = Instant::now() + AGAIN_AFTER;
            while !self.stopped() && Instant::now() < again_at {
                thread::sleep(POLL);
            }
        }
    }

    fn start(&self, part: &Part) -> std::io::Result<Child> {
        let directory = self.dbpath.join(&part.name);
        std::fs::create_dir_all(&directory)?;
        let launcher = supervised::launcher();
        let (program, arguments) = launcher.split_first().expect("the launcher names a program");
        let mut command = Process::new(program);
        command.args(arguments).arg("/proc/self/exe").args(&part.arguments).args(["--port", &part.port.to_string()]);
        command.arg("--logpath").arg(directory.join("arbor.log")).arg("--logappend");
        if !part.is_router {
            command.arg("--dbpath").arg(&directory);
        }
        command.stdin(Stdio::null()).stdout(Stdio::null());
        // Ctrl-C reaches this process alone, which then stops the others one like the other.
        std::os::unix::process::CommandExt::process_group(&mut command, 0);
        command.spawn()
    }

    /// Returns how the process ended; `None`: it was stopped.
    fn wait(&self, child: &mut Child) -> Option<String> {
        loop {
            match child.try_wait() {
                Ok(Some(status)) => return Some(status.to_string()).filter(|_| !self.stopped()),
                Ok(None) => {}
                Err(error) => return Some(error.to_string()),
            }
            if self.stopped() {
                arbor_etcd::end(child, STOP_MAX);
                return None;
            }
            thread::sleep(POLL);
        }
    }

    /// Initiates the sets, unless they were before, adds the shards and prints how to connect.
    fn begin(&self) -> Result<(), Failure> {
        for set in &self.sets {
            self.initiate(set)?;
        }
        let is_writable =
            |hello: DocBuf| matches!(hello.get("isWritablePrimary"), Some(ValueRef::Bool(true))).then_some(());
        for set in &self.sets {
            self.wait_for("a primary", || set.ports.iter().find_map(|port| is_writable(ask(*port, &hello()).ok()?)))?;
        }
        if let Some(router) = self.router {
            for shard in self.sets.iter().skip(1) {
                self.add_shard(router, shard)?;
            }
        }
        if !self.stopped() {
            self.welcome(&self.dbpath);
        }
        Ok(())
    }

    fn initiate(&self, set: &Set) -> Result<(), Failure> {
        let first = set.ports.first().copied().unwrap_or_default();
        let is_member = self.wait_for("a reply of every member", || {
            let hellos: Result<Vec<DocBuf>, ClientError> = set.ports.iter().map(|port| ask(*port, &hello())).collect();
            hellos.ok().map(|hellos| hellos.iter().any(|hello| hello.get("setName").is_some()))
        })?;
        if is_member != Some(false) {
            return Ok(());
        }
        let members = set
            .ports
            .iter()
            .enumerate()
            .map(|(id, port)| DocBuf::new().with("_id", id as i32).with("host", &*format!("127.0.0.1:{port}")));
        let members: Vec<DocBuf> = members.collect();
        let config = DocBuf::new().with("_id", &*set.name).with("members", &members.iter().collect::<ArrayBuf>());
        ask(first, &DocBuf::new().with("replSetInitiate", &config)).map(drop).map_err(|error| match error.code() {
            Some(code) if code == Code::ALREADY_INITIALIZED.0 => {
                let text = "was initiated with other addresses: start it with the ports and the name that it had";
                Failure::cannot_start(format!("the set in {} {text}", self.dbpath.display()))
            }
            _ => Failure::cannot_start(format!("the set cannot be initiated: {error}")),
        })
    }

    /// Adds a shard; one that the cluster has already is accepted.
    fn add_shard(&self, router: u16, shard: &Set) -> Result<(), Failure> {
        let command = DocBuf::new().with("addShard", &*shard.address());
        let added = self.wait_for("the router", || match ask(router, &command) {
            Ok(_) => Some(Ok(())),
            Err(error) => match error.code() {
                Some(code) if code != Code::HOST_UNREACHABLE.0 => Some(Err(error)),
                // the router has begun, or has found the primaries, a moment later
                _ => None,
            },
        })?;
        match added {
            Some(Err(error)) => {
                Err(Failure::cannot_start(format!("the shard {} cannot be added: {error}", shard.name)))
            }
            Some(Ok(())) | None => Ok(()),
        }
    }

    /// Waits until there is something; `None`: the processes are being stopped.
    fn wait_for<T>(&self, what: &str, mut look: impl FnMut() -> Option<T>) -> Result<Option<T>, Failure> {
        let until = Instant::now() + READY_MAX;
        while !self.stopped() {
            if let Some(found) = look() {
                return Ok(Some(found));
            }
            if Instant::now() >= until {
                let text = format!(
                    "waited {} s in vain for {what}; see {}/*/arbor.log",
                    READY_MAX.as_secs(),
                    self.dbpath.display()
                );
                return Err(Failure::cannot_start(text));
            }
            thread::sleep(POLL);
        }
        Ok(None)
    }

    fn welcome(&self, dbpath: &Path) {
        let uri = self.uri();
        if self.router.is_some() {
            println!(
                "\nThe cluster of {} shards is ready, with its data in {}:\n\n{uri}\n\n    mongosh '{uri}'\n    \
                 > sh.shardCollection('test.trees', {{ _id: 'hashed' }})\n    \
                 > db.trees.insertMany([{{ name: 'oak', height: 30 }}, {{ name: 'birch', height: 20 }}])\n    \
                 > db.trees.find({{ height: {{ $gt: 25 }} }})\n    > sh.status()\n\n\
                 A process that dies is started again after a second. Ctrl-C stops all of them.\n",
                self.sets.len() - 1,
                dbpath.display()
            );
            return;
        }
        let set = self.sets.first().expect("there is a set");
        let (set, count) = (&set.name, set.ports.len());
        let members = if count == 1 { "one member".to_owned() } else { format!("{count} members") };
        println!(
            "\nThe replica set {set} of {members} is ready, with its data in {}:\n\n{uri}\n\n    mongosh '{uri}'\n    \
             {set}> db.trees.insertMany([{{ name: 'oak', height: 30 }}, {{ name: 'birch', height: 20 }}])\n    \
             {set}> db.trees.find({{ height: {{ $gt: 25 }} }})\n    \
             {set}> rs.status().members.map(m => m.name + ' ' + m.stateStr)\n\n\
             A member that dies is started again after a second. Ctrl-C stops all of them.\n",
            dbpath.display()
        );
    }
}

fn hello() -> DocBuf {
    DocBuf::new().with("hello", 1)
}

fn ask(port: u16, command: &DocBuf) -> Result<DocBuf, ClientError> {
    // An initiation founds etcd.
    let options = Options { timeout: Some(Duration::from_secs(120)), ..Options::default() };
    let mut client = Client::connect_with(&format!("127.0.0.1:{port}"), options)?;
    Ok(client.command("admin", command)?.doc.to_buf())
}
