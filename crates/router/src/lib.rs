//! A router: answers clients as one server does, from the data of any number of shards.
//!
//! It is a server of `command` whose data commands come here. What it needs a store for (merging, sorting, grouping) it does with
//! the operators of `query` over the rows of the shards. It has no state that matters: any number of routers serve one cluster.
//!
//! | file | contents |
//! |---|---|
//! | `shard` | connections to the primary of a replica set, and the search for it |
//! | `catalog` | what the router knows of the cluster |
//! | `table` | the routing table of one collection |
//! | `dispatch` | which requests are answered where |
//! | `transactions` | transactions and the shards that take part in them, and cursors that one shard keeps |
//! | `two_phase` | the end of transactions: prepare, decision, recovery |
//! | `clock` | the newest time of the cluster |
//! | `on_behalf` | the user of a request, as shards see it |
//! | `operations` | what runs, on the router and on the shards |
//! | `rows` | documents from several shards |
//! | `read`, `write`, `ddl` | statements over several shards |
//! | `pipeline`, `explain` | pipelines over several shards, and plans |
//! | `read_view` | statements on views that the router resolves |
//! | `collection_changes` | drops and renames of collections on several shards |
//! | `definition_changes` | changes of their indexes and options |
//! | `database_changes` | drops of databases, and the end of changes that other routers have left |
//! | `forward` | reads that one shard answers, for which no thread waits |
//! | `read_preference` | the members of shards that reads go to |
//! | `bulk_write` | `bulkWrite` as statements of its collections |
//! | `shard_key_update` | updates that may give a document another shard |
//! | `elsewhere` | collections that stages on the router read |
//! | `streams`, `look_up` | change streams over several shards, and the documents that they show |
//! | `snapshot` | reads of all shards at one time |
//! | `first_of_order` | writes of the first document in an order |
//! | `sink` | `$out` and `$merge` |
//! | `administration`, `chunks` | commands of the cluster |
//! | `lock` | locks of names, by which one router at a time changes what is known of each |
//! | `definitions` | collections and indexes as shards list them, and their copies |
//! | `move_primary` | the unsharded collections of a database on another shard |
//! | `moves` | moves of chunks between shards |
//! | `reshard`, `refine` | another shard key for a collection, and more fields for one |
//! | `zones` | groups of shards, and the ranges that belong to them |
//! | `consistency` | comparison of the config servers with the shards |
//! | `time_series` | measurements in buckets on several shards |
//! | `throttle` | the pace of a move, by the latencies of clients |
//! | `balancer/` | the balancer, which is on the config servers |

#![deny(clippy::unwrap_used, clippy::indexing_slicing)]

mod administration;
mod analyze_shard_key;
mod balancer;
mod bulk_write;
mod catalog;
mod chunk_map;
mod chunks;
mod clock;
mod collection_changes;
mod consistency;
mod database_changes;
mod ddl;
mod definition_changes;
mod definitions;
mod dispatch;
mod elsewhere;
mod explain;
mod fields;
mod first_of_order;
mod forward;
mod list_collections;
mod lock;
mod look_up;
mod move_primary;
mod moves;
mod on_behalf;
mod operations;
mod pipeline;
mod read;
mod read_preference;
mod read_view;
mod refine;
mod reshard;
mod rows;
mod shard;
mod shard_key_update;
mod sink;
mod snapshot;
mod streams;
mod table;
mod throttle;
mod time_series;
mod transactions;
mod two_phase;
mod write;
mod zones;

use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

use arbor_bson::{Code, Doc, DocBuf, ObjectId, ValueRef};
use arbor_command::analysis::ConfigCollections;
use arbor_command::{Answer, Commands, Forwarded, Result, Routed};
use arbor_protocol::metrics::Class;
use arbor_query::Interrupt;
use parking_lot::Mutex;

pub use crate::balancer::Balancer;
use crate::catalog::Catalog;
use crate::moves::FINISH_MAX;
pub use crate::shard::Connect;
use crate::shard::{Read, Shard, end_reads};
use crate::transactions::{Entered, Transactions};
use crate::two_phase::Unfinished;

/// Interval at which a router says that it is there, in `config.mongos`.
const PING: Duration = Duration::from_secs(30);
/// Longest wait for all shards.
const BROADCAST_MAX: Duration = Duration::from_secs(10);
/// Longest search for a user.
const ACCOUNTS_MAX: Duration = Duration::from_secs(10);

