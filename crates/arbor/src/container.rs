//! `arbor container`, the first process of a container: it becomes `arbor serve` with the same flags. `arbor ping`, its health check.
//!
//! A process of its own next to the server (`--prepare`), which ends with it, does at the first start what the official images of MongoDB do. It
//! connects from this machine, where the first user may be made without a login:
//!
//! | variable | |
//! |---|---|
//! | `MONGO_INITDB_ROOT_USERNAME`, `MONGO_INITDB_ROOT_PASSWORD` | a user with the role `root` on `admin`; access control is on then. With `_FILE` behind the name: the file with the value |
//! | `MONGO_INITDB_DATABASE` | passed to the scripts |
//! | `ARBOR_SET_MEMBERS` | `HOST:PORT,...`: the members of the set of `--replSet`, which the one whose name is the first host initiates |
//!
//! Scripts `*.sh` of `/docker-entrypoint-initdb.d` run in a new data directory, in the order of their names, once the user is there. They, and
//! what they have started, end with the server.

use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Command as Process;
use std::time::{Duration, Instant};

use arbor_bson::{ArrayBuf, DocBuf, ValueRef};
use arbor_client::{Client, ClientError, Options, Uri};
use clap::{Arg, ArgAction, ArgMatches, Command};

use crate::config;
use crate::failure::{BAD_OPTIONS, Failure};
use crate::supervised;

const SCRIPTS: &str = "/docker-entrypoint-initdb.d";
/// Members of a set may come late.
const PATIENCE: Duration = Duration::from_secs(600);
const RETRY: Duration = Duration::from_millis(500);
const TIMEOUT: Duration = Duration::from_secs(10);
const UNAUTHORIZED: i32 = 13;
const ALREADY_INITIALIZED: i32 = 23;
const USER_EXISTS: i32 = 51003;

pub(crate) fn command() -> Command {
    Command::new("container")
        .about("Starts the server of a container: makes the first user, and serves")
        .arg(Arg::new("prepare").long("prepare").hide(true).action(ArgAction::SetTrue))
        .arg(
            Arg::new("flags")
                .value_name("FLAGS")
                .help("Flags of arbor serve")
                .num_args(0..)
                .trailing_var_arg(true)
                .allow_hyphen_values(true),
        )
}

pub(crate) fn ping_command() -> Command {
    let uri = Arg::new("uri").value_name("URI").help("Connection string").default_value("mongodb://127.0.0.1:27017");
    Command::new("ping").about("Asks a server whether it replies").arg(uri)
}

pub(crate) fn ping(matches: &ArgMatches) -> Result<(), Failure> {
    let text = matches.get_one::<String>("uri").map_or("", String::as_str);
    let uri = Uri::parse(text).map_err(|error| Failure::new(BAD_OPTIONS, error.to_string()))?;
    let options = Options { timeout: Some(TIMEOUT), ..uri.options() };
    let asked = Client::connect_with(&uri.address, options)
        .and_then(|mut client| client.command("admin", &DocBuf::new().with("ping", 1)).map(drop));
    asked.map_err(|error| Failure::cannot_start(format!("{}: {error}", uri.address)))
}

/// A variable, or the content of the file that the variable with `_FILE` names.
fn variable(name: &str) -> Result<Option<String>, Failure> {
    let own = |name: &str| std::env::var(name).ok().filter(|value| !value.is_empty());
    match (own(name), own(&format!("{name}_FILE"))) {
        (Some(_), Some(_)) => Err(Failure::new(BAD_OPTIONS, format!("{name} and {name}_FILE are both set"))),
        (Some(value), None) => Ok(Some(value)),
        (None, Some(path)) => {
            let text = std::fs::read_to_string(&path);
            let text = text.map_err(|error| Failure::cannot_start(format!("{name}_FILE: {path}: {error}")))?;
            Ok(Some(text.trim_end_matches('\n').to_owned()))
        }
        (None, None) => Ok(None),
    }
}

/// The first user: name and password.
fn root() -> Result<Option<(String, String)>, Failure> {
    match (variable("MONGO_INITDB_ROOT_USERNAME")?, variable("MONGO_INITDB_ROOT_PASSWORD")?) {
        (Some(name), Some(password)) => Ok(Some((name, password))),
        (None, None) => Ok(None),
        _ => {
            let text = "MONGO_INITDB_ROOT_USERNAME and MONGO_INITDB_ROOT_PASSWORD are set together";
            Err(Failure::new(BAD_OPTIONS, text))
        }
    }
}

