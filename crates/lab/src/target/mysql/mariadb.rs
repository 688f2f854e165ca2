//! MySQL and MariaDB as managed servers: a fresh data directory, a free port, nothing of the machine's own configuration. Debian's MariaDB, or any
//! build that is unpacked somewhere.

use std::path::{Path, PathBuf};
use std::process::Command;

use serde::{Deserialize, Serialize};

use crate::target::Target;
use crate::target::managed::Flags;
use crate::{Error, Result};

/// Systems that are engines of a MySQL or MariaDB: their names in SQL, and whether their point queries are asked by HANDLER, which MyRocks has not.
const ENGINES: [(&str, &str, bool); 3] =
    [("innodb", "InnoDB", false), ("innodb-handler", "InnoDB", true), ("myrocks", "ROCKSDB", false)];

/// An installed MySQL or MariaDB other than Debian's: its engines are systems `NAME.innodb` and so on.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct MySqlBuild {
    pub name: String,
    /// Its programs are in `bin`, `sbin`, `libexec` and `scripts` here.
    pub prefix: PathBuf,
}

impl MySqlBuild {
    /// Reads `NAME=DIR`.
    pub fn parse(text: &str) -> std::result::Result<MySqlBuild, String> {
        match text.split_once('=') {
            Some((name, prefix))
                if !name.is_empty() && name.chars().all(char::is_alphanumeric) && !prefix.is_empty() =>
            {
                Ok(MySqlBuild { name: name.to_owned(), prefix: prefix.into() })
            }
            _ => Err(format!("expected NAME=DIR with a name of letters and digits, not {text:?}")),
        }
    }
}

/// An engine of a MySQL or MariaDB.
#[derive(Clone, Debug, PartialEq)]
pub struct MariaDb {
    /// Engine name in SQL.
    engine: &'static str,
    handler: bool,
    /// `None`: Debian's.
    build: Option<MySqlBuild>,
}

/// Prefix of Debian's packages.
const DEBIAN: &str = "/usr";
const PLUGINS: [&str; 2] = ["lib/mysql/plugin", "lib/plugin"];
/// Another directory with Debian's `ha_rocksdb.so`.
const PLUGINS_VARIABLE: &str = "ARBOR_LAB_MARIADB_PLUGINS";
/// The founding text's page size.
const PAGE: &str = "--innodb-page-size=8192";
/// Caches of engines that hold no table of ours: 128 MB each unasked, in part touched at the start.
const OTHER_CACHES: [&str; 3] =
    ["--loose-aria-pagecache-buffer-size=1M", "--key-buffer-size=1M", "--innodb-log-buffer-size=2M"];
/// A thousand clients and ours.
const CONNECTIONS: &str = "--max-connections=1100";
/// The user that we are over TCP, in a directory of MySQL 5.7 or newer.
const OWN_USER: &str = "CREATE USER 'root'@'127.0.0.1';\nGRANT ALL ON *.* TO 'root'@'127.0.0.1' WITH GRANT OPTION;\n";

impl MariaDb {
    /// Returns the engine of that name: Debian's, or one of a build.
    pub fn of(system: &str, builds: &[MySqlBuild]) -> Option<MariaDb> {
        let (build, name) = match system.split_once('.') {
            None => (None, system),
            Some((build, name)) => (Some(builds.iter().find(|one| one.name == build)?.clone()), name),
        };
        let (_, engine, handler) = ENGINES.into_iter().find(|(known, ..)| *known == name)?;
        Some(MariaDb { engine, handler, build })
    }

    /// Returns the names of all engines: Debian's, then those of each build.
    pub fn names(builds: &[MySqlBuild]) -> Vec<String> {
        let of_build = builds.iter().flat_map(|build| ENGINES.map(|(name, ..)| format!("{}.{name}", build.name)));
        ENGINES.iter().map(|(name, ..)| (*name).to_owned()).chain(of_build).collect()
    }

    /// Returns the compression of its files: nothing here chooses another one.
    pub fn compression(self) -> String {
        match self.engine {
            "ROCKSDB" => "the build's default for MyRocks (snappy, or none where it was built without)".to_owned(),
            _ => "none".to_owned(),
        }
    }

    fn prefix(&self) -> &Path {
        self.build.as_ref().map_or(Path::new(DEBIAN), |build| &build.prefix)
    }

    fn program(&self, directories: &[&str], names: &[&str]) -> Option<PathBuf> {
        let files =
            names.iter().flat_map(|name| directories.iter().map(move |directory| format!("{directory}/{name}")));
        files.map(|file| self.prefix().join(file)).find(|file| file.is_file())
    }

    fn server(&self) -> Option<PathBuf> {
        self.program(&["sbin", "bin", "libexec"], &["mariadbd", "mysqld"])
    }

    /// Returns the directory of MyRocks, or where it is expected.
    fn plugins(&self) -> PathBuf {
        let debian = std::env::var_os(PLUGINS_VARIABLE).filter(|_| self.build.is_none());
        let all = debian.map(PathBuf::from).into_iter().chain(PLUGINS.map(|directory| self.prefix().join(directory)));
        let all: Vec<PathBuf> = all.collect();
        let found = all.iter().find(|directory| directory.join("ha_rocksdb.so").is_file());
        found.or(all.first()).cloned().unwrap_or_default()
    }

