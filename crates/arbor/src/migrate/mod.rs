//! `arbor migrate`: copies all data of a running MongoDB (or Arbor) into another one, and follows its changes until the clients move.
//!
//! ```text
//! copy      collections with their options, documents in the order of `_id`, indexes that are not unique
//! follow    the source's change stream from the begin of the copy on, until the process ends
//! cut over  `--cut-over`, once nothing writes to the source: the rest of the stream, unique indexes, users, verification
//! ```
//!
//! | file | what |
//! |---|---|
//! | `server` | a connection that is made again when it breaks |
//! | `collections` | what the source has, and what the target gets of it |
//! | `state` | how far the migration is, in the database `arbor_migrate` of the target |
//! | `places` | which collection of the target is which one of the source |
//! | `copy` | documents on their way |
//! | `changes` | events of the change stream |
//! | `partitions` | partitions of collections, and what is dropped with them |
//! | `verify` | comparison of source and target |
//! | `repair` | the differences of a collection that is in doubt |
//!
//! - M1: each step may be carried out again: a document that is there is left there by the copy, and replaced by an event. So the state is written
//!   after the step, and a process that is killed repeats at most one batch.
//! - M2: the change stream begins before the first document is read. Events bring each document to its state after the event or a later one; at the
//!   end of the stream, all are as in the source.
//! - M3: collections are identified by the source's UUID, not by their names: when an event is applied, in order or again, its name may be that of
//!   another collection. Names of the target follow the events as far as they are free, and are made those of the source at the end.
//! - M4: what was read by name, or looked up by the source for an event, may be of another collection only if the own one was renamed since the
//!   begin; then an event says so, and the collection is compared with the source at the end, when nothing is written any more.
//! - M5: unique indexes are built at the end: in between, two documents may have a key that was never theirs at the same time.

mod changes;
mod collections;
mod copy;
mod partitions;
mod places;
mod repair;
mod server;
mod state;
mod verify;

use std::time::{Duration, Instant};

use arbor_bson::DocBuf;
use clap::{Arg, ArgAction, ArgMatches, Command};

use crate::failure::{BAD_OPTIONS, Failure};
use crate::pace::Pace;
use changes::Changes;
use server::Server;
use state::{Phase, State};

type Result<T> = std::result::Result<T, Error>;

#[derive(Debug, thiserror::Error)]
pub(crate) enum Error {
    #[error("{server}: {error}")]
    Client { server: String, error: arbor_client::ClientError },
    #[error("{0}")]
    Refused(String),
}

impl Error {
    fn code(&self) -> Option<i32> {
        match self {
            Error::Client { error, .. } => error.code(),
            Error::Refused(_) => None,
        }
    }
}

impl From<Error> for Failure {
    fn from(error: Error) -> Failure {
        Failure::cannot_start(error)
    }
}

/// Verifications of a source that may still be changing.
const VERIFICATIONS: u32 = 3;
/// Time between two lines of progress.
const REPORT: Duration = Duration::from_secs(5);

pub(crate) fn command() -> Command {
    let flag = |name: &'static str, help: &'static str| Arg::new(name).long(name).action(ArgAction::SetTrue).help(help);
    Command::new("migrate")
        .about("Copies a running MongoDB into another one, and follows its changes until the clients move")
        .arg(Arg::new("source").required(true).value_name("SOURCE").help("Connection string of the server to copy"))
        .arg(
            Arg::new("target")
                .required(true)
                .value_name("TARGET")
                .help("Connection string of the server that gets the data"),
        )
        .arg(
            Arg::new("only")
                .long("only")
                .value_name("NAMESPACE")
                .action(ArgAction::Append)
                .help("Only this database, or this collection (DB.COLLECTION); may be repeated. Without users"),
        )
        .arg(
            Arg::new("limit")
                .long("limit")
                .value_name("MB")
                .value_parser(clap::value_parser!(u64).range(1..))
                .help("Megabytes per second that are copied at most"),
        )
        .arg(flag("cut-over", "Completes the migration: to be given once nothing writes to the source any more"))
        .arg(flag("no-users", "Leaves the target's users and roles as they are"))
}

pub(crate) fn run(matches: &ArgMatches) -> std::result::Result<(), Failure> {
    let text = |name: &str| matches.get_one::<String>(name).map(String::as_str).unwrap_or_default();
    let only: Vec<String> = matches.get_many("only").unwrap_or_default().cloned().collect();
    let connect = |name: &'static str| {
        Server::new(name, text(name)).map_err(|error| Failure::new(BAD_OPTIONS, format!("{name}: {error}")))
    };
    let migration = Migration {
        source: connect("source")?,
        target: connect("target")?,
        users: only.is_empty() && !matches.get_flag("no-users"),
        only,
        pace: Pace::new(matches.get_one::<u64>("limit").map(|megabytes| megabytes << 20)),
        reported: Instant::now(),
        places: places::Places::new(),
    };
    Ok(migration.run(matches.get_flag("cut-over"))?)
}