pub(crate) fn run(matches: &ArgMatches) -> Result<(), Failure> {
    let mut flags: Vec<String> = matches.get_many("flags").unwrap_or_default().cloned().collect();
    let (root, members) = (root()?, variable("ARBOR_SET_MEMBERS")?);
    let settings = settings_of(&flags)?;
    if matches.get_flag("prepare") {
        let set = members.zip(settings.replica_set).map(|(members, name)| Set {
            name,
            hosts: members.split(',').map(|host| host.trim().to_owned()).collect(),
        });
        return prepare(settings.port, root, set);
    }
    if settings.bind_ip.iter().all(|address| address == "127.0.0.1") && !settings.bind_all {
        flags.push("--bind_ip_all".to_owned());
    }
    if root.is_some() && !settings.auth && settings.key_file.is_none() {
        flags.push("--auth".to_owned());
    }
    if members.is_some() && settings.replica_set.is_none() {
        return Err(Failure::new(BAD_OPTIONS, "ARBOR_SET_MEMBERS needs the flag --replSet"));
    }
    let is_new = !settings.dbpath.join("arbor.format").exists();
    let program = std::env::current_exe().map_err(Failure::cannot_start)?;
    if is_new && let Some(script) = scripts()?.into_iter().find(|script| script.ends_with(".js")) {
        return Err(Failure::new(
            BAD_OPTIONS,
            format!("{SCRIPTS}/{script}: there is no shell here that runs JavaScript"),
        ));
    }
    if root.is_some() || members.is_some() || is_new && !scripts()?.is_empty() {
        // this process, and its thread, become the server
        let launcher = supervised::launcher();
        let (launching, arguments) = launcher.split_first().expect("the launcher names a program");
        let mut preparing = Process::new(launching);
        preparing.args(arguments).arg(&program).args(["container", "--prepare", "--"]).args(&flags);
        preparing.env("ARBOR_CONTAINER_IS_NEW", if is_new { "1" } else { "" });
        preparing.spawn().map_err(Failure::cannot_start)?;
    }
    let error = Process::new(&program).arg("serve").args(flags).exec();
    Err(Failure::cannot_start(format!("{}: {error}", program.display())))
}

fn settings_of(flags: &[String]) -> Result<config::Settings, Failure> {
    let arguments = std::iter::once("serve").chain(flags.iter().map(String::as_str));
    let matches = config::serve_command().try_get_matches_from(arguments);
    let matches = matches.map_err(|error| Failure::new(BAD_OPTIONS, error.to_string()))?;
    config::read_command_line(&matches).map_err(|refused| Failure::new(BAD_OPTIONS, refused.to_string()))
}

/// The names of the scripts, in order.
fn scripts() -> Result<Vec<String>, Failure> {
    let entries = match std::fs::read_dir(SCRIPTS) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(Vec::new()),
        entries => entries.map_err(Failure::cannot_start)?,
    };
    let names = entries.filter_map(|entry| entry.ok().map(|entry| entry.file_name().to_string_lossy().into_owned()));
    let mut names: Vec<String> = names.filter(|name| name.ends_with(".sh") || name.ends_with(".js")).collect();
    names.sort();
    Ok(names)
}

/// Sets up what the variables say, as soon as the server lets it.
fn prepare(port: u16, root: Option<(String, String)>, set: Option<Set>) -> Result<(), Failure> {
    let (server, end) = (rustix::process::getppid(), Instant::now() + PATIENCE);
    while let Err(error) = set_up(port, root.as_ref(), set.as_ref()) {
        if Instant::now() >= end {
            return Err(Failure::cannot_start(format!("the container is not set up: {error}")));
        }
        std::thread::sleep(RETRY);
    }
    if std::env::var("ARBOR_CONTAINER_IS_NEW").is_ok_and(|is_new| !is_new.is_empty()) {
        for script in scripts()? {
            let path = Path::new(SCRIPTS).join(&script);
            let mut shell = Process::new("/bin/sh");
            shell.arg(&path);
            let done = supervised::run_group(shell, server)?;
            if !done.success() {
                return Err(Failure::cannot_start(format!("{} ended with {done}", path.display())));
            }
        }
    }
    Ok(())
}

fn set_up(port: u16, root: Option<&(String, String)>, set: Option<&Set>) -> Result<(), ClientError> {
    let options = Options { timeout: Some(TIMEOUT), app_name: "arbor container".to_owned(), ..Options::default() };
    let mut client = Client::connect_with(&format!("127.0.0.1:{port}"), options)?;
    if let Some(set) = set.filter(|set| set.is_first()) {
        initiate(&mut client, set)?;
    }
    // The member that leads makes the user, whichever it is by then; on the others this fails until they have it.
    let Some((name, password)) = root else { return Ok(()) };
    let role = DocBuf::new().with("role", "root").with("db", "admin");
    let roles: ArrayBuf = [ValueRef::from(&role)].into_iter().collect();
    let user = DocBuf::new().with("createUser", name.as_str()).with("pwd", password.as_str()).with("roles", &roles);
    match client.command("admin", &user) {
        // Without a login only the first one is made.
        Err(error) if matches!(error.code(), Some(USER_EXISTS | UNAUTHORIZED)) => Ok(()),
        made => made.map(drop),
    }
}

/// The set that a member is to found.
struct Set {
    name: String,
    hosts: Vec<String>,
}

impl Set {
    /// Returns true if this machine has the name of the first host.
    fn is_first(&self) -> bool {
        let first = self.hosts.first().map_or("", String::as_str);
        let name = std::env::var("HOSTNAME").unwrap_or_default();
        !name.is_empty() && first.split(['.', ':']).next() == name.split('.').next()
    }
}

/// Ensures on `Ok`: the set is there.
fn initiate(client: &mut Client, set: &Set) -> Result<(), ClientError> {
    let mut members = ArrayBuf::new();
    for (id, host) in set.hosts.iter().enumerate() {
        members.push(&DocBuf::new().with("_id", id as i32).with("host", host.as_str()));
    }
    let config = DocBuf::new().with("_id", set.name.as_str()).with("members", &members);
    match client.command("admin", &DocBuf::new().with("replSetInitiate", &config)) {
        // It was done before; without a login it is refused once there is a user.
        Err(error) if matches!(error.code(), Some(ALREADY_INITIALIZED | UNAUTHORIZED)) => Ok(()),
        initiated => initiated.map(drop),
    }
}
