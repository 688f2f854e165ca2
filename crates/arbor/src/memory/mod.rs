//! The memory limit of the server: how large it is (`sizes`), and the thread that keeps to it (`monitor`). Who reserves what is
//! in [`arbor_base::memory`].

mod monitor;
mod sizes;

pub(crate) use monitor::start;
pub(crate) use sizes::Sizes;
