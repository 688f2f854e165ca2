//! Paths of one specification must not lie within each other.

use hashbrown::HashMap;

use crate::{Error, Path, Result};

/// The paths named so far, as a tree of their names.
#[derive(Debug, Default)]
pub struct Paths {
    inside: HashMap<Box<str>, Paths>,
    /// A path ends here.
    ends: bool,
}

impl Paths {
    pub fn add(&mut self, path: &Path) -> Result<()> {
        let mut at = self;
        for (level, component) in path.components().iter().enumerate() {
            if at.ends {
                let rest: Vec<&str> = path.components().iter().skip(level).map(|component| &*component.name).collect();
                let message = format!("Path collision at {path} remaining portion {}", rest.join("."));
                return Err(Error::location(31249, message));
            }
            at = at.inside.entry_ref(&*component.name).or_default();
        }
        if at.ends || !at.inside.is_empty() {
            return Err(Error::location(31250, format!("Path collision at {path}")));
        }
        at.ends = true;
        Ok(())
    }
}
