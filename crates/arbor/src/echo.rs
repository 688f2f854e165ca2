//! `arbor echo`, not shown in the help: the bare TCP peer that the laboratory starts for comparison with the real server.

use clap::{Arg, ArgMatches, Command, value_parser};

use crate::failure::{self, Failure};

pub(crate) fn command() -> Command {
    Command::new("echo")
        .hide(true)
        .about("Answer every frame with one canned reply (started by the laboratory)")
        .arg(Arg::new("port").long("port").required(true).value_parser(value_parser!(u16)))
        .arg(Arg::new("bytes").long("bytes").required(true).value_parser(value_parser!(u32)))
}

pub(crate) fn run(matches: &ArgMatches) -> Result<(), Failure> {
    let (Some(port), Some(bytes)) = (matches.get_one::<u16>("port"), matches.get_one::<u32>("bytes")) else {
        return Err(Failure::new(failure::BAD_OPTIONS, "echo needs --port and --bytes".to_owned()));
    };
    let failed = |error: arbor_server::Error| Failure::new(failure::BAD_OPTIONS, error.to_string());
    let listeners = arbor_server::bind(&["127.0.0.1".to_owned()], *port, false).map_err(failed)?;
    // It is ended by a signal; there is nothing to close.
    arbor_server::echo::run(listeners, *bytes as usize, |_| {}).map_err(failed)
}
