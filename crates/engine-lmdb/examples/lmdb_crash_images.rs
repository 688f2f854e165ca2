//! Checks many crash images: `cargo run -p arbor-engine-lmdb --example lmdb_crash_images [-- IMAGES [FIRST_SEED]]`.

#[path = "../tests/it/images/mod.rs"]
mod images;

fn main() {
    let mut arguments = std::env::args().skip(1);
    let mut number = |default| arguments.next().map_or(default, |text| text.parse::<u64>().expect("a number"));
    let (count, first) = (number(10_000), number(0));
    let (mut done, mut seed) = (images::Checked::default(), first);
    while done.images < count {
        let replay = Replay { seed };
        done += images::run(seed, (count - done.images).min(20));
        std::mem::forget(replay);
        seed += 1;
        if seed % 50 == 0 {
            eprintln!("{} of {count} images, last seed {seed}", done.images);
        }
    }
    let images::Checked { images, on_full_disk } = done;
    println!(
        "{images} crash images opened at their checkpoint, {on_full_disk} of them of full disks (seeds {first}..{seed})"
    );
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
