//! Images of the disk as a power loss may leave it, at every kind of moment of random histories.
//!
//! The forest runs, mostly without threads, on a disk in memory that knows what was synced ([`camera`]) and in every second
//! history is full now and then. Each image must verify, must open in the state of a prefix of the applied batches at or after
//! the last checkpoint that returned, and must work on from there, over one more checkpoint and crash.

mod camera;
mod recorder;
pub(crate) mod states;

use std::path::Path;
use std::sync::Arc;

use arbor_base::Random;
use arbor_disk::{Disk, FaultyDisk};
use arbor_engine::{Engine, model::ModelEngine};
use arbor_engine_contract::{Adder, History};
use arbor_ftree::{Codec, Forest, Options, TreeSettings, check};

use camera::{Camera, Image};
use recorder::Recorder;
use states::States;

const STEPS: u64 = 50;
const VALUE_BYTES_MAX: u64 = 3000;

fn dir() -> &'static Path {
    Path::new("/data")
}

/// Plays one history and checks images of it; returns their number.
pub(crate) fn run(seed: u64, images_max: u64) -> u64 {
    let mut random = Random::new(!seed);
    let mut run = Run::new(seed, &mut random);
    let mut images = 0;
    for _ in 0..STEPS {
        run.step(&mut random);
        for image in run.camera.take_images() {
            if images < images_max {
                run.check(&mut random, image);
                images += 1;
            }
        }
    }
    images
}

struct Run {
    history: History,
    options: Options,
    camera: Camera,
    /// `None` while it crashes.
    forest: Option<Arc<Forest>>,
    states: Arc<States>,
    /// The disk is full now and then.
    fills: bool,
}

/// Small everything, so that much happens with few rows.
fn options(random: &mut Random) -> Options {
    let disk: Arc<dyn Disk> = Arc::new(FaultyDisk::new());
    let tree = TreeSettings {
        codec: *random.pick(&[Codec::None, Codec::Lz4, Codec::Zstd(1)]),
        block_bytes: *random.pick(&[256, 1024, 4096]),
        leaf_bytes: *random.pick(&[1024, 4096, 16_384]),
        fanout: *random.pick(&[2, 4, 16]),
        buffer_percent: *random.pick(&[5, 12, 20]),
        leaf_filters: random.one_in(2),
        blob_bytes: *random.pick(&[500, 2000, 100_000]),
        run_bytes: *random.pick(&[512, 4096]),
    };
    Options {
        memtable_bytes: *random.pick(&[2_000, 8_000, 64_000]),
        // With threads a history is not the same twice; most go without.
        threads: if random.one_in(8) { 2 } else { 0 },
        checkpoint_bytes: *random.pick(&[5_000, 50_000, u64::MAX]),
        checkpoint_interval_ms: 10,
        direct_io: random.one_in(4),
        updates: Some(Arc::new(Adder)),
        tree,
        ..Options::new(disk, *random.pick(&[50_000, 4 << 20]))
    }
}

fn open(options: &Options) -> Forest {
    Forest::open(dir(), options.clone()).unwrap_or_else(|error| panic!("the forest does not open: {error}"))
}

fn on_disk(options: &Options, disk: impl Disk) -> Options {
    Options { disk: Arc::new(disk), ..options.clone() }
}

/// An image is looked at without haste.
fn on_image(options: &Options, disk: &FaultyDisk) -> Options {
    Options { threads: 0, ..on_disk(options, disk.clone()) }
}

impl Run {
    fn new(seed: u64, random: &mut Random) -> Run {
        let history = History::with_values(seed, VALUE_BYTES_MAX);
        let states = Arc::new(States::new(&history.model));
        let camera = Camera::new(FaultyDisk::new(), random.next_u64());
        let options = on_disk(&options(random), camera.clone());
        let forest = Some(Arc::new(open(&options)));
        Run { history, options, camera, forest, states, fills: random.one_in(2) }
    }

