//! Sizes of a leaf's blocks, so that the stored ones end where units of the file end.
//!
//! A device and the page cache read whole units. A stored block of one unit that begins anywhere is in two of them as a rule, of which half
//! belongs to its neighbours. So a block takes as many rows as are expected to fill whole units, by what the blocks before it were compressed
//! to; what is left of the last unit is padding, if it is little. Where rows are large, or compress now more and now less, a block crosses
//! into another unit all the same, and the next one takes what that leaves.

use crate::codec;
use crate::space::UNIT;

/// Padding is at most one part in this many of the block behind it.
const PADDING_PARTS: usize = 16;

/// A block leaves one part in this many of its room free, since the next rows may compress less.
const MARGIN_PARTS: usize = 32;
/// As [`MARGIN_PARTS`], where rows are not compressed and their size is known.
const MARGIN_PARTS_RAW: usize = 128;

/// A block has at least two and at most eight fifths of the usual rows.
const FIFTHS: (usize, usize) = (2, 8);

const ONE: usize = 1 << 16;

/// Returns the maximum of the raw bytes of a block whose rows are smaller than the usual size.
pub(crate) fn block_bytes_max(usual: u32) -> u64 {
    u64::from(usual) * FIFTHS.1 as u64 / 5
}

/// Chooses the sizes of the blocks of a table.
pub(super) struct Fit {
    /// Raw bytes of a block as the user configured it.
    usual: usize,
    /// Stored bytes of [`ONE`] raw bytes, by the blocks so far. `None`: not known, or blocks may end anywhere.
    ratio: Option<usize>,
    margin_parts: usize,
    is_on: bool,
}

impl Fit {
    pub(super) fn new(usual: usize, is_on: bool) -> Fit {
        Fit { usual, ratio: None, margin_parts: MARGIN_PARTS, is_on }
    }

    pub(super) fn usual(&self) -> usize {
        self.usual
    }

    /// Takes into account the stored form of a block.
    pub(super) fn observe(&mut self, raw_bytes: usize, stored: &[u8]) {
        let ratio = stored.len() * ONE / raw_bytes.max(1);
        self.ratio = Some(self.ratio.map_or(ratio, |before| (3 * before + ratio) / 4)).filter(|_| self.is_on);
        self.margin_parts = if codec::is_raw(stored) { MARGIN_PARTS_RAW } else { MARGIN_PARTS };
    }

    /// Returns the maximum of the raw bytes of a block that begins at `offset` of the table.
    pub(super) fn raw_bytes_max(&self, offset: usize) -> usize {
        let Some(ratio) = self.ratio.filter(|ratio| *ratio > 0) else { return self.usual };
        let unit = UNIT as usize;
        let stored = self.usual * ratio / ONE;
        let begun = offset % unit;
        let begun = if unit - begun <= stored / PADDING_PARTS { 0 } else { begun };
        let units = ((begun + stored + unit / 2) / unit).max(1);
        let room = units * unit - begun;
        let raw = (room - room / self.margin_parts) * ONE / ratio;
        let is_near = (self.usual * FIFTHS.0 / 5..=self.usual * FIFTHS.1 / 5).contains(&raw);
        if is_near { raw } else { self.usual }
    }

    /// Returns the padding before a block of this length that would begin at `offset`.
    pub(super) fn padding(&self, offset: usize, stored_bytes: usize) -> usize {
        let unit = UNIT as usize;
        let (begun, free) = (offset % unit, unit - offset % unit);
        let crosses = (begun + stored_bytes).div_ceil(unit) > stored_bytes.div_ceil(unit);
        let is_little = free <= stored_bytes / PADDING_PARTS && codec::PADDING.contains(&free);
        if self.is_on && crosses && is_little { free } else { 0 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const USUAL: usize = 8192;

    /// Returns what chooses sizes behind a block that is stored in `stored_bytes`.
    fn fit(stored_bytes: usize) -> Fit {
        let mut fit = Fit::new(USUAL, true);
        assert_eq!(fit.raw_bytes_max(64), USUAL, "nothing is known yet");
        let mut stored = vec![0; stored_bytes];
        stored[0] = u8::from(stored_bytes < USUAL);
        fit.observe(USUAL, &stored);
        fit
    }

    #[test]
    fn blocks_end_where_units_end() {
        for (stored_bytes, offset, end) in [
            (4300, 0, 4096),
            (4300, 4096 + 64, 2 * 4096),
            (4300, 4096 - 200, 2 * 4096),
            (4300, 2000, 2 * 4096),
            (4300, 3000, 2 * 4096),
            (8200, 0, 2 * 4096),
            (8200, 100, 2 * 4096),
            (8200, 3000, 3 * 4096),
            (6400, 0, 2 * 4096),
        ] {
            let fit = fit(stored_bytes);
            let stored = fit.raw_bytes_max(offset) * stored_bytes / USUAL;
            let begin = offset + fit.padding(offset, stored);
            let missed = end - (begin + stored);
            assert!(missed <= stored / 31 + 2, "{stored_bytes} at {offset}: ends {missed} bytes before {end}");
        }
    }

    #[test]
    fn blocks_that_cannot_fill_units_have_the_usual_size() {
        // a quarter of a unit each
        assert_eq!(fit(1024).raw_bytes_max(0), USUAL);
        let mut off = Fit::new(USUAL, false);
        off.observe(USUAL, &[1; 4300]);
        assert_eq!((off.raw_bytes_max(0), off.padding(4096 - 100, 4000)), (USUAL, 0));
    }

    #[test]
    fn padding_is_little_and_saves_a_unit() {
        let fit = fit(4300);
        assert_eq!(fit.padding(4096 - 100, 4000), 100);
        assert_eq!(fit.padding(4096 - 1, 4000), 0, "its length has no room");
        assert_eq!(fit.padding(4096 - 300, 4000), 0, "too much");
        assert_eq!(fit.padding(4096, 4000), 0);
        assert_eq!(fit.padding(4096 - 100, 4097), 0, "two units in any case");
    }
}
