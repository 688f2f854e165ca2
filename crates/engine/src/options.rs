//! Options of one tree, by name, as the user wrote them. Each engine checks the names that it knows.

use crate::{Error, Result};

/// Ordered `(name, value)` pairs; an empty list means the engine's defaults.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TreeOptions {
    pub settings: Vec<(String, String)>,
}

impl TreeOptions {
    /// Errors: a name that is not among those that `engine` knows.
    pub fn check_names(&self, engine: &str, known: &[&str]) -> Result<()> {
        match self.settings.iter().find(|(name, _)| !known.contains(&name.as_str())) {
            None => Ok(()),
            Some((name, _)) => {
                Err(Error::InvalidOption { name: name.clone(), reason: format!("unknown to the engine {engine}") })
            }
        }
    }
}
