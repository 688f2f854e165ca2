//! One file per command, named like it, in directories by what they are about; `shared` has what several of them need.

pub mod admin;
pub mod crud;
pub mod ddl;
pub mod diagnostics;
pub mod repl;
pub mod session;
pub mod shared;
