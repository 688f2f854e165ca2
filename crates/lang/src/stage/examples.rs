//! The examples in the doc blocks of the stages are tests.
//!
//! A block ```` ```text ```` holds lines `<pipeline> on <documents> => <documents>` or `... => error <code>: <text>`.

use std::path::PathBuf;

use super::tests::try_line;

#[test]
fn examples_hold() {
    let directory = PathBuf::from(std::env::var_os("CARGO_MANIFEST_DIR").unwrap()).join("src/stage");
    let (mut count, mut failures) = (0, Vec::new());
    for entry in std::fs::read_dir(directory).unwrap() {
        let text = std::fs::read_to_string(entry.unwrap().path()).unwrap();
        for line in text.lines().filter_map(|line| line.strip_prefix("//! [")).filter(|line| line.contains(" => ")) {
            count += 1;
            failures.extend(try_line(&format!("[{line}")).err());
        }
    }
    assert!(failures.is_empty(), "{}", failures.join("\n"));
    assert!(count > 30, "{count} examples");
}
