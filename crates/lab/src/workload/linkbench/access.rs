//! Which node an operation is about, and in what proportions operations come (spec/workloads.md 7.4, 7.5).

use serde::{Deserialize, Serialize};

use super::degrees::{Degrees, SEED};
use super::shuffler::Shuffler;
use super::{LinkOperation, Plan, Schema};
use crate::workload::zipf::Zipf;
use crate::workload::{Kind, Mode, Random};

/// Shared by every "uncorrelated" distribution, so links that are often read are often written.
const UNCORRELATED_SEED: i64 = 53238253823453;
const NODE_SEED: i64 = 4766565305853767165;
/// Multigets: the geometric distribution's probability.
const MULTIGET: f64 = 0.382;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum OperationMix {
    /// Facebook's load of 2011, of LinkBench and LinkBenchX.
    #[serde(rename = "2011")]
    Of2011,
    /// The maintained fork's refresh.
    #[serde(rename = "2017")]
    Of2017,
}

impl OperationMix {
    /// Percentages in the order of selection.
    pub fn percentages(self) -> [(Kind, f64); 10] {
        let shares = match self {
            OperationMix::Of2011 => [
                8.9886601, 2.9907664, 8.0122125, 4.8863567, 0.5261142, 50.7119145, 2.5732789, 7.366437, 1.0115914,
                12.9326683,
            ],
            OperationMix::Of2017 => {
                [5.35038, 0.98401, 4.75589, 4.27898, 12.14725, 22.57039, 2.61198, 3.06256, 0.25166, 43.9869]
            }
        };
        let kinds = [
            LinkOperation::ADD_LINK,
            LinkOperation::DELETE_LINK,
            LinkOperation::UPDATE_LINK,
            LinkOperation::COUNT_LINK,
            LinkOperation::MULTIGET_LINK,
            LinkOperation::GET_LINK_LIST,
            LinkOperation::ADD_NODE,
            LinkOperation::UPDATE_NODE,
            LinkOperation::DELETE_NODE,
            LinkOperation::GET_NODE,
        ];
        std::array::from_fn(|at| (kinds[at], shares[at]))
    }

    /// The first operation whose cumulative bound is not below the draw.
    pub fn choose(self, random: &mut Random) -> Kind {
        let draw = random.unit() * 100.0;
        let mut bound = 0.0;
        for (kind, percent) in self.percentages() {
            bound += percent;
            if bound >= draw {
                return kind;
            }
        }
        LinkOperation::GET_NODE
    }
}

/// Purpose of the second id of a link operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Purpose {
    Add,
    Change,
    Get,
}

impl Purpose {
    /// The part of operations that are meant to hit a loaded link.
    fn probability(self) -> f64 {
        match self {
            Purpose::Add => 0.05,
            Purpose::Change => 0.9,
            Purpose::Get => 0.5,
        }
    }
}

/// Shared by all clients, not changed by any.
#[derive(Clone, Debug)]
pub struct Access {
    first_id: i64,
    schema: Schema,
    mode: Mode,
    degrees: Degrees,
    correlated: Shuffler,
    uncorrelated: Shuffler,
    nodes: Shuffler,
    link_read: Zipf,
    link_write_correlated: Zipf,
    link_write: Zipf,
    write_uncorrelated_share: f64,
    node_read: Zipf,
    node_update: Zipf,
}

impl Access {
    pub fn new(plan: &Plan) -> Access {
        let n = plan.nodes();
        // The original looks up the settings of uncorrelated writes under the name of those of reads (compat trap 1).
        let compat = plan.store.mode == Mode::Compat;
        Access {
            first_id: plan.first_id,
            schema: plan.store.schema,
            mode: plan.store.mode,
            degrees: plan.degrees(),
            correlated: Shuffler::new(SEED, n),
            uncorrelated: Shuffler::new(UNCORRELATED_SEED, n),
            nodes: Shuffler::new(NODE_SEED, n),
            link_read: Zipf::linkbench(n, 0.8),
            link_write_correlated: Zipf::linkbench(n, 0.741),
            link_write: Zipf::linkbench(n, if compat { 0.8 } else { 0.741 }),
            write_uncorrelated_share: if compat { 0.995 } else { 0.95 },
            node_read: Zipf::linkbench(n, 0.625),
            node_update: Zipf::linkbench(n, 0.606),
        }
    }

