//! A cursor over the rows of one table.
//!
//! WiredTiger takes no empty keys. So an empty key, and one that begins with a zero byte, is stored with one more zero byte
//! before it; all others are stored as they are. That keeps the order.

use std::borrow::Cow;
use std::ffi::{CStr, c_char, c_void};
use std::{ptr, slice};

use super::fault::Called;
use super::{Session, call, ffi};

pub(super) fn item(bytes: &[u8]) -> ffi::WT_ITEM {
    ffi::WT_ITEM {
        data: bytes.as_ptr().cast::<c_void>(),
        size: bytes.len(),
        mem: ptr::null_mut(),
        memsize: 0,
        flags: 0,
    }
}

/// Returns a key as WiredTiger stores it.
pub(super) fn stored(key: &[u8]) -> Cow<'_, [u8]> {
    match key.first() {
        None | Some(0) => Cow::Owned([&[0], key].concat()),
        Some(_) => Cow::Borrowed(key),
    }
}

/// Requires: R5.
pub(super) unsafe fn bytes<'a>(item: &ffi::WT_ITEM) -> &'a [u8] {
    match item.size {
        0 => &[],
        // SAFETY: R5.
        size => unsafe { slice::from_raw_parts(item.data.cast(), size) },
    }
}

/// Unpositioned at first. Every move returns true if it is on a row then. Every call takes the session that opened it;
/// it is closed by [`RowCursor::close`], or with the session.
pub(crate) struct RowCursor {
    cursor: *mut ffi::WT_CURSOR,
    on: bool,
    key: (*const u8, usize),
    value: (*const u8, usize),
}

// SAFETY: R3; the caller holds the session.
unsafe impl Send for RowCursor {}

impl RowCursor {
    pub(super) fn new(cursor: *mut ffi::WT_CURSOR) -> RowCursor {
        let nothing = (ptr::NonNull::<u8>::dangling().as_ptr().cast_const(), 0);
        RowCursor { cursor, on: false, key: nothing, value: nothing }
    }

    pub(crate) fn is_on(&self) -> bool {
        self.on
    }

    pub(super) fn pointer(&self) -> *mut ffi::WT_CURSOR {
        self.cursor
    }

    /// Takes note of the current row, if there is one.
    fn arrive(&mut self, session: &mut Session, found: bool) -> Called<bool> {
        self.on = false;
        if !found {
            return Ok(false);
        }
        let (mut key, mut value) = (item(b""), item(b""));
        // SAFETY: R1, R3.
        unsafe {
            session.check("read a key", call!(self.cursor, get_key, &raw mut key))?;
            session.check("read a value", call!(self.cursor, get_value, &raw mut value))?;
        }
        // SAFETY: R5; from here on as a pointer only.
        let (key, value): (&[u8], &[u8]) = unsafe { (bytes(&key), bytes(&value)) };
        let key = key.strip_prefix(&[0]).unwrap_or(key);
        (self.key, self.value, self.on) = ((key.as_ptr(), key.len()), (value.as_ptr(), value.len()), true);
        Ok(true)
    }

    /// To a row near the target; returns how it compares with the target.
    fn near(&mut self, session: &mut Session, target: &[u8]) -> Called<Option<i32>> {
        self.on = false;
        let mut exact = 0;
        let target = stored(target);
        // SAFETY: R1, R2, R3.
        let code = unsafe {
            let mut target = item(&target);
            call!(self.cursor, set_key, &raw mut target);
            call!(self.cursor, search_near, &mut exact)
        };
        Ok(session.found("search", code)?.then_some(exact))
    }

    fn step(&mut self, session: &mut Session, forward: bool) -> Called<bool> {
        self.on = false;
        // SAFETY: R1, R3.
        let code = unsafe { if forward { call!(self.cursor, next) } else { call!(self.cursor, prev) } };
        let found = session.found("move", code)?;
        self.arrive(session, found)
    }

    /// To the first row with `key >= target`.
    pub(crate) fn seek(&mut self, session: &mut Session, target: &[u8]) -> Called<bool> {
        match self.near(session, target)? {
            None => Ok(false),
            Some(exact) if exact < 0 => self.step(session, true),
            Some(_) => self.arrive(session, true),
        }
    }

