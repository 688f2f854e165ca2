//! Checks many crash images: `cargo run -p arbor-engine-lmdb --example lmdb_crash_images [-- IMAGES [FIRST_SEED]]`.

#[path = "../tests/it/images/mod.rs"]
mod images;

fn main() {
    let mut arguments = std::env::args().skip(1);
    let mut number = |default| arguments.next().map_or(default, |text| text.parse::<u64>().expect("a number"));
    let (count, first) = (number(10_000), number(0));
    let (mut done, mut seed) = (0, first);
    while done < count {
        let replay = Replay { seed };
        done += images::run(seed, (count - done).min(20));
        std::mem::forget(replay);
        seed += 1;
        if seed % 50 == 0 {
            eprintln!("{done} of {count} images, last seed {seed}");
        }
    }
    println!("{done} crash images opened at their checkpoint (seeds {first}..{seed})");
}

/// Says on a panic how to run the history again.
struct Replay {
    seed: u64,
}

impl Drop for Replay {
    fn drop(&mut self) {
        eprintln!("replay: cargo run -p arbor-engine-lmdb --example lmdb_crash_images -- 20 {}", self.seed);
    }
}
