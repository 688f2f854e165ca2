//! A background thread of an engine.

use std::thread::{Builder, JoinHandle};

use crate::{Error, Result};

/// A thread that is joined when this is dropped. The owner has it end before that.
#[derive(Debug)]
pub struct Worker(Option<JoinHandle<()>>);

impl Worker {
    pub fn start(name: &str, run: impl FnOnce() + Send + 'static) -> Result<Worker> {
        let failed = |source| Error::Io { context: format!("start the thread {name}"), source };
        Ok(Worker(Some(Builder::new().name(name.to_owned()).spawn(run).map_err(failed)?)))
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        if let Some(thread) = self.0.take() {
            // A panic of the thread was reported on its own.
            let _ = thread.join();
        }
    }
}
