//! java.util.Random's integers: the shufflers' offsets come from it (spec/workloads.md 1.4).

#[derive(Clone, Debug)]
pub(super) struct JavaRandom(u64);

const MULTIPLIER: u64 = 0x5_DEEC_E66D;
const MASK: u64 = (1 << 48) - 1;

impl JavaRandom {
    pub(super) fn new(seed: i64) -> JavaRandom {
        JavaRandom((seed as u64 ^ MULTIPLIER) & MASK)
    }

    fn bits(&mut self, count: u32) -> i32 {
        self.0 = self.0.wrapping_mul(MULTIPLIER).wrapping_add(0xB) & MASK;
        (self.0 >> (48 - count)) as i32
    }

    /// Uniform in `0..bound`; bound is above 0.
    pub(super) fn below(&mut self, bound: i32) -> i32 {
        if bound & -bound == bound {
            return ((i64::from(bound) * i64::from(self.bits(31))) >> 31) as i32;
        }
        loop {
            let bits = self.bits(31);
            let value = bits % bound;
            // Java's test by overflow: true unless the draw is in the last, incomplete run of `bound` numbers.
            if bits.wrapping_sub(value).wrapping_add(bound - 1) >= 0 {
                return value;
            }
        }
    }
}
