//! The suite that every engine must pass. An engine's own tests call [`run`] with a [`Factory`].
//!
//! - [`cases`]: one promise of the traits each
//! - [`random`]: long histories from a seed, compared step by step with the [`ModelEngine`](arbor_engine::model::ModelEngine)
//!
//! Here everything panics on a finding, as tests do.

mod adder;
mod bench;
mod cases;
mod random;

use std::path::Path;

pub use adder::Adder;
pub use bench::{Bench, Scratch, assert_same, rows_of};
pub use random::History;

use arbor_engine::Engine;

/// Makes the engine under test, with [`Adder`] as its update function if it takes update messages.
pub trait Factory {
    /// The engine in a directory: a new one, or the one that was dropped there, in a state that it promises after a crash.
    fn open(&self, dir: &Path) -> Box<dyn Engine>;

    /// Ends the engine as a crash would and opens it again. `seed` decides what the crash destroys, where that is played.
    fn crash(&self, engine: Box<dyn Engine>, dir: &Path, seed: u64) -> Box<dyn Engine> {
        let _ = seed;
        drop(engine);
        self.open(dir)
    }
}

/// Environment variable with the one seed to run.
pub const SEED_VARIABLE: &str = "ARBOR_ENGINE_SEED";
/// Environment variable with the number of histories to run instead of the usual few.
pub const HISTORIES_VARIABLE: &str = "ARBOR_ENGINE_HISTORIES";

/// All cases, and histories from `histories` fixed seeds or from the one in [`SEED_VARIABLE`].
pub fn run(factory: &dyn Factory, histories: u64) {
    for (name, case) in cases::ALL {
        eprintln!("contract case: {name}");
        case(&Bench::new(factory));
    }
    run_histories(factory, histories);
}

/// Only the histories.
pub fn run_histories(factory: &dyn Factory, histories: u64) {
    if let Ok(seed) = std::env::var(SEED_VARIABLE) {
        let seed = seed.parse().expect("the seed is a number");
        return random::run(factory, seed);
    }
    let count = std::env::var(HISTORIES_VARIABLE).map(|text| text.parse().expect("the number of histories"));
    for seed in 0..count.unwrap_or(histories) {
        let replay = Replay { seed };
        random::run(factory, seed);
        std::mem::forget(replay);
    }
}

/// Says on a panic how to run this history again.
struct Replay {
    seed: u64,
}

impl Drop for Replay {
    fn drop(&mut self) {
        eprintln!(
            "contract history failed; replay: {SEED_VARIABLE}={} cargo test -p <engine crate> contract",
            self.seed
        );
    }
}
