//! Sort order of a leaf's slots: the low four bits count them, then four bits name the slot of each place.

#[derive(Clone, Copy)]
pub(super) struct Order(pub u64);

impl Order {
    /// Returns the order of `len` slots that were filled in order.
    pub(super) fn sorted(len: usize) -> Order {
        (0..len).fold(Order(0), |order, at| order.with_next_at(at))
    }

    pub(super) fn len(self) -> usize {
        (self.0 & 15) as usize
    }

    /// Requires: `place < len`.
    pub(super) fn slot(self, place: usize) -> usize {
        debug_assert!(place < self.len(), "place {place} of {}", self.len());
        ((self.0 >> (4 + 4 * place)) & 15) as usize
    }

    /// With the next slot, number `len`, at that place. Requires: `place <= len < 15`.
    pub(super) fn with_next_at(self, place: usize) -> Order {
        debug_assert!(place <= self.len() && self.len() < 15, "place {place} of {}", self.len());
        let (len, places) = (self.0 & 15, self.0 >> 4);
        let before = (1 << (4 * place)) - 1;
        let places = (places & before) | (len << (4 * place)) | ((places & !before) << 4);
        Order((places << 4) | (len + 1))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_slots_by_place() {
        let mut order = Order(0);
        let mut model = Vec::new();
        for (slot, place) in [0, 0, 1, 3, 2, 0, 6, 3, 8, 1, 10, 5, 12, 0, 14].into_iter().enumerate() {
            order = order.with_next_at(place);
            model.insert(place, slot);
            assert_eq!((0..order.len()).map(|place| order.slot(place)).collect::<Vec<_>>(), model);
        }
        assert_eq!((order.len(), Order::sorted(15).slot(14), Order::sorted(15).len()), (15, 14, 15));
    }
}
