//! The etcd process that a server runs by itself, where none was given to it.
//!
//! Directory `etcd` of the data directory: `data` is etcd's own; `arbor.json` says how it was begun. Once a member has been started
//! (`started`), it is never begun again with an empty directory: an etcd that forgot its votes could elect twice, and one that was founded
//! twice would be a second coordinator of the same set. Its data lost means that the member is removed and added again.
//!
//! | thread | |
//! |---|---|
//! | `etcd-process` | starts the process, waits for its end, starts it again after a pause that doubles up to 10 s |
//! | `etcd-log` | carries its lines into the server's log |
//!
//! The process ends with the server: at a shutdown by its process id, and at a kill by the launcher (`arbor supervised`), which asks
//! the kernel for a signal at the end of its parent thread. That thread is `etcd-process`, which lives as long as the server.

use std::ffi::OsString;
use std::fs::{self, File};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{IpAddr, SocketAddr};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStderr, Command, Stdio};
use std::sync::Arc;
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use arbor_bson::DocBuf;
use arbor_protocol::log::{Log, events};
use parking_lot::{Condvar, Mutex};
use serde_json::{Value, json};

use crate::coordinator::{Etcd, EtcdOptions};
use crate::gateway::{Error, TlsFiles};
use crate::version::{OLDEST, Release};

const CONTEXT: &str = "etcd";
const PAUSE_MIN: Duration = Duration::from_millis(250);
const PAUSE_MAX: Duration = Duration::from_secs(10);
/// A process that has run for this time did not fail at its start.
const STEADY: Duration = Duration::from_secs(30);
const POLL: Duration = Duration::from_millis(20);
/// From the signal to end until the process is killed.
const GRACE: Duration = Duration::from_secs(5);
const LINE_BYTES_MAX: u64 = 8 << 10;

/// Ports of the process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ports {
    pub client: u16,
    pub peer: u16,
}

impl Ports {
    /// Returns the ports that follow the server's: 1,000 and 2,000 above it, or below where there are none above.
    pub fn of(server: u16) -> Ports {
        match server.checked_add(2_000) {
            Some(peer) => Ports { client: server + 1_000, peer },
            None => Ports { client: server - 1_000, peer: server - 2_000 },
        }
    }
}

#[derive(Clone, Debug)]
pub struct ManagedOptions {
    pub binary: PathBuf,
    /// Program and arguments before the command: ends it with its parent. Empty: none.
    pub launcher: Vec<OsString>,
    /// `etcd` in the data directory.
    pub directory: PathBuf,
    /// Name in the etcd cluster: the address of the server in the set.
    pub name: String,
    /// By which the other members reach this machine.
    pub host: String,
    /// Addresses to listen on.
    pub listen: Vec<IpAddr>,
    pub ports: Ports,
    pub prefix: String,
    pub set: String,
    pub tls: TlsFiles,
}

/// A running etcd, ended when this is dropped.
pub struct ManagedEtcd {
    options: ManagedOptions,
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

/// The process of a [`ManagedEtcd`], which may have ended.
pub(crate) struct RunningProcess {
    shared: Arc<Shared>,
}

impl RunningProcess {
    pub(crate) fn pid(&self) -> Option<u32> {
        self.shared.state.lock().pid
    }
}

#[derive(Default)]
struct Shared {
    state: Mutex<State>,
    ended: Condvar,
}

#[derive(Default)]
struct State {
    stop: bool,
    pid: Option<u32>,
    starts: u64,
}

/// The beginning of the member; the content of `arbor.json`.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Beginning {
    /// `name=url,...`, this member's among them.
    cluster: String,
    /// A cluster of its own.
    is_new: bool,
    token: String,
    started: bool,
    /// Client URLs of all members, as last seen.
    endpoints: Vec<String>,
}

impl ManagedEtcd {
    /// Founds a cluster of this member alone.
    pub fn found(options: ManagedOptions, log: &Arc<Log>) -> Result<ManagedEtcd, Error> {
        let cluster = format!("{}={}", options.name, options.peer_url());
        ManagedEtcd::begin(options, cluster, true, vec![], log)
    }

    /// Starts a member that was added to a cluster. `cluster` is `name=url,...` of all its members, `endpoints` their client URLs.
    pub fn join(
        options: ManagedOptions,
        cluster: &str,
        endpoints: Vec<String>,
        log: &Arc<Log>,
    ) -> Result<ManagedEtcd, Error> {
        ManagedEtcd::begin(options, cluster.to_owned(), false, endpoints, log)
    }

