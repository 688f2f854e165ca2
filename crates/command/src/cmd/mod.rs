//! One file per command, named like it, in directories by what they are about; `shared` has what several of them need.

pub(crate) mod admin;
pub(crate) mod crud;
pub(crate) mod ddl;
pub(crate) mod diagnostics;
pub(crate) mod repl;
pub(crate) mod session;
pub(crate) mod sharding;
pub(crate) mod shared;
pub(crate) mod users;
