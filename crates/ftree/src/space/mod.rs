//! Who owns which part of the data file.

use std::path::Path;
use std::sync::Arc;

use arbor_disk::Disk;

use crate::Result;
use crate::file::DataFile;

pub const UNIT: u64 = 4096;
pub const DATA_BEGIN: u64 = 2 << 20;
#[derive(Clone)]
pub struct Space {
    shared: Arc<()>,
}

impl Space {
    pub fn new(_disk: Arc<dyn Disk>, _dir: &Path, _file_bytes: u64) -> Space {
        Space { shared: Arc::new(()) }
    }
    pub fn allocate(&self, _bytes: u64) -> Result<Extent> {
        Ok(Extent { space: self.shared.clone(), offset: DATA_BEGIN, bytes: UNIT })
    }
    /// For checkpoints and deletes: may use what the red zone keeps.
    pub fn allocate_reserved(&self, bytes: u64) -> Result<Extent> {
        self.allocate(bytes)
    }
    pub fn adopt(&self, _offset: u64, bytes: u64) -> Result<Extent> {
        self.allocate(bytes)
    }
    pub fn used_bytes(&self) -> u64 {
        0
    }
    pub fn free_bytes(&self) -> u64 {
        0
    }
    pub fn file_bytes(&self) -> u64 {
        0
    }
    pub fn give_back(&self, _file: &DataFile) -> Result<()> {
        Ok(())
    }
    pub fn give_back_all(&self, _file: &DataFile) -> Result<()> {
        Ok(())
    }
}

/// A part of the data file; dropping it makes the part free.
pub struct Extent {
    #[allow(dead_code)]
    space: Arc<()>,
    offset: u64,
    bytes: u64,
}

impl Extent {
    pub fn offset(&self) -> u64 {
        self.offset
    }
    pub fn bytes(&self) -> u64 {
        self.bytes
    }
}
