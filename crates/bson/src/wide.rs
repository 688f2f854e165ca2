//! Unsigned integers of any width, just enough to compare a decimal with a double exactly.

use std::cmp::Ordering;

/// Little-endian limbs without leading zeros.
#[derive(PartialEq, Eq)]
pub(crate) struct Wide(Vec<u64>);

const FIVE_TO_27: u64 = 5u64.pow(27);

impl From<u128> for Wide {
    fn from(v: u128) -> Wide {
        let mut wide = Wide(vec![v as u64, (v >> 64) as u64]);
        wide.trim();
        wide
    }
}

impl Wide {
    fn trim(&mut self) {
        while self.0.last() == Some(&0) {
            self.0.pop();
        }
    }

    fn multiply(&mut self, factor: u64) {
        let mut carry = 0u128;
        for limb in &mut self.0 {
            carry += u128::from(*limb) * u128::from(factor);
            *limb = carry as u64;
            carry >>= 64;
        }
        self.0.push(carry as u64);
        self.trim();
    }

    pub(crate) fn multiply_power_of_five(&mut self, mut power: u32) {
        while power >= 27 {
            self.multiply(FIVE_TO_27);
            power -= 27;
        }
        self.multiply(5u64.pow(power));
    }

    pub(crate) fn shift_left(&mut self, bits: u32) {
        if !bits.is_multiple_of(64) {
            self.multiply(1 << (bits % 64));
        }
        if !self.0.is_empty() {
            self.0.splice(0..0, std::iter::repeat_n(0, (bits / 64) as usize));
        }
    }
}

impl Ord for Wide {
    fn cmp(&self, other: &Wide) -> Ordering {
        self.0.len().cmp(&other.0.len()).then_with(|| self.0.iter().rev().cmp(other.0.iter().rev()))
    }
}

impl PartialOrd for Wide {
    fn partial_cmp(&self, other: &Wide) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn powers_and_shifts() {
        let mut five = Wide::from(1);
        five.multiply_power_of_five(55);
        assert!(five == Wide::from(5u128.pow(55)));
        let mut shifted = Wide::from(3);
        shifted.shift_left(100);
        assert!(shifted == Wide::from(3u128 << 100));
        shifted.shift_left(64);
        assert!(shifted > five && Wide::from(u128::MAX) < shifted);
        let mut nothing = Wide::from(0);
        nothing.shift_left(130);
        assert!(nothing == Wide::from(0));
    }
}