    /// Starts the member that was begun in this directory before; `None`: there is none.
    pub fn resume(options: ManagedOptions, log: &Arc<Log>) -> Result<Option<ManagedEtcd>, Error> {
        let Some(beginning) = Beginning::read(&options.directory)? else { return Ok(None) };
        if beginning.started && !options.data().join("member").is_dir() {
            return Err(Error::Process(format!(
                "the data of etcd in {} is gone; remove the directory {} and this member is added to etcd again",
                options.data().display(),
                options.directory.display()
            )));
        }
        ManagedEtcd::run(options, beginning, log).map(Some)
    }

    /// Returns true if a member was begun in the directory.
    pub fn was_begun(directory: &Path) -> bool {
        directory.join(FILE).exists()
    }

    fn begin(
        options: ManagedOptions,
        cluster: String,
        is_new: bool,
        endpoints: Vec<String>,
        log: &Arc<Log>,
    ) -> Result<ManagedEtcd, Error> {
        if ManagedEtcd::was_begun(&options.directory) {
            let text = format!("{} has an etcd member already", options.directory.display());
            return Err(Error::Process(text));
        }
        let endpoints = if endpoints.is_empty() { vec![options.client_url()] } else { endpoints };
        let token = format!("arbor-{}", options.set);
        let beginning = Beginning { cluster, is_new, token, started: false, endpoints };
        check_binary(&options.binary)?;
        beginning.write(&options.directory)?;
        ManagedEtcd::run(options, beginning, log)
    }

    fn run(options: ManagedOptions, beginning: Beginning, log: &Arc<Log>) -> Result<ManagedEtcd, Error> {
        let release = check_binary(&options.binary)?;
        if let Some(text) = release.warning() {
            log.startup_warning(events::ETCD_OLD, DocBuf::new().with("reason", &*text));
        }
        let shared = Arc::new(Shared::default());
        let process = Process {
            arguments: arguments(&options, &beginning, release),
            options: options.clone(),
            beginning,
            log: log.clone(),
            shared: shared.clone(),
        };
        let thread = thread::Builder::new().name("etcd-process".to_owned()).spawn(move || process.supervise());
        let thread = thread.map_err(|error| Error::Process(format!("no thread for etcd: {error}")))?;
        Ok(ManagedEtcd { options, shared, thread: Some(thread) })
    }

    /// Returns the coordinator on this cluster.
    pub fn coordinator(&self) -> Result<Etcd, Error> {
        let beginning = Beginning::read(&self.options.directory)?;
        let known = beginning.map(|beginning| beginning.endpoints).unwrap_or_default();
        // The own one first: it is the nearest.
        let own = self.options.client_url();
        let others = known.into_iter().filter(|endpoint| *endpoint != own);
        let mut options = EtcdOptions::new(std::iter::once(own.clone()).chain(others).collect(), &self.options.set);
        options.prefix.clone_from(&self.options.prefix);
        options.tls = self.options.tls.clone();
        Etcd::new(&options)
    }

    /// Returns the coordinator once its cluster replies.
    pub fn wait_until_ready(&self, patience: Duration) -> Result<Etcd, Error> {
        let etcd = self.coordinator()?;
        let until = Instant::now() + patience;
        loop {
            match etcd.members() {
                Ok(_) => return Ok(etcd),
                Err(error) if Instant::now() >= until => return Err(error),
                Err(_) => thread::sleep(POLL),
            }
        }
    }

    /// Notes the endpoints of the cluster, for the next start and in `etcd`.
    pub fn note_endpoints(&self, etcd: &Etcd) -> Result<(), Error> {
        let members = etcd.members()?;
        let own = self.options.client_url();
        let mut endpoints = vec![own.clone()];
        endpoints.extend(members.into_iter().flat_map(|member| member.client_urls).filter(|url| *url != own));
        let Some(before) = Beginning::read(&self.options.directory)? else { return Ok(()) };
        if before.endpoints != endpoints {
            etcd.set_endpoints(&endpoints)?;
            Beginning { endpoints, started: true, ..before }.write(&self.options.directory)?;
        }
        Ok(())
    }

    pub fn options(&self) -> &ManagedOptions {
        &self.options
    }

    /// Process id of the running process.
    pub fn pid(&self) -> Option<u32> {
        self.process().pid()
    }

    /// Returns the process, for callers that do not wait for what is done with its etcd.
    pub(crate) fn process(&self) -> RunningProcess {
        RunningProcess { shared: self.shared.clone() }
    }

