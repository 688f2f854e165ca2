//! Sequence numbers: the order of writes, finer than log positions.

use std::fmt;

use arbor_base::Position;

/// Bulk loads between two batches have numbers of their own, in these low bits.
const BULK_BITS: u32 = 8;

/// A batch's sequence number is its log position with room below for the bulk loads that follow it. A reader at `r` sees
/// exactly the entries with `seq <= r`. Zero is older than every snapshot: such an entry is seen by all.
#[derive(Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Seq(pub u64);

impl Seq {
    pub const ZERO: Seq = Seq(0);

    pub fn of(position: Position) -> Seq {
        Seq(position.0 << BULK_BITS)
    }

    /// The batch that this is, or that it follows.
    pub fn position(self) -> Position {
        Position(self.0 >> BULK_BITS)
    }

    /// The number of the next bulk load; `None` when 255 of them followed the same batch.
    pub fn next_bulk(self) -> Option<Seq> {
        let next = Seq(self.0 + 1);
        (next.position() == self.position()).then_some(next)
    }
}

impl fmt::Debug for Seq {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 & ((1 << BULK_BITS) - 1) {
            0 => write!(f, "#{}", self.position().0),
            bulk => write!(f, "#{}+{bulk}", self.position().0),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bulk_loads_are_between_batches() {
        let batch = Seq::of(Position(7));
        let bulk = batch.next_bulk().unwrap();
        assert!(batch < bulk && bulk < Seq::of(Position(8)));
        assert_eq!((bulk.position(), format!("{bulk:?}")), (Position(7), "#7+1".to_owned()));
        assert_eq!(Seq(batch.0 + 255).next_bulk(), None);
    }
}
