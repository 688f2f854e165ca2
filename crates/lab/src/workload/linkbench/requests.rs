//! One requester's operations (spec/workloads.md 7.7).

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

use super::access::{Access, Purpose};
use super::payload::Payload;
use super::{FIRST_LINK_TYPE, Link, LinkOperation, List, Node, Plan, now_ms};
use crate::workload::{Client, Execute, Kind, Operation, Random, Unit};

/// Rows of a list at most; a constant of the original.
const LIST_LIMIT: i64 = 10_000;
/// Lists remembered by a requester.
const HISTORY_MAX: usize = 2048;

pub(super) struct Requester {
    plan: Plan,
    access: Arc<Access>,
    next_id: Arc<AtomicI64>,
    random: Random,
    links: Payload,
    nodes: Payload,
    data: Vec<u8>,
    id2s: Vec<i64>,
    /// Lists that had as many rows as were asked for, up to the time of their last.
    history: Vec<List>,
}

impl Requester {
    pub(super) fn new(plan: Plan, access: Arc<Access>, next_id: Arc<AtomicI64>, seed: u64) -> Requester {
        let mut random = Random::new(seed);
        let links = Payload::links(plan.link_bytes, plan.link_motif_bytes(), &mut random);
        let nodes = Payload::nodes(plan.node_bytes, 512, &mut random);
        let (data, id2s, history) = (Vec::new(), Vec::new(), Vec::new());
        Requester { plan, access, next_id, random, links, nodes, data, id2s, history }
    }

    fn link_type(&mut self) -> i64 {
        self.random.below(self.plan.link_types as u64) as i64
    }

    /// Any operation but a list.
    fn operation(&mut self, kind: Kind) -> LinkOperation<'_> {
        match kind {
            LinkOperation::ADD_LINK => LinkOperation::AddLink(self.link(Purpose::Add)),
            LinkOperation::UPDATE_LINK => LinkOperation::UpdateLink(self.link(Purpose::Change)),
            LinkOperation::DELETE_LINK => {
                let Link { id1, link_type, id2, time, .. } = self.key(Purpose::Change);
                LinkOperation::DeleteLink { id1, link_type, id2, time }
            }
            LinkOperation::COUNT_LINK => {
                let id1 = self.access.link_read(&mut self.random);
                LinkOperation::CountLink { id1, link_type: FIRST_LINK_TYPE + self.link_type() }
            }
            LinkOperation::MULTIGET_LINK => {
                let (id1, link_type) = (self.access.link_read(&mut self.random), self.link_type());
                self.access.id2s(id1, link_type, &mut self.random, &mut self.id2s);
                LinkOperation::MultigetLink { id1, link_type: FIRST_LINK_TYPE + link_type, id2s: &self.id2s }
            }
            LinkOperation::ADD_NODE => {
                let id = self.next_id.fetch_add(1, Ordering::Relaxed);
                LinkOperation::AddNode(self.node(id, 1))
            }
            LinkOperation::UPDATE_NODE => {
                let id = self.access.node_update(&mut self.random);
                LinkOperation::UpdateNode(self.node(id, 2))
            }
            LinkOperation::DELETE_NODE => LinkOperation::DeleteNode { id: self.access.node_delete(&mut self.random) },
            _ => LinkOperation::GetNode { id: self.access.node_read(&mut self.random) },
        }
    }

    /// A link without its data.
    fn key(&mut self, purpose: Purpose) -> Link<'static> {
        let (id1, link_type) = (self.access.link_write(&mut self.random), self.link_type());
        let id2 = self.access.id2(id1, link_type, purpose, &mut self.random);
        Link { id1, link_type: FIRST_LINK_TYPE + link_type, id2, data: &[], time: now_ms(), version: 0 }
    }

    fn link(&mut self, purpose: Purpose) -> Link<'_> {
        let key = self.key(purpose);
        self.links.fill(&mut self.random, &mut self.data);
        Link { data: &self.data, ..key }
    }

    fn node(&mut self, id: i64, version: i64) -> Node<'_> {
        self.nodes.fill(&mut self.random, &mut self.data);
        Node { id, version, time: (now_ms() / 1000) as i32, data: &self.data }
    }

    /// A list, in a few cases the older part of one that had more rows than were read.
    fn list(&mut self, execute: &mut Execute<'_>) -> Unit {
        let from_history = self.random.unit() * 100.0 < self.plan.history_percent && !self.history.is_empty();
        let at = from_history.then(|| self.random.below(self.history.len() as u64) as usize);
        let list = match at.and_then(|at| self.history.get(at)) {
            Some(list) => *list,
            None => {
                let id1 = self.access.link_read(&mut self.random);
                let link_type = FIRST_LINK_TYPE + self.link_type();
                List { id1, link_type, time_min: 0, time_max: i64::MAX, offset: 0, limit: LIST_LIMIT }
            }
        };
        let operation = Operation::Link(self.plan.store, LinkOperation::GetLinkList(list));
        let Some(answer) = execute(&operation) else { return Unit::Abandoned };
        let more = answer.rows >= LIST_LIMIT as u64;
        // The last row was read already: the next part begins after it.
        let rest = List { time_max: answer.last_time, offset: 1, ..list };
        match (at, more) {
            (Some(at), true) => self.history[at] = rest,
            (Some(at), false) => drop(self.history.swap_remove(at)),
            (None, true) if self.history.len() < HISTORY_MAX => self.history.push(rest),
            (None, true) => {
                let at = self.random.below(HISTORY_MAX as u64) as usize;
                self.history[at] = rest;
            }
            (None, false) => {}
        }
        Unit::Complete(&[Kind::OPERATION])
    }
}