    fn id(&self, shuffler: &Shuffler, zipf: &Zipf, random: &mut Random) -> i64 {
        self.first_id + shuffler.forward(zipf.rank(random.unit())) as i64
    }

    pub fn link_read(&self, random: &mut Random) -> i64 {
        let shuffler = if random.unit() < 0.995 { &self.uncorrelated } else { &self.correlated };
        self.id(shuffler, &self.link_read, random)
    }

    pub fn link_write(&self, random: &mut Random) -> i64 {
        match random.unit() < self.write_uncorrelated_share {
            true => self.id(&self.uncorrelated, &self.link_write, random),
            false => self.id(&self.correlated, &self.link_write_correlated, random),
        }
    }

    pub fn node_read(&self, random: &mut Random) -> i64 {
        self.id(&self.nodes, &self.node_read, random)
    }

    pub fn node_update(&self, random: &mut Random) -> i64 {
        self.id(&self.nodes, &self.node_update, random)
    }

    pub fn node_delete(&self, random: &mut Random) -> i64 {
        self.first_id + random.below(self.link_read.items()) as i64
    }

    /// The range of second ids that hits loaded links with the purpose's probability.
    fn range(&self, id1: i64, link_type: i64, purpose: Purpose) -> (u64, u64) {
        let links = self.degrees.links((id1 - self.first_id) as u64, link_type as u64);
        (links, ((links as f64 / purpose.probability()).ceil() as u64).max(1))
    }

    /// The second id of a link operation; `link_type` counts from 0.
    pub fn id2(&self, id1: i64, link_type: i64, purpose: Purpose, random: &mut Random) -> i64 {
        let (links, range) = self.range(id1, link_type, purpose);
        if self.schema == Schema::Lbx {
            return id1 + random.below(range) as i64;
        }
        match links > 0 && random.unit() < purpose.probability() {
            true => id1 + random.below(links) as i64,
            false => random.below(self.first_id as u64 + self.link_read.items()) as i64,
        }
    }

    /// The second ids of a multiget, all different.
    pub fn id2s(&self, id1: i64, link_type: i64, random: &mut Random, ids: &mut Vec<i64>) {
        const TRIES: usize = 100;
        ids.clear();
        let count = self.multiget_count(random);
        let (_, range) = self.range(id1, link_type, Purpose::Get);
        if self.schema == Schema::Lbx && range <= count {
            ids.extend((0..count as i64).map(|j| id1 + j));
            return;
        }
        for _ in 0..count {
            let fresh = (0..TRIES).map(|_| self.id2(id1, link_type, Purpose::Get, random)).find(|id| !ids.contains(id));
            ids.extend(fresh);
        }
    }

