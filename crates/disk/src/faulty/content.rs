//! The bytes of one file: what readers see, what is durable, and the changes between the two.

use super::holes::Holes;
use arbor_base::Random;

const SECTOR: usize = 512;

#[derive(Clone, Debug, Default)]
pub(super) struct Content {
    visible: Vec<u8>,
    durable: Vec<u8>,
    /// In the order in which they were made; applied to `durable` they give `visible` (unless a sync failed).
    unsynced: Vec<Change>,
    holes: Holes,
    /// The file was opened to be appended to.
    pub(super) appended: bool,
    /// Since the last sync there may have been zeros behind the end; are there still?
    reserved: Option<bool>,
}

#[derive(Clone, Debug)]
enum Change {
    /// Whole sectors from sector number `first` on, as they were after a write, in a file of `len` bytes.
    Sectors {
        first: usize,
        bytes: Vec<u8>,
        len: usize,
    },
    SetLen(usize),
}

impl Content {
    pub(super) fn durable(bytes: &[u8]) -> Content {
        Content { visible: bytes.to_vec(), durable: bytes.to_vec(), ..Content::default() }
    }

    /// Returns the disk space of the file: holes take none.
    pub(super) fn held_bytes(&self) -> u64 {
        self.visible.len() as u64 - self.holes.bytes()
    }

    /// Returns the number of bytes that may be written from `offset` on when the disk has `free` bytes left.
    pub(super) fn room(&self, offset: u64, free: u64) -> u64 {
        let len = self.visible.len() as u64;
        self.holes.room(offset, free).unwrap_or_else(|held| (len.saturating_sub(offset) + free).saturating_sub(held))
    }

    pub(super) fn fill_holes(&mut self, from: u64, to: u64) {
        self.holes.fill(from, to);
    }

    pub(super) fn punch_hole(&mut self, offset: u64, len: u64) {
        let end = (offset + len).min(self.visible.len() as u64);
        self.write(&vec![0; end.saturating_sub(offset) as usize], offset);
        self.holes.add(offset, end);
    }

    pub(super) fn visible(&self) -> &[u8] {
        &self.visible
    }

    pub(super) fn read(&self, buffer: &mut [u8], offset: u64) -> usize {
        let rest = usize::try_from(offset).ok().and_then(|at| self.visible.get(at..)).unwrap_or_default();
        let count = rest.len().min(buffer.len());
        for (to, from) in buffer.iter_mut().zip(rest) {
            *to = *from;
        }
        count
    }

    pub(super) fn write(&mut self, bytes: &[u8], offset: u64) {
        if bytes.is_empty() {
            return;
        }
        let (start, end) = (offset as usize, offset as usize + bytes.len());
        if self.appended && end > self.visible.len() {
            self.reserved = Some(true);
        }
        put(&mut self.visible, start, bytes);
        self.holes.fill(start as u64, end as u64);
        let first = start / SECTOR;
        let aligned_end = end.next_multiple_of(SECTOR).min(self.visible.len());
        let image = self.visible.get(first * SECTOR..aligned_end).unwrap_or_default().to_vec();
        self.unsynced.push(Change::Sectors { first, bytes: image, len: self.visible.len() });
    }

    pub(super) fn set_len(&mut self, len: u64) {
        self.visible.resize(len as usize, 0);
        self.holes.fill(len, u64::MAX);
        self.unsynced.push(Change::SetLen(len as usize));
        self.reserved = self.reserved.map(|_| false);
    }

    pub(super) fn sync(&mut self) {
        let changes = std::mem::take(&mut self.unsynced);
        apply(&mut self.durable, &changes, || true);
        self.reserved = self.reserved.filter(|still| *still);
    }

    pub(super) fn fail_sync(&mut self, random: &mut Random) {
        let changes = std::mem::take(&mut self.unsynced);
        apply(&mut self.durable, &changes, || random.chance(1, 2));
    }

    /// Returns the content after a power failure; each unsynced change survives `survive` times out of 16.
    pub(super) fn crash(&self, random: &mut Random, survive: u64) -> Content {
        let mut bytes = self.durable.clone();
        apply(&mut bytes, &self.unsynced, || random.chance(survive, 16));
        if self.reserved.is_some() && random.chance(1, 2) {
            bytes.resize(bytes.len() + random.below(3000) as usize, 0);
        }
        Content::durable(&bytes)
    }

    /// Returns the content after the end of the process.
    pub(super) fn kill_process(&self) -> Content {
        let mut left = self.clone();
        if self.reserved == Some(true) {
            left.visible.resize(self.visible.len() + 1 + self.visible.len() % 997, 0);
        }
        left
    }

    pub(super) fn damage(&mut self, offset: u64) {
        for bytes in [&mut self.visible, &mut self.durable] {
            if let Some(byte) = bytes.get_mut(offset as usize) {
                *byte ^= 0x41;
            }
        }
    }
}

/// Applies the chosen changes; `chosen` is asked once per sector and per change of length.
fn apply(target: &mut Vec<u8>, changes: &[Change], mut chosen: impl FnMut() -> bool) {
    for change in changes {
        match change {
            Change::SetLen(len) if chosen() => target.resize(*len, 0),
            Change::SetLen(_) => {}
            Change::Sectors { first, bytes, len } => {
                for (number, sector) in bytes.chunks(SECTOR).enumerate().filter(|_| chosen()) {
                    let start = (first + number) * SECTOR;
                    put(target, start, sector);
                    debug_assert!(start + sector.len() <= *len);
                }
            }
        }
    }
}

/// Overwrites `bytes` at `start`, growing `target` with zeros.
fn put(target: &mut Vec<u8>, start: usize, bytes: &[u8]) {
    let end = start + bytes.len();
    if target.len() < end {
        target.resize(end, 0);
    }
    if let Some(place) = target.get_mut(start..end) {
        place.copy_from_slice(bytes);
    }
}
