//! Latencies of every operation, by kind. No sampling: an operation is one increment in a histogram.

use std::collections::BTreeMap;

use hdrhistogram::Histogram;

use crate::workload::Kind;

/// Three significant digits, nanoseconds, growing to what is seen (an hour fits).
const DIGITS: u8 = 3;
const NANOSECONDS_MAX: u64 = 2 * 3600 * 1_000_000_000;

/// Latencies of one kind.
#[derive(Clone, Debug)]
pub struct Latencies {
    /// From sending to the last byte of the reply.
    pub service: Histogram<u64>,
    /// From the time the operation was due; only with a schedule.
    pub response: Option<Histogram<u64>>,
}

fn histogram() -> Histogram<u64> {
    let mut histogram = Histogram::new_with_bounds(1, 1_000_000, DIGITS).expect("the bounds are constants in range");
    histogram.auto(true);
    histogram
}

impl Latencies {
    fn new() -> Latencies {
        Latencies { service: histogram(), response: None }
    }

    fn merge(&mut self, other: &Latencies) {
        // Both grow as needed, so adding cannot fail.
        let _ = self.service.add(&other.service);
        if let Some(other) = &other.response {
            let _ = self.response.get_or_insert_with(histogram).add(other);
        }
    }

    /// Mean and quantiles in microseconds, by name.
    pub fn summary(histogram: &Histogram<u64>) -> [(&'static str, f64); 7] {
        let micros = |nanoseconds: f64| nanoseconds / 1000.0;
        let at = |quantile: f64| micros(histogram.value_at_quantile(quantile) as f64);
        [
            ("mean", micros(histogram.mean())),
            ("p50", at(0.5)),
            ("p90", at(0.9)),
            ("p95", at(0.95)),
            ("p99", at(0.99)),
            ("p99.9", at(0.999)),
            ("max", micros(histogram.max() as f64)),
        ]
    }
}

/// Measurements of one client, or of a whole step.
#[derive(Clone, Debug, Default)]
pub struct Recorder {
    /// Few, in the order of their first operation: looking through them costs less than any map.
    kinds: Vec<(Kind, Latencies)>,
    /// Failed operations by code, with the first message of each.
    errors: BTreeMap<String, (u64, String)>,
    /// Operations that succeeded and found no row.
    misses: u64,
}

impl Recorder {
    pub fn record(&mut self, kind: Kind, service_ns: u64, response_ns: Option<u64>) {
        let latencies = self.of(kind);
        // `record` grows the histogram; `saturating_record` would cut at its present end.
        let _ = latencies.service.record(service_ns.clamp(1, NANOSECONDS_MAX));
        if let Some(response_ns) = response_ns {
            let response = latencies.response.get_or_insert_with(histogram);
            let _ = response.record(response_ns.clamp(1, NANOSECONDS_MAX));
        }
    }

    fn of(&mut self, kind: Kind) -> &mut Latencies {
        let at = self.kinds.iter().position(|(each, _)| *each == kind).unwrap_or_else(|| {
            self.kinds.push((kind, Latencies::new()));
            self.kinds.len() - 1
        });
        &mut self.kinds[at].1
    }

    pub fn error(&mut self, code: &str, message: &str) {
        self.errors_of(code, 1, message);
    }

    pub fn miss(&mut self) {
        self.misses_of(1);
    }

    pub(crate) fn misses_of(&mut self, count: u64) {
        self.misses += count;
    }

    pub(crate) fn errors_of(&mut self, code: &str, count: u64, message: &str) {
        self.errors.entry(code.to_owned()).or_insert_with(|| (0, message.to_owned())).0 += count;
    }

    /// Adds what was recorded of a kind elsewhere.
    pub(crate) fn add(&mut self, kind: Kind, latencies: &Latencies) {
        self.of(kind).merge(latencies);
    }

    pub fn merge(&mut self, other: &Recorder) {
        for (kind, latencies) in &other.kinds {
            self.of(*kind).merge(latencies);
        }
        for (code, (count, message)) in &other.errors {
            self.errors_of(code, *count, message);
        }
        self.misses += other.misses;
    }

    /// Empties the recorder but keeps its memory.
    pub fn reset(&mut self) {
        for (_, latencies) in &mut self.kinds {
            latencies.service.reset();
            if let Some(response) = &mut latencies.response {
                response.reset();
            }
        }
        self.errors.clear();
        self.misses = 0;
    }

    pub fn latencies(&self, kind: Kind) -> Option<&Latencies> {
        let (_, latencies) = self.kinds.iter().find(|(each, _)| *each == kind)?;
        Some(latencies).filter(|latencies| !latencies.service.is_empty())
    }

    pub fn count(&self, kind: Kind) -> u64 {
        self.latencies(kind).map_or(0, |latencies| latencies.service.len())
    }

    /// Returns the count of all kinds together.
    pub fn total_count(&self) -> u64 {
        self.kinds.iter().map(|(_, latencies)| latencies.service.len()).sum()
    }

    /// The kinds that occurred, with what was recorded.
    pub fn kinds(&self) -> impl Iterator<Item = (Kind, &Latencies)> {
        let occurred = self.kinds.iter().filter(|(_, latencies)| !latencies.service.is_empty());
        occurred.map(|(kind, latencies)| (*kind, latencies))
    }

    pub fn errors(&self) -> impl Iterator<Item = (&str, u64, &str)> {
        self.errors.iter().map(|(code, (count, message))| (code.as_str(), *count, message.as_str()))
    }

    pub fn error_count(&self) -> u64 {
        self.errors.values().map(|(count, _)| count).sum()
    }

    pub fn misses(&self) -> u64 {
        self.misses
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn merging_adds_everything() {
        let (mut a, mut b) = (Recorder::default(), Recorder::default());
        a.record(Kind::POINT_QUERY, 1_000, None);
        b.record(Kind::POINT_QUERY, 3_000, Some(9_000));
        b.record(Kind::INSERT, 3_600_000_000_000, None);
        b.error("11000", "duplicate");
        b.error("11000", "another");
        b.miss();
        a.merge(&b);
        a.merge(&b);
        assert_eq!((a.count(Kind::POINT_QUERY), a.count(Kind::INSERT), a.count(Kind::DELETE)), (3, 2, 0));
        assert_eq!(a.errors().collect::<Vec<_>>(), [("11000", 4, "duplicate")]);
        assert_eq!((a.error_count(), a.misses()), (4, 2));
        let latencies = a.latencies(Kind::POINT_QUERY).unwrap();
        assert_eq!(latencies.response.as_ref().unwrap().len(), 2);
        let hour = a.latencies(Kind::INSERT).unwrap().service.max();
        assert!((3_590_000_000_000..=3_610_000_000_000).contains(&hour), "{hour}");
        a.reset();
        assert_eq!((a.count(Kind::POINT_QUERY), a.error_count(), a.misses()), (0, 0, 0));
    }

    #[test]
    fn quantiles_are_in_microseconds() {
        let mut recorder = Recorder::default();
        (1..=1000).for_each(|n| recorder.record(Kind::POINT_QUERY, n * 1000, None));
        let summary = Latencies::summary(&recorder.latencies(Kind::POINT_QUERY).unwrap().service);
        for ((name, value), expect) in summary.into_iter().zip([500.5, 500.0, 900.0, 950.0, 990.0, 999.0, 1000.0]) {
            assert!((value - expect).abs() <= expect * 0.002, "{name}: {value}, not {expect}");
        }
    }
}
