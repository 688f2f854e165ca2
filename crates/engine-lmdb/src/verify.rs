//! Verification of the pages of a checkpointed state before LMDB walks them.
//!
//! LMDB trusts its pages: an offset that points out of a page, a page number beyond the file or a list of free pages with a
//! wrong length makes it read where there is nothing, and the process ends by a signal. Here the pages are read as bytes of a
//! file, so that damage is an error. V1: every page of the state is where its number says, of the kind that its place in the
//! tree wants, and has all its nodes inside; V2: no page is in two places, the list of free pages included; V3: keys ascend
//! within a page. Damage of keys and values that leaves this intact is not seen: pages have no checksums.
//!
//! Layouts are those of [`raw::Pages`](crate::raw), and:
//!
//! | offset in a node | size | |
//! |---|---|---|
//! | 4 | 2 | leaf: flags, 1 for a value in overflow pages, whose number is stored in its place |
//!
//! | offset in an overflow page | size | |
//! |---|---|---|
//! | 12 | 4 | number of pages; the value begins at 16 in the first |

use std::collections::VecDeque;
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::Path;

use arbor_engine::{Error, Result};

use crate::checkpoint::Checkpoint;
use crate::files::{DATA_FILE, io_error};

const HEADER_BYTES: usize = 16;
const NODE_HEADER_BYTES: usize = 8;
const KIND: u16 = 0x0f;
const BRANCH: u16 = 1;
const LEAF: u16 = 2;
const OVERFLOW: u16 = 4;
const BIG_VALUE: u16 = 1;
/// Root of a tree without rows.
const NO_PAGE: u64 = u64::MAX;
/// LMDB's cursors are not deeper (`CURSOR_STACK`).
const DEPTH_MAX: u16 = 32;

/// Verifies the whole state of the last checkpoint. Returns how many pages it has. Requires that no engine has it open.
pub fn verify(dir: &Path) -> Result<u64> {
    let checkpoint = Checkpoint::load(dir)?;
    let data = File::open(dir.join(DATA_FILE)).map_err(|e| io_error("open data.mdb", e))?;
    verify_pages(&data, &checkpoint, u64::MAX)
}

/// Like `verify`, but up to a number of pages, from the roots down: all of a small file, the upper levels of a large one.
pub(crate) fn verify_pages(data: &File, checkpoint: &Checkpoint, pages_max: u64) -> Result<u64> {
    let page_bytes = checkpoint.page_bytes as usize;
    if !page_bytes.is_power_of_two() || !(512..=65536).contains(&page_bytes) {
        return Err(corrupt(0, format!("pages of {page_bytes} bytes")));
    }
    let mut walk =
        Walk { data, page_bytes, count: checkpoint.pages(), used: Used::default(), queue: VecDeque::new(), seen: 0 };
    let [free, main] = checkpoint.roots();
    for (root, is_free_list) in [(free, true), (main, false)] {
        if root.page != NO_PAGE {
            walk.queue.push_back(Place { page: root.page, depth: root.depth, is_free_list });
        }
    }
    walk.run(pages_max)?;
    Ok(walk.seen)
}

fn corrupt(page: u64, context: impl Into<String>) -> Error {
    Error::Corrupt { place: format!("data.mdb, page {page}"), context: context.into() }
}

fn u16_at(bytes: &[u8], offset: usize) -> Option<u16> {
    Some(u16::from_le_bytes(*bytes.get(offset..)?.first_chunk()?))
}

fn u32_at(bytes: &[u8], offset: usize) -> Option<u32> {
    Some(u32::from_le_bytes(*bytes.get(offset..)?.first_chunk()?))
}

fn u64_at(bytes: &[u8], offset: usize) -> Option<u64> {
    Some(u64::from_le_bytes(*bytes.get(offset..)?.first_chunk()?))
}

/// A page of a tree; at depth 1 it is a leaf.
struct Place {
    page: u64,
    depth: u16,
    is_free_list: bool,
}

/// Pages found so far, one bit each.
#[derive(Default)]
struct Used(Vec<u64>);

impl Used {
    /// Returns true if the page is found for the first time.
    fn add(&mut self, page: u64) -> bool {
        let (word, bit) = ((page / 64) as usize, 1 << (page % 64));
        if self.0.len() <= word {
            self.0.resize(word + 1, 0);
        }
        let Some(bits) = self.0.get_mut(word) else { return false };
        let first = *bits & bit == 0;
        *bits |= bit;
        first
    }
}

struct Walk<'f> {
    data: &'f File,
    page_bytes: usize,
    count: u64,
    used: Used,
    queue: VecDeque<Place>,
    seen: u64,
}

