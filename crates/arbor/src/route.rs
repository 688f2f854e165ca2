//! `arbor route`: a server whose data is on the shards of a cluster.
//!
//! Its own store is empty and temporary: the operators that merge, sort and group rows need one for their spill files.

use std::path::Path;

use clap::ArgMatches;

use crate::config::{self, Settings};
use crate::failure::{BAD_OPTIONS, Failure};
use crate::{background, serve};

/// Memory of the engine, which has nothing to store.
const CACHE_BYTES: u64 = 16 << 20;
const PREFIX: &str = "arbor-route-";

pub(crate) fn run(matches: &ArgMatches) -> Result<(), Failure> {
    let mut settings =
        config::read_command_line(matches).map_err(|refused| Failure::new(BAD_OPTIONS, refused.to_string()))?;
    check(&settings)?;
    settings.cache_bytes = Some(CACHE_BYTES);
    if settings.fork && !background::is_child() {
        return background::start(&settings);
    }
    let parent = std::env::temp_dir();
    remove_left_behind(&parent);
    // readable by this user alone
    let prefix = format!("{PREFIX}{}-{}-", settings.port, std::process::id());
    let directory = tempfile::Builder::new().prefix(&prefix).tempdir_in(parent).map_err(Failure::cannot_start)?;
    directory.path().clone_into(&mut settings.dbpath);
    serve::run(settings)
}

/// Removes the directories of routers that were killed: their names end in the id of a process that is gone.
fn remove_left_behind(parent: &Path) {
    let entries = std::fs::read_dir(parent).into_iter().flatten().flatten();
    for entry in entries {
        let name = entry.file_name();
        let Some(process) = name.to_str().and_then(process_of) else { continue };
        let is_directory = entry.file_type().is_ok_and(|kind| kind.is_dir());
        if is_directory && !Path::new("/proc").join(process.to_string()).exists() {
            // another user's stays
            let _ = std::fs::remove_dir_all(entry.path());
        }
    }
}

/// Returns the process in the name of a router's directory.
fn process_of(name: &str) -> Option<u32> {
    name.strip_prefix(PREFIX)?.split('-').nth(1)?.parse().ok()
}

fn check(settings: &Settings) -> Result<(), Failure> {
    let refused = |text: &str| Err(Failure::new(BAD_OPTIONS, text));
    let Some(config_db) = &settings.config_db else {
        return refused("error: no args for --configdb");
    };
    if let Err(reason) = arbor_router::check_config_db(config_db) {
        return refused(&format!("configdb: {reason}"));
    }
    if settings.auth && settings.key_file.is_none() && !settings.cluster_auth.sends_certificate() {
        return refused(
            "a router with access control logs in to the shards: --keyFile or --clusterAuthMode x509 is missing",
        );
    }
    if settings.replica_set.is_some() || settings.is_shard || settings.is_config_server {
        return refused("a router is not a member of a replica set");
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn directories_of_killed_routers_are_removed() {
        let parent = tempfile::tempdir().unwrap();
        // no process has this id: it is above the kernel's greatest
        let gone = parent.path().join("arbor-route-27017-4194999-x1y2z3");
        let own = parent.path().join(format!("arbor-route-27017-{}-x1y2z3", std::process::id()));
        let other = parent.path().join("arbor-routes");
        for directory in [&gone, &own, &other] {
            std::fs::create_dir(directory).unwrap();
        }
        remove_left_behind(parent.path());
        assert!(!gone.exists() && own.exists() && other.exists());
        assert_eq!(process_of("arbor-route-27017-x-y"), None);
    }
}
