//! Paths of one specification must not lie within each other.

use crate::{Error, Path, Result};

/// The paths named so far.
#[derive(Debug, Default)]
pub struct Paths(Vec<Path>);

impl Paths {
    pub fn add(&mut self, path: &Path) -> Result<()> {
        if let Some(earlier) = self.0.iter().find(|earlier| earlier.overlaps(path)) {
            let (shorter, longer) = (earlier.components().len(), path.components());
            if longer.len() <= shorter {
                return Err(Error::location(31250, format!("Path collision at {path}")));
            }
            let rest: Vec<&str> = longer.iter().skip(shorter).map(|component| &*component.name).collect();
            let message = format!("Path collision at {path} remaining portion {}", rest.join("."));
            return Err(Error::location(31249, message));
        }
        self.0.push(path.clone());
        Ok(())
    }
}
