//! The etcd of each member follows the set: who founds a set founds etcd, each other member joins it by itself, and the primary removes
//! from etcd what is no longer in the configuration.
//!
//! No message is needed for that: the ports of every etcd follow from the address of its server (`Ports::of`), and the configuration is in
//! the agreement, which is read from etcd. A step that fails is tried again by the next round.
//!
//! | state of the directory | step |
//! |---|---|
//! | empty, the set is founded here | found a cluster of one |
//! | empty, the configuration names this server | remove what was there under its name and had begun; add a learner; start it |
//! | begun | start it; promote it when it is a learner that has caught up |
//! | begun, the configuration and etcd no longer name it | stop it and remove the directory |

use std::ffi::OsString;
use std::fs;
use std::net::IpAddr;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Weak};
use std::thread;
use std::time::Duration;

use arbor_bson::{Doc, DocBuf};
use arbor_protocol::log::{Log, events};
use arbor_repl::{Agreement, Coordinator, SetConfig};
use parking_lot::Mutex;

use crate::coordinator::{Etcd, EtcdOptions};
use crate::gateway::{Error, TlsFiles};
use crate::managed::{ManagedEtcd, ManagedOptions, Ports, RunningProcess, find_binary};
use crate::membership::{EtcdMember, Patience};

const CONTEXT: &str = "etcd";
const ROUND: Duration = Duration::from_millis(500);
const ROUND_IN_STEP: Duration = Duration::from_secs(3);
/// For one change of etcd's members.
const CHANGE_MAX: Duration = Duration::from_secs(10);
/// An etcd of one elects itself in about a second; busy machines take longer.
const FOUNDING_MAX: Duration = Duration::from_secs(60);

#[derive(Clone, Debug)]
pub struct KeeperOptions {
    /// `None`: it is looked for.
    pub binary: Option<PathBuf>,
    pub launcher: Vec<OsString>,
    /// Data directory of the server.
    pub dbpath: PathBuf,
    /// Addresses to listen on: those of the server.
    pub listen: Vec<IpAddr>,
    pub prefix: String,
    pub tls: TlsFiles,
    /// Other machines may reach etcd without certificates.
    pub allow_insecure: bool,
}

/// Runs the etcd of this member.
pub struct Keeper {
    options: KeeperOptions,
    log: Arc<Log>,
    /// Locked while a step waits for etcd.
    running: Mutex<Option<Running>>,
    /// That of `running`, which is not locked for long.
    process: Mutex<Option<RunningProcess>>,
    /// Members of etcd in the last round that read them.
    members: Mutex<Vec<EtcdMember>>,
    /// A step that waits for etcd hears of the end of the server without the lock.
    stopped: AtomicBool,
}

struct Running {
    set: String,
    /// `host:port` of this server in the configuration.
    own: String,
    etcd: Arc<Etcd>,
    /// `None`: this member has not joined etcd yet.
    managed: Option<ManagedEtcd>,
    /// The last failure, which is logged once.
    failure: String,
}

impl Keeper {
    pub fn new(options: KeeperOptions, log: &Arc<Log>) -> Arc<Keeper> {
        Arc::new(Keeper {
            options,
            log: log.clone(),
            running: Mutex::new(None),
            process: Mutex::new(None),
            members: Mutex::default(),
            stopped: AtomicBool::new(false),
        })
    }

    /// Returns the coordinator of a set. `own` is this server's address in the configuration, `hosts` are those of all members with data and a vote.
    /// A founder begins a cluster of its own; all others join, in the background.
    pub fn open(self: &Arc<Self>, set: &str, own: &str, hosts: &[String], founds: bool) -> Result<Arc<Etcd>, Error> {
        let mut running = self.running.lock();
        if let Some(running) = &*running {
            return Ok(running.etcd.clone());
        }
        self.check_hosts(hosts)?;
        let options = self.managed_options(set, own)?;
        let managed = match ManagedEtcd::resume(options.clone(), &self.log)? {
            None if founds => Some(ManagedEtcd::found(options, &self.log)?),
            resumed => resumed,
        };
        *self.process.lock() = managed.as_ref().map(ManagedEtcd::process);
        let etcd = match &managed {
            Some(managed) if founds => managed.wait_until_ready(FOUNDING_MAX)?,
            Some(managed) => managed.coordinator()?,
            None => Etcd::new(&self.etcd_options(set, own, hosts))?,
        };
        let etcd = Arc::new(etcd);
        let state =
            Running { set: set.to_owned(), own: own.to_owned(), etcd: etcd.clone(), managed, failure: String::new() };
        *running = Some(state);
        drop(running);
        let weak = Arc::downgrade(self);
        let thread = thread::Builder::new().name("etcd-members".to_owned());
        thread.spawn(move || rounds(&weak)).map_err(|error| Error::Process(format!("no thread for etcd: {error}")))?;
        Ok(etcd)
    }

