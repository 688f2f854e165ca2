//! Epochs of the records of a log.

use arbor_base::Position;

use crate::agreement::Epoch;

/// Identity of a record: two logs that both have it are equal up to it (R6). The default is before all records.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Place {
    pub epoch: Epoch,
    pub position: Position,
}

/// The end of a log, and the first position of each epoch in it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Epochs {
    /// Both ascend. An epoch without records is not in the list.
    begins: Vec<(Epoch, Position)>,
    end: Position,
}

impl Epochs {
    /// Requires: the list ascends and each epoch has a record.
    pub fn new(begins: Vec<(Epoch, Position)>, end: Position) -> Epochs {
        assert!(begins.is_sorted_by(|a, b| a.0 < b.0 && a.1 < b.1), "R6: epochs ascend with positions: {begins:?}");
        assert!(begins.last().is_none_or(|(_, first)| *first <= end), "R6: each epoch has a record");
        Epochs { begins, end }
    }

    /// The last record.
    pub fn end(&self) -> Position {
        self.end
    }

    pub fn last(&self) -> Place {
        self.place(self.end)
    }

    /// Epoch of the record at a position. Requires: it is not after the end.
    pub fn at(&self, position: Position) -> Epoch {
        let before = self.begins.partition_point(|(_, first)| *first <= position);
        before.checked_sub(1).and_then(|at| self.begins.get(at)).map_or(Epoch(0), |(epoch, _)| *epoch)
    }

    pub fn place(&self, position: Position) -> Place {
        Place { epoch: self.at(position), position }
    }

    /// Returns true if the record is in this log.
    pub fn has(&self, place: Place) -> bool {
        place.position <= self.end && self.at(place.position) == place.epoch
    }

    /// Returns the last position of the epoch that the record at a position is of.
    pub fn last_of_run(&self, position: Position) -> Position {
        let after = self.begins.iter().find(|(_, first)| *first > position);
        after.map_or(self.end, |(_, first)| Position(first.0 - 1))
    }

    /// Returns the last record of the greatest epoch that is not greater than `epoch`.
    pub fn last_up_to(&self, epoch: Epoch) -> Place {
        let after = self.begins.iter().find(|(other, _)| *other > epoch);
        self.place(after.map_or(self.end, |(_, first)| Position(first.0 - 1)))
    }

    /// Adds records of one epoch at the end.
    pub fn append(&mut self, epoch: Epoch, count: u64) {
        let last = self.last().epoch;
        assert!(epoch >= last, "R6: epochs ascend with positions: {epoch:?} after {last:?}");
        if count > 0 && epoch > last {
            self.begins.push((epoch, self.end.next()));
        }
        self.end = Position(self.end.0 + count);
    }

    /// Removes the records after `end`.
    pub fn cut_behind(&mut self, end: Position) {
        self.begins.retain(|(_, first)| *first <= end);
        self.end = self.end.min(end);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn place(epoch: u64, position: u64) -> Place {
        Place { epoch: Epoch(epoch), position: Position(position) }
    }

    #[test]
    fn epochs_of_positions() {
        let mut log = Epochs::default();
        assert_eq!((log.last(), log.has(place(0, 0)), log.has(place(1, 1))), (place(0, 0), true, false));
        log.append(Epoch(1), 3);
        log.append(Epoch(4), 2);
        log.append(Epoch(4), 1);
        assert_eq!((1..=6).map(|at| log.at(Position(at)).0).collect::<Vec<_>>(), [1, 1, 1, 4, 4, 4]);
        assert_eq!((log.last(), log.has(place(4, 4)), log.has(place(4, 3))), (place(4, 6), true, false));
        assert_eq!((log.last_of_run(Position(2)), log.last_of_run(Position(5))), (Position(3), Position(6)));
        assert_eq!(log.last_up_to(Epoch(0)), place(0, 0));
        assert_eq!([1, 3, 4, 9].map(|epoch| log.last_up_to(Epoch(epoch)).position.0), [3, 3, 6, 6]);
        log.cut_behind(Position(4));
        assert_eq!(log.last(), place(4, 4));
        log.cut_behind(Position(3));
        assert_eq!((log.last(), log.clone()), (place(1, 3), Epochs::new(vec![(Epoch(1), Position(1))], Position(3))));
    }
}
