//! The report of `validate`.

/// Figures and findings; clean when `problems` is empty.
#[derive(Clone, Debug, Default)]
pub struct Report {
    pub records: u64,
    pub data_bytes: u64,
    pub indexes: Vec<IndexReport>,
    pub problems: Vec<String>,
}

#[derive(Clone, Debug, Default)]
pub struct IndexReport {
    pub name: String,
    pub keys: u64,
}

impl Report {
    pub fn is_valid(&self) -> bool {
        self.problems.is_empty()
    }
}
