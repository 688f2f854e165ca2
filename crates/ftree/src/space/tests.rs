use std::os::unix::fs::MetadataExt;

use arbor_base::Random;
use arbor_disk::{Fault, FaultyDisk, OpenMode, RealDisk};
use proptest::prelude::*;

use super::*;
use crate::DataFile;

const MIB: u64 = 1 << 20;

fn on(disk: &FaultyDisk) -> (Space, DataFile) {
    disk.create_dir_all(Path::new("/d")).unwrap();
    let file = DataFile::open(disk, Path::new("/d/f"), OpenMode::Create, false).unwrap();
    (Space::new(Arc::new(disk.clone()), Path::new("/d"), 0), file)
}

#[derive(Clone, Debug)]
enum Step {
    Allocate {
        units: u64,
    },
    Drop {
        nth: usize,
    },
    /// Drops everything and adopts what survived of it in a new space over the same file.
    Reopen,
    ReturnSpace {
        all: bool,
    },
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        6 => (1u64..300).prop_map(|units| Step::Allocate { units }),
        5 => any::<usize>().prop_map(|nth| Step::Drop { nth }),
        1 => Just(Step::Reopen),
        1 => any::<bool>().prop_map(|all| Step::ReturnSpace { all }),
    ]
}

/// The naive model: an owner for each unit of the file. Each extent's first and last bytes are stamped in the file, so a
/// hole or a cut in the wrong place shows.
struct Run {
    disk: FaultyDisk,
    file: DataFile,
    space: Space,
    held: Vec<(Extent, u64)>,
    stamp: u64,
}

impl Run {
    fn new() -> Run {
        let disk = FaultyDisk::new();
        let (space, file) = on(&disk);
        Run { disk, file, space, held: Vec::new(), stamp: 0 }
    }

    fn step(&mut self, step: Step) {
        match step {
            Step::Allocate { units } => {
                let extent = self.space.allocate(units * UNIT - 7).unwrap();
                assert_eq!(extent.bytes(), units * UNIT);
                self.stamp += 1;
                self.file.write(extent.offset(), &self.stamp.to_le_bytes()).unwrap();
                self.file.write(extent.offset() + extent.bytes() - 8, &self.stamp.to_le_bytes()).unwrap();
                self.held.push((extent, self.stamp));
            }
            Step::Drop { nth } if !self.held.is_empty() => drop(self.held.swap_remove(nth % self.held.len())),
            Step::Drop { .. } => {}
            Step::Reopen => {
                self.space = Space::new(Arc::new(self.disk.clone()), Path::new("/d"), self.file.len().unwrap());
                for (extent, _) in &mut self.held {
                    *extent = self.space.adopt(extent.offset(), extent.bytes()).unwrap();
                    assert!(self.space.adopt(extent.offset(), UNIT).is_err(), "adopted twice");
                }
            }
            Step::ReturnSpace { all: true } => self.space.return_all_space(&self.file).unwrap(),
            Step::ReturnSpace { all: false } => self.space.return_space(&self.file).unwrap(),
        }
    }

    fn check(&self) {
        let mut owned = vec![false; (self.space.file_bytes() / UNIT) as usize];
        for (extent, stamp) in &self.held {
            assert!(extent.offset() >= DATA_BEGIN);
            let units = (extent.offset() / UNIT) as usize..((extent.offset() + extent.bytes()) / UNIT) as usize;
            assert!(owned[units.clone()].iter().all(|owned| !owned), "overlap");
            owned[units].fill(true);
            for at in [extent.offset(), extent.offset() + extent.bytes() - 8] {
                assert_eq!(Vec::from(self.file.read(at, 8).unwrap()), stamp.to_le_bytes());
            }
        }
        let used = owned.iter().filter(|owned| **owned).count() as u64 * UNIT;
        assert_eq!(self.space.used_bytes(), used);
        assert_eq!(self.space.used_bytes() + self.space.free_bytes() + DATA_BEGIN, self.space.file_bytes());
        self.space.validate();
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]
    #[test]
    fn extents_never_overlap_and_all_space_returns(steps in prop::collection::vec(step(), 1..60)) {
        let mut run = Run::new();
        for step in steps {
            run.step(step);
            run.check();
        }
        run.held.clear();
        run.space.return_all_space(&run.file).unwrap();
        run.check();
        prop_assert_eq!((run.space.file_bytes(), run.space.free_bytes()), (DATA_BEGIN, 0));
        prop_assert!(run.file.len().unwrap() <= DATA_BEGIN);
    }
}

