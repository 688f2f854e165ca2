//! Numbers from a seed (SplitMix64), so that a printed seed replays the same run in every release.

/// Odd, bits without a pattern: 2^64 divided by the golden ratio.
const STEP: u64 = 0x9E37_79B9_7F4A_7C15;

/// A generator of random numbers. Not for secrets.
#[derive(Clone, Debug)]
pub struct Random(u64);

impl Random {
    pub fn new(seed: u64) -> Random {
        Random(seed)
    }

    pub fn next_u64(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(STEP);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }

    /// Returns a number in `0 .. limit`; 0 when the limit is 0.
    pub fn below(&mut self, limit: u64) -> u64 {
        if limit == 0 { 0 } else { self.next_u64() % limit }
    }

    /// Returns true `part` times out of `whole`.
    pub fn chance(&mut self, part: u64, whole: u64) -> bool {
        self.below(whole) < part
    }

    /// Returns true once in `n` times.
    pub fn one_in(&mut self, n: u64) -> bool {
        self.chance(1, n)
    }

    /// Returns one of them. Requires: there is one.
    pub fn pick<'a, T>(&mut self, from: &'a [T]) -> &'a T {
        let at = self.below(from.len() as u64) as usize;
        from.get(at).expect("there is something to pick from")
    }

    /// Returns bytes that do not compress.
    pub fn bytes(&mut self, len: usize) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(len + 8);
        while bytes.len() < len {
            bytes.extend_from_slice(&self.next_u64().to_le_bytes());
        }
        bytes.truncate(len);
        bytes
    }
}

/// Returns another number for each number, those of neighbours far apart: keys in an order that no pattern helps with.
pub fn scatter(number: u64) -> u64 {
    number.wrapping_mul(STEP)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_has_the_same_numbers_in_every_release() {
        let mut random = Random::new(1_234_567);
        let first: Vec<u64> = (0..3).map(|_| random.next_u64()).collect();
        assert_eq!(first, [6_457_827_717_110_365_317, 3_203_168_211_198_807_973, 9_817_491_932_198_370_423]);
    }

    #[test]
    fn limits_hold() {
        let mut random = Random::new(3);
        assert!((0..1000).all(|_| random.below(7) < 7));
        assert_eq!((random.below(0), random.bytes(13).len()), (0, 13));
        let hits = (0..1000).filter(|_| random.one_in(4)).count();
        assert!((150..350).contains(&hits), "{hits}");
        assert!((0..100).all(|_| [3, 5].contains(random.pick(&[3, 5]))));
    }
}
