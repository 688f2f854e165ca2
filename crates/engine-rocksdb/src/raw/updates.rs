//! Update messages inside RocksDB: its merge operator, and the compaction filter that removes what ended rows leave.
//!
//! RocksDB calls both from any thread, readers' and its own. A panic of the user's function ends at this border: the
//! merge then fails, and with it the read or the compaction that asked for it.

use std::ffi::{c_char, c_int, c_uchar, c_void};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::{ptr, slice};

use arbor_engine::UpdateFunction;

use super::{ROW, ffi, value_of};

type Function = Arc<dyn UpdateFunction>;

/// Name of the operator; RocksDB does not compare it with the name in the files.
const OPERATOR: &std::ffi::CStr = c"arbor.updates";
const FILTER: &std::ffi::CStr = c"arbor.ended-rows";

/// The options that take the operator own it.
pub(super) fn operator(updates: &Function) -> *mut ffi::rocksdb_mergeoperator_t {
    let state = Box::into_raw(Box::new(updates.clone())).cast();
    // SAFETY: the state is freed once, by `free_function`, when RocksDB destroys the operator.
    unsafe {
        ffi::rocksdb_mergeoperator_create(
            state,
            Some(free_function),
            Some(full_merge),
            Some(partial_merge),
            Some(free_bytes),
            Some(operator_name),
        )
    }
}

/// Removes stored values without any byte. Owned by the caller; outlives the database.
pub(super) fn filter() -> *mut ffi::rocksdb_compactionfilter_t {
    // SAFETY: no state, so nothing to free.
    unsafe { ffi::rocksdb_compactionfilter_create(ptr::null_mut(), Some(keep), Some(is_ended), Some(filter_name)) }
}

unsafe extern "C" fn operator_name(_: *mut c_void) -> *const c_char {
    OPERATOR.as_ptr()
}

unsafe extern "C" fn filter_name(_: *mut c_void) -> *const c_char {
    FILTER.as_ptr()
}

unsafe extern "C" fn keep(_: *mut c_void) {}

unsafe extern "C" fn free_function(state: *mut c_void) {
    // SAFETY: made by `operator`.
    drop(unsafe { Box::from_raw(state.cast::<Function>()) });
}

/// Returns the result of a merge: bytes that RocksDB copies and hands back to `free_bytes`.
fn answer(bytes: Option<Vec<u8>>, success: *mut c_uchar, length: *mut usize) -> *mut c_char {
    let found = c_uchar::from(bytes.is_some());
    let bytes = bytes.unwrap_or_default().into_boxed_slice();
    // SAFETY: both point to variables of the caller.
    unsafe {
        *success = found;
        *length = bytes.len();
    }
    Box::into_raw(bytes).cast()
}

unsafe extern "C" fn free_bytes(_: *mut c_void, bytes: *const c_char, length: usize) {
    // SAFETY: made by `answer` with this length.
    drop(unsafe { Box::from_raw(ptr::slice_from_raw_parts_mut(bytes.cast_mut().cast::<u8>(), length)) });
}

/// Requires: `length` readable bytes, unless it is zero.
unsafe fn bytes<'b>(start: *const c_char, length: usize) -> &'b [u8] {
    if length == 0 {
        return &[];
    }
    // SAFETY: as required.
    unsafe { slice::from_raw_parts(start.cast(), length) }
}

/// Requires: `count` pointers and lengths of readable bytes.
unsafe fn operands<'b>(
    list: *const *const c_char,
    lengths: *const usize,
    count: c_int,
) -> impl Iterator<Item = &'b [u8]> {
    // SAFETY: as required.
    (0..usize::try_from(count).unwrap_or(0)).map(move |n| unsafe { bytes(*list.add(n), *lengths.add(n)) })
}

unsafe extern "C" fn full_merge(
    state: *mut c_void,
    key: *const c_char,
    key_length: usize,
    existing: *const c_char,
    existing_length: usize,
    list: *const *const c_char,
    lengths: *const usize,
    count: c_int,
    success: *mut c_uchar,
    length: *mut usize,
) -> *mut c_char {
    let merged = catch_unwind(AssertUnwindSafe(|| {
        // SAFETY: the state is made by `operator`; RocksDB passes readable bytes. No bytes exist where there is no value.
        let (updates, key, stored, operands) = unsafe {
            let stored = (!existing.is_null()).then(|| bytes(existing, existing_length));
            (&*state.cast::<Function>(), bytes(key, key_length), stored, operands(list, lengths, count))
        };
        stored_after(&**updates, key.get(8..).unwrap_or_default(), stored.and_then(value_of), operands)
    }));
    answer(merged.ok(), success, length)
}

/// The stored value of a row after updates.
fn stored_after<'o>(
    updates: &dyn UpdateFunction,
    key: &[u8],
    row: Option<&[u8]>,
    operands: impl Iterator<Item = &'o [u8]>,
) -> Vec<u8> {
    let mut row = row.map(<[u8]>::to_vec);
    for update in operands {
        row = updates.apply(key, row.as_deref(), update);
    }
    row.map_or_else(Vec::new, |mut row| {
        row.push(ROW);
        row
    })
}

unsafe extern "C" fn partial_merge(
    state: *mut c_void,
    _key: *const c_char,
    _key_length: usize,
    list: *const *const c_char,
    lengths: *const usize,
    count: c_int,
    success: *mut c_uchar,
    length: *mut usize,
) -> *mut c_char {
    let merged = catch_unwind(AssertUnwindSafe(|| {
        // SAFETY: as in `full_merge`.
        let (updates, mut operands) = unsafe { (&*state.cast::<Function>(), operands(list, lengths, count)) };
        let first = operands.next()?.to_vec();
        operands.try_fold(first, |older, newer| updates.combine(&older, newer))
    }));
    answer(merged.ok().flatten(), success, length)
}

unsafe extern "C" fn is_ended(
    _: *mut c_void,
    _level: c_int,
    _key: *const c_char,
    _key_length: usize,
    _value: *const c_char,
    value_length: usize,
    _new_value: *mut *mut c_char,
    _new_length: *mut usize,
    _changed: *mut c_uchar,
) -> c_uchar {
    c_uchar::from(value_length == 0)
}

#[cfg(test)]
mod tests {
    use arbor_engine_contract::Adder;

    use super::*;

    #[test]
    fn updates_end_rows_and_begin_them() {
        let check = |row: Option<u64>, updates: &[i64], expected: Option<u64>| {
            let row = row.map(u64::to_le_bytes);
            let updates: Vec<[u8; 8]> = updates.iter().map(|update| update.to_le_bytes()).collect();
            let operands = updates.iter().map(<[u8; 8]>::as_slice);
            let stored = stored_after(&Adder, b"k", row.as_ref().map(<[u8; 8]>::as_slice), operands);
            assert_eq!(value_of(&stored), expected.map(u64::to_le_bytes).as_ref().map(<[u8; 8]>::as_slice));
        };
        check(None, &[1, 2], Some(3));
        check(Some(5), &[-5], None);
        check(Some(5), &[-5, 4], Some(4));
        check(None, &[0], None);
    }

    #[test]
    fn an_empty_value_is_a_row() {
        assert_eq!(value_of(&[ROW]), Some(&b""[..]));
        assert_eq!(value_of(&[]), None);
    }
}
