//! Messages of WiredTiger in addition to its return codes. Without a handler it would print to stderr.
//!
//! The handler is called on the thread that made the mistake, so a thread finds the texts of its own failed call in
//! [`take_said`]. What WiredTiger's own threads say is counted with the connection; the next call says it again.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::ffi::{CStr, c_char, c_int};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use super::ffi;

/// Texts kept per thread.
const KEPT: usize = 8;

thread_local! {
    static SAID: RefCell<VecDeque<String>> = const { RefCell::new(VecDeque::new()) };
}

/// Begins with the table that WiredTiger knows, so that its pointer is ours.
#[repr(C)]
pub(super) struct Events {
    handler: ffi::WT_EVENT_HANDLER,
    pub errors: AtomicU64,
    /// WiredTiger gave up: every call fails from then on.
    pub panicked: AtomicBool,
}

impl Events {
    pub(super) fn new() -> Arc<Events> {
        let handler = ffi::WT_EVENT_HANDLER {
            handle_error: Some(handle_error),
            handle_message: Some(handle_message),
            handle_progress: None,
            handle_close: None,
        };
        Arc::new(Events { handler, errors: AtomicU64::new(0), panicked: AtomicBool::new(false) })
    }

    pub(super) fn pointer(&self) -> *mut ffi::WT_EVENT_HANDLER {
        (&raw const self.handler).cast_mut()
    }
}

fn push(texts: &mut VecDeque<String>, text: String) {
    if texts.len() == KEPT {
        texts.pop_front();
    }
    texts.push_back(text);
}

/// Without the time and the thread that WiredTiger puts before: `[1795275547:514199][605:0x7f85f2aa66c0], `.
fn without_stamp(text: &str) -> &str {
    match text.split_once("], ") {
        Some((stamp, rest)) if stamp.starts_with('[') => rest,
        _ => text,
    }
}

/// The texts of this thread since it asked last.
pub(super) fn take_said() -> Vec<String> {
    SAID.try_with(|said| said.borrow_mut().drain(..).collect()).unwrap_or_default()
}

unsafe extern "C" fn handle_error(
    handler: *mut ffi::WT_EVENT_HANDLER,
    _session: *mut ffi::WT_SESSION,
    error: c_int,
    message: *const c_char,
) -> c_int {
    // SAFETY: R2; the handler is the first field of our `Events`, which lives as long as the connection.
    let (events, text) = unsafe {
        let text = without_stamp(&CStr::from_ptr(message).to_string_lossy()).to_owned();
        (&*handler.cast::<Events>(), text)
    };
    let _ = SAID.try_with(|said| push(&mut said.borrow_mut(), text));
    events.errors.fetch_add(1, Ordering::Relaxed);
    if error == ffi::WT_PANIC {
        events.panicked.store(true, Ordering::Release);
    }
    0
}

/// Messages are requested by `verbose` only, and are not read.
unsafe extern "C" fn handle_message(
    _handler: *mut ffi::WT_EVENT_HANDLER,
    _session: *mut ffi::WT_SESSION,
    _message: *const c_char,
) -> c_int {
    0
}