#[test]
fn what_cannot_be_adopted_is_corrupt() {
    let space = Space::new(Arc::new(FaultyDisk::new()), Path::new("/d"), DATA_BEGIN + 10 * UNIT - 100);
    let check =
        |offset, bytes| assert!(matches!(space.adopt(offset, bytes), Err(Error::Corrupt { .. })), "{offset} {bytes}");
    check(0, UNIT);
    check(DATA_BEGIN - UNIT, UNIT);
    check(DATA_BEGIN + 1, UNIT);
    check(DATA_BEGIN, 0);
    check(DATA_BEGIN, 11 * UNIT);
    check(DATA_BEGIN, u64::MAX);
    check(u64::MAX - UNIT + 1, UNIT);
    let held = space.adopt(DATA_BEGIN + 2 * UNIT, 3 * UNIT - 9).unwrap();
    check(DATA_BEGIN, 3 * UNIT);
    check(DATA_BEGIN + 4 * UNIT, UNIT);
    assert_eq!((space.used_bytes(), space.free_bytes()), (3 * UNIT, 7 * UNIT));
    drop(held);
    space.adopt(DATA_BEGIN, 10 * UNIT).unwrap();
    assert!(matches!(space.allocate(u64::MAX), Err(Error::OutOfSpace { .. })));
    assert!(matches!(space.allocate(1 << 62), Err(Error::OutOfSpace { .. })));
}

#[test]
fn the_tail_empties_because_low_addresses_are_taken_first() {
    let (space, _file) = on(&FaultyDisk::new());
    let mut random = Random::new(1);
    let mut held: Vec<Extent> = (0..2000).map(|_| space.allocate((1 + random.below(20)) * UNIT).unwrap()).collect();
    let file_bytes = space.file_bytes();
    // Ever fewer extents, and all of them move once.
    for _ in 0..6000 {
        let nth = random.below(held.len() as u64) as usize;
        drop(held.swap_remove(nth));
        if held.len() < 500 {
            held.push(space.allocate((1 + random.below(20)) * UNIT).unwrap());
        }
    }
    let end = held.iter().map(|extent| extent.offset() + extent.bytes()).max().unwrap();
    assert!(end < file_bytes / 2, "{end} of {file_bytes}, {} used", space.used_bytes());
}

#[test]
fn growth_stops_in_the_red_zone_and_reuse_continues() {
    let disk = FaultyDisk::new();
    disk.set_capacity(Some(40 * MIB));
    let (space, file) = on(&disk);
    // The part before the data is there already, so that a measurement taken at any time says the same.
    file.write(0, &vec![1; DATA_BEGIN as usize]).unwrap();
    let mut held = Vec::new();
    while let Ok(extent) = space.allocate(MIB) {
        file.write(extent.offset(), &vec![1; MIB as usize]).unwrap();
        held.push(extent);
    }
    // An eighth of 40 MiB stays, and the part before the data.
    assert_eq!(held.len(), 33);
    assert!(space.is_tight());
    assert!(matches!(space.allocate(UNIT), Err(Error::OutOfSpace { .. })));
    held.pop();
    let reused = space.allocate(MIB / 2).unwrap();
    let reserved = space.allocate_reserved(4 * MIB).unwrap();
    assert!(matches!(space.allocate_reserved(10 * MIB), Err(Error::OutOfSpace { .. })));
    drop((reused, reserved));
    held.clear();
    space.return_all_space(&file).unwrap();
    assert!(!space.is_tight());
    space.allocate(20 * MIB).unwrap();
}

#[test]
fn a_busy_file_is_left_alone() {
    let disk = FaultyDisk::new();
    let (space, file) = on(&disk);
    let mut held: Vec<Extent> = (0..100).map(|_| space.allocate(8 * UNIT).unwrap()).collect();
    let (calls, mut random) = (disk.counts().calls, Random::new(3));
    for _ in 0..1000 {
        drop(held.swap_remove(random.below(100) as usize));
        space.return_space(&file).unwrap();
        held.push(space.allocate(8 * UNIT).unwrap());
    }
    assert_eq!(disk.counts().calls, calls, "nothing is punched and taken again");
    assert_eq!(space.file_bytes(), DATA_BEGIN + 100 * 8 * UNIT);
}

