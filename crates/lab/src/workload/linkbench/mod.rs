//! LinkBench in LinkBenchX's form (founding text 000, spec/workloads.md section 7): nodes, typed links between them and
//! counts of links, read and changed in the proportions of a social graph.
//!
//! | file | what |
//! |---|---|
//! | `operation` | the ten operations and the batches of the load |
//! | `access`, `shuffler`, `java_random` | which node an operation is about |
//! | `degrees` | how many links it was loaded with |
//! | `payload` | data of links and nodes |
//! | `load`, `requests` | the streams |

mod access;
mod degrees;
mod java_random;
mod load;
mod operation;
mod payload;
mod requests;
mod shuffler;

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::{SystemTime, UNIX_EPOCH};

pub use access::{Access, OperationMix};
pub use degrees::{Degrees, Sharing};
pub use operation::{
    Count, FIRST_LINK_TYPE, HIDDEN, Link, LinkOperation, List, NODE_TYPE, Node, Schema, Store, VISIBLE,
};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::{Client, Collection, Found, Index, Kind, Mode, Place, Workload};

/// Settings of an experiment; the defaults follow from the store.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Settings {
    /// Whose schema, commands and defaults: LinkBenchX (lbx) or the maintained fork (lbm).
    store: Option<Schema>,
    startid1: Option<i64>,
    /// The first id beyond the loaded ones.
    maxid1: Option<i64>,
    link_type_count: Option<i64>,
    /// Limit of the links of one node, of all types together. Ours: the original has only its table of degrees.
    links_max: Option<u64>,
    /// The proportions of operations: of 2011 or of 2017.
    mix: Option<OperationMix>,
    /// Medians of data, bytes.
    link_datasize: Option<f64>,
    node_datasize: Option<f64>,
    loader_chunk_size: Option<i64>,
    batch: Option<usize>,
    /// Percent of link lists that go back in time.
    getlinklist_history: Option<f64>,
    transactions: Option<bool>,
}

/// The settings with every default.
#[derive(Clone, Copy, Debug)]
pub struct Plan {
    pub store: Store,
    pub first_id: i64,
    pub last_id: i64,
    pub link_types: i64,
    pub links_max: Option<u64>,
    pub mix: OperationMix,
    pub link_bytes: f64,
    pub node_bytes: f64,
    pub chunk: i64,
    pub batch: usize,
    pub history_percent: f64,
}

impl Settings {
    fn plan(&self, mode: Mode) -> Result<Plan, String> {
        let schema = self.store.unwrap_or(Schema::Lbx);
        let lbx = schema == Schema::Lbx;
        let first_id = self.startid1.unwrap_or(1);
        let plan = Plan {
            store: Store { schema, mode, transactions: self.transactions.unwrap_or(false) },
            first_id,
            last_id: self.maxid1.unwrap_or(10_000_001) - 1,
            link_types: self.link_type_count.unwrap_or(2),
            links_max: self.links_max,
            mix: self.mix.unwrap_or(if lbx { OperationMix::Of2011 } else { OperationMix::Of2017 }),
            link_bytes: self.link_datasize.unwrap_or(if lbx { 8.0 } else { 23.0 }),
            node_bytes: self.node_datasize.unwrap_or(if lbx { 128.0 } else { 168.0 }),
            chunk: self.loader_chunk_size.unwrap_or(2048),
            batch: self.batch.unwrap_or(1024),
            history_percent: self.getlinklist_history.unwrap_or(0.3),
        };
        let nodes = plan.last_id.checked_sub(first_id - 1);
        if !nodes.is_some_and(|nodes| (2..i64::from(i32::MAX)).contains(&nodes)) {
            return Err("linkbench: maxid1 must be at least 2 above startid1, and less than 2^31 above it".to_owned());
        }
        let least = plan.link_types.min(plan.chunk).min(plan.batch as i64);
        if least < 1 || plan.links_max == Some(0) || !(0.0..=100.0).contains(&plan.history_percent) {
            return Err("linkbench: link_type_count, links_max, loader_chunk_size and batch must be at least 1, \
                        getlinklist_history a percentage"
                .to_owned());
        }
        Ok(plan)
    }
}

