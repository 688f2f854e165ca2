//! Which key an operation is about (spec/workloads.md 8.6).

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use super::keys::{KeyCounter, fnv};
use super::settings::{Distribution, Plan};
use crate::workload::zipf::{ExactZipf, Zipf};
use crate::workload::{Mode, Random};

const SHAPE: f64 = 0.99;
/// The items of scrambled Zipf, however many keys there are, and their sum.
const SCRAMBLED_ITEMS: u64 = 10_000_000_000;
const SCRAMBLED_SUM: f64 = 26.46902820178302;

/// One client's choice. The keys are `0..=keys.last()`.
#[derive(Clone, Debug)]
pub(super) struct Choice {
    sort: Sort,
    keys: Arc<KeyCounter>,
    loaded: u64,
}

#[derive(Clone, Debug)]
enum Sort {
    Uniform,
    /// Zipf over a fixed number of items, hashed to the keys that are expected: what YCSB calls zipfian.
    Scrambled {
        zipf: Zipf,
        keys_expected: u64,
    },
    /// Zipf over the keys, moved by a permutation.
    Exact {
        zipf: ExactZipf,
        permutation: Permutation,
    },
    Latest(Zipf),
    /// The lowest fifth of the keys gets four fifths of the operations.
    Hotspot,
    /// 95 % of the operations within the last 85.7 % of the keys.
    Exponential {
        gamma: f64,
    },
    /// One after the other, of all clients together.
    Sequential(Arc<AtomicU64>),
}

impl Choice {
    pub(super) fn new(plan: &Plan, keys: Arc<KeyCounter>) -> Choice {
        let loaded = plan.records_loaded().max(1);
        let exact = || Sort::Exact { zipf: ExactZipf::new(loaded, SHAPE), permutation: Permutation::of(loaded) };
        let sort = match (plan.requestdistribution, plan.mode) {
            (Distribution::Zipfian, Mode::Compat) => Sort::Scrambled {
                zipf: Zipf::with_sum(SCRAMBLED_ITEMS + 1, SHAPE, SCRAMBLED_SUM),
                keys_expected: loaded + (2.0 * plan.operationcount as f64 * plan.insertproportion) as u64 + 1,
            },
            (Distribution::Zipfian, Mode::Fixed) | (Distribution::ZipfianExact, _) => exact(),
            (Distribution::Latest, _) => Sort::Latest(Zipf::summed(loaded.max(2), SHAPE)),
            (Distribution::Uniform, _) => Sort::Uniform,
            (Distribution::Hotspot, _) => Sort::Hotspot,
            (Distribution::Exponential, _) => {
                let within = loaded as f64 * 0.8571428571;
                Sort::Exponential { gamma: -(1.0f64 - 0.95).ln() / within }
            }
            (Distribution::Sequential, _) => Sort::Sequential(Arc::default()),
        };
        Choice { sort, keys, loaded }
    }

    /// The number of a key that is in the database.
    pub(super) fn next(&mut self, random: &mut Random) -> u64 {
        let last = self.keys.last();
        loop {
            let key = self.draw(random, last);
            if key <= last {
                return key;
            }
        }
    }

    fn draw(&mut self, random: &mut Random, last: u64) -> u64 {
        match &mut self.sort {
            Sort::Uniform => random.below(self.loaded),
            Sort::Scrambled { zipf, keys_expected } => fnv(zipf.rank(random.unit())) % *keys_expected,
            Sort::Exact { zipf, permutation } => permutation.image(zipf.rank(random)),
            Sort::Latest(zipf) => {
                if zipf.items() < last {
                    *zipf = zipf.grown(last, SHAPE);
                }
                last.saturating_sub(zipf.rank(random.unit()))
            }
            Sort::Hotspot => {
                let hot = (self.loaded / 5).max(1);
                match random.unit() < 0.8 || hot == self.loaded {
                    true => random.below(hot),
                    false => hot + random.below(self.loaded - hot),
                }
            }
            Sort::Exponential { gamma } => {
                let back = (-random.fraction().ln() / *gamma) as u64;
                last.checked_sub(back).unwrap_or(u64::MAX)
            }
            Sort::Sequential(next) => next.fetch_add(1, Ordering::Relaxed) % self.loaded,
        }
    }
}

