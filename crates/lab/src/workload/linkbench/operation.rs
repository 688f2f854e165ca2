//! LinkBench's operations on a graph store (spec/workloads.md 7.2, 7.7).

use serde::{Deserialize, Serialize};

use crate::workload::{Kind, Mode};

/// Links are visible or hidden; deleting hides.
pub const VISIBLE: i32 = 1;
pub const HIDDEN: i32 = 0;
/// Every node's type.
pub const NODE_TYPE: i32 = 2048;
/// The first link type; the others follow.
pub const FIRST_LINK_TYPE: i64 = 123_456_789;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Link<'a> {
    pub id1: i64,
    pub link_type: i64,
    pub id2: i64,
    pub data: &'a [u8],
    /// Milliseconds.
    pub time: i64,
    pub version: i32,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Node<'a> {
    pub id: i64,
    pub version: i64,
    /// Seconds.
    pub time: i32,
    pub data: &'a [u8],
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Count {
    pub id: i64,
    pub link_type: i64,
    pub count: i64,
    pub time: i64,
    pub version: i64,
}

/// The links of a node of one type with times `time_min..=time_max`, newest first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct List {
    pub id1: i64,
    pub link_type: i64,
    pub time_min: i64,
    pub time_max: i64,
    pub offset: i64,
    pub limit: i64,
}

#[derive(Clone, Copy, Debug)]
pub enum LinkOperation<'a> {
    AddLink(Link<'a>),
    UpdateLink(Link<'a>),
    DeleteLink { id1: i64, link_type: i64, id2: i64, time: i64 },
    CountLink { id1: i64, link_type: i64 },
    MultigetLink { id1: i64, link_type: i64, id2s: &'a [i64] },
    GetLinkList(List),
    AddNode(Node<'a>),
    UpdateNode(Node<'a>),
    DeleteNode { id: i64 },
    GetNode { id: i64 },
    LoadLinks(&'a [Link<'a>]),
    LoadCounts(&'a [Count]),
    LoadNodes(&'a [Node<'a>]),
}

/// The schema and the commands of one of the MongoDB stores.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Schema {
    /// LinkBenchX's, of founding text 000: ObjectIds and unique indexes.
    Lbx,
    /// The maintained fork's "MongoDb2": the identity of a link or a count is its `_id`.
    Lbm,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Store {
    pub schema: Schema,
    pub mode: Mode,
    /// One transaction per operation that takes several commands; needs a replica set.
    pub transactions: bool,
}

impl Store {
    pub fn database(&self) -> &'static str {
        match self.schema {
            Schema::Lbx => "graph-linkbench",
            Schema::Lbm => "linkdb0",
        }
    }

    /// Names of the collections of nodes, links and counts.
    pub fn names(&self) -> [&'static str; 3] {
        match self.schema {
            Schema::Lbx => ["node", "link", "count"],
            Schema::Lbm => ["nodetable", "linktable", "counttable"],
        }
    }
}

impl LinkOperation<'_> {
    pub const ADD_LINK: Kind = Kind::new("add_link");
    pub const UPDATE_LINK: Kind = Kind::new("update_link");
    pub const DELETE_LINK: Kind = Kind::new("delete_link");
    pub const COUNT_LINK: Kind = Kind::new("count_link");
    pub const MULTIGET_LINK: Kind = Kind::new("multiget_link");
    pub const GET_LINK_LIST: Kind = Kind::new("get_links_list");
    pub const ADD_NODE: Kind = Kind::new("add_node");
    pub const UPDATE_NODE: Kind = Kind::new("update_node");
    pub const DELETE_NODE: Kind = Kind::new("delete_node");
    pub const GET_NODE: Kind = Kind::new("get_node");

    pub fn kind(&self) -> Kind {
        match self {
            LinkOperation::AddLink(_) => LinkOperation::ADD_LINK,
            LinkOperation::UpdateLink(_) => LinkOperation::UPDATE_LINK,
            LinkOperation::DeleteLink { .. } => LinkOperation::DELETE_LINK,
            LinkOperation::CountLink { .. } => LinkOperation::COUNT_LINK,
            LinkOperation::MultigetLink { .. } => LinkOperation::MULTIGET_LINK,
            LinkOperation::GetLinkList(_) => LinkOperation::GET_LINK_LIST,
            LinkOperation::AddNode(_) => LinkOperation::ADD_NODE,
            LinkOperation::UpdateNode(_) => LinkOperation::UPDATE_NODE,
            LinkOperation::DeleteNode { .. } => LinkOperation::DELETE_NODE,
            LinkOperation::GetNode { .. } => LinkOperation::GET_NODE,
            LinkOperation::LoadLinks(_) | LinkOperation::LoadCounts(_) | LinkOperation::LoadNodes(_) => {
                Kind::INSERT_BATCH
            }
        }
    }
}
