//! Options of one tree, by name, as the user wrote them. Each engine checks the names that it knows.

use crate::{Error, Result};

/// Ordered `(name, value)` pairs; an empty list means the engine's defaults.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TreeOptions {
    pub settings: Vec<(String, String)>,
}

/// The setting that says in which engine a tree lives, where there are several. It never reaches the engine itself.
pub const ENGINE_SETTING: &str = "engine";

impl TreeOptions {
    /// The engine that the tree is to live in; `None`: the one in which trees live by default.
    pub fn engine(&self) -> Option<&str> {
        let given = self.settings.iter().rfind(|(name, _)| name == ENGINE_SETTING);
        given.map(|(_, engine)| engine.as_str())
    }

    pub fn with_engine(mut self, engine: &str) -> TreeOptions {
        self.settings.retain(|(name, _)| name != ENGINE_SETTING);
        self.settings.insert(0, (ENGINE_SETTING.to_owned(), engine.to_owned()));
        self
    }

    /// Without the setting that names an engine.
    pub fn without_engine(&self) -> TreeOptions {
        let others = self.settings.iter().filter(|(name, _)| name != ENGINE_SETTING);
        TreeOptions { settings: others.cloned().collect() }
    }

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
