//! The balancer's decisions for one round, from numbers alone.
//!
//! In this order: chunks leave draining shards; chunks go to a shard of their zone; then each collection is evened out by bytes, from
//! the fullest shard to the emptiest while they differ by [`DIFFERENCE_MIN`] chunks. A shard gives or takes one chunk in a round.
//!
//! P1: a move for size takes at most the size of a chunk, a third of the difference at most, so the sum of squares of the sizes sinks with
//! each: rounds end. P2: only the fullest and the emptiest shard may cross the mean, by less than a chunk; all others stay on their
//! side of it. So without zones no byte moves twice. P3: a chunk that reaches over a border of a zone is split there before it moves.

use std::collections::HashMap;

/// Sizes of two shards differ by fewer chunks than this: nothing is to be done.
pub(crate) const DIFFERENCE_MIN: u64 = 3;

/// A shard, called by its place in the list.
#[derive(Clone, Debug, Default)]
pub(crate) struct ShardState {
    pub draining: bool,
    pub zones: Vec<usize>,
}

#[derive(Clone, Debug)]
pub(crate) struct Chunk {
    /// KeyString of its lower bound; it ends where the next one begins.
    pub low: Vec<u8>,
    pub shard: usize,
    pub bytes: u64,
    pub jumbo: bool,
}

#[derive(Clone, Debug)]
pub(crate) struct ZoneRange {
    pub low: Vec<u8>,
    pub high: Vec<u8>,
    pub zone: usize,
}

#[derive(Clone, Debug)]
pub(crate) struct Collection {
    /// In the order of the key.
    pub chunks: Vec<Chunk>,
    /// KeyString of the end of the last one.
    pub end: Vec<u8>,
    /// In the order of the key, without overlaps.
    pub zones: Vec<ZoneRange>,
    pub chunk_bytes_max: u64,
    /// Its chunks may be moved.
    pub enabled: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Reason {
    Draining,
    Zone,
    Size,
}

impl Reason {
    /// Returns the name in `balancerCollectionStatus`.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Reason::Draining => "draining",
            Reason::Zone => "zoneViolation",
            Reason::Size => "chunksImbalance",
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Split {
    pub collection: usize,
    pub chunk: usize,
    pub at: Vec<u8>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Move {
    pub collection: usize,
    pub chunk: usize,
    pub to: usize,
    /// The chunk is larger than this: only its beginning moves.
    pub part: Option<u64>,
    pub reason: Reason,
}

#[derive(Debug, Default)]
pub(crate) struct Round {
    pub splits: Vec<Split>,
    pub moves: Vec<Move>,
}

impl Round {
    /// Returns why a collection is not as it should be, if it is not.
    pub(crate) fn violation(&self) -> Option<Reason> {
        let first = self.moves.first().map(|first| first.reason);
        let zones = (!self.splits.is_empty()).then_some(Reason::Zone);
        if first == Some(Reason::Draining) { first } else { zones.or(first) }
    }
}

/// Plans one round.
pub(crate) fn plan(shards: &[ShardState], collections: &[Collection]) -> Round {
    let mut planner = Planner { shards, busy: vec![false; shards.len()], round: Round::default() };
    let mut views: Vec<View<'_>> = Vec::new();
    for (at, collection) in collections.iter().enumerate().filter(|(_, collection)| collection.enabled) {
        views.push(planner.view(at, collection));
    }
    for reason in [Reason::Draining, Reason::Zone] {
        for view in &views {
            planner.leave(view, reason);
        }
    }
    for view in &views {
        planner.even_out(view);
    }
    planner.round
}

/// A collection, and what follows from its chunks.
struct View<'c> {
    at: usize,
    collection: &'c Collection,
    /// Bytes of each shard.
    sizes: Vec<u64>,
    /// Chunks that must leave their shards.
    leaving: Vec<(usize, Reason, Option<usize>)>,
    /// The chunk that a shard gives away first, by zone and shard.
    best: HashMap<(Option<usize>, usize), usize>,
}

struct Planner<'s> {
    shards: &'s [ShardState],
    /// Shards that give or take a chunk in this round.
    busy: Vec<bool>,
    round: Round,
}

impl<'s> Planner<'s> {
    fn shard(&self, at: usize) -> Option<&'s ShardState> {
        self.shards.get(at)
    }

