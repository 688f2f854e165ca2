//! Numbers that are found by their rank.

use std::collections::VecDeque;

use arbor_bson::{Doc, Value};

use super::Moving;
use crate::Result;
use crate::accumulator::percentile::{Percentile, number_of};
use crate::expression::Evaluated;

/// Maximum numbers of a chunk; a full one is split in two. Few chunks are skipped, and few numbers moved within one.
const CHUNK_MAX: usize = 1024;

#[derive(Debug)]
pub(crate) struct Ranked {
    percentile: Percentile,
    /// None: no number.
    rows: VecDeque<Option<f64>>,
    numbers: Sorted,
}

/// Numbers in order, in chunks of which none is empty.
#[derive(Debug, Default)]
struct Sorted {
    chunks: Vec<Vec<f64>>,
    len: usize,
}

impl Sorted {
    /// The first chunk that has a number not below this one, or the last one.
    fn chunk_of(&self, number: f64) -> usize {
        let before = |chunk: &Vec<f64>| chunk.last().is_some_and(|last| last.total_cmp(&number).is_lt());
        self.chunks.partition_point(before).min(self.chunks.len().saturating_sub(1))
    }

    fn insert(&mut self, number: f64) {
        let at = self.chunk_of(number);
        self.len += 1;
        let Some(chunk) = self.chunks.get_mut(at) else {
            self.chunks.push(vec![number]);
            return;
        };
        let place = chunk.partition_point(|known| known.total_cmp(&number).is_lt());
        chunk.insert(place, number);
        if chunk.len() > CHUNK_MAX {
            let upper = chunk.split_off(CHUNK_MAX / 2);
            self.chunks.insert(at + 1, upper);
        }
    }

    fn remove(&mut self, number: f64) {
        let at = self.chunk_of(number);
        let Some(chunk) = self.chunks.get_mut(at) else { return };
        let Ok(place) = chunk.binary_search_by(|known| known.total_cmp(&number)) else { return };
        chunk.remove(place);
        self.len -= 1;
        if chunk.is_empty() {
            self.chunks.remove(at);
        }
    }

    fn get(&self, rank: usize) -> Option<f64> {
        let mut left = rank;
        for chunk in &self.chunks {
            match chunk.get(left) {
                Some(number) => return Some(*number),
                None => left -= chunk.len(),
            }
        }
        None
    }
}

impl Ranked {
    pub(crate) fn new(percentile: &Percentile) -> Ranked {
        Ranked { percentile: percentile.clone(), rows: VecDeque::new(), numbers: Sorted::default() }
    }
}

impl Moving for Ranked {
    fn enter(&mut self, value: Evaluated, _root: Doc) -> Result<()> {
        let number = number_of(&value);
        number.into_iter().for_each(|number| self.numbers.insert(number));
        self.rows.push_back(number);
        Ok(())
    }

    fn leave(&mut self) {
        if let Some(Some(number)) = self.rows.pop_front() {
            self.numbers.remove(number);
        }
    }

    fn value(&self) -> Value {
        self.percentile.at_ranks(self.numbers.len, |rank| self.numbers.get(rank))
    }

    fn size_bytes(&self) -> usize {
        self.rows.len() * (size_of::<Option<f64>>() + 2 * size_of::<f64>())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_stay_in_order() {
        let (mut sorted, mut model) = (Sorted::default(), Vec::new());
        for step in 0..20_000u64 {
            let number = (step.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 52) as f64;
            sorted.insert(number);
            model.push(number);
            if step % 3 == 2 {
                let gone = model.remove((step as usize * 7919) % model.len());
                sorted.remove(gone);
            }
        }
        model.sort_unstable_by(f64::total_cmp);
        assert!(sorted.chunks.len() > 5 && sorted.len == model.len());
        assert_eq!((0..=model.len()).map_while(|rank| sorted.get(rank)).collect::<Vec<_>>(), model);
        for number in model {
            sorted.remove(number);
        }
        assert!(sorted.chunks.is_empty() && sorted.len == 0 && sorted.get(0).is_none());
    }
}
