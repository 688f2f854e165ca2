//! The binary around the laboratory, declared once.

use std::ffi::OsString;
use std::sync::OnceLock;

/// The binary that the laboratory is in.
#[derive(Clone, Debug)]
pub struct Host {
    /// Version, commit and how it was built, in one line: every result has it.
    pub build: &'static str,
    /// Program and arguments that come before a server's command, so that the kernel ends the server with this process, also
    /// after kill -9.
    pub launcher: Vec<OsString>,
}

static HOST: OnceLock<Host> = OnceLock::new();

impl Host {
    /// Requires: no other was declared.
    pub(crate) fn declare(self) {
        HOST.set(self).expect("the laboratory is run once in a process");
    }
}

/// The package's version alone where no host was declared: in tests.
pub(crate) fn build() -> &'static str {
    HOST.get().map_or(env!("CARGO_PKG_VERSION"), |host| host.build)
}

/// Empty where no host was declared.
pub(crate) fn launcher() -> &'static [OsString] {
    HOST.get().map_or(&[], |host| &host.launcher)
}