    fn is_free(&self, at: usize) -> bool {
        self.busy.get(at) == Some(&false)
    }

    /// Returns true if a chunk of a zone may be on a shard.
    fn fits(&self, zone: Option<usize>, at: usize) -> bool {
        self.shard(at).is_some_and(|shard| !shard.draining && zone.is_none_or(|zone| shard.zones.contains(&zone)))
    }

    fn view<'c>(&mut self, at: usize, collection: &'c Collection) -> View<'c> {
        let mut view =
            View { at, collection, sizes: vec![0; self.shards.len()], leaving: Vec::new(), best: HashMap::new() };
        let mut zones = collection.zones.iter().peekable();
        for (place, chunk) in collection.chunks.iter().enumerate() {
            if let Some(size) = view.sizes.get_mut(chunk.shard) {
                *size += chunk.bytes;
            }
            let high = collection.chunks.get(place + 1).map_or(&collection.end, |next| &next.low);
            while zones.peek().is_some_and(|range| range.high <= chunk.low) {
                zones.next();
            }
            let splits = self.round.splits.len();
            for range in zones.clone().take_while(|range| range.low < *high) {
                for border in [&range.low, &range.high] {
                    let is_inside = *border > chunk.low && *border < *high;
                    let last = self.round.splits.get(splits..).and_then(<[Split]>::last);
                    // the end of one zone may be the beginning of the next
                    if is_inside && last.is_none_or(|last| last.at != *border) {
                        self.round.splits.push(Split { collection: at, chunk: place, at: border.clone() });
                    }
                }
            }
            if self.round.splits.len() > splits || chunk.jumbo {
                continue;
            }
            let zone = zones.peek().filter(|range| range.low <= chunk.low).map(|range| range.zone);
            if self.shard(chunk.shard).is_none_or(|shard| shard.draining) {
                view.leaving.push((place, Reason::Draining, zone));
            } else if !self.fits(zone, chunk.shard) {
                view.leaving.push((place, Reason::Zone, zone));
            } else if chunk.bytes > 0 {
                let better = |other: usize| rank(collection, place) > rank(collection, other);
                let best = view.best.entry((zone, chunk.shard)).or_insert(place);
                if better(*best) {
                    *best = place;
                }
            }
        }
        view
    }

    fn push(&mut self, view: &View<'_>, chunk: usize, to: usize, reason: Reason) {
        let Some(moved) = view.collection.chunks.get(chunk) else { return };
        for shard in [moved.shard, to] {
            if let Some(busy) = self.busy.get_mut(shard) {
                assert!(!*busy, "a shard has one move in a round");
                *busy = true;
            }
        }
        let max = view.collection.chunk_bytes_max;
        let part = (moved.bytes > max).then_some(max);
        self.round.moves.push(Move { collection: view.at, chunk, to, part, reason });
    }

    /// Plans moves of chunks that are on a wrong shard, to the emptiest right one.
    fn leave(&mut self, view: &View<'_>, reason: Reason) {
        for (place, _, zone) in view.leaving.iter().filter(|(_, own, _)| *own == reason) {
            let from = view.collection.chunks.get(*place).map_or(usize::MAX, |chunk| chunk.shard);
            if !self.is_free(from) {
                continue;
            }
            let right = (0..self.shards.len()).filter(|at| self.is_free(*at) && self.fits(*zone, *at));
            if let Some(to) = right.min_by_key(|at| view.sizes.get(*at)) {
                self.push(view, *place, to, reason);
            }
        }
    }

    fn even_out(&mut self, view: &View<'_>) {
        let mut groups: Vec<Option<usize>> = view.collection.zones.iter().map(|range| Some(range.zone)).collect();
        groups.push(None);
        groups.sort_unstable();
        groups.dedup();
        for group in groups {
            self.even_out_group(view, group);
        }
    }

    fn even_out_group(&mut self, view: &View<'_>, group: Option<usize>) {
        let size = |at: usize| view.sizes.get(at).copied().unwrap_or(0);
        let mut order: Vec<usize> = (0..self.shards.len()).filter(|at| self.fits(group, *at)).collect();
        order.sort_unstable_by_key(|at| (std::cmp::Reverse(size(*at)), *at));
        let total: u64 = order.iter().map(|at| size(*at)).sum();
        let Some(mean) = total.checked_div(order.len() as u64) else { return };
        let max = view.collection.chunk_bytes_max;
        let givers: Vec<usize> =
            order.iter().copied().filter(|at| size(*at) > mean && view.best.contains_key(&(group, *at))).collect();
        let takers: Vec<usize> = order.iter().rev().copied().filter(|at| size(*at) < mean).collect();
        let (mut giver, mut taker) = (0, 0);
        while let (Some(from), Some(to)) = (givers.get(giver), takers.get(taker)) {
            if size(*from) - size(*to) < DIFFERENCE_MIN * max {
                return;
            }
            let Some(chunk) = view.best.get(&(group, *from)) else { return };
            let moved = view.collection.chunks.get(*chunk).map_or(0, |chunk| chunk.bytes.min(max));
            // P2
            let gives = giver == 0 || size(*from) - moved >= mean;
            let takes = taker == 0 || size(*to) + moved <= mean;
            if !self.is_free(*from) || !gives {
                giver += 1;
            } else if !self.is_free(*to) || !takes {
                taker += 1;
            } else {
                // two that are to have the same size, or two on their sides of the mean
                let is_pair = (giver == 0) == (taker == 0) || size(*from) - moved >= mean && size(*to) + moved <= mean;
                if is_pair {
                    self.push(view, *chunk, *to, Reason::Size);
                    taker += 1;
                }
                giver += 1;
            }
        }
    }
}