    /// Why it cannot be started here.
    pub fn missing(&self) -> Option<String> {
        if cfg!(not(feature = "mysql")) {
            return Some("this build has no MySQL client; build with --features mysql".to_owned());
        }
        if self.server().is_none() {
            return Some(match &self.build {
                None => "MariaDB is not installed (Debian: mariadb-server)".to_owned(),
                Some(build) => format!("there is no bin/mariadbd and no bin/mysqld in {}", build.prefix.display()),
            });
        }
        let plugin = self.plugins().join("ha_rocksdb.so");
        if self.engine == "ROCKSDB" && !plugin.is_file() {
            return Some(format!("there is no {} (Debian: mariadb-plugin-rocksdb)", plugin.display()));
        }
        None
    }

    /// Returns the server, or a script of its build, with where that is.
    fn started(&self, program: &Path) -> Command {
        let mut command = Command::new(program);
        command.arg("--no-defaults");
        if self.build.is_some() {
            command.arg(path_argument("--basedir=", self.prefix()));
        }
        command
    }

    /// Makes the system tables: by MariaDB's script, by that of old releases of MySQL, from the template that those have, or by the server.
    pub fn install(self, data: &Path) -> Result<()> {
        let missing = || Error::Usage(self.missing().unwrap_or_default());
        let server = self.server().filter(|_| self.missing().is_none()).ok_or_else(missing)?;
        let script = self.program(&["bin", "scripts"], &["mariadb-install-db"]);
        let old_script = self.program(&["bin", "scripts"], &["mysql_install_db"]);
        let template = self.prefix().join("data/mysql");
        let mut command = match (script, old_script) {
            (Some(script), _) => {
                let mut command = self.started(&script);
                command.args(["--skip-test-db", "--auth-root-authentication-method=normal"]);
                command
            }
            (None, Some(script)) => self.started(&script),
            (None, None) if template.join("user.frm").is_file() => {
                let to = data.join("mysql");
                std::fs::create_dir(&to).map_err(Error::file(&to))?;
                for entry in std::fs::read_dir(&template).map_err(Error::file(&template))? {
                    let entry = entry?;
                    std::fs::copy(entry.path(), to.join(entry.file_name())).map_err(Error::file(entry.path()))?;
                }
                return Ok(());
            }
            (None, None) => {
                let users = data.with_file_name("users.sql");
                std::fs::write(&users, OWN_USER).map_err(Error::file(&users))?;
                let mut command = self.started(&server);
                command.arg("--initialize-insecure").arg(path_argument("--init-file=", &users));
                command
            }
        };
        command.arg(PAGE).arg(path_argument("--datadir=", data)).args(as_root());
        let program = command.get_program().to_owned();
        let output = command.output().map_err(Error::file(&program))?;
        if output.status.success() {
            return Ok(());
        }
        let text = String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr);
        let reason = text.lines().find(|line| line.contains("ERROR")).unwrap_or("it failed").to_owned();
        Err(Error::Usage(format!("{}: {reason}", Path::new(&program).display())))
    }

    /// Durability as of the other systems: written at each commit, synced about once a second.
    pub fn command(&self, data: &Path, port: u16, flags: &Flags) -> Result<Command> {
        let parent = data.parent().unwrap_or(data);
        let server = self.server().ok_or_else(|| Error::Usage(self.missing().unwrap_or_default()))?;
        let mut command = self.started(&server);
        command.args(["--bind-address=127.0.0.1", "--skip-name-resolve", "--skip-log-bin", "--loose-mysqlx=OFF"]);
        command.args([PAGE, CONNECTIONS, "--performance-schema=OFF", "--innodb-flush-method=O_DIRECT"]);
        command.args(OTHER_CACHES);
        command.args(["--innodb-flush-log-at-trx-commit=2", &format!("--port={port}")]);
        command.arg(path_argument("--datadir=", data));
        // A socket's path has to be short.
        command.arg(path_argument("--socket=", &std::env::temp_dir().join(format!("arbor-lab-{port}.sock"))));
        command.arg(path_argument("--pid-file=", &parent.join("pid"))).args(as_root());
        if self.engine == "ROCKSDB" {
            command.arg(path_argument("--plugin-dir=", &self.plugins()));
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
    pub fn target(&self, name: &str, port: u16, process: u32, data: &Path) -> Box<dyn Target> {
        Box::new(super::MySql::managed(name, port, self.engine, self.handler).local(process, data))
    }

    #[cfg(not(feature = "mysql"))]
    pub fn target(&self, name: &str, port: u16, process: u32, data: &Path) -> Box<dyn Target> {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn engines_of_builds_have_their_names() {
        let builds = [MySqlBuild::parse("a=/opt/mysql-5.6").unwrap()];
        for wrong in ["a", "=/x", "a=", "a b=/x"] {
            assert!(MySqlBuild::parse(wrong).is_err(), "{wrong}");
        }
        let of = |name: &str| MariaDb::of(name, &builds);
        assert_eq!(of("a.innodb-handler").unwrap().prefix(), Path::new("/opt/mysql-5.6"));
        assert_eq!(of("innodb").unwrap().prefix(), Path::new(DEBIAN));
        assert!(of("a.frob").is_none() && of("b.innodb").is_none() && of("myrocks-handler").is_none());
        assert_eq!(MariaDb::names(&builds).len(), 6);
        assert!(
            of("a.innodb")
                .unwrap()
                .missing()
                .is_some_and(|text| text.contains("/opt/mysql-5.6") || text.contains("--features"))
        );
    }
}
