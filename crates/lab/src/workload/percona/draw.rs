//! sysbench's random distributions (spec/workloads.md 3.1).

use serde::{Deserialize, Serialize};

use crate::workload::Random;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Distribution {
    /// The default of 2016: three draws of four from the hundredth in the middle.
    Special,
    Uniform,
    /// The mean of twelve draws.
    Gaussian,
    /// 80 % of the draws from the lowest 20 %.
    Pareto,
}

const ITERATIONS: u64 = 12;

impl Distribution {
    /// Returns a number in `from..=to`. `special` returns 0 if there is only one, which is how a run on one table addresses
    /// a table that does not exist.
    pub(super) fn draw(self, from: u64, to: u64, random: &mut Random) -> u64 {
        let count = to.saturating_sub(from) + 1;
        match self {
            Distribution::Special if from >= to => 0,
            Distribution::Special => from + special(count, random),
            Distribution::Uniform => from + random.below(count),
            Distribution::Gaussian => from + gaussian(count, random),
            Distribution::Pareto => {
                let power = 0.2f64.ln() / 0.8f64.ln();
                from + ((count as f64 * random.unit().powf(power)) as u64).min(count - 1)
            }
        }
    }
}

fn special(count: u64, random: &mut Random) -> u64 {
    let draw = random.below(4 * count);
    if draw < count {
        return gaussian(count, random);
    }
    let middle = (count / 100).max(1);
    draw % middle + (count / 2 - count / 200)
}

fn gaussian(count: u64, random: &mut Random) -> u64 {
    (0..ITERATIONS).map(|_| random.below(count)).sum::<u64>() / ITERATIONS
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shares(distribution: Distribution, from: u64, to: u64) -> Vec<f64> {
        let (mut random, mut counts) = (Random::new(1), vec![0u32; to as usize + 1]);
        (0..400_000).for_each(|_| counts[distribution.draw(from, to, &mut random) as usize] += 1);
        counts.into_iter().map(|count| f64::from(count) / 4000.0).collect()
    }

    fn near(found: f64, expect: f64) {
        assert!((found - expect).abs() < 0.25, "{found} %, not {expect} %");
    }

    #[test]
    fn shares_of_eight_collections_are_those_of_the_vectors() {
        let shares = shares(Distribution::Special, 1, 8);
        near(shares[5], 80.84);
        near(shares[4], 13.62);
        near(shares[3], 4.99);
        assert!(shares[0] == 0.0 && shares[1] + shares[2] + shares[6] + shares[7] + shares[8] < 0.8);
        assert_eq!(Distribution::Special.draw(1, 1, &mut Random::new(1)), 0);
    }

    #[test]
    fn other_distributions_have_their_forms() {
        let of = |distribution| shares(distribution, 1, 1000);
        near(of(Distribution::Pareto)[1..=200].iter().sum(), 80.0);
        near(of(Distribution::Pareto)[1..=10].iter().sum(), 52.8);
        near(of(Distribution::Uniform)[1..=100].iter().sum(), 10.0);
        // Three quarters in the central hundredth, and what of the bell falls there.
        let central: f64 = of(Distribution::Special)[496..=505].iter().sum();
        assert!((75.5..77.5).contains(&central), "{central}");
        let bell: f64 = of(Distribution::Gaussian)[417..=583].iter().sum();
        assert!((66.5..70.0).contains(&bell), "one deviation holds {bell} %");
    }
}
