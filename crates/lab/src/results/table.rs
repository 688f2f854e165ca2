//! tables.json: tables as data, for the text report, the page and comparisons alike.

use std::path::Path;

use serde::{Deserialize, Serialize};

use super::text;
use crate::{Error, Result};

/// A table in the founding texts' form: the row's name stands behind its cells.
#[derive(Clone, Debug, Default, Serialize, Deserialize, PartialEq)]
pub struct TableData {
    pub title: String,
    /// What the columns are: `clients`.
    pub legend: String,
    pub columns: Vec<String>,
    pub rows: Vec<TableRow>,
}

#[derive(Clone, Debug, Default, Serialize, Deserialize, PartialEq)]
pub struct TableRow {
    pub name: String,
    /// Cells that are missing at the end stay empty.
    pub cells: Vec<String>,
    /// The founding text's own number, not ours.
    #[serde(default)]
    pub published: bool,
}

pub(super) fn read(path: &Path) -> Result<Vec<TableData>> {
    let text = text(path)?;
    if text.is_empty() {
        return Ok(Vec::new());
    }
    serde_json::from_str(&text).map_err(|error| Error::results(path, error.to_string()))
}