/// A bijection of `0..n`: a Feistel network over the next power of four, walked until the image is inside.
#[derive(Clone, Copy, Debug)]
struct Permutation {
    n: u64,
    half_bits: u32,
}

impl Permutation {
    fn of(n: u64) -> Permutation {
        let bits = u64::BITS - n.saturating_sub(1).leading_zeros();
        Permutation { n, half_bits: bits.div_ceil(2).max(1) }
    }

    fn image(&self, rank: u64) -> u64 {
        let mut image = rank;
        loop {
            image = self.rounds(image);
            if image < self.n {
                return image;
            }
        }
    }

    fn rounds(&self, value: u64) -> u64 {
        let mask = (1u64 << self.half_bits) - 1;
        let (mut left, mut right) = (value >> self.half_bits, value & mask);
        for round in 0..4u64 {
            (left, right) = (right, left ^ (fnv(right | round << 56) >> 7 & mask));
        }
        left << self.half_bits | right
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::settings::Settings;
    use super::*;

    fn shares(settings: serde_json::Value, mode: Mode, draws: u64) -> Vec<f64> {
        let plan = serde_json::from_value::<Settings>(settings).unwrap().plan(mode).unwrap();
        let keys = Arc::new(KeyCounter::new(plan.records));
        let mut choice = Choice::new(&plan, keys);
        let (mut counts, mut random) = (vec![0u64; plan.records as usize], Random::new(1));
        for _ in 0..draws {
            counts[choice.next(&mut random) as usize] += 1;
        }
        counts.into_iter().map(|count| count as f64 / draws as f64).collect()
    }

    fn sorted(mut shares: Vec<f64>) -> Vec<f64> {
        shares.sort_by(|a, b| b.total_cmp(a));
        shares
    }

    fn top(shares: &[f64], part: f64) -> f64 {
        shares.iter().take((shares.len() as f64 * part) as usize).sum()
    }

    /// The table of spec/workloads.md 8.6 at 1,000 keys.
    #[test]
    fn skew_is_that_of_the_table() {
        for (name, mode, expect) in [
            ("zipfian", Mode::Compat, [0.039, 0.13, 0.30, 0.39]),
            ("zipfian", Mode::Fixed, [0.129, 0.38, 0.69, 0.78]),
            ("zipfian-exact", Mode::Compat, [0.129, 0.38, 0.69, 0.78]),
        ] {
            let shares = sorted(shares(json!({"records": 1000, "requestdistribution": name}), mode, 400_000));
            let found = [shares[0], top(&shares, 0.01), top(&shares, 0.1), top(&shares, 0.2)];
            let near = found.iter().zip(expect).all(|(found, expect)| (found - expect).abs() < 0.015);
            assert!(near, "{name} {mode:?}: {found:?}, not {expect:?}");
        }
    }

    #[test]
    fn other_distributions_have_their_forms() {
        let of = |name: &str| shares(json!({"records": 1000, "requestdistribution": name}), Mode::Compat, 200_000);
        let within = |found: f64, expect: f64| assert!((found - expect).abs() < 0.01, "{found}, not {expect}");
        within(of("uniform").iter().take(100).sum(), 0.1);
        within(of("hotspot").iter().take(200).sum(), 0.8);
        within(of("latest")[999], 0.129);
        // Of an exponential cut at 1,000 keys: the share of the last 85.7 %.
        within(of("exponential").iter().skip(143).sum(), 0.95 / (1.0 - (-3.495f64).exp()));
        assert!(of("sequential").iter().all(|share| *share == 0.001));
    }

    #[test]
    fn permutations_hit_every_key_once() {
        for n in [1, 2, 3, 1000, 1025] {
            let permutation = Permutation::of(n);
            let mut images: Vec<u64> = (0..n).map(|rank| permutation.image(rank)).collect();
            images.sort_unstable();
            assert_eq!(images, (0..n).collect::<Vec<_>>());
        }
    }
}
