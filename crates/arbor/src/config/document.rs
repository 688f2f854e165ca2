//! `docs/configuration.md`, made from the table.

use super::table::{self, Row};

const HEAD: &str = "# Configuration

Flags of `arbor serve`, and keys of its configuration file (`--config FILE`, YAML or `key = value`; the latter takes the names of
the flags). Every flag and key of mongod, TokuMX and Percona Server is known: applied, mapped to something near, ignored with
a warning in the log, or refused where ignoring it would promise too much. Flags take precedence over the file.

This file is made from the table in crates/arbor/src/config/table.rs: `UPDATE_DOCS=1 cargo test -p arbor configuration`.
";

/// Returns the text of the file.
pub(super) fn text() -> String {
    let mut out = HEAD.to_owned();
    for (title, rows) in table::groups() {
        out.push_str(&format!("\n## {title}\n\n| flag | key | value | |\n|---|---|---|---|\n"));
        rows.iter().for_each(|row| out.push_str(&line(row)));
    }
    out
}

fn line(row: &Row) -> String {
    let flag = if row.flag.is_empty() { String::new() } else { format!("`--{}`", row.flag) };
    let key = if row.yaml.is_empty() { String::new() } else { format!("`{}`", row.yaml) };
    format!("| {flag} | {key} | {} | {} |\n", row.value_name(), row.description().replace('|', "\\|"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_documentation_of_the_configuration_is_current() {
        let path = std::path::PathBuf::from(std::env::var_os("CARGO_MANIFEST_DIR").unwrap())
            .join("../../docs/configuration.md");
        if std::env::var_os("UPDATE_DOCS").is_some() {
            std::fs::write(&path, text()).unwrap();
        }
        let stored = std::fs::read_to_string(&path).unwrap_or_default();
        assert!(stored == text(), "docs/configuration.md is not what the table says: run the test with UPDATE_DOCS=1");
    }

    #[test]
    fn every_row_says_what_it_does() {
        for row in table::rows() {
            assert!(!row.description().is_empty(), "{} {}", row.flag, row.yaml);
        }
    }
}
