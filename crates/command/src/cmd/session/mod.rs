//! Logical sessions and transactions.

pub(crate) mod begin_transaction;
pub(crate) mod commit_transaction;
pub(crate) mod end_sessions;
pub(crate) mod kill_sessions;
pub(crate) mod load;
pub(crate) mod refresh_sessions;
pub(crate) mod show_live_transactions;
pub(crate) mod show_pending_lock_requests;
pub(crate) mod start_session;