/// Checks the form of `set/host:port,...`.
pub fn check_config_db(config_db: &str) -> std::result::Result<(), String> {
    shard::members_of(config_db).map(drop)
}

pub struct Router {
    catalog: Arc<Catalog>,
    transactions: Arc<Transactions>,
    unfinished: Unfinished,
    /// `host:port` of this router, as `config.mongos` shows it.
    address: String,
    config_db: String,
    started: Instant,
    cluster: Mutex<Option<ObjectId>>,
    last_ping: Mutex<Option<Instant>>,
    /// The process ends: what is half done is left to others.
    stopping: Arc<AtomicBool>,
}

impl Router {
    /// `config_db` is `set/host:port,...` of the config servers. Errors: it is not of that form.
    pub fn new(config_db: &str, address: String, connect: Connect) -> std::result::Result<Router, String> {
        Ok(Router {
            catalog: Arc::new(Catalog::new(config_db, connect)?),
            transactions: Arc::default(),
            unfinished: Unfinished::default(),
            address,
            config_db: config_db.to_owned(),
            started: Instant::now(),
            cluster: Mutex::new(None),
            last_ping: Mutex::new(None),
            stopping: Arc::default(),
        })
    }

    /// Returns the interrupt of work that is finished even if its client has gone.
    fn within(&self, limit: Duration) -> Interrupt {
        Interrupt::new(Some(Instant::now() + limit), self.stopping.clone())
    }

    /// Returns the id of the cluster, which the first router makes. Errors: the config servers cannot be reached.
    fn cluster_id(&self, interrupt: &Interrupt) -> Result<ObjectId> {
        if let Some(id) = *self.cluster.lock() {
            return Ok(id);
        }
        let id = match self.catalog.read_one("version", ValueRef::Int32(1), interrupt)? {
            Some(version) => fields::object_id(version.as_doc(), "clusterId"),
            None => {
                let id = arbor_protocol::topology::new_object_id();
                let version = DocBuf::new().with("_id", 1i32).with("clusterId", ValueRef::ObjectId(id));
                match self.catalog.insert("version", &[version], interrupt) {
                    Err(error) if error.code == Code::DUPLICATE_KEY => return self.cluster_id(interrupt),
                    other => other?,
                }
                Some(id)
            }
        };
        let unknown = || arbor_command::Error::new(Code::INTERNAL_ERROR, "config.version has no clusterId");
        let id = id.ok_or_else(unknown)?;
        *self.cluster.lock() = Some(id);
        Ok(id)
    }

    fn ping(&self, interrupt: &Interrupt) -> Result<()> {
        let document = DocBuf::new()
            .with("_id", self.address.as_str())
            .with("advisoryHostFQDNs", &arbor_bson::ArrayBuf::new())
            .with("mongoVersion", arbor_command::MONGODB_VERSION)
            .with("ping", ValueRef::DateTime(arbor_protocol::log::now_ms()))
            .with("up", self.started.elapsed().as_secs() as i64)
            .with("waiting", true);
        self.cluster_id(interrupt)?;
        // requests to a shard that was removed meanwhile are not to wait for it
        self.catalog.refresh_shards(interrupt)?;
        self.catalog.put("mongos", &document, interrupt)
    }
}

impl arbor_command::Router for Router {
    fn run(&self, server: &Commands, routed: &Routed<'_>) -> Result<Answer> {
        self.dispatch(server, routed)
    }

    fn forward(&self, routed: &Routed<'_>) -> Option<Box<dyn Forwarded>> {
        let named = on_behalf::named(routed);
        let named = named.as_ref().map(|body| Routed { body: body.as_doc(), ..*routed });
        self.send_find(named.as_ref().unwrap_or(routed)).map(|sent| Box::new(sent) as Box<dyn Forwarded>)
    }

    fn accounts(&self, collection: &str, filter: Doc<'_>, limit: Option<u64>) -> Result<Vec<DocBuf>> {
        self.catalog.accounts(collection, filter, limit, &Interrupt::never().within(ACCOUNTS_MAX))
    }

    fn broadcast(&self, command: &DocBuf, interrupt: &Interrupt) -> Result<()> {
        let interrupt = interrupt.clone().within(BROADCAST_MAX);
        let mut shards = self.catalog.shards(&interrupt)?;
        shards.push(self.catalog.config.clone());
        let begun: Vec<_> =
            shards.iter().map(|shard| (shard, shard.begin("admin", command, &[], &interrupt))).collect();
        // every reply is read, whatever the others say
        let ended = begun.into_iter().map(|(shard, sent)| shard.end(sent, "admin", command, &[], &interrupt));
        ended.collect::<Vec<_>>().into_iter().try_for_each(|reply| reply.map(drop))
    }

