//! Debian's MariaDB as a managed server: a fresh data directory, a free port, nothing of the machine's own configuration.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::target::Target;
use crate::target::managed::Flags;
use crate::{Error, Result};

/// Systems that are MariaDB's engines, and how their point queries are asked.
pub const MARIADB: [(&str, MariaDb); 4] = [
    ("innodb", MariaDb { engine: "InnoDB", handler: false }),
    ("innodb-handler", MariaDb { engine: "InnoDB", handler: true }),
    ("myrocks", MariaDb { engine: "ROCKSDB", handler: false }),
    ("myrocks-handler", MariaDb { engine: "ROCKSDB", handler: true }),
];

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MariaDb {
    /// Engine name in SQL.
    engine: &'static str,
    handler: bool,
}

/// Paths of Debian's packages.
const SERVER: &str = "/usr/sbin/mariadbd";
const INSTALL: &str = "/usr/bin/mariadb-install-db";
const PLUGINS: &str = "/usr/lib/mysql/plugin";
/// Another directory with `ha_rocksdb.so`.
const PLUGINS_VARIABLE: &str = "ARBOR_LAB_MARIADB_PLUGINS";
/// The founding text's page size.
const PAGE: &str = "--innodb-page-size=8192";
/// Caches of engines that hold no table of ours: 128 MB each unasked, in part touched at the start.
const OTHER_CACHES: [&str; 3] =
    ["--aria-pagecache-buffer-size=1M", "--key-buffer-size=1M", "--innodb-log-buffer-size=2M"];
/// A thousand clients and ours.
const CONNECTIONS: &str = "--max-connections=1100";

impl MariaDb {
    pub fn of(system: &str) -> Option<MariaDb> {
        MARIADB.into_iter().find(|(name, _)| *name == system).map(|(_, mariadb)| mariadb)
    }

    /// Returns the compression of its files: nothing here chooses another one.
    pub fn compression(self) -> String {
        match self.engine {
            "ROCKSDB" => "MariaDB's default for MyRocks (snappy, or none where it was built without)".to_owned(),
            _ => "none".to_owned(),
        }
    }

    fn plugins() -> PathBuf {
        std::env::var_os(PLUGINS_VARIABLE).map_or_else(|| PLUGINS.into(), PathBuf::from)
    }

    /// Why it cannot be started here.
    pub fn missing(self) -> Option<String> {
        if cfg!(not(feature = "mysql")) {
            return Some("this build has no MySQL client; build with --features mysql".to_owned());
        }
        if !Path::new(SERVER).is_file() || !Path::new(INSTALL).is_file() {
            return Some("MariaDB is not installed (Debian: mariadb-server)".to_owned());
        }
        let plugin = MariaDb::plugins().join("ha_rocksdb.so");
        if self.engine == "ROCKSDB" && !plugin.is_file() {
            return Some(format!("there is no {} (Debian: mariadb-plugin-rocksdb)", plugin.display()));
        }
        None
    }

    /// Makes the system tables.
    pub fn install(self, data: &Path) -> Result<()> {
        if let Some(missing) = self.missing() {
            return Err(Error::Usage(missing));
        }
        let mut command = Command::new(INSTALL);
        command.args(["--no-defaults", "--skip-test-db", "--auth-root-authentication-method=normal", PAGE]);
        command.arg(path_argument("--datadir=", data)).args(as_root());
        let output = command.output().map_err(Error::file(INSTALL))?;
        if output.status.success() {
            return Ok(());
        }
        let text = String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr);
        let reason = text.lines().find(|line| line.contains("ERROR")).unwrap_or("it failed").to_owned();
        Err(Error::Usage(format!("{INSTALL}: {reason}")))
    }

    /// Durability as of the other systems: written at each commit, synced about once a second.
    pub fn command(self, data: &Path, port: u16, flags: &Flags) -> Result<Command> {
        let parent = data.parent().unwrap_or(data);
        let mut command = Command::new(SERVER);
        command.args(["--no-defaults", "--bind-address=127.0.0.1", "--skip-name-resolve", "--skip-log-bin"]);
        command.args([PAGE, CONNECTIONS, "--performance-schema=OFF", "--innodb-flush-method=O_DIRECT"]);
        command.args(OTHER_CACHES);
        command.args(["--innodb-flush-log-at-trx-commit=2", &format!("--port={port}")]);
        command.arg(path_argument("--datadir=", data));
        // A socket's path has to be short.
        command.arg(path_argument("--socket=", &std::env::temp_dir().join(format!("arbor-lab-{port}.sock"))));
        command.arg(path_argument("--pid-file=", &parent.join("pid"))).args(as_root());
        if self.engine == "ROCKSDB" {
            command.arg(path_argument("--plugin-dir=", &MariaDb::plugins()));
            command.args(["--plugin-load-add=ha_rocksdb", "--rocksdb-flush-log-at-trx-commit=2"]);
        }
        if let Some(cache_mb) = flags.cache_mb {
            let size =
                if self.engine == "ROCKSDB" { "--rocksdb-block-cache-size" } else { "--innodb-buffer-pool-size" };
            command.arg(format!("{size}={cache_mb}M"));
        }
        command.args(&flags.arguments);
        Ok(command)
    }

    #[cfg(feature = "mysql")]
    pub fn target(self, name: &str, port: u16, process: u32, data: &Path) -> Box<dyn Target> {
        Box::new(super::MySql::managed(name, port, self.engine, self.handler).local(process, data))
    }

    #[cfg(not(feature = "mysql"))]
    pub fn target(self, name: &str, port: u16, process: u32, data: &Path) -> Box<dyn Target> {
        // `install` has refused before.
        Box::new(crate::target::mongodb::MongoDb::at(name, &format!("127.0.0.1:{port}")).local(process, Some(data)))
    }
}

fn path_argument(name: &str, path: &Path) -> std::ffi::OsString {
    let mut argument = std::ffi::OsString::from(name);
    argument.push(path);
    argument
}

/// Returns the flag that the server requires to run as root.
fn as_root() -> Option<&'static str> {
    rustix::process::geteuid().is_root().then_some("--user=root")
}
