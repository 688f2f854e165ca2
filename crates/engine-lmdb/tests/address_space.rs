//! A process whose address space is limited gets a smaller map. Alone in its binary: the limit is the process's.

use arbor_engine::Engine;
use arbor_engine_contract::Scratch;
use arbor_engine_lmdb::{LmdbEngine, LmdbOptions};
use rustix::process::{Resource, getrlimit, setrlimit};

#[test]
fn the_map_shrinks_to_what_the_process_may_have() {
    let mut limit = getrlimit(Resource::As);
    limit.current = Some(20 << 30);
    setrlimit(Resource::As, limit).unwrap();
    let scratch = Scratch::in_memory();
    let engine = LmdbEngine::open(scratch.path(), LmdbOptions::default()).unwrap();
    let counters = engine.stats().unwrap().counters;
    let map = counters.iter().find(|(name, _)| *name == "map bytes").unwrap().1;
    assert!(((4 << 30)..=(16 << 30)).contains(&map), "{map}");
}