impl Client for Requester {
    fn unit(&mut self, execute: &mut Execute<'_>) -> Unit {
        let kind = self.plan.mix.choose(&mut self.random);
        if kind == LinkOperation::GET_LINK_LIST {
            return self.list(execute);
        }
        let store = self.plan.store;
        match execute(&Operation::Link(store, self.operation(kind))) {
            Some(_) => Unit::Complete(&[Kind::OPERATION]),
            None => Unit::Abandoned,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workload::linkbench::{LinkBench, Settings};
    use crate::workload::{Answer, Mode, Place, Workload};

    fn client(history: f64) -> Box<dyn Client> {
        let settings = serde_json::json!({ "maxid1": 10_001, "getlinklist_history": history });
        let settings: Settings = serde_json::from_value(settings).unwrap();
        LinkBench::new(Mode::Compat, &settings).unwrap().client(Place { number: 0, of: 1 }, 1)
    }

    #[test]
    fn operations_are_about_loaded_ids() {
        let (mut client, mut added) = (client(0.3), 10_001);
        for _ in 0..20_000 {
            client.unit(&mut |operation| {
                let Operation::Link(_, operation) = operation else { panic!("{operation:?}") };
                let loaded = |id: i64| assert!((1..=10_000).contains(&id), "{operation:?}");
                match *operation {
                    LinkOperation::AddLink(Link { id1, id2, version: 0, data, link_type, .. })
                    | LinkOperation::UpdateLink(Link { id1, id2, version: 0, data, link_type, .. }) => {
                        loaded(id1);
                        assert!(id2 >= id1 && data.len() <= 254 && (0..2).contains(&(link_type - FIRST_LINK_TYPE)));
                    }
                    LinkOperation::DeleteLink { id1, .. }
                    | LinkOperation::CountLink { id1, .. }
                    | LinkOperation::MultigetLink { id1, .. }
                    | LinkOperation::GetLinkList(List { id1, limit: 10_000, offset: 0, .. })
                    | LinkOperation::GetNode { id: id1 }
                    | LinkOperation::DeleteNode { id: id1 } => loaded(id1),
                    LinkOperation::UpdateNode(node) => {
                        loaded(node.id);
                        assert_eq!(node.version, 2);
                    }
                    LinkOperation::AddNode(node) => {
                        assert_eq!((node.id, node.version), (added, 1));
                        added += 1;
                    }
                    other => panic!("{other:?}"),
                }
                Some(Answer::rows(1))
            });
        }
        assert!(added > 10_300);
    }

    #[test]
    fn history_goes_back_in_time() {
        let (mut client, mut lists) = (client(50.0), Vec::new());
        for _ in 0..400 {
            client.unit(&mut |operation| {
                let Operation::Link(_, LinkOperation::GetLinkList(list)) = operation else {
                    return Some(Answer::rows(1));
                };
                lists.push(*list);
                // The first list has a second part, which is its last.
                let rows = if lists.len() == 1 { 10_000 } else { 7 };
                Some(Answer { rows, last_time: 77 })
            });
        }
        let older: Vec<_> = lists.iter().filter(|list| list.time_max != i64::MAX).collect();
        assert_eq!(older.len(), 1);
        assert_eq!((older[0].id1, older[0].time_max, older[0].offset), (lists[0].id1, 77, 1));
    }
}
