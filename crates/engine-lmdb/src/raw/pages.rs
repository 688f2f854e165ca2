//! The pages of the B+tree as LMDB lays them out (mdb.c: `MDB_page`, `MDB_node`, `MDB_meta`), read only, to judge how
//! many entries are between two keys without visiting them.
//!
//! | offset in a page | size | |
//! |---|---|---|
//! | 0 | 8 | page number |
//! | 10 | 2 | flags: 1 branch, 2 leaf |
//! | 12 | 2 | end of the slots |
//! | 16 | 2 each | slots: offsets of the nodes, in key order |
//!
//! | offset in a node | size | |
//! |---|---|---|
//! | 0 | 4 | leaf: bytes of the value; branch: low part of the child's page number |
//! | 4 | 2 | leaf: flags, 1 for a value in overflow pages; branch: high part of the child's page number |
//! | 6 | 2 | bytes of the key |
//! | 8 | | the key (empty in a branch's first node) |

use std::marker::PhantomData;

use super::Txn;

const HEADER_BYTES: usize = 16;
const BRANCH: u16 = 1;
/// Flag of a node whose value is in overflow pages.
const BIG_DATA: usize = 1;
/// Offsets in a meta page.
const META_ROOT: usize = 128;
const META_LAST_PAGE: usize = 136;
const META_TXN_ID: usize = 144;

/// All pages of the state that a read transaction sees.
pub(crate) struct Pages<'t> {
    map: *const u8,
    page_bytes: usize,
    count: u64,
    root: u64,
    txn: PhantomData<&'t Txn>,
}

#[derive(Clone, Copy)]
pub(crate) struct Page<'t> {
    bytes: &'t [u8],
}

pub(crate) struct Node<'t> {
    pub key: &'t [u8],
    /// Page number of the child, in a branch.
    pub child: u64,
}

fn u16_at(bytes: &[u8], offset: usize) -> Option<usize> {
    Some(usize::from(u16::from_ne_bytes(*bytes.get(offset..)?.first_chunk()?)))
}

impl Txn {
    /// `inside` is a value of a few bytes that was read through this read transaction: it is in a leaf page, whose
    /// address gives the begin of the map. `None` if two later states were committed: their metas replaced this one's.
    pub(crate) fn pages(&self, inside: &[u8], page_bytes: usize) -> Option<Pages<'_>> {
        let leaf = (inside.as_ptr() as usize & !(page_bytes - 1)) as *const u8;
        // SAFETY: R3: `inside` is in a mapped page; the map begins at a page boundary.
        let number = unsafe { leaf.cast::<u64>().read() } as usize;
        let map = leaf.wrapping_sub(number * page_bytes);
        let meta = map.wrapping_add((self.id() as usize % 2) * page_bytes);
        // SAFETY: `map` is the map's begin, so `meta` is one of the two meta pages. The writer may write this one while
        // it is read: hence volatile, and the number is compared before and after.
        let field = |offset: usize| unsafe { meta.wrapping_add(offset).cast::<u64>().read_volatile() };
        let id = self.id();
        let before = field(META_TXN_ID);
        let (root, last) = (field(META_ROOT), field(META_LAST_PAGE));
        std::sync::atomic::fence(std::sync::atomic::Ordering::Acquire);
        let same = before == id && field(META_TXN_ID) == id;
        same.then_some(Pages { map, page_bytes, count: last + 1, root, txn: PhantomData })
    }
}

impl<'t> Pages<'t> {
    pub(crate) fn root(&self) -> Option<Page<'t>> {
        self.page(self.root)
    }

    pub(crate) fn page(&self, number: u64) -> Option<Page<'t>> {
        if !(2..self.count).contains(&number) {
            return None;
        }
        let begin = self.map.wrapping_add(number as usize * self.page_bytes);
        // SAFETY: a page of the state (R3: it is not written while the transaction lives), inside the mapped file.
        Some(Page { bytes: unsafe { std::slice::from_raw_parts(begin, self.page_bytes) } })
    }
}

impl<'t> Page<'t> {
    pub(crate) fn is_branch(&self) -> bool {
        u16_at(self.bytes, 10).is_some_and(|flags| flags as u16 & BRANCH != 0)
    }

    pub(crate) fn len(&self) -> usize {
        u16_at(self.bytes, 12).map_or(0, |end| end.saturating_sub(HEADER_BYTES) / 2)
    }

    pub(crate) fn node(&self, slot: usize) -> Option<Node<'t>> {
        let node = self.bytes.get(u16_at(self.bytes, HEADER_BYTES + slot * 2)?..)?;
        let low = u64::from(u32::from_ne_bytes(*node.first_chunk()?));
        let high = u16_at(node, 4)? as u64;
        let key = node.get(8..8 + u16_at(node, 6)?)?;
        Some(Node { key, child: low | high << 32 })
    }

    /// Leaf: overflow pages of the values of some slots.
    pub(crate) fn overflow_pages(&self, slots: std::ops::Range<usize>) -> u64 {
        let of_slot = |slot| {
            let node = self.bytes.get(u16_at(self.bytes, HEADER_BYTES + slot * 2)?..)?;
            let value_bytes = u64::from(u32::from_ne_bytes(*node.first_chunk()?));
            // the first page of a value has a header
            let pages = (value_bytes + HEADER_BYTES as u64).div_ceil(self.bytes.len() as u64);
            Some(if u16_at(node, 4)? & BIG_DATA != 0 { pages } else { 0 })
        };
        slots.filter_map(of_slot).sum()
    }

    /// Leaf: the first slot with a key `>= key`. Branch: the child where such a key is.
    pub(crate) fn slot(&self, key: &[u8]) -> usize {
        let first = usize::from(self.is_branch());
        let (mut low, mut high) = (first, self.len());
        while low < high {
            let middle = low + (high - low) / 2;
            let left = match self.node(middle) {
                Some(node) if first == 1 => node.key <= key,
                Some(node) => node.key < key,
                None => false,
            };
            if left {
                low = middle + 1;
            } else {
                high = middle;
            }
        }
        low - first
    }
}
