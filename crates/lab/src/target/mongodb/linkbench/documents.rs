//! The documents of links, counts and nodes, and what identifies them in each schema.

use arbor_bson::{ArrayBuf, DocBuf, ObjectId, ValueRef};

use crate::target::mongodb::object_ids::ObjectIds;
use crate::workload::linkbench::{Count, Link, NODE_TYPE, Node, Schema, VISIBLE};

pub(super) fn binary(bytes: &[u8]) -> ValueRef<'_> {
    ValueRef::Binary { subtype: 0, bytes }
}

/// An `_id` that is made here.
pub(super) enum Id {
    Object(ObjectId),
    Bytes(Vec<u8>),
}

impl Id {
    fn value(&self) -> ValueRef<'_> {
        match self {
            Id::Object(id) => ValueRef::ObjectId(*id),
            Id::Bytes(bytes) => binary(bytes),
        }
    }
}

/// Key documents of links and counts in a schema.
#[derive(Clone, Copy, Debug)]
pub(super) struct Keys(pub(super) Schema);

/// Big-endian, so that the order of the bytes is that of the numbers.
fn joined(numbers: &[i64]) -> Vec<u8> {
    numbers.iter().flat_map(|number| number.to_be_bytes()).collect()
}

impl Keys {
    /// The filter for one link.
    pub(super) fn link(self, link: &Link<'_>) -> DocBuf {
        match self.0 {
            Schema::Lbx => DocBuf::new().with("link_type", link.link_type).with("id1", link.id1).with("id2", link.id2),
            Schema::Lbm => DocBuf::new().with("_id", binary(&joined(&[link.link_type, link.id1, link.id2]))),
        }
    }

    /// The filter for several links of a node.
    pub(super) fn links(self, id1: i64, link_type: i64, id2s: &[i64]) -> DocBuf {
        match self.0 {
            Schema::Lbx => {
                let ids: ArrayBuf = id2s.iter().copied().collect();
                let among = DocBuf::new().with("$in", &ids);
                DocBuf::new().with("id1", id1).with("link_type", link_type).with("id2", &among)
            }
            Schema::Lbm => {
                let keys: Vec<Vec<u8>> = id2s.iter().map(|id2| joined(&[link_type, id1, *id2])).collect();
                let keys: ArrayBuf = keys.iter().map(|key| binary(key)).collect();
                DocBuf::new().with("_id", &DocBuf::new().with("$in", &keys))
            }
        }
    }

    /// The filter for one count.
    pub(super) fn count(self, id: i64, link_type: i64) -> DocBuf {
        match self.0 {
            Schema::Lbx => DocBuf::new().with("id", id).with("link_type", link_type),
            Schema::Lbm => DocBuf::new().with("_id", binary(&joined(&[id, link_type]))),
        }
    }

    pub(super) fn of_new_link(self, link: &Link<'_>, ids: &mut ObjectIds) -> Id {
        match self.0 {
            Schema::Lbx => Id::Object(ids.next()),
            Schema::Lbm => Id::Bytes(joined(&[link.link_type, link.id1, link.id2])),
        }
    }

    pub(super) fn of_new_count(self, count: &Count, ids: &mut ObjectIds) -> Id {
        match self.0 {
            Schema::Lbx => Id::Object(ids.next()),
            Schema::Lbm => Id::Bytes(joined(&[count.id, count.link_type])),
        }
    }
}

/// Returns the fields of a link that are not its identity.
pub(super) fn link_fields(link: &Link<'_>, visibility: i32) -> DocBuf {
    let fields = DocBuf::new().with("visibility", visibility).with("data", binary(link.data));
    fields.with("time", link.time).with("version", link.version)
}

pub(super) fn link_document(id: Id, link: &Link<'_>) -> DocBuf {
    DocBuf::new()
        .with("_id", id.value())
        .with("id1", link.id1)
        .with("id2", link.id2)
        .with("link_type", link.link_type)
        .with("data", binary(link.data))
        .with("time", link.time)
        .with("version", link.version)
        .with("visibility", VISIBLE)
}

pub(super) fn count_document(id: Id, count: &Count) -> DocBuf {
    let Count { id: node, link_type, count, time, version } = *count;
    DocBuf::new()
        .with("_id", id.value())
        .with("id", node)
        .with("link_type", link_type)
        .with("count", count)
        .with("time", time)
        .with("version", version)
}

pub(super) fn node_document(node: &Node<'_>) -> DocBuf {
    DocBuf::new()
        .with("_id", node.id)
        .with("type", NODE_TYPE)
        .with("version", node.version)
        .with("time", node.time)
        .with("data", binary(node.data))
}

/// The seven fields of the index that lists are read from, and nothing else.
pub(super) fn covered() -> DocBuf {
    let fields = ["id1", "link_type", "visibility", "time", "id2", "version", "data"];
    fields.iter().fold(DocBuf::new().with("_id", 0), |document, field| document.with(field, 1))
}
