//! The calls into WiredTiger. All unsafe code of the crate is in these modules; what they export is safe.
//!
//! Rules that the SAFETY comments refer to:
//!
//! - R1: a handle is made by WiredTiger, owned by one value here, and closed once: connections and sessions by their
//!   `Drop`, cursors by their session.
//! - R2: texts end with a zero byte, byte arguments are pointer and length; WiredTiger reads them during the call, but for
//!   keys and values that are set on a cursor, which it reads until the cursor's next call, in the same function here.
//! - R3: a connection may be used from any thread at the same time; a session and its cursors from one thread at a time,
//!   and they may move between threads. So every call on a cursor takes its session by `&mut`.
//! - R4: a session holds its connection with an `Arc`, so the connection is closed last.
//! - R5: bytes that a cursor shows stay until its next call or the end of its transaction: it pins their page.

mod connection;
mod cursor;
mod events;
mod fault;
mod ffi;
mod session;

/// Calls a method of a handle.
macro_rules! call {
    ($handle:expr, $method:ident $(, $argument:expr)*) => {
        ((*$handle).$method.expect("I1: WiredTiger fills in its tables of methods"))($handle $(, $argument)*)
    };
}
pub(crate) use call;

pub(crate) use connection::{Connection, check_config, has_extension};
pub(crate) use cursor::RowCursor;
pub(crate) use fault::{Called, Fault};
pub use ffi::{available, library};
pub(crate) use session::{Session, Table};
