//! One LMDB environment.

use std::ffi::CString;
use std::fs::File;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::ptr::{self, NonNull};
use std::sync::Arc;

use arbor_engine::{Error, Result};
use lmdb_master_sys as ffi;

use super::error::{check, error};
use super::{MAIN_DBI, WriteTxn};

pub(crate) struct Env {
    ptr: NonNull<ffi::MDB_env>,
    page_bytes: usize,
    /// Dropped after the environment is closed.
    _lock: Arc<File>,
}

// SAFETY: LMDB guards an environment itself: any thread may begin transactions on it.
unsafe impl Send for Env {}
// SAFETY: as above.
unsafe impl Sync for Env {}

pub(crate) struct EnvOptions {
    /// Address space to reserve; halved while the process may not reserve it.
    pub map_bytes: usize,
    pub map_bytes_min: usize,
    pub readers_max: u32,
    /// True if the kernel reads ahead around a page fault.
    pub readahead: bool,
}

impl Env {
    /// Opens `dir/data.mdb` without fsync at commits (`MDB_NOSYNC`). `lock` is the directory's lock.
    pub(crate) fn open(dir: &Path, options: &EnvOptions, lock: &Arc<File>) -> Result<Env> {
        let mut map_bytes = options.map_bytes;
        loop {
            match Env::open_with_map(dir, options, map_bytes, lock) {
                Err(Error::Io { source, .. })
                    if source.raw_os_error() == Some(libc::ENOMEM) && map_bytes / 2 >= options.map_bytes_min =>
                {
                    map_bytes /= 2;
                }
                result => return result,
            }
        }
    }

    fn open_with_map(dir: &Path, options: &EnvOptions, map_bytes: usize, lock: &Arc<File>) -> Result<Env> {
        let path = CString::new(dir.as_os_str().as_bytes())
            .map_err(|_| Error::Other("the directory's name has a NUL byte".to_owned()))?;
        let mut raw = ptr::null_mut();
        // SAFETY: `raw` receives a fresh handle.
        check(unsafe { ffi::mdb_env_create(&mut raw) }, "env create")?;
        let ptr = NonNull::new(raw).expect("mdb_env_create answers a handle with success");
        // From here on dropping `env` closes the handle, also after a failed open, as LMDB asks.
        let mut env = Env { ptr, page_bytes: 0, _lock: lock.clone() };
        let readahead = if options.readahead { 0 } else { ffi::MDB_NORDAHEAD };
        let flags = ffi::MDB_NOSYNC | ffi::MDB_NOTLS | readahead;
        // SAFETY: the handle is fresh, `path` lives through the call.
        unsafe {
            check(ffi::mdb_env_set_mapsize(raw, map_bytes), "set map size")?;
            check(ffi::mdb_env_set_maxreaders(raw, options.readers_max), "set max readers")?;
            check(ffi::mdb_env_open(raw, path.as_ptr(), flags, 0o644), "env open")?;
        }
        env.page_bytes = env.stat()?.ms_psize as usize;
        env.open_main()?;
        Ok(env)
    }

    /// LMDB sets the main database's comparison at its first opening.
    fn open_main(&self) -> Result<()> {
        let txn = WriteTxn::begin(self)?;
        let mut dbi = 0;
        // SAFETY: the transaction is live; a null name means the main database.
        check(unsafe { ffi::mdb_dbi_open(txn.as_ptr(), ptr::null(), 0, &mut dbi) }, "open main")?;
        assert_eq!(dbi, MAIN_DBI);
        txn.commit()
    }

    pub(crate) fn page_bytes(&self) -> usize {
        self.page_bytes
    }

    /// Asks the device to keep every page that was written so far.
    pub(crate) fn sync(&self) -> Result<()> {
        // SAFETY: the handle is open.
        check(unsafe { ffi::mdb_env_sync(self.ptr.as_ptr(), 1) }, "sync")
    }

    pub(crate) fn stat(&self) -> Result<ffi::MDB_stat> {
        // SAFETY: MDB_stat is plain numbers; all zero is valid.
        let mut stat = unsafe { std::mem::zeroed() };
        // SAFETY: the handle is open, `stat` is writable.
        check(unsafe { ffi::mdb_env_stat(self.ptr.as_ptr(), &mut stat) }, "stat")?;
        Ok(stat)
    }

    pub(crate) fn info(&self) -> Result<ffi::MDB_envinfo> {
        // SAFETY: MDB_envinfo is plain numbers and a pointer; all zero is valid.
        let mut info = unsafe { std::mem::zeroed() };
        // SAFETY: the handle is open, `info` is writable.
        check(unsafe { ffi::mdb_env_info(self.ptr.as_ptr(), &mut info) }, "info")?;
        Ok(info)
    }

    /// Returns true if LMDB begins no transactions any more (`MDB_FATAL_ERROR`): a meta page could not be written.
    pub(crate) fn is_dead(self: &Arc<Env>) -> bool {
        matches!(super::ReadTxn::begin(self), Err(Error::Poisoned { .. }))
    }

    /// `parent` is null, `flags` say whether it is a read transaction.
    pub(super) fn begin(&self, flags: u32) -> Result<NonNull<ffi::MDB_txn>> {
        let mut raw = ptr::null_mut();
        // SAFETY: the handle is open, `raw` receives the transaction.
        let code = unsafe { ffi::mdb_txn_begin(self.ptr.as_ptr(), ptr::null_mut(), flags, &mut raw) };
        NonNull::new(raw).filter(|_| code == 0).ok_or_else(|| error(code, "begin"))
    }
}

impl Drop for Env {
    fn drop(&mut self) {
        // SAFETY: R2: no transaction lives any more.
        unsafe { ffi::mdb_env_close(self.ptr.as_ptr()) }
    }
}
