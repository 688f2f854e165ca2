//! The load: one stream of nodes, and streams of links and counts that share chunks of ids (spec/workloads.md 7.6).

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

use super::degrees::Degrees;
use super::payload::Payload;
use super::{Count, FIRST_LINK_TYPE, Link, LinkOperation, Node, Plan, now_ms};
use crate::workload::{Client, Execute, Operation, Random, Unit};

/// The stream of nodes and `threads` streams of links.
pub(super) fn streams(plan: &Plan, threads: usize) -> Vec<Box<dyn Client>> {
    // Chunks are queued highest first; the number is that of the next one's first id.
    let last_chunk = (plan.last_id - plan.first_id) / plan.chunk;
    let queue = Arc::new(AtomicI64::new(last_chunk));
    let degrees = Arc::new(plan.degrees());
    let mut random = Random::new(0);
    let payload = Payload::nodes(plan.node_bytes, 512, &mut random);
    let mut streams: Vec<Box<dyn Client>> =
        vec![Box::new(Nodes { plan: *plan, next: plan.first_id, random, payload, data: Vec::new() })];
    streams.extend((0..threads.max(1)).map(|number| {
        let mut random = Random::new(number as u64 + 1);
        let payload = Payload::links(plan.link_bytes, plan.link_motif_bytes(), &mut random);
        let (queue, degrees) = (queue.clone(), degrees.clone());
        let links = Links { plan: *plan, queue, degrees, payload, random, at: None, batch: Batch::default() };
        Box::new(links) as Box<dyn Client>
    }));
    streams
}

struct Nodes {
    plan: Plan,
    next: i64,
    random: Random,
    payload: Payload,
    /// One buffer per node of the batch.
    data: Vec<Vec<u8>>,
}

impl Client for Nodes {
    fn unit(&mut self, execute: &mut Execute<'_>) -> Unit {
        let count = ((self.plan.last_id - self.next + 1).max(0) as usize).min(self.plan.batch);
        if count == 0 {
            return Unit::Finished;
        }
        self.data.resize_with(count, Vec::new);
        for data in &mut self.data {
            self.payload.fill(&mut self.random, data);
        }
        let time = (now_ms() / 1000) as i32;
        let nodes: Vec<Node<'_>> =
            (self.next..).zip(&self.data).map(|(id, data)| Node { id, version: 1, time, data }).collect();
        let answer = execute(&Operation::Link(self.plan.store, LinkOperation::LoadNodes(&nodes)));
        self.next += count as i64;
        answer.map_or(Unit::Abandoned, |_| Unit::Complete(&[]))
    }
}

/// Position of a stream of links.
#[derive(Clone, Copy, Debug)]
struct At {
    id1: i64,
    /// The chunk's last id.
    last: i64,
    /// From 0.
    link_type: i64,
    /// The next link, of `links`.
    link: u64,
    links: u64,
    newest: i64,
}

struct Links {
    plan: Plan,
    queue: Arc<AtomicI64>,
    degrees: Arc<Degrees>,
    payload: Payload,
    random: Random,
    at: Option<At>,
    batch: Batch,
}

/// Rows to be inserted. Data is separate from the links, because links borrow it.
#[derive(Default)]
struct Batch {
    links: Vec<Link<'static>>,
    data: Vec<Vec<u8>>,
    counts: Vec<Count>,
}

impl Links {
    /// The first place of the next chunk.
    fn take_chunk(&mut self) -> Option<At> {
        let chunk = self.queue.fetch_sub(1, Ordering::Relaxed);
        if chunk < 0 {
            return None;
        }
        // The chunk's own numbers, whichever thread loads it.
        self.random = Random::new((1 << 32) + chunk as u64);
        let id1 = self.plan.first_id + chunk * self.plan.chunk;
        let last = (id1 + self.plan.chunk - 1).min(self.plan.last_id);
        Some(self.place(id1, last, 0))
    }

    fn place(&self, id1: i64, last: i64, link_type: i64) -> At {
        let links = self.degrees.links((id1 - self.plan.first_id) as u64, link_type as u64);
        At { id1, last, link_type, link: 0, links, newest: i64::MIN }
    }

    fn after(&self, at: At) -> Option<At> {
        if at.link_type + 1 < self.plan.link_types {
            return Some(self.place(at.id1, at.last, at.link_type + 1));
        }
        (at.id1 < at.last).then(|| self.place(at.id1 + 1, at.last, 0))
    }

