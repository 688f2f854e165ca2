//! The one binary: `arbor serve`, `arbor route`, `arbor cluster`, `arbor backup`, `arbor migrate`, `arbor report`, `arbor doctor`, `arbor check`, `arbor inspect`, `arbor salvage`, `arbor lab`.
//!
//! | file | what |
//! |---|---|
//! | `config/` | flags and configuration files to settings |
//! | `serve` | the start and the end of the server, in order |
//! | `route` | the start of a router |
//! | `front` | joins `server`, which knows frames, with `command`, which knows requests |
//! | `http` | the HTTP port: metrics and health |
//! | `recorder` | the thread of the flight recorder |
//! | `directory` | the data directory: its lock, its identity, what is in it |
//! | `engines` | the storage engines of this build, and how the settings open them |
//! | `storage` | log, engine, transactions, store: opened and closed together |
//! | `allocator` | jemalloc |
//! | `notify` | notices to systemd |
//! | `background` | `--fork` |
//! | `backup/` | backs up a running server, and restores |
//! | `migrate/` | copies a running MongoDB into another one, and follows its changes |
//! | `pace` | bounds the speed of copies |
//! | `doctor/` | checks the machine and the settings of a server |
//! | `generate` | man pages and shell completions |
//! | `report` | draws what the flight recorder has kept |
//! | `check` | verifies a directory offline |
//! | `inspect`, `salvage` | shows the fractal tree of a directory; carries a damaged one over into a new directory |
//! | `descriptors` | how many files and connections may be open |
//! | `membership`, `coordination` | what a member of several brings: its identity; etcd |
//! | `cluster` | a replica set, or shards behind a router, on one machine |
//! | `container` | the first process of a container, and its health check |
//! | `supervised` | a process that ends with its parent |
//! | `echo` | the laboratory's bare peer |
//! | `version` | what this binary is |
//! | `failure` | exit codes, as mongod's |

#[allow(unsafe_code, reason = "jemalloc's interface is C")]
mod allocator;
mod audit;
mod background;
mod backup;
mod check;
mod cluster;
mod config;
mod container;
mod coordination;
mod descriptors;
mod directory;
mod doctor;
mod echo;
mod engine_copy;
mod engines;
mod failure;
mod front;
mod generate;
mod http;
mod inspect;
mod membership;
mod memory;
mod migrate;
mod notify;
mod oplog;
mod pace;
mod recorder;
mod report;
mod route;
mod salvage;
mod security;
mod serve;
mod storage;
mod supervised;
mod version;

use std::process::ExitCode;

use clap::{ArgMatches, Command};

use crate::failure::Failure;

fn main() -> ExitCode {
    let matches = match cli().try_get_matches() {
        Ok(matches) => matches,
        Err(error) => {
            let _ = error.print();
            return ExitCode::from(if error.use_stderr() { failure::BAD_OPTIONS } else { 0 });
        }
    };
    match matches.subcommand() {
        Some(("serve", matches)) => ended(serve(matches)),
        Some(("route", matches)) => ended(route::run(matches)),
        Some(("backup", matches)) => ended(backup::run(matches)),
        Some(("migrate", matches)) => ended(migrate::run(matches)),
        Some(("doctor", matches)) => ended(doctor::run(matches)),
        Some(("generate", matches)) => ended(generate::run(matches, cli())),
        Some(("report", matches)) => ended(report::run(matches)),
        Some(("check", matches)) => ended(check::run(matches)),
        Some(("inspect", matches)) => ended(inspect::run(matches)),
        Some(("salvage", matches)) => ended(salvage::run(matches)),
        Some(("salvage-rows", matches)) => ended(salvage::engine_rows::run(matches)),
        Some(("cluster", matches)) => ended(cluster::run(matches)),
        Some(("container", matches)) => ended(container::run(matches)),
        Some(("ping", matches)) => ended(container::ping(matches)),
        Some(("supervised", matches)) => ended(supervised::run(matches)),
        Some(("echo", matches)) => ended(echo::run(matches)),
        Some(("lab", matches)) => {
            let host = arbor_lab::Host { build: version::long(), launcher: supervised::launcher() };
            arbor_lab::cli::run(matches, engines::KV_ENGINES, host)
        }
        _ => ExitCode::from(failure::BAD_OPTIONS),
    }
}

fn cli() -> Command {
    Command::new("arbor")
        .version(version::long())
        .about("A document database that speaks the MongoDB wire protocol, and its laboratory")
        .subcommand_required(true)
        .arg_required_else_help(true)
        .subcommand(config::serve_command())
        .subcommand(cluster::command())
        .subcommand(config::route_command())
        .subcommand(backup::command())
        .subcommand(migrate::command())
        .subcommand(doctor::command())
        .subcommand(report::command())
        .subcommand(check::command())
        .subcommand(container::command())
        .subcommand(container::ping_command())
        .subcommand(inspect::command())
        .subcommand(salvage::command())
        .subcommand(salvage::engine_rows::command())
        .subcommand(generate::command())
        .subcommand(supervised::command())
        .subcommand(echo::command())
        .subcommand(arbor_lab::cli::command())
}

fn serve(matches: &ArgMatches) -> Result<(), Failure> {
    let settings = config::read_command_line(matches)
        .map_err(|refused| Failure::new(failure::BAD_OPTIONS, refused.to_string()))?;
    if settings.config_db.is_some() {
        return Err(Failure::new(failure::BAD_OPTIONS, "--configdb is an option of arbor route"));
    }
    if settings.fork && !background::is_child() { background::start(&settings) } else { serve::run(settings) }
}

fn ended(outcome: Result<(), Failure>) -> ExitCode {
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            eprintln!("arbor: {failure}");
            ExitCode::from(failure.code)
        }
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    /// Returns the words of a line as a shell does, up to a comment.
    fn words(line: &str) -> Vec<String> {
        let (mut words, mut word, mut quote) = (Vec::new(), String::new(), None);
        for letter in line.chars().chain([' ']) {
            match (letter, quote) {
                (letter, Some(open)) if letter == open => quote = None,
                ('\'' | '"', None) => quote = Some(letter),
                ('#' | '(', None) if word.is_empty() => break,
                (letter, None) if letter.is_whitespace() => {
                    if !word.is_empty() {
                        words.push(std::mem::take(&mut word));
                    }
                }
                (letter, _) => word.push(letter),
            }
        }
        words
    }

    #[test]
    fn the_commands_of_the_documents_are_ones_that_the_program_takes() {
        let root = Path::new(&std::env::var_os("CARGO_MANIFEST_DIR").unwrap()).join("../..");
        let mut checked = 0;
        for name in [
            "README.md",
            "docs/operations.md",
            "docs/security.md",
            "docs/sharding.md",
            "docs/replica-set.md",
            "docs/laboratory.md",
        ] {
            let text = std::fs::read_to_string(root.join(name)).unwrap().replace("\\\n", " ");
            for line in text.lines().filter(|line| line.starts_with("    arbor ")) {
                let parsed = cli().try_get_matches_from(words(line));
                assert!(
                    parsed.is_ok(),
                    "{name}: {line}: {}",
                    parsed.err().map(|error| error.to_string()).unwrap_or_default()
                );
                checked += 1;
            }
        }
        assert!(checked > 40, "{checked} commands were found");
    }
}