    /// To the last row with `key < target`.
    pub(crate) fn seek_before(&mut self, session: &mut Session, target: &[u8]) -> Called<bool> {
        match self.near(session, target)? {
            None => Ok(false),
            Some(exact) if exact >= 0 => self.step(session, false),
            Some(_) => self.arrive(session, true),
        }
    }

    /// To the first row.
    pub(crate) fn first(&mut self, session: &mut Session) -> Called<bool> {
        self.reset(session)?;
        self.step(session, true)
    }

    pub(crate) fn last(&mut self, session: &mut Session) -> Called<bool> {
        self.reset(session)?;
        self.step(session, false)
    }

    /// From nowhere it goes nowhere.
    pub(crate) fn next(&mut self, session: &mut Session) -> Called<bool> {
        if self.on { self.step(session, true) } else { Ok(false) }
    }

    pub(crate) fn prev(&mut self, session: &mut Session) -> Called<bool> {
        if self.on { self.step(session, false) } else { Ok(false) }
    }

    /// Moves to the next sample, from any position.
    pub(crate) fn sample(&mut self, session: &mut Session) -> Called<bool> {
        self.step(session, true)
    }

    pub(crate) fn reset(&mut self, session: &mut Session) -> Called {
        self.on = false;
        // SAFETY: R1, R3.
        session.check("reset", unsafe { call!(self.cursor, reset) })
    }

    /// Appends a row; for cursors of a bulk load.
    pub(crate) fn append(&mut self, session: &mut Session, key: &[u8], value: &[u8]) -> Called {
        let key = stored(key);
        // SAFETY: R1, R2, R3.
        let code = unsafe {
            let (mut key, mut value) = (item(&key), item(value));
            call!(self.cursor, set_key, &raw mut key);
            call!(self.cursor, set_value, &raw mut value);
            call!(self.cursor, insert)
        };
        session.check("bulk load", code)
    }

    pub(crate) fn key(&self) -> &[u8] {
        assert!(self.on, "cursor contract: key and value only while the cursor is on an entry");
        // SAFETY: R5; moves need `&mut self`.
        unsafe { slice::from_raw_parts(self.key.0, self.key.1) }
    }

    pub(crate) fn value(&self) -> &[u8] {
        assert!(self.on, "cursor contract: key and value only while the cursor is on an entry");
        // SAFETY: R5; moves need `&mut self`.
        unsafe { slice::from_raw_parts(self.value.0, self.value.1) }
    }

    pub(crate) fn close(self, session: &mut Session) -> Called {
        // SAFETY: R1, R3.
        session.check("close a cursor", unsafe { call!(self.cursor, close) })
    }

    /// All keys of a cursor whose keys are texts.
    pub(super) fn texts(self, session: &mut Session) -> Called<Vec<String>> {
        let mut texts = Vec::new();
        // SAFETY: R1, R3, R5.
        while session.found("move", unsafe { call!(self.cursor, next) })? {
            let mut key: *const c_char = ptr::null();
            unsafe {
                session.check("read a key", call!(self.cursor, get_key, &raw mut key))?;
                texts.push(CStr::from_ptr(key).to_string_lossy().into_owned());
            }
        }
        self.close(session)?;
        Ok(texts)
    }

    /// Returns all statistics of a statistics cursor.
    pub(super) fn statistics(self, session: &mut Session) -> Called<Vec<(&'static str, u64)>> {
        let mut statistics = Vec::new();
        // SAFETY: R1, R3.
        while session.found("move", unsafe { call!(self.cursor, next) })? {
            let (mut what, mut printed): (*const c_char, *const c_char) = (ptr::null(), ptr::null());
            let mut value = 0i64;
            // SAFETY: R1, R3; a row of statistics has these three columns, and descriptions are constants of the library.
            unsafe {
                let code = call!(self.cursor, get_value, &raw mut what, &raw mut printed, &raw mut value);
                session.check("read a statistic", code)?;
                if let Ok(what) = CStr::from_ptr(what).to_str() {
                    statistics.push((what, value.max(0) as u64));
                }
            }
        }
        self.close(session)?;
        Ok(statistics)
    }
}
