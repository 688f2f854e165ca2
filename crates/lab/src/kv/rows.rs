//! Keys and values.

use rand::rngs::SmallRng;
use rand::{RngExt, SeedableRng};

use crate::workload::ExactZipf;

/// The n-th of the keys that are loaded: even numbers, so that an odd one is missing.
pub(super) fn key(n: u64) -> [u8; 8] {
    (n * 2).to_be_bytes()
}

pub(super) fn missing_key(n: u64) -> [u8; 8] {
    (n * 2 + 1).to_be_bytes()
}

/// A random order of the rows 0..rows that needs no memory and can be asked both ways: a mixing permutation of the
/// numbers of just enough bits, which is walked until it lands on a row.
#[derive(Clone, Copy)]
pub(super) struct Order {
    rows: u64,
    bits: u32,
    mask: u64,
}

const ROUNDS: u64 = 3;
const MULTIPLIER: u64 = 0x9E37_79B9_7F4A_7C15;

impl Order {
    pub(super) fn of(rows: u64) -> Order {
        let bits = (u64::BITS - rows.max(2).saturating_sub(1).leading_zeros()).max(2);
        Order { rows: rows.max(1), bits, mask: u64::MAX >> (u64::BITS - bits) }
    }

    /// The row that comes n-th.
    pub(super) fn row(&self, n: u64) -> u64 {
        self.walk(n, |order, x| order.mix(x))
    }

    /// Returns the position of a row in the order.
    pub(super) fn turn(&self, row: u64) -> u64 {
        self.walk(row, |order, x| order.unmix(x))
    }

    fn walk(&self, mut x: u64, step: impl Fn(&Order, u64) -> u64) -> u64 {
        loop {
            x = step(self, x);
            if x < self.rows {
                return x;
            }
        }
    }

    fn shift(&self) -> u32 {
        self.bits.div_ceil(2)
    }

    fn mix(&self, mut x: u64) -> u64 {
        for round in 1..=ROUNDS {
            x = x.wrapping_mul(MULTIPLIER).wrapping_add(round) & self.mask;
            x ^= x >> self.shift();
        }
        x
    }

    fn unmix(&self, mut x: u64) -> u64 {
        const INVERSE: u64 = inverse(MULTIPLIER);
        for round in (1..=ROUNDS).rev() {
            x ^= x >> self.shift();
            x = x.wrapping_sub(round).wrapping_mul(INVERSE) & self.mask;
        }
        x
    }
}

/// Returns the inverse of an odd number modulo 2^64: each of Newton's steps doubles the number of correct bits.
const fn inverse(odd: u64) -> u64 {
    let mut inverse = odd;
    let mut step = 0;
    while step < 6 {
        inverse = inverse.wrapping_mul(2u64.wrapping_sub(odd.wrapping_mul(inverse)));
        step += 1;
    }
    inverse
}

/// Distribution of the rows that are read and changed.
#[derive(Clone, Copy)]
pub(super) struct Choice {
    rows: u64,
    /// `None`: all alike. Hot rows are spread over the keys.
    zipfian: Option<(ExactZipf, Order)>,
}

impl Choice {
    pub(super) fn of(rows: u64, shape: Option<f64>) -> Choice {
        Choice { rows, zipfian: shape.map(|shape| (ExactZipf::new(rows, shape), Order::of(rows))) }
    }

    pub(super) fn row(&self, random: &mut SmallRng) -> u64 {
        match &self.zipfian {
            None => random.random_range(0..self.rows),
            Some((zipf, order)) => order.row(zipf.draw(|| random.random::<f64>())),
        }
    }
}

pub(super) fn random(seed: u64) -> SmallRng {
    SmallRng::seed_from_u64(seed)
}

/// Half random bytes, half zeros: compresses to a little more than half.
pub(super) fn value(random: &mut SmallRng, bytes: usize) -> Vec<u8> {
    let mut value = vec![0; bytes];
    random.fill(&mut value[..bytes / 2]);
    value
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_order_visits_every_row_once_and_can_be_asked_backwards() {
        for rows in [1, 2, 3, 10, 1000, 4096, 5000] {
            let order = Order::of(rows);
            let visited: Vec<u64> = (0..rows).map(|n| order.row(n)).collect();
            assert!((0..rows).all(|n| order.turn(visited[n as usize]) == n), "{rows}");
            let mut sorted = visited;
            sorted.sort_unstable();
            assert!(sorted.into_iter().eq(0..rows), "{rows}");
        }
    }

    /// In a random order of n rows about half are followed by a higher one, and neighbours are far apart.
    #[test]
    fn the_order_looks_random() {
        for rows in [100_000u64, 1_000_000, 2_654_435] {
            let order = Order::of(rows);
            let (mut rises, mut distance) = (0u64, 0u64);
            for n in 1..10_000 {
                let (before, row) = (order.row(n - 1), order.row(n));
                rises += u64::from(row > before);
                distance += row.abs_diff(before);
            }
            assert!((4_700..5_300).contains(&rises), "{rows}: {rises}");
            let mean = distance / 9_999;
            assert!(mean > rows * 3 / 10 && mean < rows * 37 / 100, "{rows}: {mean}");
        }
    }

    #[test]
    fn few_rows_are_most_choices_of_a_zipfian_distribution() {
        let mut random = random(1);
        let mut hottest = |shape| {
            let choice = Choice::of(10_000, shape);
            let mut counts = vec![0u32; 10_000];
            (0..100_000).for_each(|_| counts[choice.row(&mut random) as usize] += 1);
            let (first, last): (u32, u32) = (counts[..5_000].iter().sum(), counts[5_000..].iter().sum());
            counts.sort_unstable_by(|a, b| b.cmp(a));
            (counts[..100].iter().sum::<u32>(), first.abs_diff(last))
        };
        let ((plain, _), (zipfian, difference)) = (hottest(None), hottest(Some(0.99)));
        assert!(plain < 3_000 && zipfian > 45_000, "{plain} {zipfian}");
        assert!(difference < 40_000, "hot rows are on both halves of the keys: {difference}");
    }

    #[test]
    fn values_are_half_zeros() {
        let value = value(&mut random(1), 120);
        assert_eq!(value.len(), 120);
        assert!(value[60..].iter().all(|byte| *byte == 0) && value[..60].iter().any(|byte| *byte != 0));
    }
}
