//! WiredTiger's C interface, as far as the adapter uses it, of the versions 3.2. The library is loaded when it is first needed, and stays.
//!
//! Handles are tables of methods that the library fills in; what is not used here is counted in `_unused`. The places are those of
//! `wiredtiger.h` 3.2.1 on 64 bits; another version has other ones and is refused.
//!
//! - R6: [`available`] returned `Ok` before any function here is called: opening and the check of configurations see to it.
#![allow(non_camel_case_types, reason = "the names are those of WiredTiger's header")]

use std::ffi::{c_char, c_int, c_void};
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use arbor_engine::adapter::SharedLibrary;
use libloading::Library;

const WIREDTIGER: SharedLibrary = SharedLibrary {
    engine: "wiredTiger",
    stem: "wiredtiger",
    variable: "ARBOR_WIREDTIGER_LIBRARY",
    package: "libwiredtiger0",
};

/// Major and minor version whose tables are declared here.
const VERSION: (c_int, c_int) = (3, 2);

pub(super) const WT_ROLLBACK: c_int = -31800;
pub(super) const WT_NOTFOUND: c_int = -31803;
pub(super) const WT_PANIC: c_int = -31804;
pub(super) const WT_CACHE_FULL: c_int = -31807;
pub(super) const WT_TRY_SALVAGE: c_int = -31809;

/// A method that is not used.
type Unused = Option<unsafe extern "C" fn()>;
/// A method of a handle, with the types of its arguments behind the handle.
macro_rules! method {
    ($handle:ty $(, $argument:ty)*) => { Option<unsafe extern "C" fn(*mut $handle $(, $argument)*) -> c_int> };
}

#[repr(C)]
pub(super) struct WT_CONNECTION {
    _unused_0: [Unused; 2],
    pub close: method!(WT_CONNECTION, *const c_char),
    _unused_3: [Unused; 1],
    pub reconfigure: method!(WT_CONNECTION, *const c_char),
    _unused_5: [Unused; 3],
    pub open_session: method!(WT_CONNECTION, *mut WT_EVENT_HANDLER, *const c_char, *mut *mut WT_SESSION),
    _unused_9: [Unused; 1],
    pub set_timestamp: method!(WT_CONNECTION, *const c_char),
    _unused_11: [Unused; 9],
}

#[repr(C)]
pub(super) struct WT_SESSION {
    _unused_0: [Unused; 2],
    pub close: method!(WT_SESSION, *const c_char),
    _unused_3: [Unused; 2],
    pub open_cursor: method!(WT_SESSION, *const c_char, *mut WT_CURSOR, *const c_char, *mut *mut WT_CURSOR),
    _unused_6: [Unused; 1],
    pub create: method!(WT_SESSION, *const c_char, *const c_char),
    _unused_8: [Unused; 1],
    pub compact: method!(WT_SESSION, *const c_char, *const c_char),
    pub drop: method!(WT_SESSION, *const c_char, *const c_char),
    _unused_11: [Unused; 7],
    pub truncate: method!(WT_SESSION, *const c_char, *mut WT_CURSOR, *mut WT_CURSOR, *const c_char),
    _unused_19: [Unused; 2],
    pub begin_transaction: method!(WT_SESSION, *const c_char),
    pub commit_transaction: method!(WT_SESSION, *const c_char),
    _unused_23: [Unused; 1],
    pub rollback_transaction: method!(WT_SESSION, *const c_char),
    _unused_25: [Unused; 2],
    pub checkpoint: method!(WT_SESSION, *const c_char),
    _unused_28: [Unused; 4],
}

#[repr(C)]
pub(super) struct WT_CURSOR {
    _unused_0: [Unused; 4],
    /// Takes pointers for the columns of the key; here always one [`WT_ITEM`].
    pub get_key: Option<unsafe extern "C" fn(*mut WT_CURSOR, ...) -> c_int>,
    pub get_value: Option<unsafe extern "C" fn(*mut WT_CURSOR, ...) -> c_int>,
    pub set_key: Option<unsafe extern "C" fn(*mut WT_CURSOR, ...)>,
    pub set_value: Option<unsafe extern "C" fn(*mut WT_CURSOR, ...)>,
    _unused_8: [Unused; 2],
    pub next: method!(WT_CURSOR),
    pub prev: method!(WT_CURSOR),
    pub reset: method!(WT_CURSOR),
    pub search: method!(WT_CURSOR),
    pub search_near: method!(WT_CURSOR, *mut c_int),
    pub insert: method!(WT_CURSOR),
    _unused_16: [Unused; 1],
    pub update: method!(WT_CURSOR),
    pub remove: method!(WT_CURSOR),
    _unused_19: [Unused; 1],
    pub close: method!(WT_CURSOR),
    _unused_21: [Unused; 24],
}

