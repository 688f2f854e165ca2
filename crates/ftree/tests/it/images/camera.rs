//! A disk in memory of which images are taken while it is written.

use std::path::Path;
use std::sync::Arc;

use arbor_base::Random;
use arbor_disk::{Disk, FaultyDisk, File, Lock, OpenMode, Result};
use parking_lot::Mutex;

/// The disk after a power loss at some moment.
pub(super) struct Image {
    pub disk: FaultyDisk,
    /// The call before or after which it was taken.
    pub at: String,
    /// States before this one were gone already: what a checkpoint had returned by then.
    pub floor: usize,
}

/// Takes images before and after syncs and renames, and before some of the writes.
#[derive(Clone, Debug)]
pub(super) struct Camera {
    disk: FaultyDisk,
    roll: Arc<Mutex<Roll>>,
}

#[derive(Default)]
struct Roll {
    random: Option<Random>,
    images: Vec<Image>,
    floor: usize,
}

impl std::fmt::Debug for Roll {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} images", self.images.len())
    }
}

/// Between two steps.
const IMAGES_MAX: usize = 6;

impl Camera {
    pub(super) fn new(disk: FaultyDisk, seed: u64) -> Camera {
        let roll = Roll { random: Some(Random::new(seed)), ..Roll::default() };
        Camera { disk, roll: Arc::new(Mutex::new(roll)) }
    }

    pub(super) fn disk(&self) -> &FaultyDisk {
        &self.disk
    }

    pub(super) fn set_floor(&self, floor: usize) {
        self.roll().floor = floor;
    }

    pub(super) fn floor(&self) -> usize {
        self.roll().floor
    }

    pub(super) fn take_images(&self) -> Vec<Image> {
        std::mem::take(&mut self.roll().images)
    }

    /// An image now.
    pub(super) fn shoot(&self, at: &str) {
        self.shoot_some(at, 1);
    }

    fn roll(&self) -> parking_lot::MutexGuard<'_, Roll> {
        self.roll.lock()
    }

    /// An image at one of `whole` such moments.
    fn shoot_some(&self, at: &str, whole: u64) {
        let mut roll = self.roll();
        let full = roll.images.len() >= IMAGES_MAX;
        let Some(random) = roll.random.as_mut().filter(|_| !full) else { return };
        if random.chance(1, whole) {
            let disk = if random.chance(1, 8) { self.disk.kill_process() } else { self.disk.crash(random.next_u64()) };
            let (at, floor) = (at.to_owned(), roll.floor);
            roll.images.push(Image { disk, at, floor });
        }
    }

    fn around<R>(&self, at: &str, call: impl FnOnce() -> R) -> R {
        self.shoot_some(&format!("before {at}"), 2);
        let result = call();
        self.shoot_some(&format!("after {at}"), 2);
        result
    }
}

impl Disk for Camera {
    fn open(&self, path: &Path, mode: OpenMode) -> Result<Box<dyn File>> {
        let file = self.disk.open(path, mode)?;
        Ok(Box::new(Filmed { file, camera: self.clone() }))
    }

    fn rename(&self, from: &Path, to: &Path) -> Result<()> {
        self.around("a rename", || self.disk.rename(from, to))
    }

    fn remove(&self, path: &Path) -> Result<()> {
        self.disk.remove(path)
    }

    fn list(&self, dir: &Path) -> Result<Vec<String>> {
        self.disk.list(dir)
    }

    fn exists(&self, path: &Path) -> Result<bool> {
        self.disk.exists(path)
    }

    fn sync_dir(&self, dir: &Path) -> Result<()> {
        self.around("a sync of the directory", || self.disk.sync_dir(dir))
    }

    fn create_dir_all(&self, dir: &Path) -> Result<()> {
        self.disk.create_dir_all(dir)
    }

    fn free_bytes(&self, dir: &Path) -> Result<u64> {
        self.disk.free_bytes(dir)
    }

    fn lock(&self, path: &Path) -> Result<Box<dyn Lock>> {
        self.disk.lock(path)
    }
}

#[derive(Debug)]
struct Filmed {
    file: Box<dyn File>,
    camera: Camera,
}

impl File for Filmed {
    fn path(&self) -> &Path {
        self.file.path()
    }

    fn read_at(&self, buffer: &mut [u8], offset: u64) -> Result<usize> {
        self.file.read_at(buffer, offset)
    }

    fn write_at(&self, bytes: &[u8], offset: u64) -> Result<()> {
        self.camera.shoot_some(&format!("before a write at {offset}"), 12);
        self.file.write_at(bytes, offset)
    }

    fn len(&self) -> Result<u64> {
        self.file.len()
    }

    fn set_len(&self, len: u64) -> Result<()> {
        self.camera.shoot_some(&format!("before a cut to {len}"), 4);
        self.file.set_len(len)
    }

    fn sync_data(&self) -> Result<()> {
        self.camera.around("a sync", || self.file.sync_data())
    }

    fn allocate(&self, offset: u64, len: u64) -> Result<()> {
        self.file.allocate(offset, len)
    }

    fn punch_hole(&self, offset: u64, len: u64) -> Result<()> {
        self.camera.shoot_some(&format!("before a hole at {offset}"), 6);
        self.file.punch_hole(offset, len)
    }
}
