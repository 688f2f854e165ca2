//! A cursor over the rows of several trees, none of which has a key of another one, in the order of their keys.
//!
//! O1: while it moves forward, each cursor is at its first row that is not before the present one; backward, the mirror image. `order` names those that
//! are at a row, the next ones first. A turn of direction places all of them again from the present key.

use std::cmp::Ordering;

use arbor_engine::Result;
use arbor_txn::Cursor;

pub(crate) struct InOrder<'v> {
    cursors: Vec<Box<dyn Cursor + 'v>>,
    order: Vec<usize>,
    forward: bool,
}

impl<'v> InOrder<'v> {
    pub(crate) fn new(cursors: Vec<Box<dyn Cursor + 'v>>) -> InOrder<'v> {
        InOrder { cursors, order: Vec::new(), forward: true }
    }

    fn at(&self, place: usize) -> &(dyn Cursor + 'v) {
        &**self.cursors.get(place).expect("the order names cursors that are there")
    }

    fn present(&self) -> &(dyn Cursor + 'v) {
        self.at(*self.order.first().expect("a cursor is read while it is at a row"))
    }

    fn compare(&self, one: usize, other: usize) -> Ordering {
        let order = self.at(one).key().cmp(self.at(other).key());
        if self.forward { order } else { order.reverse() }
    }

    fn place(&mut self, forward: bool, to: impl Fn(usize, &mut dyn Cursor) -> Result<bool>) -> Result<bool> {
        (self.forward, self.order) = (forward, Vec::new());
        let mut order = Vec::with_capacity(self.cursors.len());
        for (at, cursor) in self.cursors.iter_mut().enumerate() {
            if to(at, &mut **cursor)? {
                order.push(at);
            }
        }
        order.sort_by(|one, other| self.compare(*one, *other));
        debug_assert!(
            order.is_sorted_by(|one, next| self.compare(*one, *next).is_lt()),
            "a key is in one of the trees"
        );
        self.order = order;
        Ok(!self.order.is_empty())
    }

    /// Moves the cursor that is at the present row, and gives it its new place in the order.
    fn step(&mut self, to: impl FnOnce(&mut dyn Cursor) -> Result<bool>) -> Result<bool> {
        if self.order.is_empty() {
            return Ok(false);
        }
        let moved = self.order.remove(0);
        let cursor = self.cursors.get_mut(moved).expect("the order names cursors that are there");
        if to(&mut **cursor)? {
            let place = self.order.partition_point(|other| self.compare(*other, moved).is_lt());
            self.order.insert(place, moved);
        }
        Ok(!self.order.is_empty())
    }

    /// Places the other cursors again for the other direction (O1).
    fn turn(&mut self, forward: bool) -> Result<()> {
        if self.order.is_empty() || self.forward == forward {
            return Ok(());
        }
        let (own, key) = (self.order.first().copied(), self.key().to_vec());
        self.place(forward, |at, cursor| match forward {
            _ if own == Some(at) => Ok(true),
            true => cursor.seek(&key),
            false => cursor.seek_before(&key),
        })?;
        debug_assert!(self.order.first().copied() == own, "the present row stays");
        Ok(())
    }
}

impl Cursor for InOrder<'_> {
    fn seek(&mut self, target: &[u8]) -> Result<bool> {
        self.place(true, |_, cursor| cursor.seek(target))
    }

    fn seek_before(&mut self, target: &[u8]) -> Result<bool> {
        self.place(false, |_, cursor| cursor.seek_before(target))
    }

    fn first(&mut self) -> Result<bool> {
        self.place(true, |_, cursor| cursor.first())
    }

    fn last(&mut self) -> Result<bool> {
        self.place(false, |_, cursor| cursor.last())
    }

    fn next(&mut self) -> Result<bool> {
        self.turn(true)?;
        self.step(|cursor| cursor.next())
    }

    fn prev(&mut self) -> Result<bool> {
        self.turn(false)?;
        self.step(|cursor| cursor.prev())
    }

    fn key(&self) -> &[u8] {
        self.present().key()
    }

    fn value(&self) -> &[u8] {
        self.present().value()
    }
}

#[cfg(test)]
mod tests {
    use arbor_base::Random;

    use super::*;

    /// A cursor over sorted keys.
    struct Keys {
        keys: Vec<Vec<u8>>,
        /// The place behind the present one. 0: none.
        at: usize,
    }

    impl Keys {
        fn to(&mut self, at: Option<usize>) -> Result<bool> {
            self.at = at.filter(|at| *at < self.keys.len()).map_or(0, |at| at + 1);
            Ok(self.at > 0)
        }
    }

    impl Cursor for Keys {
        fn seek(&mut self, target: &[u8]) -> Result<bool> {
            self.to(Some(self.keys.partition_point(|key| key.as_slice() < target)))
        }
        fn seek_before(&mut self, target: &[u8]) -> Result<bool> {
            self.to(self.keys.partition_point(|key| key.as_slice() < target).checked_sub(1))
        }
        fn first(&mut self) -> Result<bool> {
            self.to(Some(0))
        }
        fn last(&mut self) -> Result<bool> {
            self.to(self.keys.len().checked_sub(1))
        }
        fn next(&mut self) -> Result<bool> {
            let next = (self.at > 0).then_some(self.at);
            self.to(next)
        }
        fn prev(&mut self) -> Result<bool> {
            let prev = self.at.checked_sub(2);
            self.to(prev)
        }
        fn key(&self) -> &[u8] {
            &self.keys[self.at - 1]
        }
        fn value(&self) -> &[u8] {
            self.key()
        }
    }

    #[test]
    fn it_moves_like_a_cursor_over_one_tree() {
        let mut random = Random::new(24);
        for trees in [1, 2, 7] {
            let mut all: Vec<Vec<u8>> = (0..60u8).filter(|_| random.below(3) > 0).map(|n| vec![n, 1]).collect();
            all.sort();
            let mut parts = vec![Vec::new(); trees];
            all.iter().for_each(|key| parts[random.below(trees as u64) as usize].push(key.clone()));
            let cursors = parts.into_iter().map(|keys| Box::new(Keys { keys, at: 0 }) as Box<dyn Cursor>);
            let (mut own, mut model) = (InOrder::new(cursors.collect()), Keys { keys: all, at: 0 });
            for step in 0..3000 {
                let target = [random.below(62) as u8, random.below(3) as u8];
                let (found, expected) = match random.below(10) {
                    0 => (own.seek(&target), model.seek(&target)),
                    1 => (own.seek_before(&target), model.seek_before(&target)),
                    2 => (own.first(), model.first()),
                    3 => (own.last(), model.last()),
                    4..7 => (own.next(), model.next()),
                    _ => (own.prev(), model.prev()),
                };
                let valid = found.unwrap();
                assert_eq!(valid, expected.unwrap(), "step {step} of {trees} trees");
                assert!(
                    !valid || own.key() == model.key() && own.value() == model.value(),
                    "step {step} of {trees} trees"
                );
            }
        }
    }
}