impl Walk<'_> {
    fn run(&mut self, pages_max: u64) -> Result<()> {
        while let Some(place) = self.queue.pop_front() {
            if self.seen >= pages_max {
                return Ok(());
            }
            if place.depth == 0 || place.depth > DEPTH_MAX {
                return Err(corrupt(place.page, "the tree is of another depth than its root says"));
            }
            self.tree_page(&place)?;
        }
        Ok(())
    }

    /// V1 and V2 of a page or a row of pages.
    fn claim(&mut self, page: u64, pages: u64) -> Result<()> {
        let end = page.checked_add(pages).filter(|end| page >= 2 && *end <= self.count);
        let Some(end) = end else {
            return Err(corrupt(page, format!("it is outside of the file, which has {} pages", self.count)));
        };
        match (page..end).find(|page| !self.used.add(*page)) {
            Some(twice) => Err(corrupt(twice, "it is in two places")),
            None => Ok(()),
        }
    }

    fn read(&mut self, page: u64, length: usize) -> Result<Vec<u8>> {
        let mut bytes = vec![0; length];
        let mut filled = 0;
        // Bytes past the end of the file read as zeros, as they do once the file is extended.
        while let Some(rest) = bytes.get_mut(filled..).filter(|rest| !rest.is_empty()) {
            let offset = page * self.page_bytes as u64 + filled as u64;
            match self.data.read_at(rest, offset).map_err(|e| io_error("read data.mdb", e))? {
                0 => break,
                read => filled += read,
            }
        }
        Ok(bytes)
    }

    fn kind_of(&self, page: u64, bytes: &[u8]) -> Result<u16> {
        match (u64_at(bytes, 0), u16_at(bytes, 10)) {
            (Some(number), Some(flags)) if number == page => Ok(flags & KIND),
            (number, _) => Err(corrupt(page, format!("it says that it is page {}", number.unwrap_or_default()))),
        }
    }

    fn tree_page(&mut self, place: &Place) -> Result<()> {
        self.claim(place.page, 1)?;
        self.seen += 1;
        let bytes = self.read(place.page, self.page_bytes)?;
        let expected = if place.depth == 1 { LEAF } else { BRANCH };
        let kind = self.kind_of(place.page, &bytes)?;
        if kind != expected {
            return Err(corrupt(place.page, format!("it is of kind {kind} instead of {expected}")));
        }
        let end = usize::from(u16_at(&bytes, 12).unwrap_or_default());
        if end < HEADER_BYTES || end > bytes.len() || end % 2 != 0 || (kind == BRANCH && end < HEADER_BYTES + 4) {
            return Err(corrupt(place.page, format!("its slots end at {end}")));
        }
        let mut last: Option<&[u8]> = None;
        for slot in 0..(end - HEADER_BYTES) / 2 {
            let outside = || corrupt(place.page, format!("node {slot} is outside of it"));
            let offset = u16_at(&bytes, HEADER_BYTES + slot * 2).map(usize::from).filter(|offset| *offset >= end);
            let node = offset.and_then(|offset| bytes.get(offset..)).ok_or_else(outside)?;
            let key = key_of(node).ok_or_else(outside)?;
            // A branch's first key counts as the least, whatever it is; the free list's keys are numbers.
            let counts = !place.is_free_list && (kind == LEAF || slot > 0);
            if counts && last.is_some_and(|last| last >= key) {
                return Err(corrupt(place.page, format!("the key of node {slot} is not greater than the one before")));
            }
            last = counts.then_some(key);
            if kind == BRANCH {
                let page = child_of(node).ok_or_else(outside)?;
                self.queue.push_back(Place { page, depth: place.depth - 1, is_free_list: place.is_free_list });
            } else {
                self.leaf_node(place, node, key.len()).ok_or_else(outside)??;
            }
        }
        Ok(())
    }

    /// `None`: the node is partly outside of its page.
    fn leaf_node(&mut self, place: &Place, node: &[u8], key_bytes: usize) -> Option<Result<()>> {
        let (length, flags) = (u32_at(node, 0)? as usize, u16_at(node, 4)?);
        let behind = node.get(NODE_HEADER_BYTES + key_bytes..)?;
        if flags & !BIG_VALUE != 0 {
            return Some(Err(corrupt(place.page, format!("a node has flags {flags}"))));
        }
        if flags & BIG_VALUE == 0 {
            let value = behind.get(..length)?;
            return Some(if place.is_free_list { self.free_pages(place.page, value) } else { Ok(()) });
        }
        let page = u64_at(behind, 0)?;
        Some(self.overflow(place, page, length))
    }

    fn overflow(&mut self, place: &Place, page: u64, length: usize) -> Result<()> {
        let pages = (HEADER_BYTES + length).div_ceil(self.page_bytes) as u64;
        self.claim(page, pages)?;
        let read = if place.is_free_list { HEADER_BYTES + length } else { HEADER_BYTES };
        let bytes = self.read(page, read)?;
        let kind = self.kind_of(page, &bytes)?;
        if kind != OVERFLOW || u32_at(&bytes, 12).map(u64::from) != Some(pages) {
            return Err(corrupt(page, format!("it does not begin the {pages} pages of a value")));
        }
        match bytes.get(HEADER_BYTES..) {
            Some(value) if place.is_free_list => self.free_pages(page, value),
            _ => Ok(()),
        }
    }

    /// A record of the free list: the number of pages, then the pages, in descending order.
    fn free_pages(&mut self, page: u64, list: &[u8]) -> Result<()> {
        let wrong = || corrupt(page, "a list of free pages is not one");
        let count = u64_at(list, 0).filter(|count| *count < (list.len() / 8) as u64).ok_or_else(wrong)?;
        let mut last = u64::MAX;
        for at in 1..=count as usize {
            let free = u64_at(list, at * 8).filter(|free| *free < last).ok_or_else(wrong)?;
            self.claim(free, 1)?;
            last = free;
        }
        Ok(())
    }
}

fn key_of(node: &[u8]) -> Option<&[u8]> {
    node.get(NODE_HEADER_BYTES..NODE_HEADER_BYTES + usize::from(u16_at(node, 6)?))
}

fn child_of(node: &[u8]) -> Option<u64> {
    Some(u64::from(u32_at(node, 0)?) | u64::from(u16_at(node, 4)?) << 32)
}