    /// Ends the process.
    pub fn stop(&self) {
        self.stopped.store(true, Ordering::Release);
        let stopped = self.running.lock().take();
        drop(stopped);
    }

    /// Process id of the running etcd.
    pub fn pid(&self) -> Option<u32> {
        self.process.lock().as_ref()?.pid()
    }

    /// Members of etcd as this one knew them a few seconds ago; none before the first round, and since etcd is away.
    pub fn members(&self) -> Vec<EtcdMember> {
        self.members.lock().clone()
    }

    fn check_hosts(&self, hosts: &[String]) -> Result<(), Error> {
        let is_local = |host: &String| {
            let name = split(host).0;
            let address = name.trim_matches(['[', ']']).parse::<IpAddr>();
            name == "localhost" || address.is_ok_and(|address| address.is_loopback())
        };
        let is_safe = self.options.tls.certificate_key.is_some() && self.options.tls.ca.is_some();
        match hosts.iter().find(|host| !is_local(host)) {
            Some(host) if !is_safe && !self.options.allow_insecure => Err(Error::Process(format!(
                "etcd would be open to all who reach {host}: give it certificates (--etcdCertificateKeyFile, --etcdCAFile), or permit it \
                 with --allowInsecure"
            ))),
            _ => Ok(()),
        }
    }

    fn managed_options(&self, set: &str, own: &str) -> Result<ManagedOptions, Error> {
        let (host, port) = split(own);
        Ok(ManagedOptions {
            binary: find_binary(self.options.binary.as_deref())?,
            launcher: self.options.launcher.clone(),
            directory: self.options.dbpath.join("etcd"),
            name: own.to_owned(),
            host: host.to_owned(),
            listen: self.options.listen.clone(),
            ports: Ports::of(port),
            prefix: self.options.prefix.clone(),
            set: set.to_owned(),
            tls: self.options.tls.clone(),
        })
    }

    fn etcd_options(&self, set: &str, own: &str, hosts: &[String]) -> EtcdOptions {
        let others = hosts.iter().filter(|host| *host != own);
        let endpoints = others.chain(hosts.iter().filter(|host| *host == own)).map(|host| self.client_url(host));
        let options = EtcdOptions::new(endpoints.collect(), set);
        EtcdOptions { prefix: self.options.prefix.clone(), tls: self.options.tls.clone(), ..options }
    }

    fn client_url(&self, host: &str) -> String {
        let scheme = if self.options.tls.certificate_key.is_some() { "https" } else { "http" };
        let (name, port) = split(host);
        format!("{scheme}://{name}:{}", Ports::of(port).client)
    }

    /// Makes etcd follow the configuration by one step. Returns true if there is nothing to do.
    fn round(&self) -> bool {
        let mut guard = self.running.lock();
        let Some(running) = &mut *guard else { return true };
        let outcome = self.step(running);
        let failure = outcome.as_ref().err().map(ToString::to_string).unwrap_or_default();
        if !failure.is_empty() && failure != running.failure {
            self.log.warn(events::ETCD_MEMBERS_FAILED, CONTEXT, DocBuf::new().with("error", &*failure));
        }
        running.failure = failure;
        outcome.unwrap_or(false)
    }

