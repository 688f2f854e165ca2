//! Data of links and nodes: sizes from a log-normal distribution, bytes that repeat themselves in part
//! (spec/workloads.md 7.5).

use crate::workload::Random;

/// One generator per thread; its motif differs from the others'.
#[derive(Clone, Debug)]
pub(super) struct Payload {
    ln_median: f64,
    bytes_max: usize,
    first_byte: u8,
    last_byte: u8,
    uniqueness: f64,
    motif: Vec<u8>,
}

/// Bytes that are fresh or copied together.
const CHUNK: usize = 128;

impl Payload {
    pub(super) fn links(median: f64, motif_bytes: usize, random: &mut Random) -> Payload {
        Payload::new(median, 254, (32, 100), 0.225, motif_bytes, random)
    }

    pub(super) fn nodes(median: f64, motif_bytes: usize, random: &mut Random) -> Payload {
        Payload::new(median, 1_048_575, (50, 220), 0.63, motif_bytes, random)
    }

    fn new(
        median: f64,
        bytes_max: usize,
        (first_byte, last_byte): (u8, u8),
        uniqueness: f64,
        motif_bytes: usize,
        random: &mut Random,
    ) -> Payload {
        let ln_median = median.max(1.0).ln();
        let mut payload = Payload { ln_median, bytes_max, first_byte, last_byte, uniqueness, motif: Vec::new() };
        payload.motif = (0..motif_bytes).map(|_| payload.byte(random)).collect();
        payload
    }

    fn byte(&self, random: &mut Random) -> u8 {
        let range = u64::from(self.last_byte - self.first_byte) + 1;
        self.first_byte + random.below(range) as u8
    }

    fn size(&self, random: &mut Random) -> usize {
        let size = (random.normal() + self.ln_median).exp().round();
        (size.max(0.0) as usize).min(self.bytes_max)
    }

    /// Fills `data` with the next payload.
    pub(super) fn fill(&self, random: &mut Random, data: &mut Vec<u8>) {
        data.clear();
        let size = self.size(random);
        while data.len() < size {
            let chunk = CHUNK.min(size - data.len()).min(self.motif.len().max(1));
            if random.fraction() <= self.uniqueness {
                data.extend((0..chunk).map(|_| self.byte(random)));
            } else {
                let start = random.below((self.motif.len() - chunk + 1) as u64) as usize;
                data.extend_from_slice(self.motif.get(start..start + chunk).unwrap_or_default());
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sizes(payload: &Payload) -> (f64, usize, Vec<u8>) {
        let (mut random, mut data, mut all) = (Random::new(2), Vec::new(), Vec::new());
        let (mut sum, mut max) = (0, 0);
        for _ in 0..50_000 {
            payload.fill(&mut random, &mut data);
            (sum, max) = (sum + data.len(), max.max(data.len()));
            all.extend(data.iter().take(4));
        }
        (sum as f64 / 50_000.0, max, all)
    }

    #[test]
    fn means_and_bytes_are_those_of_the_specification() {
        let mut random = Random::new(1);
        let (mean, max, bytes) = sizes(&Payload::links(8.0, 512, &mut random));
        // 13.2 and 211 before clamping.
        assert!((12.6..13.5).contains(&mean) && max <= 254, "{mean} {max}");
        assert!(bytes.iter().all(|byte| (32..=100).contains(byte)));
        let (mean, _, bytes) = sizes(&Payload::nodes(128.0, 512, &mut random));
        assert!((204.0..218.0).contains(&mean), "{mean}");
        assert!(bytes.iter().all(|byte| (50..=220).contains(byte)));
    }

    #[test]
    fn most_of_a_link_is_motif() {
        let mut random = Random::new(1);
        let payload = Payload::links(8.0, 512, &mut random);
        let (mut data, mut copies, mut all) = (Vec::new(), 0, 0);
        for _ in 0..2000 {
            payload.fill(&mut random, &mut data);
            if data.len() >= 8 {
                all += 1;
                copies +=
                    usize::from(payload.motif.windows(data.len().min(CHUNK)).any(|window| data.starts_with(window)));
            }
        }
        let share = f64::from(copies as u32) / f64::from(all);
        assert!((0.74..0.81).contains(&share), "{share}");
    }
}
