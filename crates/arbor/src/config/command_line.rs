//! Flags, with mongod's names. They come from the table, so that no flag is known in two places.

use std::path::PathBuf;

use clap::{Arg, ArgAction, ArgMatches, Command};

use super::value::Kind;
use super::{RawSetting, Refused, Settings, file, settle, table};

/// `arbor serve`.
pub(crate) fn serve_command() -> Command {
    command("serve", "Serves MongoDB clients")
}

/// `arbor route`.
pub(crate) fn route_command() -> Command {
    command("route", "Routes MongoDB clients to the shards of a cluster, as mongos does")
}

/// `arbor doctor`, for the server that the same flags start.
pub(crate) fn doctor_command() -> Command {
    command("doctor", "Checks the machine and the settings for a server with these flags")
}

fn command(name: &'static str, about: &'static str) -> Command {
    let config =
        Arg::new("config").long("config").short('f').value_name("FILE").help("Configuration file, YAML or key = value");
    let command = Command::new(name).about(about).version(crate::version::long()).arg(config);
    let flags = table::groups().into_iter().flat_map(|(title, rows)| {
        let with_flag = rows.iter().filter(|row| !row.flag.is_empty());
        with_flag.map(move |row| flag(row).help_heading(title))
    });
    command.args(flags).after_help("Keys of configuration files: docs/configuration.md")
}

fn flag(row: &'static table::Row) -> Arg {
    let arg = Arg::new(row.flag).long(row.flag).help(row.description());
    let arg = if row.flag == "verbose" { arg.short('v') } else { arg };
    match row.kind {
        Kind::Switch if row.flag == "verbose" => arg.action(ArgAction::Count),
        Kind::Switch => arg.action(ArgAction::SetTrue).overrides_with(row.flag),
        _ if row.is_set_parameter() => arg.action(ArgAction::Append).value_name("NAME=VALUE"),
        // mongod takes it without a value, too
        _ if row.flag == "enableMajorityReadConcern" => {
            arg.action(ArgAction::Set).value_name(row.value_name()).num_args(0..=1).default_missing_value("true")
        }
        _ => arg.action(ArgAction::Set).value_name(row.value_name()).allow_negative_numbers(true),
    }
}

/// Settings from the flags and from the file that `--config` names.
pub(crate) fn read(matches: &ArgMatches) -> Result<Settings, Refused> {
    let mut flags = Vec::new();
    for row in table::rows().iter().filter(|row| !row.flag.is_empty()) {
        flags.extend(given(row, matches)?);
    }
    let config = matches.get_one::<String>("config").map(PathBuf::from);
    let from_file = config.as_deref().map_or_else(|| Ok(Vec::new()), file::read)?;
    settle(from_file, flags)
}

fn given(row: &'static table::Row, matches: &ArgMatches) -> Result<Vec<RawSetting>, Refused> {
    let plain = |value: String| RawSetting { row, written: row.flag.to_owned(), parameter: None, value };
    if row.is_set_parameter() {
        return matches.get_many::<String>(row.flag).into_iter().flatten().map(|text| parameter(row, text)).collect();
    }
    Ok(match row.kind {
        Kind::Switch if row.flag == "verbose" => match matches.get_count(row.flag) {
            0 => Vec::new(),
            count => vec![plain(count.to_string())],
        },
        Kind::Switch if !matches.get_flag(row.flag) => Vec::new(),
        Kind::Switch => vec![plain("true".to_owned())],
        _ => matches.get_one::<String>(row.flag).cloned().map(plain).into_iter().collect(),
    })
}

fn parameter(row: &'static table::Row, text: &str) -> Result<RawSetting, Refused> {
    let (name, value) =
        text.split_once('=').ok_or_else(|| Refused(format!("Illegal option assignment: \"{text}\"")))?;
    Ok(RawSetting { row, written: row.flag.to_owned(), parameter: Some(name.to_owned()), value: value.to_owned() })
}
