//! An engine that a set may have: its name, and how it is opened in a directory of its own.

use std::path::Path;
use std::sync::Arc;

use arbor_engine::{Engine, Error, Result};

type Open = Box<dyn Fn(&Path) -> Result<Arc<dyn Engine>> + Send + Sync>;

pub struct Kind {
    /// Also the name of the directory.
    pub name: &'static str,
    /// Opens the engine in the directory, or makes a new one there.
    pub open: Open,
}

impl Kind {
    pub fn new(name: &'static str, open: impl Fn(&Path) -> Result<Arc<dyn Engine>> + Send + Sync + 'static) -> Kind {
        Kind { name, open: Box::new(open) }
    }
}

pub(crate) fn find<'k>(kinds: &'k [Kind], name: &str) -> Result<&'k Kind> {
    let kind = kinds.iter().find(|kind| kind.name == name);
    kind.ok_or_else(|| {
        let known: Vec<&str> = kinds.iter().map(|kind| kind.name).collect();
        let reason = format!("this build has no storage engine of that name; it has {}", known.join(", "));
        Error::InvalidOption { name: format!("storageEngine.{name}"), reason }
    })
}