struct Migration {
    source: Server,
    target: Server,
    /// Databases and collections; none for all.
    only: Vec<String>,
    users: bool,
    pace: Pace,
    reported: Instant,
    /// Collections of the target, as noted there.
    places: places::Places,
}

impl Migration {
    fn run(mut self, cuts_over: bool) -> Result<()> {
        let mut state = match State::read(&mut self.target)? {
            Some(state) => self.resumed(state)?,
            None => self.begin()?,
        };
        if state.phase == Phase::Done {
            println!("the migration is complete");
            return Ok(());
        }
        self.read_places()?;
        if state.phase == Phase::Copying {
            self.copy_all(&mut state)?;
            state.phase = Phase::Following;
            state.write(&mut self.target)?;
        }
        let Some(mut changes) = Changes::open(&mut self, &state)? else {
            eprintln!("the source has no change streams: what was written to it during the copy may be missing");
            return self.complete(&mut state, None);
        };
        if !cuts_over {
            eprintln!(
                "following; when nothing writes to the source any more, end this process and run it again with --cut-over"
            );
            return self.follow(&mut state, &mut changes);
        }
        self.complete(&mut state, Some(&mut changes))
    }

    fn begin(&mut self) -> Result<State> {
        let source = self.source.identity()?;
        if source == self.target.identity()? {
            return Err(Error::Refused("source and target are the same".to_owned()));
        }
        let begin = changes::begin_time(&mut self.source)?;
        let state = State { source, phase: Phase::Copying, begin, token: None };
        state.write(&mut self.target)?;
        Ok(state)
    }

    /// Checks that the state is that of this migration.
    fn resumed(&mut self, state: State) -> Result<State> {
        let source = self.source.identity()?;
        if state.source != source {
            return Err(Error::Refused(format!(
                "the target has the state of a migration from {} (database {}); this source is {source}",
                state.source,
                state::DATABASE
            )));
        }
        eprintln!("continuing the migration");
        Ok(state)
    }

    fn is_asked(&self, db: &str, collection: &str) -> bool {
        let namespace = format!("{db}.{collection}");
        self.only.is_empty() || self.only.iter().any(|only| only == db || *only == namespace)
    }

    fn follow(&mut self, state: &mut State, changes: &mut Changes) -> Result<()> {
        loop {
            changes.step(self, state)?;
            if self.is_time_to_report() {
                eprintln!("following: {}", changes.progress());
            }
        }
    }

    /// Returns true every few seconds.
    fn is_time_to_report(&mut self) -> bool {
        let is_due = self.reported.elapsed() >= REPORT;
        if is_due {
            self.reported = Instant::now();
        }
        is_due
    }

    fn complete(&mut self, state: &mut State, mut changes: Option<&mut Changes>) -> Result<()> {
        for attempt in 1.. {
            if let Some(changes) = &mut changes {
                changes.drain(self, state)?;
            }
            self.finish_collections()?;
            let differences = self.verify()?;
            if differences.is_empty() {
                break;
            }
            if attempt == VERIFICATIONS || changes.is_none() {
                differences.iter().for_each(|difference| println!("DIFFERENT {difference}"));
                let text = format!("{} ranges differ: is something still writing to the source?", differences.len());
                return Err(Error::Refused(text));
            }
        }
        if self.users {
            self.copy_users()?;
        }
        state.phase = Phase::Done;
        state.write(&mut self.target)?;
        println!("the migration is complete: all documents of the target are those of the source");
        Ok(())
    }

    /// Has the target merge the users and roles of the source with its own.
    fn copy_users(&mut self) -> Result<()> {
        let mut merge = DocBuf::new().with("_mergeAuthzCollections", 1);
        let mut count = 0;
        for (own, field) in [("system.users", "tempUsersCollection"), ("system.roles", "tempRolesCollection")] {
            let documents = match self.source.all("admin", &DocBuf::new().with("find", own)) {
                Ok(documents) => documents,
                Err(error) if error.code().is_some() => {
                    eprintln!("users and roles are not copied: {error}");
                    return Ok(());
                }
                Err(error) => return Err(error),
            };
            let temporary = format!("{}_{}", state::DATABASE, own.trim_start_matches("system."));
            self.target.drop_collection("admin", &temporary)?;
            if documents.is_empty() {
                continue;
            }
            count += documents.len();
            let insert = DocBuf::new().with("insert", temporary.as_str());
            self.target.write("admin", &insert, &[("documents", &documents)])?;
            merge.append(field, format!("admin.{temporary}").as_str());
        }
        if count == 0 {
            return Ok(());
        }
        merge.append("db", "");
        merge.append("drop", false);
        self.target.run("admin", &merge)?;
        for own in ["users", "roles"] {
            self.target.drop_collection("admin", &format!("{}_{own}", state::DATABASE))?;
        }
        println!("{count} users and roles");
        Ok(())
    }
}
