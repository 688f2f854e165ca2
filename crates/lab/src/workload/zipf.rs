//! Zipf-distributed ranks by the method of Gray et al. (spec/workloads.md 7.5): rank 0 is the hottest.

use super::Random;

/// From this many items on the sum is replaced by LinkBench's integral.
const EXACT_MAX: u64 = 100_000;

#[derive(Clone, Copy, Debug)]
pub(super) struct Zipf {
    items: f64,
    zetan: f64,
    alpha: f64,
    eta: f64,
    /// A draw times zetan below this is rank 1.
    second: f64,
}

impl Zipf {
    /// Computes the distribution as LinkBench does: from 100,000 items on with an estimate of the normalizing sum.
    pub(super) fn linkbench(items: u64, shape: f64) -> Zipf {
        let n = items as f64;
        let zetan = match items < EXACT_MAX {
            true => (1..=items).map(|i| (i as f64).powf(-shape)).sum(),
            false => n.powf(1.0 - shape) / (1.0 - shape) + 0.58 - 1.0 / (1.0 - shape),
        };
        Zipf::with_sum(items, shape, zetan)
    }

    /// Computes the distribution with the exact normalizing sum.
    pub(super) fn summed(items: u64, shape: f64) -> Zipf {
        Zipf::with_sum(items, shape, zeta(items, shape))
    }

    pub(super) fn with_sum(items: u64, shape: f64, zetan: f64) -> Zipf {
        let n = items as f64;
        let second = 1.0 + 0.5f64.powf(shape);
        let eta = (1.0 - (2.0 / n).powf(1.0 - shape)) / (1.0 - second / zetan);
        Zipf { items: n, zetan, alpha: 1.0 / (1.0 - shape), eta, second }
    }

    /// Grows the distribution to more items as YCSB does: the sum grows, `eta` keeps the first count.
    pub(super) fn grown(self, items: u64, shape: f64) -> Zipf {
        let added: f64 = (self.items as u64 + 1..=items).map(|i| (i as f64).powf(-shape)).sum();
        Zipf { items: items as f64, zetan: self.zetan + added, ..self }
    }

    pub(super) fn items(&self) -> u64 {
        self.items as u64
    }

    /// The rank of a uniform draw from [0, 1).
    pub(super) fn rank(&self, u: f64) -> u64 {
        let scaled = u * self.zetan;
        if scaled < 1.0 {
            return 0;
        }
        if scaled < self.second {
            return 1;
        }
        let rank = self.items * (self.eta * u - self.eta + 1.0).powf(self.alpha);
        (rank as u64).min(self.items as u64 - 1)
    }
}

/// Zipf's law itself, by rejection-inversion (Hoermann and Derflinger 1996): no sum, and a draw is rarely thrown away.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ExactZipf {
    items: f64,
    shape: f64,
    /// Integrals at the ends of the range.
    first: f64,
    last: f64,
    /// Ranks this near to a draw need no second look.
    cut: f64,
}

impl ExactZipf {
    /// Requires a shape other than 1.
    pub(crate) fn new(items: u64, shape: f64) -> ExactZipf {
        let mut zipf = ExactZipf { items: items as f64, shape, first: 0.0, last: 0.0, cut: 0.0 };
        zipf.first = zipf.integral(1.5) - 1.0;
        zipf.last = zipf.integral(zipf.items + 0.5);
        zipf.cut = 2.0 - zipf.inverse(zipf.integral(2.5) - 2.0f64.powf(-shape));
        zipf
    }

    fn integral(&self, x: f64) -> f64 {
        (x.powf(1.0 - self.shape) - 1.0) / (1.0 - self.shape)
    }

    fn inverse(&self, y: f64) -> f64 {
        (1.0 + y * (1.0 - self.shape)).powf(1.0 / (1.0 - self.shape))
    }

    /// A rank from 0.
    pub(super) fn rank(&self, random: &mut Random) -> u64 {
        self.draw(|| random.unit())
    }