    /// Makes links and counts until one of them fills a batch, or all are made.
    fn fill(&mut self) {
        while self.batch.links.len() < self.plan.batch && self.batch.counts.len() < self.plan.batch {
            let Some(mut at) = self.at.take().or_else(|| self.take_chunk()) else { return };
            if at.link < at.links {
                self.add_link(&mut at);
                self.at = Some(at);
            } else {
                self.add_count(at);
                self.at = self.after(at);
            }
        }
    }

    fn add_link(&mut self, at: &mut At) {
        let time = now_ms() - (1 << 32) + self.random.below(1 << 32) as i64;
        at.newest = at.newest.max(time);
        let position = self.batch.links.len();
        if self.batch.data.len() <= position {
            self.batch.data.push(Vec::new());
        }
        if let Some(data) = self.batch.data.get_mut(position) {
            self.payload.fill(&mut self.random, data);
        }
        let link_type = FIRST_LINK_TYPE + at.link_type;
        self.batch.links.push(Link {
            id1: at.id1,
            link_type,
            id2: at.id1 + at.link as i64,
            data: &[],
            time,
            version: 0,
        });
        at.link += 1;
    }

    fn add_count(&mut self, at: At) {
        if at.links > 0 {
            let link_type = FIRST_LINK_TYPE + at.link_type;
            let count = Count { id: at.id1, link_type, count: at.links as i64, time: at.newest, version: 0 };
            self.batch.counts.push(count);
        }
    }
}

impl Client for Links {
    fn unit(&mut self, execute: &mut Execute<'_>) -> Unit {
        self.fill();
        let (store, batch) = (self.plan.store, &mut self.batch);
        let at_end = self.at.is_none() && batch.links.len() < self.plan.batch;
        let answer = if batch.links.len() >= self.plan.batch || (at_end && !batch.links.is_empty()) {
            let links: Vec<Link<'_>> =
                batch.links.iter().zip(&batch.data).map(|(link, data)| Link { data, ..*link }).collect();
            let answer = execute(&Operation::Link(store, LinkOperation::LoadLinks(&links)));
            batch.links.clear();
            answer
        } else if !batch.counts.is_empty() {
            let answer = execute(&Operation::Link(store, LinkOperation::LoadCounts(&batch.counts)));
            batch.counts.clear();
            answer
        } else {
            return Unit::Finished;
        };
        answer.map_or(Unit::Abandoned, |_| Unit::Complete(&[]))
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use crate::workload::linkbench::Settings;
    use crate::workload::{Answer, Mode};

    #[test]
    fn every_node_link_and_count_is_loaded_once() {
        let settings = serde_json::json!({ "maxid1": 6001, "loader_chunk_size": 500, "batch": 100 });
        let plan = serde_json::from_value::<Settings>(settings).unwrap().plan(Mode::Compat).unwrap();
        let (mut nodes, mut links, mut counts) = (Vec::new(), BTreeMap::new(), BTreeMap::new());
        for mut stream in streams(&plan, 3) {
            while stream.unit(&mut |operation| {
                let Operation::Link(_, operation) = operation else { panic!("{operation:?}") };
                match operation {
                    LinkOperation::LoadNodes(batch) => {
                        assert!(batch.len() <= 100 && batch.iter().all(|node| node.version == 1));
                        nodes.extend(batch.iter().map(|node| node.id));
                    }
                    LinkOperation::LoadLinks(batch) => {
                        assert!(!batch.is_empty() && batch.len() <= 100);
                        for link in *batch {
                            assert!(links.insert((link.id1, link.link_type, link.id2), link.time).is_none());
                        }
                    }
                    LinkOperation::LoadCounts(batch) => {
                        assert!(!batch.is_empty() && batch.len() <= 100);
                        batch.iter().for_each(|count| {
                            assert!(counts.insert((count.id, count.link_type), (count.count, count.time)).is_none());
                        });
                    }
                    other => panic!("{other:?}"),
                }
                Some(Answer::rows(1))
            }) != Unit::Finished
            {}
        }
        assert_eq!(nodes, (1..=6000).collect::<Vec<i64>>());
        let degrees = plan.degrees();
        assert_eq!((links.len() as u64, counts.len() as u64), (degrees.sum(), degrees.pairs()));
        for ((id, link_type), (count, time)) in counts {
            let own: Vec<_> = links.range((id, link_type, 0)..=(id, link_type, i64::MAX)).collect();
            assert_eq!(own.len() as i64, count);
            assert_eq!(own.iter().map(|(_, time)| **time).max(), Some(time));
            assert_eq!(
                own.iter().map(|((_, _, id2), _)| *id2).collect::<Vec<_>>(),
                (id..id + count).collect::<Vec<_>>()
            );
        }
    }
}
