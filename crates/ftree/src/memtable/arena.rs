//! Memory of one memtable part, freed all at once, and the records in it.
//!
//! Record, little machine words, aligned to 8: `[seq u64][key bytes << 2 | kind, u32][value bytes u32][key][value]`.
//!
//! - (A1) An allocation neither moves nor is freed before the arena is dropped.
//! - (A2) A record is written once, before its address is published, and never changed.
#![allow(unsafe_code, reason = "memory whose parts are published while others are written")]

use std::alloc::{Layout, alloc, dealloc, handle_alloc_error};
use std::cmp::Ordering;
use std::ptr::{self, NonNull};
use std::slice;

use crate::{Entry, Kind, Seq};

const ALIGNMENT: usize = 8;
/// A tree with one row takes this; chunks double from here,
const CHUNK_BYTES_MIN: usize = 512;
/// up to this, which malloc still serves from its heap: no system call per chunk.
const CHUNK_BYTES_MAX: usize = 64 * 1024;
/// Longer records get a chunk of their own, so that at most an eighth of a chunk is lost at its end.
const OWN_CHUNK_BYTES: usize = CHUNK_BYTES_MAX / 8;
const _: () = assert!(CHUNK_BYTES_MIN.is_multiple_of(ALIGNMENT) && OWN_CHUNK_BYTES <= CHUNK_BYTES_MAX);

pub(super) struct Arena {
    chunks: Vec<(NonNull<u8>, Layout)>,
    /// The unused end of the chunk in use.
    free: *mut u8,
    free_bytes: usize,
    next_chunk_bytes: usize,
    held_bytes: usize,
}

// SAFETY: the chunks belong to the arena alone; nothing in it is tied to a thread.
unsafe impl Send for Arena {}

impl Arena {
    pub(super) fn new() -> Arena {
        Arena {
            chunks: Vec::new(),
            free: ptr::null_mut(),
            free_bytes: 0,
            next_chunk_bytes: CHUNK_BYTES_MIN,
            held_bytes: 0,
        }
    }

    /// Bytes of all chunks.
    pub(super) fn held_bytes(&self) -> usize {
        self.held_bytes
    }

    /// Memory for `bytes`, aligned to 8 and not initialised. Requires: `bytes > 0`.
    pub(super) fn allocate(&mut self, bytes: usize) -> *mut u8 {
        debug_assert!(bytes > 0, "an allocation has an address of its own");
        let bytes = bytes.next_multiple_of(ALIGNMENT);
        if bytes > self.free_bytes {
            if bytes > OWN_CHUNK_BYTES {
                return self.add_chunk(bytes);
            }
            let chunk_bytes = self.next_chunk_bytes.max(bytes.next_power_of_two());
            self.next_chunk_bytes = (2 * chunk_bytes).min(CHUNK_BYTES_MAX);
            self.free = self.add_chunk(chunk_bytes);
            self.free_bytes = chunk_bytes;
        }
        let start = self.free;
        debug_assert!(self.free_bytes >= bytes && start.addr().is_multiple_of(ALIGNMENT), "{} left", self.free_bytes);
        // SAFETY: `free_bytes >= bytes` bytes from `free` on belong to the chunk in use.
        self.free = unsafe { self.free.add(bytes) };
        self.free_bytes -= bytes;
        start
    }

    fn add_chunk(&mut self, bytes: usize) -> *mut u8 {
        let layout = Layout::from_size_align(bytes, ALIGNMENT).expect("A3: no record comes near isize::MAX bytes");
        // SAFETY: `allocate` asks for more than 0 bytes.
        let start = NonNull::new(unsafe { alloc(layout) }).unwrap_or_else(|| handle_alloc_error(layout));
        self.chunks.push((start, layout));
        self.held_bytes += bytes;
        start.as_ptr()
    }
}

impl Drop for Arena {
    fn drop(&mut self) {
        for &(start, layout) in &self.chunks {
            // SAFETY: allocated with this layout in `add_chunk`, freed here only.
            unsafe { dealloc(start.as_ptr(), layout) }
        }
    }
}

#[repr(C)]
struct Header {
    seq: u64,
    key_bytes_and_kind: u32,
    value_bytes: u32,
}

const HEADER_BYTES: usize = size_of::<Header>();
const _: () = assert!(HEADER_BYTES == 16 && align_of::<Header>() <= ALIGNMENT);

/// The address of an entry in an arena.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) struct Record(*mut u8);