    /// A rank from 0, of draws from [0, 1).
    pub(crate) fn draw(&self, mut unit: impl FnMut() -> f64) -> u64 {
        loop {
            let u = self.last + unit() * (self.first - self.last);
            let x = self.inverse(u);
            let k = x.round().clamp(1.0, self.items);
            if k - x <= self.cut || u >= self.integral(k + 0.5) - k.powf(-self.shape) {
                return k as u64 - 1;
            }
        }
    }
}

/// Returns the sum of `i^-shape` for i in `1..=n`: the first terms, then the Euler-Maclaurin formula (go-ycsb issue 301: adding
/// 10^10 terms takes too long).
pub(super) fn zeta(n: u64, shape: f64) -> f64 {
    const FIRST: u64 = 1000;
    if n <= FIRST {
        return (1..=n).map(|i| (i as f64).powf(-shape)).sum();
    }
    let first: f64 = (1..FIRST).map(|i| (i as f64).powf(-shape)).sum();
    let (m, n) = (FIRST as f64, n as f64);
    let integral = (n.powf(1.0 - shape) - m.powf(1.0 - shape)) / (1.0 - shape);
    let ends = (m.powf(-shape) + n.powf(-shape)) / 2.0;
    let slopes = shape / 12.0 * (m.powf(-shape - 1.0) - n.powf(-shape - 1.0));
    first + integral + ends + slopes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_sum_is_that_of_ycsb() {
        assert!((zeta(10_000_000_000, 0.99) - 26.46902820178302).abs() < 1e-6);
        let plain: f64 = (1..=5000).map(|i| f64::from(i).powf(-0.8)).sum();
        assert!((zeta(5000, 0.8) - plain).abs() < 1e-9);
    }

    /// Shares of the ids as spec/workloads.md 7.5 has them (those of Zipf's law itself; the method is near it), by
    /// inverting the rank.
    #[test]
    fn shares_are_those_of_the_table() {
        let share = |zipf: &Zipf, ranks: u64| {
            let (mut low, mut high) = (0.0, 1.0);
            for _ in 0..60 {
                let middle = (low + high) / 2.0;
                if zipf.rank(middle) < ranks { low = middle } else { high = middle }
            }
            low * 100.0
        };
        for (shape, hottest, percent_1, percent_10) in
            [(0.8, 0.83, 37.6, 61.7), (0.741, 0.40, 29.4, 54.5), (0.625, 0.09, 17.6, 42.1), (0.606, 0.07, 16.2, 40.3)]
        {
            let zipf = Zipf::linkbench(10_000_000, shape);
            for (ranks, expect, slack) in [(1, hottest, 0.006), (100_000, percent_1, 0.3), (1_000_000, percent_10, 0.3)]
            {
                let found = share(&zipf, ranks);
                assert!((found - expect).abs() < slack, "shape {shape}, {ranks} ranks: {found} %, not {expect} %");
            }
        }
    }

    #[test]
    fn exact_ranks_follow_the_law() {
        let (zipf, mut random, mut counts) = (ExactZipf::new(1000, 0.99), Random::new(1), [0u32; 1000]);
        (0..400_000).for_each(|_| counts[zipf.rank(&mut random) as usize] += 1);
        for rank in [0, 1, 2, 9, 99] {
            let (found, expect) = (f64::from(counts[rank]) / 4e5, (rank as f64 + 1.0).powf(-0.99) / zeta(1000, 0.99));
            assert!((found / expect - 1.0).abs() < 0.06, "rank {rank}: {found}, not {expect}");
        }
        assert_eq!(ExactZipf::new(1, 0.99).rank(&mut random), 0);
    }

    #[test]
    fn ranks_stay_inside_and_grow() {
        for items in [2, 3, 10, 200_000] {
            let zipf = Zipf::summed(items, 0.99);
            for u in [0.0, 0.3, 0.999_999_999, 1.0 - f64::EPSILON] {
                assert!(zipf.rank(u) < items);
            }
        }
        let grown = Zipf::summed(1000, 0.99).grown(2000, 0.99);
        assert!((grown.zetan - zeta(2000, 0.99)).abs() < 1e-9 && grown.items() == 2000);
    }
}
