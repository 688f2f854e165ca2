//! Servers that the laboratory starts, stops, starts again and kills: child processes on 127.0.0.1, on a free port, in a
//! directory of their own. Arbor with any of its engines (a child of the same binary), and MariaDB.

use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use rustix::process::Signal;

use super::control_groups::{ControlGroups, DiskLimits};
use super::mongodb::MongoDb;
use super::mysql::{MariaDb, MySqlBuild};
use super::ports::{free_port, free_ports};
use super::process::{Process, UseOfFiles, is_abandoned};
use super::replica_set;
use super::{Driver, Target, driven};
use crate::observe::{Device, memory_bytes};
use crate::{Error, Result};

const START_TIMEOUT: Duration = Duration::from_secs(60);
/// Recovery after kill -9: founding text 002 saw 40 minutes.
const RECOVERY_TIMEOUT: Duration = Duration::from_secs(2 * 3600);

/// A process that is killed closes its connections first; after this long its end is seen.
const END_VISIBLE: Duration = Duration::from_secs(1);

/// Start settings of managed servers.
#[derive(Clone, Debug)]
pub struct Setup {
    /// Arbor's binary.
    pub binary: PathBuf,
    /// Each server gets a new directory in here.
    pub root: PathBuf,
    /// Passed on to Arbor after our own arguments.
    pub arguments: Vec<String>,
    /// Leave the directory when the server has stopped.
    pub keep: bool,
    /// Bounds on the server's use of its disk.
    pub disk: DiskLimits,
    /// MySQLs besides Debian's.
    pub mysql: Vec<MySqlBuild>,
}

/// Flags that an experiment varies by restarting a server.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Flags {
    /// Cache of the engine, if it has one.
    pub cache_mb: Option<u64>,
    /// Seconds between checkpoints.
    pub syncdelay_s: Option<f64>,
    /// Memory of the process with its page cache, limited by a cgroup.
    pub memory_mb: Option<u64>,
    /// Arguments of the experiment for this engine.
    pub arguments: Vec<String>,
    /// The server is the one member of a set, so that writes have a history.
    pub oplog: bool,
    /// A sharded cluster in place of one server; the flags are those of each of its servers.
    pub cluster: Option<Shards>,
}

/// A sharded cluster: its shards have one member each, and there is one router.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shards {
    pub shards: u16,
    pub config_members: u16,
}

impl Shards {
    /// Returns the number of its processes, the router included.
    fn processes(self) -> u16 {
        self.shards + self.config_members + 1
    }
}

/// Server software.
#[derive(Clone, Debug)]
enum Software {
    /// With this storage engine.
    Arbor(String),
    MariaDb(MariaDb),
}

impl Software {
    fn of(system: &str, setup: &Setup) -> Software {
        MariaDb::of(system, &setup.mysql).map_or_else(|| Software::Arbor(system.to_owned()), Software::MariaDb)
    }
}

/// One managed server; dropping it stops the process and removes its directory.
pub struct Managed {
    name: String,
    software: Software,
    driver: Driver,
    setup: Setup,
    directory: PathBuf,
    process: Option<Process>,
    /// First port of a cluster: its sets keep their addresses.
    first_port: Option<u16>,
    limits: Option<ControlGroups>,
    keep: bool,
    /// Connection to Arbor by our own client; unused for MariaDB.
    mongodb: MongoDb,
    target: Box<dyn Target>,
    remarks: Vec<String>,
}

impl Managed {
    /// Starts the server that `system` names: a storage engine of Arbor, or one of MariaDB.
    pub fn start(system: &str, driver: Driver, setup: &Setup, flags: &Flags) -> Result<Managed> {
        let directory = setup.root.join(format!("arbor-lab-{system}-{}-{}", std::process::id(), free_port()?));
        let data = directory.join("data");
        std::fs::create_dir_all(&data).map_err(Error::file(&data))?;
        let mut managed = Managed {
            name: driver.named(system),
            software: Software::of(system, setup),
            driver,
            setup: setup.clone(),
            // From here on the directory belongs to `managed`, also when the start fails.
            directory,
            process: None,
            first_port: None,
            limits: None,
            keep: setup.keep,
            mongodb: MongoDb::at(system, "127.0.0.1:0"),
            target: Box::new(MongoDb::at(system, "127.0.0.1:0")),
            remarks: Vec::new(),
        };
        if let Software::MariaDb(mariadb) = &managed.software {
            mariadb.clone().install(&data)?;
        }
        if let Err(error) = managed.launch(flags, START_TIMEOUT) {
            // Its log is named in the error.
            managed.keep |= matches!(error, Error::Start { .. }) && !is_abandoned();
            return Err(error);
        }
        Ok(managed)
    }