impl Record {
    /// Copies the entry into the arena. Requires: keys below 1 GiB, values below 4 GiB (MongoDB's documents end at
    /// 16 MB, and `txn` refuses longer ones).
    pub(super) fn store(arena: &mut Arena, entry: &Entry<'_>) -> Record {
        let (key, value) = (entry.key, entry.value);
        assert!(
            key.len() < 1 << 30 && value.len() <= u32::MAX as usize,
            "A4: entries are shorter than their lengths say"
        );
        let header = Header {
            seq: entry.seq.0,
            key_bytes_and_kind: (key.len() as u32) << 2 | entry.kind as u32,
            value_bytes: value.len() as u32,
        };
        let start = arena.allocate(HEADER_BYTES + key.len() + value.len());
        // SAFETY: `start` is aligned to 8 and has room for the header, the key and the value, which are stored elsewhere.
        unsafe {
            start.cast::<Header>().write(header);
            let bytes = start.add(HEADER_BYTES);
            bytes.copy_from_nonoverlapping(key.as_ptr(), key.len());
            bytes.add(key.len()).copy_from_nonoverlapping(value.as_ptr(), value.len());
        }
        Record(start)
    }

    pub(super) fn address(self) -> *mut u8 {
        self.0
    }

    /// # Safety
    /// `address` is that of a record ([`Record::address`]) whose arena outlives every use of what this returns, and the
    /// store of the record happened before this call.
    pub(super) unsafe fn from_address(address: *mut u8) -> Record {
        Record(address)
    }

    /// # Safety
    /// The arena outlives `'a`.
    pub(super) unsafe fn entry<'a>(self) -> Entry<'a> {
        // SAFETY: a `Record` is the address of a whole record, by `store` or by the caller of `from_address`; it does
        // not change (A2) and stays (A1).
        unsafe {
            let header = &*self.0.cast::<Header>();
            let bytes = self.0.add(HEADER_BYTES);
            let key_bytes = (header.key_bytes_and_kind >> 2) as usize;
            Entry {
                key: slice::from_raw_parts(bytes, key_bytes),
                seq: Seq(header.seq),
                kind: kind_of_bits(header.key_bytes_and_kind),
                value: slice::from_raw_parts(bytes.add(key_bytes), header.value_bytes as usize),
            }
        }
    }

    /// Returns true if it comes before (`key`, `seq`) in the order E1; not so if it is equal.
    ///
    /// # Safety
    /// The arena is alive.
    pub(super) unsafe fn precedes(self, key: &[u8], seq: Seq) -> bool {
        // SAFETY: the arena outlives this call.
        let entry = unsafe { self.entry() };
        match entry.key.cmp(key) {
            Ordering::Less => true,
            Ordering::Equal => entry.seq > seq,
            Ordering::Greater => false,
        }
    }

    /// Prefetches the record, which is needed soon.
    pub(super) fn prefetch(self) {
        prefetch(self.0.cast::<[u8; 2 * 64]>());
    }
}

/// Prefetches all cache lines of the value there.
#[inline]
pub(super) fn prefetch<T>(place: *const T) {
    for line in (0..size_of::<T>()).step_by(64) {
        prefetch_line(place.cast::<i8>().wrapping_add(line));
    }
}

#[inline]
fn prefetch_line(_place: *const i8) {
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    // SAFETY: prefetching touches nothing, whatever the address.
    unsafe {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        _mm_prefetch::<_MM_HINT_T0>(_place);
    }
}

fn kind_of_bits(bits: u32) -> Kind {
    match bits & 3 {
        0 => Kind::Put,
        1 => Kind::Delete,
        2 => Kind::Update,
        _ => Kind::PutBlob,
    }
}

const _: () =
    assert!(Kind::Put as u32 == 0 && Kind::Delete as u32 == 1 && Kind::Update as u32 == 2 && Kind::PutBlob as u32 == 3);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gives_entries_back_as_they_came() {
        let mut arena = Arena::new();
        let big = vec![7; 100_000];
        let entries: Vec<Entry<'_>> = (0..50u64)
            .flat_map(|i| {
                let value: &[u8] = if i % 10 == 0 { &big } else { b"value" };
                [Kind::Put, Kind::Delete, Kind::Update, Kind::PutBlob].map(|kind| Entry {
                    key: &big[..i as usize],
                    seq: Seq(u64::MAX - i),
                    kind,
                    value: if kind == Kind::Delete { b"" } else { value },
                })
            })
            .collect();
        let records: Vec<Record> = entries.iter().map(|entry| Record::store(&mut arena, entry)).collect();
        for (record, entry) in records.iter().zip(&entries) {
            // SAFETY: the arena is alive.
            assert_eq!(unsafe { record.entry() }, *entry);
        }
    }

    #[test]
    fn holds_little_for_little_and_big_records_apart() {
        let mut arena = Arena::new();
        arena.allocate(1);
        assert_eq!((arena.held_bytes(), arena.chunks.len()), (CHUNK_BYTES_MIN, 1));
        let before = arena.free;
        arena.allocate(OWN_CHUNK_BYTES + 1);
        assert_eq!((arena.held_bytes(), arena.free), (CHUNK_BYTES_MIN + OWN_CHUNK_BYTES + 8, before));
        (0..10_000).for_each(|_| _ = arena.allocate(100));
        assert!(arena.held_bytes() < 10_000 * 104 + OWN_CHUNK_BYTES + 2 * CHUNK_BYTES_MAX);
    }
}
