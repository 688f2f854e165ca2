//! Keys and values.

use rand::rngs::SmallRng;
use rand::{RngExt, SeedableRng};

/// The n-th of the keys that are loaded: even numbers, so that an odd one is missing.
pub(super) fn key(n: u64) -> [u8; 8] {
    (n * 2).to_be_bytes()
}

pub(super) fn missing_key(n: u64) -> [u8; 8] {
    (n * 2 + 1).to_be_bytes()
}

/// Visits 0..rows in an order without neighbours: a step that shares no divisor with the number of rows.
pub(super) fn scattered(n: u64, rows: u64) -> u64 {
    const STEP: u64 = 0x9E37_79B1; // a prime, so it shares none unless it divides `rows`
    ((u128::from(n) * u128::from(STEP)) % u128::from(rows.max(1))) as u64
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
    fn scattered_visits_every_row_once() {
        for rows in [1, 2, 10, 1000, 4096] {
            let mut seen: Vec<u64> = (0..rows).map(|n| scattered(n, rows)).collect();
            seen.sort_unstable();
            assert!(seen.into_iter().eq(0..rows), "{rows}");
        }
    }

    #[test]
    fn values_are_half_zeros() {
        let value = value(&mut random(1), 120);
        assert_eq!(value.len(), 120);
        assert!(value[60..].iter().all(|byte| *byte == 0) && value[..60].iter().any(|byte| *byte != 0));
    }
}