    /// Returns the number of links of a multiget: geometric; the original begins at 2 (compat trap 3).
    fn multiget_count(&self, random: &mut Random) -> u64 {
        let steps = (1.0 - random.unit()).ln() / (1.0 - MULTIGET).ln();
        match self.mode {
            Mode::Compat => (1 + steps.ceil() as u64).min(127),
            Mode::Fixed => (1 + steps.floor() as u64).min(128),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workload::linkbench::Settings;

    /// The image of rank 0 of ten million, at ids from 1.
    const HOTTEST: i64 = 1 + 5_915_648;

    fn access(settings: serde_json::Value, mode: Mode) -> Access {
        Access::new(&serde_json::from_value::<Settings>(settings).unwrap().plan(mode).unwrap())
    }

    fn of(nodes: i64, mode: Mode) -> Access {
        access(serde_json::json!({ "maxid1": nodes + 1 }), mode)
    }

    #[test]
    fn the_mix_is_that_of_the_text() {
        let mut random = Random::new(1);
        for mix in [OperationMix::Of2011, OperationMix::Of2017] {
            let sum: f64 = mix.percentages().iter().map(|(_, percent)| percent).sum();
            assert!((sum - 100.0).abs() < 1e-5, "{sum}");
            let mut counts = std::collections::HashMap::new();
            (0..200_000).for_each(|_| *counts.entry(mix.choose(&mut random)).or_insert(0u32) += 1);
            for (kind, percent) in mix.percentages() {
                let found = f64::from(counts[&kind]) / 2000.0;
                assert!((found - percent).abs() < 0.35, "{}: {found} %, not {percent} %", kind.name());
            }
        }
    }

    /// At 10 M nodes the list of an uncorrelated read has 2.07 links and is empty in 61 % of cases (fixed counts).
    #[test]
    fn reads_find_what_the_specification_computed() {
        let (access, mut random) = (of(10_000_000, Mode::Fixed), Random::new(3));
        let (mut links, mut empty) = (0, 0);
        let draws = 20_000;
        for _ in 0..draws {
            let id = access.id(&access.uncorrelated, &access.link_read, &mut random);
            let found = access.degrees.links((id - 1) as u64, random.below(2));
            links += found.min(10_000);
            empty += u64::from(found == 0);
        }
        let (mean, empty) = (links as f64 / draws as f64, empty as f64 / draws as f64);
        assert!((0.59..0.63).contains(&empty), "{empty}");
        assert!((1.2..3.6).contains(&mean), "{mean}");
        // Rank 0 gets 0.825 %.
        let hot = (0..draws).filter(|_| access.link_read(&mut random) == HOTTEST).count() as f64 / draws as f64;
        assert!((0.0065..0.0101).contains(&hot), "{hot}");
    }

    #[test]
    fn writes_of_compat_mode_follow_the_reads() {
        let hot_share = |mode| {
            let (access, mut random) = (of(10_000_000, mode), Random::new(4));
            (0..40_000).filter(|_| access.link_write(&mut random) == HOTTEST).count() as f64 / 40_000.0
        };
        assert!((hot_share(Mode::Compat) - 0.0082).abs() < 0.0015);
        assert!((hot_share(Mode::Fixed) - 0.0038).abs() < 0.0011);
    }

    #[test]
    fn second_ids_hit_as_often_as_meant() {
        let (access, mut random) = (of(100_000, Mode::Compat), Random::new(5));
        let id1 = (1..100_000).find(|id| access.degrees.links(id - 1, 0) == 1).unwrap() as i64;
        let hits = (0..10_000).filter(|_| access.id2(id1, 0, Purpose::Change, &mut random) == id1).count();
        assert!((4700..5300).contains(&hits), "{hits}");
        let none = (1..100_000).find(|id| access.degrees.links(id - 1, 0) == 0).unwrap() as i64;
        assert!((0..100).all(|_| access.id2(none, 0, Purpose::Add, &mut random) == none));
        let lbm = access_lbm();
        let many = (1..100_000).find(|id| lbm.degrees.links(id - 1, 0) > 20).unwrap() as i64;
        let links = lbm.degrees.links(many as u64 - 1, 0) as i64;
        let hits =
            (0..10_000).filter(|_| (many..many + links).contains(&lbm.id2(many, 0, Purpose::Change, &mut random)));
        let hits = hits.count();
        assert!((8800..9200).contains(&hits), "{hits}");
    }

    fn access_lbm() -> Access {
        access(serde_json::json!({ "maxid1": 100_001, "store": "lbm" }), Mode::Compat)
    }

    #[test]
    fn multigets_begin_at_two_in_compat_mode() {
        for (mode, least, mean) in [(Mode::Compat, 2, 3.62), (Mode::Fixed, 1, 2.62)] {
            let (access, mut random) = (of(1000, mode), Random::new(6));
            let counts: Vec<u64> = (0..50_000).map(|_| access.multiget_count(&mut random)).collect();
            let found = counts.iter().sum::<u64>() as f64 / 50_000.0;
            assert!((found - mean).abs() < 0.05 && counts.iter().min() == Some(&least), "{found}");
            let mut ids = Vec::new();
            for id1 in 1..500 {
                access.id2s(id1, 0, &mut random, &mut ids);
                let mut unique = ids.clone();
                unique.sort_unstable();
                unique.dedup();
                assert!(!ids.is_empty() && unique.len() == ids.len());
            }
        }
    }
}