#[repr(C)]
pub(super) struct WT_EVENT_HANDLER {
    pub handle_error: method!(WT_EVENT_HANDLER, *mut WT_SESSION, c_int, *const c_char),
    pub handle_message: method!(WT_EVENT_HANDLER, *mut WT_SESSION, *const c_char),
    pub handle_progress: Unused,
    pub handle_close: Unused,
}

#[repr(C)]
pub(super) struct WT_ITEM {
    pub data: *const c_void,
    pub size: usize,
    pub mem: *mut c_void,
    pub memsize: usize,
    pub flags: u32,
}

/// The sizes of `wiredtiger.h` 3.2.1.
const _: () = {
    assert!(size_of::<WT_CONNECTION>() == 160 && size_of::<WT_SESSION>() == 256 && size_of::<WT_CURSOR>() == 360);
    assert!(size_of::<WT_EVENT_HANDLER>() == 32 && size_of::<WT_ITEM>() == 40);
};

type Open = unsafe extern "C" fn(*const c_char, *mut WT_EVENT_HANDLER, *const c_char, *mut *mut WT_CONNECTION) -> c_int;
type Validate = unsafe extern "C" fn(*mut WT_SESSION, *mut WT_EVENT_HANDLER, *const c_char, *const c_char) -> c_int;
type Version = unsafe extern "C" fn(*mut c_int, *mut c_int, *mut c_int) -> *const c_char;

struct Functions {
    open: Open,
    strerror: unsafe extern "C" fn(c_int) -> *const c_char,
    config_validate: Validate,
    path: PathBuf,
    /// `3.2.1`.
    version: String,
    /// Keeps the functions where they are.
    _library: Library,
}

static FUNCTIONS: OnceLock<Result<Functions, String>> = OnceLock::new();

fn load() -> Result<Functions, String> {
    let path = WIREDTIGER.find()?;
    let failed = |error: libloading::Error| format!("{}: {error}", path.display());
    // SAFETY: WiredTiger's initializers need nothing of the process.
    let library = unsafe { Library::new(&path) }.map_err(|error| error.to_string())?;
    // SAFETY: the types are those of `wiredtiger.h`; these functions are alike in all versions.
    unsafe {
        let version = library.get::<Version>(b"wiredtiger_version\0").map_err(failed)?;
        let (mut major, mut minor, mut patch) = (0, 0, 0);
        version(&mut major, &mut minor, &mut patch);
        if (major, minor) != VERSION {
            let needed = format!("{}.{}", VERSION.0, VERSION.1);
            return Err(format!("{} is WiredTiger {major}.{minor}.{patch}, and {needed} is needed", path.display()));
        }
        Ok(Functions {
            open: *library.get(b"wiredtiger_open\0").map_err(failed)?,
            strerror: *library.get(b"wiredtiger_strerror\0").map_err(failed)?,
            config_validate: *library.get(b"wiredtiger_config_validate\0").map_err(failed)?,
            _library: library,
            path,
            version: format!("{major}.{minor}.{patch}"),
        })
    }
}

/// Loads the library unless it is loaded. Errors: it is missing or of another version; each later call returns the same.
pub fn available() -> arbor_engine::Result<()> {
    let functions = FUNCTIONS.get_or_init(load);
    functions.as_ref().map(|_| ()).map_err(|reason| WIREDTIGER.unavailable(reason))
}

/// Returns the name and version of the library; `None`: it cannot be loaded.
pub fn library() -> Option<String> {
    Some(format!("WiredTiger {}", FUNCTIONS.get_or_init(load).as_ref().ok()?.version))
}

/// Returns the directory of the library, in which its compressors are; `None`: it cannot be loaded.
pub(super) fn library_directory() -> Option<&'static Path> {
    FUNCTIONS.get_or_init(load).as_ref().ok()?.path.parent()
}

fn functions() -> &'static Functions {
    match FUNCTIONS.get() {
        Some(Ok(functions)) => functions,
        _ => unreachable!("R6: WiredTiger is loaded before it is called"),
    }
}

pub(super) unsafe fn wiredtiger_open(
    home: *const c_char,
    handler: *mut WT_EVENT_HANDLER,
    config: *const c_char,
    connection: *mut *mut WT_CONNECTION,
) -> c_int {
    // SAFETY: as the caller's.
    unsafe { (functions().open)(home, handler, config, connection) }
}

pub(super) unsafe fn wiredtiger_strerror(code: c_int) -> *const c_char {
    // SAFETY: as the caller's.
    unsafe { (functions().strerror)(code) }
}

pub(super) unsafe fn wiredtiger_config_validate(
    session: *mut WT_SESSION,
    handler: *mut WT_EVENT_HANDLER,
    method: *const c_char,
    config: *const c_char,
) -> c_int {
    // SAFETY: as the caller's.
    unsafe { (functions().config_validate)(session, handler, method, config) }
}