    fn time(&self) -> u64 {
        self.catalog.clock.last()
    }

    fn advance_time(&self, time: u64) {
        self.catalog.clock.advance(time);
    }

    fn chunk_map(&self) -> Result<DocBuf> {
        self.catalog.chunk_map(&self.within(chunk_map::TIME_MAX))
    }

    fn config_collections(&self) -> &dyn ConfigCollections {
        &*self.catalog
    }

    fn continue_changes(&self, server: &Commands) {
        let (interrupt, body) =
            (Interrupt::new(None, self.stopping.clone()), DocBuf::new().with("balancerStatus", 1i32));
        // the next one may find the config servers again
        let _ = server.with_routed(body.as_doc(), &interrupt, |routed| {
            Request { router: self, server, routed }.continue_changes()
        });
    }

    fn tick(&self) {
        self.transactions.forget_old();
        self.catalog.follow_members();
        // the next one may find the shards again
        let _ = self.continue_transactions();
        let due = self.last_ping.lock().is_none_or(|last| last.elapsed() >= PING);
        if due {
            *self.last_ping.lock() = Some(Instant::now());
            // the next one may find them again
            let _ = self.ping(&Interrupt::never().within(Duration::from_secs(5)));
        }
    }
}

/// One request on its way.
#[derive(Clone, Copy)]
pub(crate) struct Request<'r> {
    router: &'r Router,
    server: &'r Commands,
    routed: &'r Routed<'r>,
}

/// Attempts of a request whose routing table is out of date.
const ATTEMPTS: u32 = 16;
/// Attempts of a read by way of other members.
const MEMBERS_ATTEMPTS: u32 = 4;
/// Attempts of a request to a shard that is not there.
const REMOVED_ATTEMPTS: u32 = 2;
/// The change that a shard waits for seems to have been given up.
const REPAIRED_AT: u32 = 8;