#[test]
fn a_failed_hole_leaves_the_space_free() {
    let disk = FaultyDisk::new();
    let (space, file) = on(&disk);
    let extents: Vec<Extent> = (0..10).map(|_| space.allocate(UNIT).unwrap()).collect();
    file.write(DATA_BEGIN, &[1; 10 * UNIT as usize]).unwrap();
    let kept = extents.into_iter().enumerate().filter(|(nth, _)| nth % 2 == 1).map(|(_, extent)| extent);
    let kept: Vec<Extent> = kept.collect();
    for n in 0..3 {
        disk.fail_nth(n, Fault::Io);
        assert!(space.return_all_space(&file).is_err());
        space.validate();
        assert_eq!((space.used_bytes(), space.free_bytes()), (5 * UNIT, 5 * UNIT));
    }
    space.return_all_space(&file).unwrap();
    drop(kept);
    for n in 0..5 {
        disk.fail_nth(n, Fault::Io);
        let _ = space.return_all_space(&file);
        space.validate();
        assert_eq!(space.used_bytes(), 0);
        assert_eq!(space.free_bytes() + DATA_BEGIN, space.file_bytes());
    }
    space.return_all_space(&file).unwrap();
    assert_eq!(space.file_bytes(), DATA_BEGIN);
}

#[test]
fn threads_allocate_while_space_is_given_back() {
    let (space, file) = on(&FaultyDisk::new());
    check_threads(&space, &file);
    let dir = tempfile::tempdir().unwrap();
    let file = DataFile::open(&RealDisk, &dir.path().join("f"), OpenMode::Create, false).unwrap();
    check_threads(&Space::new(Arc::new(RealDisk), dir.path(), 0), &file);
}

fn check_threads(space: &Space, file: &DataFile) {
    let worker = &|seed: u64| {
        let mut random = Random::new(seed);
        let mut held: Vec<Extent> = Vec::new();
        for _ in 0..400 {
            let extent = space.allocate((1 + random.below(60)) * UNIT).unwrap();
            let stamp = extent.offset() ^ seed;
            file.write(extent.offset(), &stamp.to_le_bytes()).unwrap();
            file.write(extent.offset() + extent.bytes() - 8, &stamp.to_le_bytes()).unwrap();
            held.push(extent);
            if held.len() > 20 {
                let extent = held.swap_remove(random.below(20) as usize);
                for at in [extent.offset(), extent.offset() + extent.bytes() - 8] {
                    assert_eq!(Vec::from(file.read(at, 8).unwrap()), (extent.offset() ^ seed).to_le_bytes());
                }
            }
        }
    };
    std::thread::scope(|scope| {
        let workers: Vec<_> = (1..4).map(|seed| scope.spawn(move || worker(seed))).collect();
        while !workers.iter().all(|worker| worker.is_finished()) {
            space.release(file, UNIT, UNIT).unwrap();
        }
    });
    space.validate();
    assert_eq!(space.used_bytes(), 0);
    space.return_all_space(file).unwrap();
    assert_eq!(space.file_bytes(), DATA_BEGIN);
}

#[test]
fn the_file_system_gets_its_blocks_back() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("f");
    let file = DataFile::open(&RealDisk, &path, OpenMode::Create, false).unwrap();
    let space = Space::new(Arc::new(RealDisk), dir.path(), 0);
    let blocks = || std::fs::metadata(&path).unwrap().blocks() * 512;
    let mut held: Vec<Extent> = (0..32).map(|_| space.allocate(MIB / 4).unwrap()).collect();
    for extent in &held {
        file.write(extent.offset(), &vec![5; MIB as usize / 4]).unwrap();
    }
    file.sync().unwrap();
    let full = blocks();
    assert!(full >= 8 * MIB);
    let last = held.pop().unwrap();
    drop(held);
    space.return_space(&file).unwrap();
    assert!(blocks() <= full - 6 * MIB, "most is punched: {} of {full}", blocks());
    assert!(blocks() >= full - 7 * MIB, "a part is kept: {} of {full}", blocks());
    space.return_all_space(&file).unwrap();
    assert!(blocks() <= MIB / 2, "{}", blocks());
    assert_eq!(Vec::from(file.read(last.offset(), last.bytes()).unwrap()), vec![5; MIB as usize / 4]);
    drop(last);
    space.return_all_space(&file).unwrap();
    assert_eq!(std::fs::metadata(&path).unwrap().len(), DATA_BEGIN);
}