    fn step(&self, running: &mut Running) -> Result<bool, Error> {
        let agreement = running.etcd.read().map_err(|error| Error::Unknown(error.to_string()))?;
        let Some((_, agreement)) = agreement else { return Ok(true) };
        let Some(Configured { hosts, primary }) = Configured::of(&agreement) else { return Ok(true) };
        let members = running.etcd.members();
        *self.members.lock() = members.as_ref().map_or_else(|_| Vec::new(), Vec::clone);
        let members = members?;
        let own = members.iter().find(|member| member.name == running.own);
        match (hosts.contains(&running.own), &running.managed) {
            (true, None) => self.join(running, &hosts, &members).map(|()| false),
            (true, Some(managed)) => {
                managed.note_endpoints(&running.etcd)?;
                if let Some(own) = own.filter(|own| own.is_learner) {
                    running.etcd.promote_member(own.id, &self.patience())?;
                    self.say("joined", &running.own);
                    return Ok(false);
                }
                if primary.as_ref() != Some(&running.own) {
                    return Ok(true);
                }
                let in_step = self.remove_strangers(running, &hosts, &members)?;
                // The end of another member then stops no change for the time of etcd's election; that of the primary is noticed later
                // than etcd elects.
                if let Some(own) = own.filter(|_| in_step && members.len() > 1)
                    && !running.etcd.lead_by(own, &members)?
                {
                    self.say("leads", &running.own);
                }
                Ok(in_step)
            }
            (false, Some(_)) if own.is_none() => {
                let directory = self.options.dbpath.join("etcd");
                running.managed = None;
                *self.process.lock() = None;
                running.etcd.set_endpoints(&hosts.iter().map(|host| self.client_url(host)).collect::<Vec<_>>())?;
                self.say("left", &running.own);
                fs::remove_dir_all(&directory)
                    .map_err(|error| Error::Process(format!("{}: {error}", directory.display())))?;
                Ok(true)
            }
            (false, _) => Ok(true),
        }
    }

    fn join(&self, running: &mut Running, hosts: &[String], members: &[EtcdMember]) -> Result<(), Error> {
        let options = self.managed_options(&running.set, &running.own)?;
        // It had begun and its data is gone: it may have voted, so it must not come back under the same identity.
        if let Some(lost) = members.iter().find(|member| member.name == running.own) {
            running.etcd.remove_member(lost.id, &self.patience())?;
            self.say("removed, its data is lost", &running.own);
        }
        let url = options.peer_url();
        let members = running.etcd.add_member(&url, &self.patience())?;
        let name_of = |member: &EtcdMember| match member.peer_urls.contains(&url) {
            true => running.own.clone(),
            false => member.name.clone(),
        };
        let parts =
            members.iter().filter_map(|member| Some(format!("{}={}", name_of(member), member.peer_urls.first()?)));
        let cluster = parts.collect::<Vec<_>>().join(",");
        let endpoints = hosts.iter().map(|host| self.client_url(host)).collect();
        let managed = ManagedEtcd::join(options, &cluster, endpoints, &self.log)?;
        *self.process.lock() = Some(managed.process());
        running.managed = Some(managed);
        Ok(())
    }

    /// Removes the members of etcd that are not in the configuration, one in a round.
    fn remove_strangers(&self, running: &Running, hosts: &[String], members: &[EtcdMember]) -> Result<bool, Error> {
        let urls: Vec<String> = hosts
            .iter()
            .filter_map(|host| self.managed_options(&running.set, host).ok())
            .map(|options| options.peer_url())
            .collect();
        let stranger = members.iter().find(|member| !member.peer_urls.iter().any(|url| urls.contains(url)));
        let Some(stranger) = stranger else { return Ok(true) };
        running.etcd.remove_member(stranger.id, &self.patience())?;
        self.say("removed", &stranger.name);
        Ok(false)
    }

    fn patience(&self) -> Patience<'_> {
        Patience { time: CHANGE_MAX, stopped: Some(&self.stopped) }
    }

    fn say(&self, what: &str, member: &str) {
        self.log.info(events::ETCD_MEMBERS, CONTEXT, DocBuf::new().with("member", member).with("step", what));
    }
}

fn rounds(keeper: &Weak<Keeper>) {
    loop {
        let Some(keeper) = keeper.upgrade() else { return };
        if keeper.running.lock().is_none() {
            return;
        }
        let in_step = keeper.round();
        drop(keeper);
        thread::sleep(if in_step { ROUND_IN_STEP } else { ROUND });
    }
}

/// Members of the configuration that run an etcd: those with data and a vote.
struct Configured {
    hosts: Vec<String>,
    primary: Option<String>,
}

impl Configured {
    fn of(agreement: &Agreement) -> Option<Configured> {
        let config = SetConfig::parse(Doc::parse(&agreement.config).ok()?).ok()?;
        let is_primary = |id: i64| agreement.primary.is_some_and(|primary| i64::from(primary.0) == id);
        let primary = config.members.iter().find(|member| is_primary(member.id)).map(|member| member.host.clone());
        let voters = config.members.iter().filter(|member| member.votes > 0 && !member.arbiter);
        Some(Configured { hosts: voters.map(|member| member.host.clone()).collect(), primary })
    }
}

/// Returns host and port of an address.
fn split(address: &str) -> (&str, u16) {
    let (host, port) = address.rsplit_once(':').unwrap_or((address, ""));
    (host, port.parse().unwrap_or(27017))
}
