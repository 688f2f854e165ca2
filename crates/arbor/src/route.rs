//! `arbor route`: a server whose data is on the shards of a cluster.
//!
//! Its own store is empty and temporary: the operators that merge, sort and group rows need one for their spill files.

use clap::ArgMatches;

use crate::config::{self, Settings};
use crate::failure::{BAD_OPTIONS, Failure};
use crate::{background, serve};

/// Memory of the engine, which has nothing to store.
const CACHE_BYTES: u64 = 16 << 20;

pub(crate) fn run(matches: &ArgMatches) -> Result<(), Failure> {
    let mut settings =
        config::read_command_line(matches).map_err(|refused| Failure::new(BAD_OPTIONS, refused.to_string()))?;
    check(&settings)?;
    settings.cache_bytes = Some(CACHE_BYTES);
    if settings.fork && !background::is_child() {
        return background::start(&settings);
    }
    let directory = std::env::temp_dir().join(format!("arbor-route-{}-{}", settings.port, std::process::id()));
    std::fs::create_dir_all(&directory).map_err(Failure::cannot_start)?;
    settings.dbpath.clone_from(&directory);
    let served = serve::run(settings);
    // what is left there says nothing
    let _ = std::fs::remove_dir_all(&directory);
    served
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
