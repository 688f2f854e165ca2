//! Number of links that a node was loaded with: LinkBench's "real" distribution (spec/workloads.md 7.5).

use super::shuffler::Shuffler;
use crate::workload::Mode;

/// Links of a node and the percentage of nodes with at most that number. Between the points the share of nodes with more
/// falls along a straight line on logarithmic axes, which repeats the mean of LinkBench's 19,951 points within 0.4 %.
const POINTS: [(u32, f64); 44] = [
    (0, 45.331606),
    (1, 77.462591),
    (2, 86.95806),
    (3, 91.993054),
    (4, 94.450799),
    (5, 95.828072),
    (6, 96.722528),
    (7, 97.320089),
    (8, 97.761423),
    (9, 98.077677),
    (10, 98.328034),
    (12, 98.700257),
    (15, 99.026879),
    (20, 99.326956),
    (25, 99.47017),
    (30, 99.556939),
    (40, 99.661414),
    (50, 99.72156),
    (75, 99.796275),
    (100, 99.831361),
    (150, 99.866219),
    (200, 99.885135),
    (300, 99.906066),
    (500, 99.927464),
    (750, 99.941633),
    (1000, 99.950659),
    (1500, 99.962085),
    (2000, 99.969372),
    (3000, 99.978549),
    (5000, 99.987453),
    (7500, 99.992445),
    (10000, 99.995045),
    (15000, 99.997498),
    (19998, 99.998538),
    (30000, 99.999384),
    (49994, 99.999814),
    (74956, 99.999931),
    (99383, 99.999963),
    (148352, 99.999982),
    (198095, 99.99999),
    (297564, 99.999997),
    (485372, 99.9999993),
    (906857, 99.9999997),
    (961963, 100.0),
];

/// LinkBench's seed for out-degrees; correlated access uses it too, so that busy nodes have many links.
pub(super) const SEED: i64 = 20343988438726021;

/// Distribution of a node's links over link types.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sharing {
    /// LinkBench and LinkBenchX: what is left over is reckoned as `total - total / types` (compat trap 2).
    Original,
    /// The intended rule: `total % types` types get one more.
    Meant,
    /// The maintained fork: every type the same, at least one.
    Equal,
}

impl Sharing {
    pub fn of(lbm: bool, mode: Mode) -> Sharing {
        match (lbm, mode) {
            (true, _) => Sharing::Equal,
            (false, Mode::Compat) => Sharing::Original,
            (false, Mode::Fixed) => Sharing::Meant,
        }
    }

    /// Links of type number `link_type` (from 0) of a node with `total`.
    pub fn links(self, total: u64, link_type: u64, types: u64) -> u64 {
        let each = total / types;
        let left = match self {
            Sharing::Original => total - each,
            Sharing::Meant => total % types,
            Sharing::Equal => return total.max(types) / types,
        };
        if link_type < left { each + 1 } else { each }
    }
}

#[derive(Clone, Debug)]
pub struct Degrees {
    nodes: u64,
    types: u64,
    /// Links of one node at most.
    most: u64,
    sharing: Sharing,
    shuffler: Shuffler,
}

impl Degrees {
    pub fn new(nodes: u64, types: u64, sharing: Sharing) -> Degrees {
        Degrees { nodes, types, most: u64::MAX, sharing, shuffler: Shuffler::new(SEED, nodes) }
    }

    /// Cuts the tail off the table: nodes with more than `most` links get `most`.
    pub fn at_most(self, most: u64) -> Degrees {
        Degrees { most, ..self }
    }

    /// Loaded links of type number `link_type` of the node `index` (its id less the first id).
    pub fn links(&self, index: u64, link_type: u64) -> u64 {
        let rank = self.shuffler.inverse(index.min(self.nodes - 1));
        self.sharing.links(self.total(rank), link_type, self.types)
    }

    /// Links of all types of the node with shuffled rank `rank`; rank 0 has most.
    fn total(&self, rank: u64) -> u64 {
        self.of_table(rank).min(self.most)
    }

    fn of_table(&self, rank: u64) -> u64 {
        let share = rank as f64 / self.nodes as f64;
        let more_than = |percent: f64| (100.0 - percent) / 100.0;
        // The first point at which no more than `share` of the nodes have more links.
        let at = POINTS.partition_point(|(_, percent)| more_than(*percent) > share);
        let (value, percent) = POINTS.get(at).copied().unwrap_or((0, 0.0));
        let Some((before, before_percent)) = at.checked_sub(1).and_then(|at| POINTS.get(at)).copied() else {
            return value.into();
        };
        if value == before + 1 || more_than(percent) <= 0.0 {
            return value.into();
        }
        let (high, low) = (more_than(before_percent).ln(), more_than(percent).ln());
        let part = (high - share.ln()) / (high - low);
        let (from, to) = (f64::from(before).ln(), f64::from(value).ln());
        ((from + part * (to - from)).exp().ceil() as u64).min(value.into())
    }

