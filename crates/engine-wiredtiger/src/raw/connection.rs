//! The database: opening, configuration, timestamps.

use std::ffi::{CStr, CString};
use std::path::{Path, PathBuf};
use std::ptr;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use arbor_engine::{Error, Result};

use super::events::{Events, take_said};
use super::fault::{Called, Fault, checked};
use super::{Session, call, ffi};

pub(crate) struct Connection {
    connection: *mut ffi::WT_CONNECTION,
    /// WiredTiger keeps its address.
    events: Arc<Events>,
    dir: PathBuf,
}

// SAFETY: R3.
unsafe impl Send for Connection {}
// SAFETY: R3.
unsafe impl Sync for Connection {}

impl Connection {
    /// Opens the database with the compressors that are installed. `config` is WiredTiger's.
    pub(crate) fn open(dir: &Path, config: &str) -> Result<Arc<Connection>> {
        ffi::available()?;
        let events = Events::new();
        let config = text(&with_extensions(config))?;
        let home = text(&dir.display().to_string())?;
        let mut connection = ptr::null_mut();
        take_said();
        // SAFETY: R1, R2; the handler's address stays.
        let code = unsafe { ffi::wiredtiger_open(home.as_ptr(), events.pointer(), config.as_ptr(), &mut connection) };
        checked(dir, "open", code).map_err(|fault| cannot_open(dir, fault))?;
        Ok(Arc::new(Connection { connection, events, dir: dir.to_owned() }))
    }

    pub(crate) fn dir(&self) -> &Path {
        &self.dir
    }

    /// Returns a session for transactions. Its calls wait for a time while the cache is full, then fail with a rollback.
    pub(crate) fn session(self: &Arc<Connection>) -> Result<Session> {
        self.open_session(c"isolation=snapshot")
    }

    /// Returns a session for what takes little of the cache and must not fail for want of it: checkpoints, tables, statistics.
    pub(crate) fn service_session(self: &Arc<Connection>) -> Result<Session> {
        self.open_session(c"isolation=snapshot,ignore_cache_size=true")
    }

    fn open_session(self: &Arc<Connection>, config: &CStr) -> Result<Session> {
        let mut session = ptr::null_mut();
        // SAFETY: R1, R2.
        let code = unsafe { call!(self.connection, open_session, ptr::null_mut(), config.as_ptr(), &mut session) };
        checked(&self.dir, "open a session", code)?;
        Ok(Session::new(session, self.clone()))
    }

    pub(crate) fn reconfigure(&self, config: &str) -> Called {
        let config = text(config).unwrap_or_default();
        // SAFETY: R1, R2.
        checked(&self.dir, "reconfigure", unsafe { call!(self.connection, reconfigure, config.as_ptr()) })
    }

    /// From now on checkpoints hold what was committed up to this generation, and older versions are not needed for them.
    pub(crate) fn set_stable(&self, generation: u64) -> Called {
        let config = format!("oldest_timestamp={generation:x},stable_timestamp={generation:x}");
        let config = text(&config).unwrap_or_default();
        // SAFETY: R1, R2.
        checked(&self.dir, "set the stable timestamp", unsafe {
            call!(self.connection, set_timestamp, config.as_ptr())
        })
    }

    /// Errors that WiredTiger reported on any of its threads.
    pub(crate) fn errors(&self) -> u64 {
        self.events.errors.load(Ordering::Relaxed)
    }
}

impl Drop for Connection {
    /// Closing makes a checkpoint of the stable generation. After a panic WiredTiger ends no transaction, and closing would
    /// wait for them forever: then it stays as it is until the process ends, and so does its lock of the directory.
    fn drop(&mut self) {
        if self.events.panicked.load(Ordering::Acquire) {
            return std::mem::forget(self.events.clone());
        }
        // SAFETY: R1, R4.
        let _ = unsafe { call!(self.connection, close, ptr::null()) };
        take_said();
    }
}

pub(super) fn text(text: &str) -> Result<CString> {
    CString::new(text).map_err(|_| Error::Other("a text for WiredTiger holds a zero byte".to_owned()))
}

fn cannot_open(dir: &Path, fault: Fault) -> Error {
    let in_use = fault.is_busy() || fault.text().contains("already being managed");
    if !in_use {
        return fault.into();
    }
    Error::CannotOpen { path: dir.display().to_string(), reason: "in use by another engine or process".to_owned() }
}

/// Returns true if the compressor is installed next to the library.
pub(crate) fn has_extension(name: &str) -> bool {
    extension(name).is_some_and(|file| file.exists())
}

/// Returns the file of a compressor next to the library; `None`: there is no library.
fn extension(name: &str) -> Option<PathBuf> {
    Some(ffi::library_directory()?.join(format!("libwiredtiger_{name}.so")))
}

fn with_extensions(config: &str) -> String {
    let paths: Vec<String> = crate::options::EXTENSIONS
        .iter()
        .filter(|name| has_extension(name))
        .filter_map(|name| Some(format!("\"{}\"", extension(name)?.display())))
        .collect();
    format!("{config},extensions=[{}]", paths.join(","))
}

/// Asks WiredTiger whether a method takes a configuration. Errors: its message.
pub(crate) fn check_config(method: &str, config: &str) -> std::result::Result<(), String> {
    let (Ok(method), Ok(config)) = (text(method), text(config)) else {
        return Err("it holds a zero byte".to_owned());
    };
    ffi::available().map_err(|error| error.to_string())?;
    let events = Events::new();
    take_said();
    // SAFETY: R2; no session is needed where there is a handler, which outlives the call.
    let code =
        unsafe { ffi::wiredtiger_config_validate(ptr::null_mut(), events.pointer(), method.as_ptr(), config.as_ptr()) };
    checked(Path::new(""), "check a configuration", code).map_err(|fault| fault.text())
}