    /// Arbor with an engine, and nothing but the setup's arguments.
    pub fn arbor(engine: &str, setup: &Setup) -> Result<Managed> {
        Managed::start(engine, Driver::Lean, setup, &Flags::default())
    }

    /// Arbor, for what is not a workload.
    pub fn mongodb(&self) -> &MongoDb {
        &self.mongodb
    }

    pub fn target(&self) -> &dyn Target {
        &*self.target
    }

    /// Returns settings that could not be applied as requested, in sentences.
    pub fn remarks(&self) -> &[String] {
        &self.remarks
    }

    /// Stops it cleanly and starts it on the same data with other flags.
    pub fn restart(&mut self, flags: &Flags) -> Result<()> {
        self.process = None;
        self.limits = None;
        self.launch(flags, RECOVERY_TIMEOUT).map(|_| ())
    }

    /// kill -9.
    pub fn kill(&mut self) -> Result<()> {
        self.process.as_mut().map_or(Ok(()), Process::kill)
    }

    /// Starts it after [`Managed::kill`]; returns the time until it has replied to a client.
    pub fn recover(&mut self, flags: &Flags) -> Result<Duration> {
        self.process = None;
        self.limits = None;
        self.launch(flags, RECOVERY_TIMEOUT)
    }

    /// Replaces the outcome by the server's exit reason if it exited by itself: that explains more than the operations' errors.
    pub fn explained<T>(&mut self, outcome: Result<T>) -> Result<T> {
        let asked = Instant::now();
        loop {
            if let Some(reason) = self.ended() {
                return Err(Error::Server { server: self.name.clone(), reason });
            }
            if outcome.is_ok() || asked.elapsed() > END_VISIBLE {
                return outcome;
            }
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    /// Returns how it ended, if it has ended by itself.
    fn ended(&mut self) -> Option<String> {
        if is_abandoned() {
            return None;
        }
        let process = self.process.as_mut()?;
        let status = process.ended().ok().flatten()?;
        let killed = status.signal() == Some(Signal::KILL.as_raw());
        let limited = killed && self.limits.as_ref().is_some_and(ControlGroups::has_killed);
        let why = if limited { ", killed by the memory limit" } else { "" };
        self.keep = true;
        Some(format!(
            "the server ended by itself ({status}{why}){}; its directory {} is kept",
            process.last_lines(),
            self.directory.display()
        ))
    }

    fn launch(&mut self, flags: &Flags, timeout: Duration) -> Result<Duration> {
        let port = match (flags.cluster, self.first_port) {
            (None, _) => free_port()?,
            (Some(_), Some(port)) => port,
            (Some(shards), None) => *self.first_port.insert(free_ports(shards.processes())?),
        };
        let data = self.directory.join("data");
        let address = format!("127.0.0.1:{port}");
        self.remarks.clear();
        let command = match &self.software {
            Software::Arbor(engine) => self.serve(engine, port, flags),
            Software::MariaDb(mariadb) => mariadb.command(&data, port, flags)?,
        };
        let begun = Instant::now();
        let use_of_files = if self.setup.keep { UseOfFiles::Kept } else { UseOfFiles::Removed };
        let groups = self.limit(format!("arbor-lab-{}-{port}", std::process::id()), flags);
        let mut command = groups.entered(&command);
        let process = Process::start(&self.name, &mut command, &self.directory.join("server.log"), use_of_files)?;
        let id = process.id();
        if groups.add(id).is_err() {
            self.remarks
                .push(format!("{}: neither its memory nor its disk is limited: it cannot enter the cgroup", self.name));
        }
        self.limits = Some(groups);
        let process = self.process.insert(process);
        self.mongodb = MongoDb::at(&self.name, &address).local(id, Some(&data));
        self.target = match &self.software {
            Software::Arbor(_) => driven(self.mongodb.clone(), self.driver)?,
            Software::MariaDb(mariadb) => mariadb.target(&self.name, port, id, &data),
        };
        let shards = flags.cluster.map_or(0, |cluster| usize::from(cluster.shards));
        let answers = || {
            std::net::TcpStream::connect(&address).is_ok()
                && self.target.connect().is_ok_and(|mut session| shards == 0 || session.shards() == shards)
        };
        process.wait_until(timeout, answers)?;
        if flags.oplog && matches!(self.software, Software::Arbor(_)) {
            replica_set::lead(&self.mongodb)?;
        }
        let took = begun.elapsed();
        if let (Software::Arbor(engine), Some(_)) = (&self.software, flags.cache_mb)
            && cache_flag(engine).is_none()
        {
            self.remarks.push(format!("{engine} has no cache of its own: it is bounded by the memory limit only"));
        }
        Ok(took)
    }

    /// Makes the groups that bound a server's memory and its use of the disk, as far as this user may.
    fn limit(&mut self, group: String, flags: &Flags) -> ControlGroups {
        let (name, disk) = (&self.name, &self.setup.disk);
        let mut groups = ControlGroups::new(group);
        let mut remarks = Vec::new();
        if let Some(memory_mb) = flags.memory_mb.filter(|memory_mb| !groups.limit_memory(memory_mb << 20)) {
            remarks.push(format!(
                "{name}: its memory is NOT limited to {memory_mb} MB: this user may make no memory cgroup; the page cache holds what it can"
            ));
        }
        let slowed =
            disk.is_none() || Device::below(&self.directory).is_some_and(|device| groups.limit_disk(device, disk));
        if !slowed {
            remarks.push(format!("{name}: its disk is NOT limited to {disk}: this user may make no such cgroup"));
        }
        self.remarks.append(&mut remarks);
        groups
    }

    fn serve(&self, engine: &str, port: u16, flags: &Flags) -> Command {
        let mut command = Command::new(&self.setup.binary);
        command.arg(if flags.cluster.is_some() { "cluster" } else { "serve" });
        command.arg("--dbpath").arg(self.directory.join("data")).args(["--port", &port.to_string()]);
        if let Some(cluster) = flags.cluster {
            command.args(["--shards", &cluster.shards.to_string(), "--members", "1"]);
            command.args(["--configMembers", &cluster.config_members.to_string(), "--"]);
            // they share the machine
            if let Some(bytes) = memory_bytes() {
                let share = bytes / 5 * 4 / u64::from(cluster.processes());
                command.args(["--memoryLimit", &share.to_string()]);
            }
        }
        command.args(["--bind_ip", "127.0.0.1", "--storageEngine", engine]);
        if let (Some(flag), Some(cache_mb)) = (cache_flag(engine), flags.cache_mb) {
            command.args([flag, &format!("{}", cache_mb as f64 / 1024.0)]);
        }
        if flags.oplog {
            command.args(replica_set::ARGUMENTS);
        }
        if let Some(seconds) = flags.syncdelay_s {
            command.args(["--syncdelay", &seconds.to_string()]);
        }
        command.args(&flags.arguments).args(&self.setup.arguments);
        command
    }
}

/// The flag of an engine's cache, in GB.
fn cache_flag(engine: &str) -> Option<&'static str> {
    match engine.to_ascii_lowercase().as_str() {
        "ftree" | "tokuft" | "perconaft" => Some("--ftreeCacheSizeGB"),
        "rocksdb" => Some("--rocksdbCacheSizeGB"),
        "wiredtiger" => Some("--wiredTigerCacheSizeGB"),
        _ => None,
    }
}

impl Drop for Managed {
    fn drop(&mut self) {
        drop(self.process.take());
        self.limits = None;
        if !self.keep {
            let _ = std::fs::remove_dir_all(&self.directory);
        }
    }
}

/// Bytes that are free for an unprivileged user where `directory` will be.
pub fn free_bytes(directory: &Path) -> std::io::Result<u64> {
    let there = directory.ancestors().find(|directory| directory.exists()).unwrap_or(Path::new("/"));
    let stat = rustix::fs::statvfs(there)?;
    Ok(stat.f_bavail.saturating_mul(stat.f_frsize))
}