impl<'r> Request<'r> {
    pub(crate) fn catalog(&self) -> &'r Catalog {
        &self.router.catalog
    }

    pub(crate) fn interrupt(&self) -> &'r Interrupt {
        self.routed.interrupt
    }

    /// Runs steps that are not to be left half done, whatever the client does.
    fn finishing<T>(&self, steps: impl FnOnce(&Request<'_>) -> T) -> T {
        let interrupt = self.router.within(FINISH_MAX);
        let routed = Routed { interrupt: &interrupt, ..*self.routed };
        steps(&Request { router: self.router, server: self.server, routed: &routed })
    }

    pub(crate) fn body(&self) -> arbor_bson::Doc<'r> {
        self.routed.body
    }

    /// Runs `attempt`, again with a new routing table when a shard says that this one is out of date.
    pub(crate) fn with_routing<T>(
        &self,
        db: &str,
        namespace: &str,
        create: bool,
        mut attempt: impl FnMut(&catalog::Routing) -> Result<T>,
    ) -> Result<T> {
        let mut attempts = 0;
        loop {
            let routing = self.routing(db, namespace, create)?;
            match self.routing_by_preference(routing.clone()).and_then(|routing| attempt(&routing)) {
                // another member may do it
                Err(error)
                    if error.code == Code::HOST_UNREACHABLE
                        && attempts < MEMBERS_ATTEMPTS
                        && self.read_preference()?.is_some() =>
                {
                    self.catalog().forget_members();
                    attempts += 1;
                }
                // a shard that the table names was removed: the tables of others may name it, too
                Err(error) if error.code == Code::SHARD_NOT_FOUND && attempts < REMOVED_ATTEMPTS => {
                    self.catalog().forget_all();
                    attempts += 1;
                }
                Err(error) if is_stale(&error) && attempts < ATTEMPTS => {
                    self.prepare_attempt((db, namespace), &routing, &error, &mut attempts)?;
                }
                other => return other,
            }
        }
    }

    /// Prepares another attempt of a request that a shard has refused, because the routing table is out of date, or a change is under way.
    pub(crate) fn prepare_attempt(
        &self,
        (db, namespace): (&str, &str),
        used: &catalog::Routing,
        error: &arbor_command::Error,
        attempts: &mut u32,
    ) -> Result<()> {
        self.interrupt().check()?;
        let refused = self.catalog().forget_refused((db, namespace), used, error);
        if *attempts > 0 {
            std::thread::sleep(Duration::from_millis(10 << (*attempts).min(8)));
        }
        *attempts += 1;
        if *attempts < REPAIRED_AT {
            return Ok(());
        }
        match self.repair(refused.split('.').next().unwrap_or(db), refused) {
            // another router is at it
            Err(error) if is_stale(&error) => Ok(()),
            repaired => repaired,
        }
    }

    /// Runs a command on several shards at once. Errors: the first one of any; what the others have begun is theirs, unless it is a read,
    /// which is ended.
    pub(crate) fn on_all(&self, db: &str, commands: Vec<(Arc<Shard>, DocBuf)>) -> Result<Vec<(Arc<Shard>, DocBuf)>> {
        let interrupt = self.interrupt();
        if self.routed.info.class == Class::Read {
            let mut reads = Vec::new();
            for (shard, command) in commands {
                let entered = self.enter(&shard, command)?;
                reads.push(Read::begin(shard, db, entered, interrupt));
            }
            end_reads(&mut reads, db, interrupt)?;
            return Ok(reads.into_iter().filter_map(|read| Some((read.shard, read.reply?))).collect());
        }
        let mut begun = Vec::new();
        for (shard, command) in commands {
            let (command, entered) = self.enter(&shard, command)?;
            let sent = shard.begin(db, &command, &[], interrupt);
            begun.push((shard, command, sent, entered));
        }
        // every reply is read, whatever the others say
        let replies: Vec<_> = begun
            .into_iter()
            .map(|(shard, command, sent, entered)| {
                let reply = shard.end(sent, db, &command, &[], interrupt);
                entered.iter().for_each(|entered| entered.ended(reply.as_ref().map(DocBuf::as_doc)));
                Ok((shard, reply?))
            })
            .collect();
        replies.into_iter().collect()
    }

    pub(crate) fn on_one(
        &self,
        shard: &Arc<Shard>,
        db: &str,
        command: DocBuf,
        sequences: &[(&str, &[DocBuf])],
    ) -> Result<DocBuf> {
        let (command, entered) = self.enter(shard, command)?;
        let reply = shard.call_with(db, &command, sequences, self.interrupt());
        entered.iter().for_each(|entered| entered.ended(reply.as_ref().map(DocBuf::as_doc)));
        reply
    }

    /// Makes a command part of the transaction of the request, and gives one that reads a snapshot of several shards its time.
    fn enter(&self, shard: &Arc<Shard>, command: DocBuf) -> Result<(DocBuf, Option<Entered>)> {
        let time = |after| self.catalog().clock.now(after);
        self.router.transactions.enter(self.routed, shard, command, time)
    }

    /// Returns the request as it is sent to a shard: without what the router adds or has used.
    pub(crate) fn plain(&self) -> DocBuf {
        plain(self.body())
    }

    /// Returns true for errors that fail one statement of the request, and not all of it, its transaction or its attempt.
    pub(crate) fn is_of_statement(&self, error: &arbor_command::Error) -> bool {
        let ends_more = arbor_command::is_fatal(error) || is_stale(error) || error.code == Code::HOST_UNREACHABLE;
        !ends_more && arbor_protocol::labels::of(error.code, self.body()).is_empty()
    }

    /// Returns the document sequences of the request.
    pub(crate) fn sequences(&self) -> Vec<(&'r str, Vec<DocBuf>)> {
        let routed = self.routed;
        routed.sequences.iter().map(|some| (some.name, some.iter().map(arbor_bson::Doc::to_buf).collect())).collect()
    }
}

/// Returns a request as it is sent to a shard.
fn plain(body: Doc<'_>) -> DocBuf {
    const OWN: [&str; 7] = [
        "$db",
        "$readPreference",
        "startTransaction",
        "shardVersion",
        "databaseVersion",
        "$client",
        arbor_command::FENCING_TOKEN,
    ];
    fields::without(body, &OWN)
}

fn is_stale(error: &arbor_command::Error) -> bool {
    matches!(
        error.code,
        Code::STALE_CONFIG | Code::STALE_DB_VERSION | Code::STALE_EPOCH | Code::CONFLICTING_OPERATION_IN_PROGRESS
    )
}