    /// Returns the number of times that the process was started.
    pub fn starts(&self) -> u64 {
        self.shared.state.lock().starts
    }
}

impl Drop for ManagedEtcd {
    fn drop(&mut self) {
        let mut state = self.shared.state.lock();
        state.stop = true;
        drop(state);
        self.shared.ended.notify_all();
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

impl ManagedOptions {
    pub fn client_url(&self) -> String {
        self.url(&self.host, self.ports.client)
    }

    pub fn peer_url(&self) -> String {
        self.url(&self.host, self.ports.peer)
    }

    fn url(&self, host: &str, port: u16) -> String {
        let scheme = if self.tls.certificate_key.is_some() { "https" } else { "http" };
        let host = if host.contains(':') && !host.starts_with('[') { format!("[{host}]") } else { host.to_owned() };
        format!("{scheme}://{host}:{port}")
    }

    fn listen_urls(&self, port: u16) -> String {
        let scheme = if self.tls.certificate_key.is_some() { "https" } else { "http" };
        let urls: Vec<String> =
            self.listen.iter().map(|address| format!("{scheme}://{}", SocketAddr::new(*address, port))).collect();
        urls.join(",")
    }

    fn data(&self) -> PathBuf {
        self.directory.join("data")
    }
}

struct Process {
    arguments: Vec<OsString>,
    options: ManagedOptions,
    beginning: Beginning,
    log: Arc<Log>,
    shared: Arc<Shared>,
}

impl Process {
    fn supervise(mut self) {
        let mut pause = PAUSE_MIN;
        loop {
            let begun = Instant::now();
            let reason = match self.start() {
                Ok(mut child) => {
                    let reason = self.wait(&mut child);
                    self.shared.state.lock().pid = None;
                    reason
                }
                Err(error) => error.to_string(),
            };
            let mut state = self.shared.state.lock();
            if state.stop {
                return;
            }
            if begun.elapsed() >= STEADY {
                pause = PAUSE_MIN;
            }
            let attributes = DocBuf::new().with("reason", &*reason).with("againAfterMs", pause.as_millis() as i64);
            self.log.warn(events::ETCD_ENDED, CONTEXT, attributes);
            self.shared.ended.wait_for(&mut state, pause);
            if state.stop {
                return;
            }
            pause = (pause * 2).min(PAUSE_MAX);
        }
    }

    fn start(&mut self) -> std::io::Result<Child> {
        let mut command = match self.options.launcher.split_first() {
            None => Command::new(&self.options.binary),
            Some((launcher, arguments)) => {
                let mut command = Command::new(launcher);
                command.args(arguments).arg(&self.options.binary);
                command
            }
        };
        command.args(&self.arguments).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
        // etcd takes options from the environment as well
        for (name, _) in std::env::vars_os() {
            if name.as_encoded_bytes().starts_with(b"ETCD_") {
                command.env_remove(name);
            }
        }
        let mut child = command.spawn()?;
        let mut state = self.shared.state.lock();
        state.pid = Some(child.id());
        state.starts += 1;
        drop(state);
        let attributes = DocBuf::new().with("pid", i64::from(child.id())).with("name", &*self.options.name);
        self.log.info(events::ETCD_STARTED, CONTEXT, attributes.with("clientUrl", &*self.options.client_url()));
        if let Some(lines) = child.stderr.take() {
            let log = self.log.clone();
            let _ = thread::Builder::new().name("etcd-log".to_owned()).spawn(move || carry_lines(lines, &log));
        }
        Ok(child)
    }

    /// Waits for the end of the process, and ends it if it is to stop. Returns why it ended.
    fn wait(&mut self, child: &mut Child) -> String {
        loop {
            match child.try_wait() {
                Ok(Some(status)) => return status.to_string(),
                Ok(None) => {}
                Err(error) => return error.to_string(),
            }
            if !self.beginning.started && self.options.data().join("member").is_dir() {
                self.note_started();
            }
            let mut state = self.shared.state.lock();
            if state.stop {
                drop(state);
                end(child, GRACE);
                return "stopped".to_owned();
            }
            self.shared.ended.wait_for(&mut state, POLL);
        }
    }

    fn note_started(&mut self) {
        self.beginning.started = true;
        let now = Beginning::read(&self.options.directory).ok().flatten();
        let now = Beginning { started: true, ..now.unwrap_or_else(|| self.beginning.clone()) };
        if let Err(error) = now.write(&self.options.directory) {
            self.log.warn(events::ETCD_LINE, CONTEXT, DocBuf::new().with("line", &*error.to_string()));
        }
    }
}

/// Asks a process to end, and kills it when its time is over.
pub fn end(child: &mut Child, grace: Duration) {
    let pid = i32::try_from(child.id()).ok().and_then(rustix::process::Pid::from_raw);
    if let Some(pid) = pid {
        let _ = rustix::process::kill_process(pid, rustix::process::Signal::TERM);
    }
    let until = Instant::now() + grace;
    while Instant::now() < until {
        if !matches!(child.try_wait(), Ok(None)) {
            return;
        }
        thread::sleep(POLL);
    }
    let _ = child.kill();
    let _ = child.wait();
}

fn carry_lines(lines: ChildStderr, log: &Log) {
    let mut reader = BufReader::new(lines);
    let mut line = Vec::new();
    loop {
        line.clear();
        match Read::by_ref(&mut reader).take(LINE_BYTES_MAX).read_until(b'\n', &mut line) {
            Ok(1..) => {}
            Ok(0) | Err(_) => return,
        }
        let text = String::from_utf8_lossy(&line);
        let text = text.trim();
        // Its lines are documents; a message and an error are worth more to a reader than where they come from.
        let parsed = serde_json::from_str::<Value>(text).ok();
        let field = |name: &str| parsed.as_ref()?.get(name)?.as_str().map(str::to_owned);
        let attributes = match field("msg") {
            Some(message) => {
                let doc = DocBuf::new().with("line", &*message);
                match field("error") {
                    Some(error) => doc.with("error", &*error),
                    None => doc,
                }
            }
            None => DocBuf::new().with("line", text),
        };
        match field("level").as_deref() {
            Some("error" | "fatal" | "panic" | "dpanic") | None => log.warn(events::ETCD_LINE, CONTEXT, attributes),
            Some(_) => log.info(events::ETCD_LINE, CONTEXT, attributes),
        }
    }
}

fn arguments(options: &ManagedOptions, beginning: &Beginning, release: Release) -> Vec<OsString> {
    let mut arguments: Vec<OsString> = Vec::new();
    let mut give = |flag: &str, value: &str| arguments.push(format!("--{flag}={value}").into());
    give("name", &options.name);
    give("listen-client-urls", &options.listen_urls(options.ports.client));
    give("advertise-client-urls", &options.client_url());
    give("listen-peer-urls", &options.listen_urls(options.ports.peer));
    give("initial-advertise-peer-urls", &options.peer_url());
    give("initial-cluster", &beginning.cluster);
    give("initial-cluster-state", if beginning.is_new { "new" } else { "existing" });
    give("initial-cluster-token", &beginning.token);
    // One small value is written a few times an hour: its past is not needed.
    give("auto-compaction-mode", "revision");
    give("auto-compaction-retention", "10000");
    // Half of etcd's defaults: a set waits for its coordinator when a machine with etcd's leader is lost. Safe with any value.
    give("heartbeat-interval", "50");
    give("election-timeout", "500");
    give("log-level", "warn");
    if release >= Release(3, 6, 0) {
        give("feature-gates", "InitialCorruptCheck=true");
    }
    if let Some(file) = &options.tls.certificate_key {
        let file = file.to_string_lossy();
        for side in ["", "peer-"] {
            give(&format!("{side}cert-file"), &file);
            give(&format!("{side}key-file"), &file);
        }
    }
    if let Some(file) = &options.tls.ca {
        let file = file.to_string_lossy();
        for side in ["", "peer-"] {
            give(&format!("{side}trusted-ca-file"), &file);
            give(&format!("{side}client-cert-auth"), "true");
        }
    }
    let mut data = OsString::from("--data-dir=");
    data.push(options.data());
    arguments.push(data);
    arguments
}

const FILE: &str = "arbor.json";

impl Beginning {
    fn read(directory: &Path) -> Result<Option<Beginning>, Error> {
        let path = directory.join(FILE);
        let bytes = match fs::read(&path) {
            Ok(bytes) => bytes,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(Error::Process(format!("{}: {error}", path.display()))),
        };
        let beginning = serde_json::from_slice(&bytes).ok().as_ref().and_then(Beginning::of);
        beginning.map(Some).ok_or_else(|| Error::Process(format!("{} is damaged", path.display())))
    }

    fn of(value: &Value) -> Option<Beginning> {
        let text = |name| value.get(name).and_then(Value::as_str).map(str::to_owned);
        let switch = |name| value.get(name).and_then(Value::as_bool);
        let endpoints = value.get("endpoints").and_then(Value::as_array)?;
        Some(Beginning {
            cluster: text("cluster")?,
            is_new: switch("new")?,
            token: text("token")?,
            started: switch("started")?,
            endpoints: endpoints.iter().filter_map(Value::as_str).map(str::to_owned).collect(),
        })
    }

    fn write(&self, directory: &Path) -> Result<(), Error> {
        let content = json!({
            "cluster": self.cluster,
            "new": self.is_new,
            "token": self.token,
            "started": self.started,
            "endpoints": self.endpoints,
        });
        let path = directory.join(FILE);
        let write = || {
            fs::create_dir_all(directory)?;
            let temporary = directory.join("arbor.json.new");
            let mut file = File::create(&temporary)?;
            file.write_all(content.to_string().as_bytes())?;
            file.sync_all()?;
            fs::rename(&temporary, &path)?;
            File::open(directory)?.sync_all()
        };
        write().map_err(|error: std::io::Error| Error::Process(format!("{}: {error}", path.display())))
    }
}

/// Returns the release of a binary. Errors: it does not run, is no etcd, or is too old.
fn check_binary(binary: &Path) -> Result<Release, Error> {
    let failed = |reason: &str| Error::Process(format!("{}: {reason}", binary.display()));
    let output = Command::new(binary).arg("--version").stdin(Stdio::null()).output();
    let output = output.map_err(|error| failed(&error.to_string()))?;
    let text = String::from_utf8_lossy(&output.stdout);
    let line = text.lines().find_map(|line| line.strip_prefix("etcd Version:"));
    let release = line.and_then(Release::parse).ok_or_else(|| failed("is no etcd: it does not name its version"))?;
    match release.is_too_old() {
        true => Err(failed(&format!("is etcd {release}, which is too old: {OLDEST} is the oldest that is safe here"))),
        false => Ok(release),
    }
}

/// Returns the etcd binary: the given one, or one next to this program, on the path, or where `scripts/setup etcd` puts it.
pub fn find_binary(given: Option<&Path>) -> Result<PathBuf, Error> {
    if let Some(path) = given {
        return check_binary(path).map(|_| path.to_owned());
    }
    let next_to = std::env::current_exe().ok().and_then(|exe| Some(exe.parent()?.join("etcd")));
    let path = std::env::var_os("PATH").unwrap_or_default();
    let on_path = std::env::split_paths(&path).map(|directory| directory.join("etcd")).collect::<Vec<_>>();
    let cache = std::env::var_os("XDG_CACHE_HOME").map(PathBuf::from);
    let cache = cache.or_else(|| std::env::var_os("HOME").map(|home| PathBuf::from(home).join(".cache")));
    let built = cache.map(|cache| cache.join(BUILT));
    let candidates = next_to.into_iter().chain(on_path).chain(built).filter(|path| path.is_file());
    let mut refused = Vec::new();
    for candidate in candidates {
        match check_binary(&candidate) {
            Ok(_) => return Ok(candidate),
            Err(error) => refused.push(error.to_string()),
        }
    }
    let found = if refused.is_empty() { String::new() } else { format!(" ({})", refused.join("; ")) };
    Err(Error::Process(format!(
        "a replica set of several members needs etcd, and there is no usable etcd binary{found}: install etcd {OLDEST} or later, name it with \
         --etcdBinary, or give the endpoints of a running etcd with --etcd (docs/replica-set.md)"
    )))
}

const BUILT: &str = "arbor/etcd-3.6.16/etcd";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ports_follow_the_servers() {
        assert_eq!(Ports::of(27017), Ports { client: 28017, peer: 29017 });
        assert_eq!(Ports::of(65_000), Ports { client: 64_000, peer: 63_000 });
    }

    #[test]
    fn a_beginning_is_read_again_and_damage_is_an_error() {
        let dir = tempfile::tempdir().unwrap();
        assert_eq!(Beginning::read(dir.path()).unwrap(), None);
        let beginning = Beginning {
            cluster: "a=http://a:1".to_owned(),
            is_new: true,
            token: "t".to_owned(),
            started: false,
            endpoints: vec!["http://a:2".to_owned()],
        };
        beginning.write(dir.path()).unwrap();
        assert_eq!(Beginning::read(dir.path()).unwrap(), Some(beginning));
        fs::write(dir.path().join(FILE), "{\"cluster\":").unwrap();
        assert!(Beginning::read(dir.path()).unwrap_err().to_string().ends_with("is damaged"));
    }
}