    /// Returns all links of all nodes. Ranks of equal totals are contiguous, so few of them are computed.
    pub fn sum(&self) -> u64 {
        self.runs().map(|(total, count)| count * self.of_all_types(total)).sum()
    }

    /// Pairs of a node and a link type with at least one link: the documents of the count collection.
    pub fn pairs(&self) -> u64 {
        let has_links = |total, link_type| self.sharing.links(total, link_type, self.types) > 0;
        let pairs = |total| (0..self.types).filter(move |link_type| has_links(total, *link_type));
        self.runs().map(|(total, count)| count * pairs(total).count() as u64).sum()
    }

    fn of_all_types(&self, total: u64) -> u64 {
        (0..self.types).map(|link_type| self.sharing.links(total, link_type, self.types)).sum()
    }

    /// Each total that occurs, with the number of nodes that have it.
    fn runs(&self) -> impl Iterator<Item = (u64, u64)> {
        let mut rank = 0;
        std::iter::from_fn(move || {
            if rank >= self.nodes {
                return None;
            }
            let total = self.total(rank);
            let (mut low, mut high) = (rank, self.nodes);
            while low + 1 < high {
                let middle = low + (high - low) / 2;
                if self.total(middle) == total { low = middle } else { high = middle }
            }
            let count = high - rank;
            rank = high;
            Some((total, count))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sum(nodes: u64, sharing: Sharing) -> f64 {
        Degrees::new(nodes, 2, sharing).sum() as f64
    }

    #[test]
    fn totals_are_those_of_the_vectors() {
        let near = |found: f64, expect: f64| (found / expect - 1.0).abs() < 0.004;
        let found = [
            sum(10_000_000, Sharing::Meant) / 1e6,
            sum(10_000_000, Sharing::Original) / 1e6,
            sum(1_000_000, Sharing::Meant) / 1e6,
        ];
        assert!(near(found[0], 41.72) && near(found[1], 44.46) && near(found[2], 4.976), "{found:?}");
        let degrees = Degrees::new(10_000_000, 2, Sharing::Original);
        assert_eq!(degrees.total(0), 961_963);
        let busy: u64 =
            degrees.runs().filter(|(total, _)| Sharing::Original.links(*total, 0, 2) > 10_000).map(|run| run.1).sum();
        assert!((146..=148).contains(&busy), "{busy}");
    }

    #[test]
    fn without_the_tail_only_the_busiest_change() {
        let whole = Degrees::new(100_000, 2, Sharing::Original);
        let most = Degrees::new(100_000, 2, Sharing::Original).at_most(20_000);
        for rank in 0..100_000 {
            assert_eq!(most.total(rank), whole.total(rank).min(20_000));
        }
        let capped: u64 = most.runs().filter(|(total, _)| *total == 20_000).map(|(_, count)| count).sum();
        assert!((1..=3).contains(&capped) && most.pairs() == whole.pairs(), "{capped}");
        // Of the whole table a few nodes have two thirds of the links of a hundred thousand.
        assert!(
            (400_000..460_000).contains(&most.sum()) && whole.sum() > 3 * most.sum(),
            "{} {}",
            most.sum(),
            whole.sum()
        );
    }

    #[test]
    fn totals_follow_the_points() {
        let degrees = Degrees::new(1_000_000, 2, Sharing::Meant);
        for (value, percent) in POINTS.into_iter().take_while(|(value, _)| *value <= 1000) {
            let more: u64 = degrees.runs().filter(|(total, _)| *total > u64::from(value)).map(|run| run.1).sum();
            let expect = (100.0 - percent) / 100.0 * 1e6;
            assert!((more as f64 - expect).abs() <= 2.0, "more than {value}: {more}, not {expect}");
        }
    }

    #[test]
    fn types_share_as_each_program_does() {
        let shares = |sharing: Sharing| {
            [0, 1, 2, 3, 4, 5].map(|total| [0, 1].map(|link_type| sharing.links(total, link_type, 2)))
        };
        assert_eq!(shares(Sharing::Original), [[0, 0], [1, 0], [2, 1], [2, 2], [3, 3], [3, 3]]);
        assert_eq!(shares(Sharing::Meant), [[0, 0], [1, 0], [1, 1], [2, 1], [2, 2], [3, 2]]);
        assert_eq!(shares(Sharing::Equal), [[1, 1], [1, 1], [1, 1], [1, 1], [2, 2], [2, 2]]);
    }

    #[test]
    fn every_node_is_counted_once() {
        let degrees = Degrees::new(5000, 2, Sharing::Original);
        let one_by_one: u64 = (0..5000).flat_map(|index| [0, 1].map(|link_type| degrees.links(index, link_type))).sum();
        assert_eq!(one_by_one, degrees.sum());
        let pairs =
            (0..5000).flat_map(|index| [0, 1].map(|link_type| degrees.links(index, link_type))).filter(|n| *n > 0);
        assert_eq!(pairs.count() as u64, degrees.pairs());
    }
}
