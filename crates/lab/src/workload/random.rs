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

    /// Uniform in `0..bound`; bound is above 0.
    pub fn below(&mut self, bound: u64) -> u64 {
        self.0.random_range(0..bound.max(1))
    }

    /// Uniform in [0, 1).
    pub fn unit(&mut self) -> f64 {
        self.0.random()
    }

    /// Mean 0, deviation 1 (Box and Muller; the second number is thrown away).
    pub fn normal(&mut self) -> f64 {
        let radius = (-2.0 * self.fraction().ln()).sqrt();
        radius * (std::f64::consts::TAU * self.unit()).cos()
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
