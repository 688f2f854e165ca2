//! Logical sessions and transactions.

pub mod begin_transaction;
pub mod commit_transaction;
pub mod end_sessions;
pub mod kill_sessions;
pub mod refresh_sessions;
pub mod show_live_transactions;
pub mod start_session;
