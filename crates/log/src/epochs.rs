//! Epochs of the records, and the comparison of two logs by them (Kafka's KIP-101, the log matching of Raft).
//!
//! Two logs that hold a record of one epoch at one position are equal up to there. A follower names the end of its log; the
//! leader says whether it has that record, or else where its own records end that are not later than that epoch
//! ([`Epochs::compare`]). The follower cuts its log there ([`Epochs::common_end`]) and asks again; each round takes it to an
//! earlier epoch or ends.

use arbor_base::Position;

/// The epochs of a log at one moment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Epochs {
    /// Epoch of the record before the first one that is kept; 0: there was none, or it is not known.
    before: u64,
    /// Epochs with their first positions, oldest first, both rising. The last one may have no record yet.
    begins: Vec<(u64, Position)>,
    last: Position,
}

/// The answer of a log to the end of another one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Matching {
    /// The log has this record: what follows it can be sent.
    Same,
    /// The log has no record of this epoch at this position; its last record that is not of a later epoch is this one.
    Ends { epoch: u64, last: Position },
    /// The records that would decide it are no longer kept.
    Trimmed,
}

impl Epochs {
    /// Requires at least one beginning. Beginnings of one epoch are taken together.
    pub(crate) fn new(before: u64, begins: impl IntoIterator<Item = (u64, Position)>, last: Position) -> Epochs {
        let mut own = Epochs { before, begins: Vec::new(), last };
        for (epoch, first) in begins {
            match own.begins.last() {
                Some((newest, _)) if *newest == epoch => {}
                _ => own.begins.push((epoch, first)),
            }
        }
        let rises = own.begins.is_sorted_by(|one, next| one.0 < next.0 && one.1 < next.1);
        assert!(rises && !own.begins.is_empty(), "L7: epochs rise with positions: {own:?}");
        own
    }

    /// Epochs and their first positions, oldest first.
    pub fn begins(&self) -> &[(u64, Position)] {
        &self.begins
    }

    fn first(&self) -> Position {
        self.begins.first().map_or(Position(1), |(_, first)| *first)
    }

    /// The epoch of a record, also of the one before the first that is kept. `None`: it is not known here.
    pub fn at(&self, position: Position) -> Option<u64> {
        if position.next() == self.first() {
            return (self.before > 0 || position == Position::ZERO).then_some(self.before);
        }
        if position > self.last {
            return None;
        }
        let behind = self.begins.partition_point(|(_, first)| *first <= position);
        self.begins.get(behind.checked_sub(1)?).map(|(epoch, _)| *epoch)
    }

    /// The last record whose epoch is not later than `epoch`, with its own epoch.
    fn last_until(&self, epoch: u64) -> Option<(u64, Position)> {
        let behind = self.begins.partition_point(|(own, _)| *own <= epoch);
        let last = self.begins.get(behind).map_or(self.last, |(_, following)| Position(following.0 - 1));
        // An epoch without records has none that is last.
        self.at(last).map(|own| (own, last)).filter(|(own, _)| *own <= epoch)
    }

    /// Compares the end of another log, a position and its epoch, with this one.
    pub fn compare(&self, position: Position, epoch: u64) -> Matching {
        if self.at(position) == Some(epoch) {
            return Matching::Same;
        }
        match self.last_until(epoch) {
            Some((epoch, last)) if position.next() >= self.first() => Matching::Ends { epoch, last },
            _ => Matching::Trimmed,
        }
    }

    /// The position behind which this log is cut when another one answered [`Matching::Ends`]. `None`: the two have nothing in
    /// common that is kept.
    pub fn common_end(&self, epoch: u64, last: Position) -> Option<Position> {
        let (_, own) = self.last_until(epoch)?;
        Some(own.min(last)).filter(|end| end.next() >= self.first())
    }
}

#[cfg(test)]
mod tests {
    use arbor_base::Random;

    use super::*;

    fn epochs(before: u64, begins: &[(u64, u64)], last: u64) -> Epochs {
        Epochs::new(before, begins.iter().map(|(epoch, first)| (*epoch, Position(*first))), Position(last))
    }

    #[test]
    fn each_position_has_the_epoch_of_its_segment() {
        let own = epochs(2, &[(3, 11), (3, 15), (7, 20)], 25);
        let at = |position| own.at(Position(position));
        assert_eq!([9, 10, 11, 19, 20, 25, 26].map(at), [None, Some(2), Some(3), Some(3), Some(7), Some(7), None]);
        assert_eq!(own.begins(), [(3, Position(11)), (7, Position(20))]);
        assert_eq!(epochs(0, &[(1, 1)], 0).at(Position::ZERO), Some(0), "before the first record ever");
        assert_eq!(epochs(0, &[(1, 11)], 10).at(Position(10)), None, "nothing says what was before");
    }

    #[test]
    fn the_answer_names_the_last_record_that_both_may_have() {
        let own = epochs(2, &[(3, 11), (7, 20), (9, 26)], 25);
        let check = |position, epoch, expect| assert_eq!(own.compare(Position(position), epoch), expect);
        let ends = |epoch, last| Matching::Ends { epoch, last: Position(last) };
        check(25, 7, Matching::Same);
        check(12, 3, Matching::Same);
        check(10, 2, Matching::Same);
        check(30, 7, ends(7, 25));
        check(30, 9, ends(7, 25));
        check(22, 5, ends(3, 19));
        check(22, 2, ends(2, 10));
        check(22, 1, Matching::Trimmed);
        check(5, 2, Matching::Trimmed);
    }

    /// Logs that share a first part and then go separate ways are brought to the longest common part.
    #[test]
    fn rounds_of_asking_end_at_the_common_part() {
        for seed in 0..2000 {
            let mut random = Random::new(seed);
            // The epoch of each record; index 0 is position 1.
            let mut grow = |records: &mut Vec<u64>, parity: u64| {
                let mut epoch = records.last().copied().unwrap_or(0);
                for _ in 0..random.below(8) {
                    // Only one leader per epoch: the two continuations share none.
                    if random.chance(1, 2) || epoch % 2 != parity {
                        epoch += 1 + u64::from((epoch + 1) % 2 != parity);
                    }
                    records.push(epoch);
                }
            };
            let mut leader = Vec::new();
            grow(&mut leader, 1);
            let mut follower = leader.clone();
            let common = leader.len() as u64;
            grow(&mut leader, 0);
            grow(&mut follower, 1);
            let of = |records: &[u64]| {
                let begins: Vec<_> = records.iter().zip(1..).map(|(epoch, at)| (*epoch, Position(at))).collect();
                let begins = if begins.is_empty() { vec![(1, Position(1))] } else { begins };
                Epochs::new(0, begins, Position(records.len() as u64))
            };
            let leads = of(&leader);
            for round in 0.. {
                assert!(round < 20, "seed {seed}: it does not end");
                let own = of(&follower);
                let end = own.last;
                match leads.compare(end, own.at(end).unwrap()) {
                    Matching::Same => break,
                    Matching::Ends { epoch, last } => {
                        let kept = own.common_end(epoch, last).unwrap();
                        assert!(kept < end, "seed {seed}");
                        follower.truncate(kept.0 as usize);
                    }
                    Matching::Trimmed => panic!("seed {seed}: nothing was trimmed"),
                }
            }
            assert!(leader.starts_with(&follower), "seed {seed}");
            assert!(follower.len() as u64 >= common.min(leader.len() as u64), "seed {seed}: more than needed was cut");
        }
    }
}
