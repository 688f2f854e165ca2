//! Values of large write sets, in a file. It has no name from the moment it is open, so nothing is left of it after a crash;
//! nothing is synced. Places are never written twice: views and savepoints refer to values that the transaction has
//! replaced since.

use std::borrow::Cow;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use arbor_disk::{Disk, File, OpenMode};

use crate::{Error, Result};

/// Values that are shorter take less in memory than the way to the file.
pub(crate) const SPILLED_BYTES_MIN: usize = 128;

/// The directory of files for large write sets.
#[derive(Clone, Debug)]
pub struct ScratchDirectory {
    pub disk: Arc<dyn Disk>,
    pub directory: PathBuf,
}

/// The file of one transaction, shared with its views.
#[derive(Debug)]
pub(crate) struct Scratch {
    file: Box<dyn File>,
    end: AtomicU64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Place {
    offset: u64,
    length: u32,
}

static NUMBER: AtomicU64 = AtomicU64::new(0);

impl Scratch {
    pub(crate) fn create(at: &ScratchDirectory) -> arbor_disk::Result<Scratch> {
        at.disk.create_dir_all(&at.directory)?;
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let path = at.directory.join(format!("writes-{}-{number}", std::process::id()));
        let file = at.disk.open(&path, OpenMode::Create)?;
        at.disk.remove(&path)?;
        Ok(Scratch { file, end: AtomicU64::new(0) })
    }

    fn push(&self, bytes: &[u8]) -> arbor_disk::Result<Place> {
        let offset = self.end.fetch_add(bytes.len() as u64, Ordering::Relaxed);
        self.file.write_at(bytes, offset)?;
        Ok(Place { offset, length: bytes.len() as u32 })
    }

    fn read(&self, place: Place) -> Result<Vec<u8>> {
        let mut bytes = vec![0; place.length as usize];
        self.file.read_exact_at(&mut bytes, place.offset).map_err(|error| {
            Error::Engine(arbor_engine::Error::Other(format!("reading back a transaction's writes: {error}")))
        })?;
        Ok(bytes)
    }
}

/// A value of a write set, in memory or in the transaction's file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Value {
    Memory(Vec<u8>),
    Spilled(Place),
}

impl From<Vec<u8>> for Value {
    fn from(bytes: Vec<u8>) -> Value {
        Value::Memory(bytes)
    }
}

impl Value {
    /// `bytes` in the file, or still in memory when the file does not take them.
    pub(crate) fn spilled(scratch: &Scratch, bytes: Vec<u8>) -> Value {
        match scratch.push(&bytes) {
            Ok(place) => Value::Spilled(place),
            Err(_) => Value::Memory(bytes),
        }
    }

    pub(crate) fn len(&self) -> usize {
        match self {
            Value::Memory(bytes) => bytes.len(),
            Value::Spilled(place) => place.length as usize,
        }
    }

    pub(crate) fn memory_bytes(&self) -> usize {
        match self {
            Value::Memory(bytes) => bytes.len(),
            Value::Spilled(_) => 0,
        }
    }

    /// Requires the file that the value is in.
    pub(crate) fn read(&self, scratch: Option<&Scratch>) -> Result<Cow<'_, [u8]>> {
        match self {
            Value::Memory(bytes) => Ok(Cow::Borrowed(bytes)),
            Value::Spilled(place) => {
                let scratch = scratch.expect("a spilled value is in the file that its write set has");
                scratch.read(*place).map(Cow::Owned)
            }
        }
    }

    pub(crate) fn into_bytes(self, scratch: Option<&Scratch>) -> Result<Vec<u8>> {
        match self {
            Value::Memory(bytes) => Ok(bytes),
            spilled => spilled.read(scratch).map(Cow::into_owned),
        }
    }
}