    fn step(&mut self, random: &mut Random) {
        let recorder = self.recorder();
        if self.fills && random.one_in(6) {
            self.camera.disk().leave_free(*random.pick(&[0, 5_000, 20_000, 100_000]));
        }
        match random.below(20) {
            0..13 => self.history.apply(&recorder),
            13 => self.history.compact(&recorder),
            14..17 => self.history.checkpoint(&recorder),
            17 => self.history.bulk_load(&recorder),
            18 => self.return_space(),
            _ => {
                drop(recorder);
                self.crash(random);
            }
        }
        if let Some(forest) = &self.forest {
            forest.validate();
        }
        if random.one_in(10) {
            self.check_space();
        }
    }

    /// All that is free is punched and cut off.
    fn return_space(&self) {
        self.camera.shoot("before giving back");
        let recorder = self.recorder();
        let io = &recorder.forest.core().io;
        io.space.return_all_space(&io.file).expect("the disk is well");
        self.camera.shoot("after giving back");
    }

    fn recorder(&self) -> Recorder {
        let forest = self.forest.clone().expect("a forest is open");
        Recorder { forest, states: self.states.clone(), camera: self.camera.clone() }
    }

    /// The history continues from what a crash leaves: garbage of before is in the file.
    fn crash(&mut self, random: &mut Random) {
        self.forest = None;
        let disk = self.camera.disk().crash(random.next_u64());
        disk.set_capacity(None);
        let camera = Camera::new(disk, random.next_u64());
        let floor = self.camera.floor();
        for image in self.camera.take_images() {
            self.check(random, image);
        }
        self.options = on_disk(&self.options, camera.clone());
        self.camera = camera;
        let forest = open(&self.options);
        let reached = self.states.find(floor, &forest);
        self.states.go_back_to(reached);
        self.camera.set_floor(reached);
        self.history.recovered(&forest);
        // A bulk load that did not survive is one that was not made.
        self.history.model = self.states.model(reached);
        self.forest = Some(Arc::new(forest));
        self.history.checkpoint(&self.recorder());
    }

    /// After a checkpoint, all space in use is what a new process finds in use.
    fn check_space(&mut self) {
        if self.options.threads > 0 {
            return;
        }
        let recorder = self.recorder();
        self.history.checkpoint(&recorder);
        // Jobs that wait hold trees that were dropped meanwhile.
        recorder.forest.core().run_due();
        self.history.checkpoint(&recorder);
        let reopened = open(&on_disk(&self.options, self.camera.disk().kill_process()));
        let (here, there) = (recorder.forest.core().io.space.used_bytes(), reopened.core().io.space.used_bytes());
        assert_eq!(here, there, "bytes in use, and found to be in use");
    }

    fn check(&self, random: &mut Random, image: Image) {
        let note = Note(&image.at);
        image.disk.set_capacity(None);
        let options = on_image(&self.options, &image.disk);
        if image.disk.exists(&dir().join("ftree.data")).unwrap_or(false) {
            let report = check::verify(dir(), &options).unwrap_or_else(|error| panic!("verify: {error}"));
            assert!(report.is_clean(), "{:#?}", report.findings);
        }
        let forest = open(&options);
        assert_eq!(forest.durable(), forest.applied());
        let reached = self.states.find(image.floor, &forest);
        if random.one_in(4) {
            go_on(random, self.states.model(reached), &options, forest, &image.disk);
        }
        std::mem::forget(note);
    }
}

/// The image carries on, over one more checkpoint and crash.
fn go_on(random: &mut Random, model: ModelEngine, options: &Options, forest: Forest, disk: &FaultyDisk) {
    let mut onward = History::with_values(random.next_u64(), VALUE_BYTES_MAX);
    onward.model = model;
    for _ in 0..3 {
        onward.apply(&forest);
    }
    onward.checkpoint(&forest);
    onward.apply(&forest);
    drop(forest);
    let forest = open(&on_disk(options, disk.crash(random.next_u64())));
    onward.check_recovered(&forest);
}

/// Says on a panic which image it was.
struct Note<'a>(&'a str);

impl Drop for Note<'_> {
    fn drop(&mut self) {
        eprintln!("the image was taken {}", self.0);
    }
}
