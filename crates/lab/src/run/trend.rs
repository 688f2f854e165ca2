//! Trend of a series of intervals: from when on it was steady, and where it stalled.

/// A stretch of intervals far below the usual rate. Indices into the series, `end` after the last.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Stall {
    pub begin: usize,
    pub end: usize,
    /// The lowest rate in it, as a part of the median.
    pub depth: f64,
}

/// An interval below this part of the median is a stall.
const STALL_BELOW: f64 = 0.5;
/// Fewer intervals have no median worth the name.
const INTERVALS_MIN: usize = 5;

pub fn stalls(rates: &[f64]) -> Vec<Stall> {
    let mut sorted = rates.to_vec();
    sorted.sort_by(f64::total_cmp);
    let median = sorted.get(rates.len() / 2).copied().unwrap_or(0.0);
    let mut stalls: Vec<Stall> = Vec::new();
    if rates.len() < INTERVALS_MIN || median <= 0.0 {
        return stalls;
    }
    for (n, rate) in rates.iter().enumerate() {
        let part = rate / median;
        match stalls.last_mut() {
            _ if part >= STALL_BELOW => {}
            Some(last) if last.end == n => (last.end, last.depth) = (n + 1, last.depth.min(part)),
            _ => stalls.push(Stall { begin: n, end: n + 1, depth: part }),
        }
    }
    stalls
}

/// The first interval of the steady part: where cutting off the beginning makes the mean of the rest most certain (MSER,
/// White 1997: the least marginal standard error). `None` when that is not within the first half, or there are too few
/// intervals.
pub fn steady_from(rates: &[f64]) -> Option<usize> {
    if rates.len() < 2 * INTERVALS_MIN {
        return None;
    }
    let error = |from: usize| {
        let rest = rates.get(from..).unwrap_or_default();
        let (count, mean) = (rest.len() as f64, rest.iter().sum::<f64>() / rest.len() as f64);
        rest.iter().map(|rate| (rate - mean).powi(2)).sum::<f64>() / (count * count)
    };
    // The last few values alone are certain of anything.
    let cuts = 0..=rates.len() - INTERVALS_MIN;
    let best = cuts.min_by(|a, b| error(*a).total_cmp(&error(*b)))?;
    (best <= rates.len() / 2).then_some(best)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stalls_are_stretches() {
        let check = |rates: &[f64], expect: &[(usize, usize, f64)]| {
            let found: Vec<_> = stalls(rates).iter().map(|stall| (stall.begin, stall.end, stall.depth)).collect();
            assert_eq!(found, expect, "{rates:?}");
        };
        check(&[10.0, 10.0, 4.0, 2.0, 10.0, 10.0, 10.0, 0.0], &[(2, 4, 0.2), (7, 8, 0.0)]);
        check(&[10.0, 9.0, 6.0, 11.0, 10.0], &[]);
        check(&[10.0, 0.0], &[]);
        check(&[0.0; 8], &[]);
    }

    #[test]
    fn a_warming_server_is_steady_later() {
        // A little noise, the same each time.
        let noise = |n: usize| f64::from((n * 7919 % 13) as u32) / 13.0;
        let warming: Vec<f64> = (0..40).map(|n| if n < 8 { 10.0 * n as f64 } else { 100.0 } + noise(n)).collect();
        let from = steady_from(&warming).unwrap();
        assert!((7..=12).contains(&from), "{from}");
        let level: Vec<f64> = (0..40).map(|n| 100.0 + noise(n)).collect();
        assert!(steady_from(&level).unwrap() <= 20);
        let climbing: Vec<f64> = (0..40).map(|n| 10.0 * n as f64).collect();
        assert_eq!(steady_from(&climbing), None);
        assert_eq!(steady_from(&[1.0; 4]), None);
    }
}
