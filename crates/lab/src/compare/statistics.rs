//! Means, their difference, and how certain it is.

/// Difference of `other` from `base`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Difference {
    /// Part of the base's mean.
    pub relative: f64,
    /// 95 % confidence interval of `relative`.
    pub interval: (f64, f64),
    /// Hedges' g: the difference in standard deviations, corrected for few samples.
    pub effect: f64,
}

/// Fewer samples are too few.
const SAMPLES_MIN: usize = 5;

pub(super) fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len().max(1) as f64
}

fn variance(values: &[f64]) -> f64 {
    let mean = mean(values);
    values.iter().map(|value| (value - mean).powi(2)).sum::<f64>() / (values.len().max(2) - 1) as f64
}

/// `None` when there are too few samples, or nothing to be relative to.
pub(crate) fn difference(base: &[f64], other: &[f64]) -> Option<Difference> {
    let (a, b) = (mean(base), mean(other));
    if base.len() < SAMPLES_MIN || other.len() < SAMPLES_MIN || a <= 0.0 {
        return None;
    }
    let (count_a, count_b) = (base.len() as f64, other.len() as f64);
    let (error_a, error_b) = (variance(base) / count_a, variance(other) / count_b);
    let error = (error_a + error_b).sqrt();
    // Welch and Satterthwaite; without any spread there is nothing to be uncertain about.
    let freedom = if error > 0.0 {
        (error_a + error_b).powi(2) / (error_a.powi(2) / (count_a - 1.0) + error_b.powi(2) / (count_b - 1.0))
    } else {
        count_a + count_b - 2.0
    };
    let half = quantile_975(freedom) * error;
    let pooled =
        (((count_a - 1.0) * variance(base) + (count_b - 1.0) * variance(other)) / (count_a + count_b - 2.0)).sqrt();
    let correction = 1.0 - 3.0 / (4.0 * (count_a + count_b) - 9.0);
    let effect = if pooled > 0.0 { (b - a) / pooled * correction } else { 0.0 };
    Some(Difference { relative: (b - a) / a, interval: ((b - a - half) / a, (b - a + half) / a), effect })
}

/// The 97.5 % quantile of Student's t, by Cornish and Fisher's expansion from the normal's: right to 0.01 from 4 degrees
/// of freedom on, and there are never fewer.
fn quantile_975(freedom: f64) -> f64 {
    const Z: f64 = 1.959_963_985;
    let (z3, z5, z7) = (Z.powi(3), Z.powi(5), Z.powi(7));
    let (one, two) = ((z3 + Z) / 4.0, (5.0 * z5 + 16.0 * z3 + 3.0 * Z) / 96.0);
    let three = (3.0 * z7 + 19.0 * z5 + 17.0 * z3 - 15.0 * Z) / 384.0;
    Z + one / freedom + two / freedom.powi(2) + three / freedom.powi(3)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_are_those_of_the_tables() {
        for (freedom, expect) in [(4.0, 2.776), (5.0, 2.571), (9.0, 2.262), (18.0, 2.101), (100.0, 1.984)] {
            let quantile = quantile_975(freedom);
            assert!((quantile - expect).abs() < 0.01, "{freedom}: {quantile}");
        }
    }

    /// Computed by hand: means 10 and 13, variances 2.5 each, five samples each: error 1, 8 degrees of freedom, t 2.306.
    #[test]
    fn welch_by_hand() {
        let found = difference(&[8.0, 9.0, 10.0, 11.0, 12.0], &[11.0, 12.0, 13.0, 14.0, 15.0]).unwrap();
        assert!((found.relative - 0.3).abs() < 1e-12);
        assert!((found.interval.0 - (3.0 - 2.306) / 10.0).abs() < 1e-3, "{found:?}");
        // 3 / sqrt(2.5) = 1.897, times 1 - 3/31.
        assert!((found.effect - 1.897 * (1.0 - 3.0 / 31.0)).abs() < 1e-3, "{found:?}");
    }
}