/// Compares chunks that a shard may give away: first those that move enough at once, then those that move as a whole.
fn rank(collection: &Collection, chunk: usize) -> (bool, bool, u64) {
    let bytes = collection.chunks.get(chunk).map_or(0, |chunk| chunk.bytes);
    let max = collection.chunk_bytes_max;
    (bytes >= max / 2, bytes <= max, bytes.min(max))
}

/// Returns true if the time of day, in minutes, is within the balancer's window, which may reach over midnight.
pub(crate) fn is_within(start: u32, stop: u32, now: u32) -> bool {
    if start <= stop { start <= now && now < stop } else { now >= start || now < stop }
}

/// Reads `HH:MM` as minutes of a day.
pub(crate) fn minutes(text: &str) -> Option<u32> {
    let (hours, minutes) = text.split_once(':')?;
    let (hours, minutes): (u32, u32) = (hours.parse().ok()?, minutes.parse().ok()?);
    (hours < 24 && minutes < 60).then_some(hours * 60 + minutes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Instant;

    const MAX: u64 = 100;

    struct Rng(u64);

    impl Rng {
        fn below(&mut self, end: u64) -> u64 {
            self.0 = self.0.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            (self.0 >> 33) % end
        }
    }

    fn key(at: u64) -> Vec<u8> {
        at.to_be_bytes().to_vec()
    }

    fn shards(count: usize) -> Vec<ShardState> {
        vec![ShardState::default(); count]
    }

    /// Chunks of `(shard, bytes)`; the lower bound of the n-th is 1000 n.
    fn collection(chunks: &[(usize, u64)]) -> Collection {
        let chunk = |(at, (shard, bytes)): (u64, &(usize, u64))| Chunk {
            low: key(at * 1000),
            shard: *shard,
            bytes: *bytes,
            jumbo: false,
        };
        Collection {
            chunks: (0..).zip(chunks).map(chunk).collect(),
            end: key(u64::MAX),
            zones: Vec::new(),
            chunk_bytes_max: MAX,
            enabled: true,
        }
    }

    fn zone(low: u64, high: u64, zone: usize) -> ZoneRange {
        ZoneRange { low: key(low), high: key(high), zone }
    }

    fn sizes(count: usize, collection: &Collection) -> Vec<u64> {
        let mut sizes = vec![0; count];
        collection.chunks.iter().for_each(|chunk| sizes[chunk.shard] += chunk.bytes);
        sizes
    }

    /// A chunk's place, the key at which it is cut, and of moves the shard and the bytes of the rest.
    type Cut = (usize, Vec<u8>, Option<(usize, u64)>);

    /// Does what a round asks for; returns the bytes moved. The end of a part is in the middle of the keys.
    fn apply(round: &Round, collections: &mut [Collection]) -> u64 {
        let mut moved = 0;
        for (at, collection) in collections.iter_mut().enumerate() {
            let mut cuts: Vec<Cut> = Vec::new();
            for split in round.splits.iter().filter(|split| split.collection == at) {
                cuts.push((split.chunk, split.at.clone(), None));
            }
            for step in round.moves.iter().filter(|step| step.collection == at) {
                let chunk = &mut collection.chunks[step.chunk];
                let from = std::mem::replace(&mut chunk.shard, step.to);
                assert_ne!(from, step.to);
                moved += chunk.bytes.min(step.part.unwrap_or(u64::MAX));
                if let Some(part) = step.part {
                    let rest = chunk.bytes - part;
                    let mut low = chunk.low.clone();
                    low.push(0);
                    chunk.bytes = part;
                    cuts.push((step.chunk, low, Some((from, rest))));
                }
            }
            // from behind, so that the places stay right
            cuts.sort_by(|one, other| (other.0, &other.1).cmp(&(one.0, &one.1)));
            for (place, low, rest) in cuts {
                let chunk = &mut collection.chunks[place];
                let (shard, bytes) = rest.unwrap_or_else(|| {
                    let rest = chunk.bytes / 2;
                    chunk.bytes -= rest;
                    (chunk.shard, rest)
                });
                collection.chunks.insert(place + 1, Chunk { low, shard, bytes, jumbo: false });
            }
            assert!(collection.chunks.windows(2).all(|pair| pair[0].low < pair[1].low));
        }
        moved
    }

    /// Runs rounds until nothing is left to do; returns the bytes moved and the rounds.
    fn settle(shards: &[ShardState], collections: &mut [Collection]) -> (u64, usize) {
        let mut moved = 0;
        for round in 0..100_000 {
            let next = plan(shards, collections);
            let mut used = vec![false; shards.len()];
            for step in &next.moves {
                let from = collections[step.collection].chunks[step.chunk].shard;
                for shard in [from, step.to] {
                    assert!(!std::mem::replace(&mut used[shard], true), "one move of a shard in a round");
                }
                assert!(!shards[step.to].draining);
            }
            if next.moves.is_empty() && next.splits.is_empty() {
                return (moved, round);
            }
            moved += apply(&next, collections);
        }
        panic!("it does not come to an end");
    }

    #[test]
    fn what_is_even_stays() {
        for own in
            [vec![(0, 100), (0, 100), (0, 99)], vec![(0, 1000), (1, 900), (2, 701)], vec![(0, 0), (0, 0)], vec![]]
        {
            let round = plan(&shards(3), &[collection(&own)]);
            assert!(round.moves.is_empty(), "{round:?}");
            assert_eq!(round.violation(), None);
        }
    }

    #[test]
    fn the_fullest_gives_to_the_emptiest() {
        let mut own = collection(&[(0, 80), (0, 90), (0, 400), (1, 100)]);
        let round = plan(&shards(3), std::slice::from_ref(&own));
        assert_eq!(round.moves, [Move { collection: 0, chunk: 1, to: 2, part: None, reason: Reason::Size }]);
        assert_eq!(round.violation(), Some(Reason::Size));
        own.enabled = false;
        assert!(plan(&shards(3), &[own]).moves.is_empty());
        let large = collection(&[(0, 1000)]);
        let round = plan(&shards(2), &[large]);
        assert_eq!(round.moves, [Move { collection: 0, chunk: 0, to: 1, part: Some(100), reason: Reason::Size }]);
    }

    #[test]
    fn jumbo_chunks_stay() {
        let mut own = collection(&[(0, 1000), (0, 60)]);
        own.chunks[0].jumbo = true;
        assert_eq!(plan(&shards(2), std::slice::from_ref(&own)).moves[0].chunk, 1);
        own.chunks[1].jumbo = true;
        assert!(plan(&shards(2), std::slice::from_ref(&own)).moves.is_empty());
        let mut draining = shards(2);
        draining[0].draining = true;
        assert!(plan(&draining, &[own]).moves.is_empty());
    }

    #[test]
    fn chunks_are_split_at_the_borders_of_zones() {
        let mut own = collection(&[(0, 10), (0, 10)]);
        own.zones = vec![zone(500, 1000, 0), zone(1000, 1200, 0), zone(1200, 1300, 1)];
        let mut states = shards(3);
        states[1].zones = vec![0];
        states[2].zones = vec![1];
        let round = plan(&states, std::slice::from_ref(&own));
        let at = |chunk, border| Split { collection: 0, chunk, at: key(border) };
        assert_eq!(round.splits, [at(0, 500), at(1, 1200), at(1, 1300)]);
        assert_eq!(round.violation(), Some(Reason::Zone));
        let mut all = [own];
        settle(&states, &mut all);
        let owners: Vec<usize> = all[0].chunks.iter().map(|chunk| chunk.shard).collect();
        assert_eq!(owners, [0, 1, 1, 2, 0]);
        // the end of the last chunk is no place to split it
        let mut own = collection(&[(0, 10), (0, 10)]);
        own.zones = vec![ZoneRange { low: key(1000), high: key(u64::MAX), zone: 0 }];
        assert_eq!(plan(&states, &[own]).splits, []);
    }

    #[test]
    fn draining_shards_become_empty() {
        let own = collection(&[(0, 10), (0, 0), (1, 10), (0, 250), (2, 10)]);
        let mut states = shards(3);
        states[0].draining = true;
        let round = plan(&states, std::slice::from_ref(&own));
        assert_eq!(round.violation(), Some(Reason::Draining));
        assert_eq!(round.moves.len(), 1, "one move of the shard in a round");
        let mut all = [own];
        settle(&states, &mut all);
        assert_eq!(sizes(3, &all[0])[0], 0);
        assert!(all[0].chunks.iter().all(|chunk| chunk.shard != 0));
    }

    #[test]
    fn a_zone_without_shards_stays_where_it_is() {
        let mut own = collection(&[(0, 10), (0, 10)]);
        own.zones = vec![zone(0, 1000, 7)];
        assert!(plan(&shards(2), &[own]).moves.is_empty());
    }

    /// Random clusters: rounds end, sizes differ by less than three chunks, no more bytes move than needed, none twice.
    #[test]
    fn it_converges_and_moves_no_more_than_needed() {
        for seed in 0..300 {
            let mut rng = Rng(seed);
            let count = 2 + rng.below(9) as usize;
            let chunks: Vec<(usize, u64)> = (0..1 + rng.below(200))
                .map(|_| (rng.below(rng_skew(seed, count)) as usize, rng.below(if seed % 3 == 0 { 600 } else { 100 })))
                .collect();
            let mut all = [collection(&chunks)];
            let before = sizes(count, &all[0]);
            let (moved, rounds) = settle(&shards(count), &mut all);
            let after = sizes(count, &all[0]);
            let (low, high) = (after.iter().min().unwrap(), after.iter().max().unwrap());
            assert!(high - low < 3 * MAX, "seed {seed}: {after:?} after {rounds} rounds");
            // what left a shard did not come back, and what came did not leave: nothing moved twice
            let left: u64 = before.iter().zip(&after).map(|(before, after)| before.saturating_sub(*after)).sum();
            assert_eq!(left, moved, "seed {seed}: {before:?} {after:?}");
            let mean = before.iter().sum::<u64>() / count as u64;
            let needed: u64 = before.iter().map(|size| size.saturating_sub(mean)).sum();
            assert!(moved <= needed + count as u64 * MAX, "seed {seed}: {moved} for {needed}");
        }
    }

    fn rng_skew(seed: u64, count: usize) -> u64 {
        if seed.is_multiple_of(2) { 1 } else { count as u64 }
    }

    /// Random clusters with zones, draining shards, jumbo chunks and several collections.
    #[test]
    fn zones_are_respected_and_draining_shards_emptied() {
        for seed in 0..200 {
            let mut rng = Rng(seed);
            let count = 3 + rng.below(8) as usize;
            let mut states = shards(count);
            // shards 0 and 1 are never drained, so that both zones have one
            for (at, state) in states.iter_mut().enumerate() {
                state.zones = vec![at % 2];
                state.draining = at > 1 && rng.below(4) == 0;
            }
            let mut all: Vec<Collection> = (0..3)
                .map(|_| {
                    let chunks: Vec<(usize, u64)> =
                        (0..1 + rng.below(60)).map(|_| (rng.below(count as u64) as usize, rng.below(300))).collect();
                    let mut own = collection(&chunks);
                    let mut low = rng.below(3000);
                    for _ in 0..rng.below(5) {
                        let high = low + 1 + rng.below(9000);
                        own.zones.push(zone(low, high, rng.below(2) as usize));
                        low = high + rng.below(3000);
                    }
                    own
                })
                .collect();
            settle(&states, &mut all);
            for own in &all {
                for (place, chunk) in own.chunks.iter().enumerate() {
                    assert!(!states[chunk.shard].draining, "seed {seed}");
                    let high = own.chunks.get(place + 1).map(|next| next.low.clone()).unwrap_or(key(u64::MAX));
                    for range in own.zones.iter().filter(|range| range.low < high && chunk.low < range.high) {
                        assert!(range.low <= chunk.low && high <= range.high, "seed {seed}");
                        assert!(states[chunk.shard].zones.contains(&range.zone), "seed {seed}");
                    }
                }
            }
        }
    }

    /// One round of a large cluster; below a second in a release build, where this prints it.
    #[test]
    fn a_thousand_shards_with_a_million_chunks() {
        let (count, chunks) = if cfg!(debug_assertions) { (200, 50_000) } else { (1000, 1_000_000) };
        let mut rng = Rng(7);
        let mut states = shards(count);
        states.iter_mut().enumerate().for_each(|(at, state)| state.zones = vec![at % 10]);
        for state in states.iter_mut().take(3) {
            state.draining = true;
        }
        let mut all: Vec<Collection> = (0..10)
            .map(|_| {
                // a tenth of the shards has nearly everything
                let chunk = |rng: &mut Rng| {
                    let end = if rng.below(10) < 9 { count as u64 / 10 } else { count as u64 };
                    (rng.below(end) as usize, rng.below(2 * MAX))
                };
                let mut own = collection(&(0..chunks / 10).map(|_| chunk(&mut rng)).collect::<Vec<_>>());
                own.zones = (0..10).map(|at| zone(at * 100_000, at * 100_000 + 50_000, at as usize)).collect();
                own
            })
            .collect();
        let mut slowest = std::time::Duration::ZERO;
        let rounds = if cfg!(debug_assertions) { 3 } else { 20 };
        for _ in 0..rounds {
            let begun = Instant::now();
            let round = plan(&states, &all);
            slowest = slowest.max(begun.elapsed());
            assert!(!round.moves.is_empty());
            apply(&round, &mut all);
        }
        println!("{count} shards, {chunks} chunks: the slowest of {rounds} rounds took {slowest:?}");
    }

    #[test]
    fn windows() {
        assert_eq!(minutes("23:05"), Some(23 * 60 + 5));
        for bad in ["24:00", "1:60", "x", "12", ":", "-1:00"] {
            assert_eq!(minutes(bad), None, "{bad}");
        }
        let (day, night) = ((60, 120), (1380, 360));
        for (window, now, expected) in [
            (day, 59, false),
            (day, 60, true),
            (day, 119, true),
            (day, 120, false),
            (night, 1379, false),
            (night, 1380, true),
            (night, 0, true),
            (night, 360, false),
        ] {
            assert_eq!(is_within(window.0, window.1, now), expected, "{window:?} {now}");
        }
    }
}
