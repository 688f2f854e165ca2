//! The control groups of this process.

use std::fs;
use std::path::{Path, PathBuf};

/// A group that bounds this process by a controller.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ControlGroup {
    pub directory: PathBuf,
    /// The hierarchy of all controllers, version 2.
    pub unified: bool,
}

/// The group of this process and those above it, of version 2 and of the controller's own hierarchy (version 1). Some may not be there. `root`: the
/// directory that contains `proc` and `sys`.
pub(crate) fn control_groups(root: &Path, controller: &str) -> Vec<ControlGroup> {
    let own = fs::read_to_string(root.join("proc/self/cgroup")).unwrap_or_default();
    own.lines().filter_map(|line| of_line(root, line, controller)).flatten().collect()
}

/// A line of `/proc/self/cgroup`: `0::/path` (version 2) or `5:memory:/path` (version 1).
fn of_line(root: &Path, line: &str, controller: &str) -> Option<Vec<ControlGroup>> {
    let mut fields = line.splitn(3, ':');
    let (_, controllers, path) = (fields.next()?, fields.next()?, fields.next()?);
    let unified = controllers.is_empty();
    let base = match unified {
        true => root.join("sys/fs/cgroup"),
        false if controllers.split(',').any(|name| name == controller) => root.join("sys/fs/cgroup").join(controller),
        false => return None,
    };
    // Inside a container the path may be that of the host, while the container's own group is at the top.
    let directory = base.join(path.trim_start_matches('/'));
    let directories = directory.ancestors().take_while(|directory| directory.starts_with(&base));
    Some(directories.map(|directory| ControlGroup { directory: directory.to_owned(), unified }).collect())
}
