//! Checks many crash images: `cargo run --release -p arbor-ftree --example ftree_crash_images [-- IMAGES [FIRST_SEED]]`.
//! All cores work, each on its own histories.

#[path = "../tests/it/images/mod.rs"]
mod images;

use std::sync::atomic::{AtomicU64, Ordering};

fn main() {
    let mut arguments = std::env::args().skip(1);
    let mut number = |default| arguments.next().map_or(default, |text| text.parse::<u64>().expect("a number"));
    let (count, first) = (number(10_000), number(0));
    let (done, seed) = (AtomicU64::new(0), AtomicU64::new(first));
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                while done.load(Ordering::Relaxed) < count {
                    let replay = Replay { seed: seed.fetch_add(1, Ordering::Relaxed) };
                    let before = done.fetch_add(images::run(replay.seed, u64::MAX), Ordering::Relaxed);
                    if replay.seed.is_multiple_of(100) {
                        eprintln!("{before} of {count} images, seed {}", replay.seed);
                    }
                    std::mem::forget(replay);
                }
            });
        }
    });
    let (done, seed) = (done.into_inner(), seed.into_inner());
    println!("{done} crash images verified and opened in a state that was (seeds {first}..{seed})");
}

/// Says on a panic how to run the history again, and ends the run.
struct Replay {
    seed: u64,
}

impl Drop for Replay {
    fn drop(&mut self) {
        eprintln!("replay: cargo run --release -p arbor-ftree --example ftree_crash_images -- 1 {}", self.seed);
        std::process::exit(1);
    }
}