impl Plan {
    pub fn nodes(&self) -> u64 {
        (self.last_id - self.first_id + 1) as u64
    }

    pub fn degrees(&self) -> Degrees {
        let sharing = Sharing::of(self.store.schema == Schema::Lbm, self.store.mode);
        Degrees::new(self.nodes(), self.link_types as u64, sharing).at_most(self.links_max.unwrap_or(u64::MAX))
    }

    /// Bytes of a motif buffer. The original never reads the length that is configured for links (compat trap 4).
    fn link_motif_bytes(&self) -> usize {
        if self.store.mode == Mode::Compat { 512 } else { 128 }
    }
}

/// Milliseconds since 1970.
fn now_ms() -> i64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |time| time.as_millis() as i64)
}

#[derive(Debug)]
pub struct LinkBench {
    plan: Plan,
    access: Arc<Access>,
    /// The next node's id, of all clients together.
    next_id: Arc<AtomicI64>,
}

impl LinkBench {
    pub fn new(mode: Mode, settings: &Settings) -> Result<LinkBench, String> {
        let plan = settings.plan(mode)?;
        let access = Arc::new(Access::new(&plan));
        Ok(LinkBench { plan, access, next_id: Arc::new(AtomicI64::new(plan.last_id + 1)) })
    }
}

impl Workload for LinkBench {
    fn unit(&self) -> Kind {
        Kind::OPERATION
    }

    fn kinds(&self) -> &'static [Kind] {
        &[
            Kind::OPERATION,
            LinkOperation::ADD_LINK,
            LinkOperation::UPDATE_LINK,
            LinkOperation::DELETE_LINK,
            LinkOperation::COUNT_LINK,
            LinkOperation::MULTIGET_LINK,
            LinkOperation::GET_LINK_LIST,
            LinkOperation::ADD_NODE,
            LinkOperation::UPDATE_NODE,
            LinkOperation::DELETE_NODE,
            LinkOperation::GET_NODE,
        ]
    }

    fn settings(&self) -> Value {
        let plan = &self.plan;
        json!({
            "store": plan.store.schema,
            "startid1": plan.first_id,
            "maxid1": plan.last_id + 1,
            "link_type_count": plan.link_types,
            "links_max": plan.links_max,
            "mix": plan.mix,
            "link_datasize": plan.link_bytes,
            "node_datasize": plan.node_bytes,
            "loader_chunk_size": plan.chunk,
            "batch": plan.batch,
            "getlinklist_history": plan.history_percent,
            "transactions": plan.store.transactions,
        })
    }

    fn database(&self) -> &'static str {
        self.plan.store.database()
    }

    fn collections(&self) -> Vec<Collection> {
        let store = self.plan.store;
        let collection = |name: &str, documents: u64, indexes: Vec<Index>| Collection {
            database: store.database(),
            name: name.to_owned(),
            indexes,
            // Runs add and remove nodes and add links.
            documents: documents / 2 + 1..=u64::MAX,
            sequence: false,
            sharding: None,
        };
        let list = Index::on(&["id1", "link_type", "visibility", "time", "id2", "version", "data"]);
        let (links, counts) = match store.schema {
            Schema::Lbx => (
                vec![Index::on(&["link_type", "id1", "id2"]).unique(), list],
                vec![Index::on(&["id", "link_type"]).unique()],
            ),
            Schema::Lbm => (vec![list.after_load()], Vec::new()),
        };
        let (degrees, [node, link, count]) = (self.plan.degrees(), store.names());
        vec![
            Collection { sequence: true, ..collection(node, self.plan.nodes(), Vec::new()) },
            collection(link, degrees.sum(), links),
            collection(count, degrees.pairs(), counts),
        ]
    }

    fn loaders(&self, threads: usize) -> Vec<Box<dyn Client>> {
        load::streams(&self.plan, threads)
    }

    fn resume(&self, found: &[Found]) {
        let last = found.first().and_then(|nodes| nodes.last_id).unwrap_or(self.plan.last_id);
        self.next_id.fetch_max(last + 1, Ordering::Relaxed);
    }

    fn client(&self, _place: Place, seed: u64) -> Box<dyn Client> {
        Box::new(requests::Requester::new(self.plan, self.access.clone(), self.next_id.clone(), seed))
    }
}
