//! Options of one tree, by name, as the user wrote them. Each engine checks the names that it knows.

/// Ordered `(name, value)` pairs; an empty list means the engine's defaults.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TreeOptions {
    pub settings: Vec<(String, String)>,
}
