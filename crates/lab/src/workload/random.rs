//! One independent stream of random numbers per client (spec/workloads.md 1.4: any good 64-bit generator).

use rand::rngs::SmallRng;
use rand::{RngExt, SeedableRng};

#[derive(Clone, Debug)]
pub struct Random(SmallRng);

impl Random {
    pub fn new(seed: u64) -> Random {
        Random(SmallRng::seed_from_u64(seed))
    }

    /// Uniform in `1..=max`.
    pub fn up_to(&mut self, max: u32) -> u32 {
        self.0.random_range(1..=max.max(1))
    }

    /// 64 random bits.
    pub fn bits(&mut self) -> u64 {
        self.0.random()
    }

    /// Uniform in (0, 1].
    pub fn fraction(&mut self) -> f64 {
        1.0 - self.0.random::<f64>()
    }
}
