//! `arbor supervised PARENT PROGRAM ...`, not shown in the help: becomes the program, which the kernel kills at the end of the parent.
//!
//! The signal is asked for here, in the process itself: the standard library has no safe way to do it between fork and exec. It comes at the end of
//! the thread that started this process, so that thread has to live as long as the parent.

use std::os::unix::process::CommandExt;
use std::process::Command as Process;

use clap::{Arg, ArgAction, ArgMatches, Command, value_parser};

use crate::failure::{BAD_OPTIONS, Failure};

const NAME: &str = "supervised";

/// Returns what comes before a command to end its process with this one.
pub(crate) fn launcher() -> Vec<std::ffi::OsString> {
    // The link is resolved in the child, where it is this binary too, even if its file was replaced meanwhile.
    ["/proc/self/exe", NAME, &std::process::id().to_string()].map(Into::into).to_vec()
}

pub(crate) fn command() -> Command {
    Command::new(NAME)
        .hide(true)
        .about("Runs a program that ends with its parent (started by the server)")
        .arg(Arg::new("parent").required(true).value_parser(value_parser!(i32)))
        .arg(
            Arg::new("command")
                .required(true)
                .action(ArgAction::Append)
                .trailing_var_arg(true)
                .allow_hyphen_values(true)
                .value_parser(value_parser!(std::ffi::OsString)),
        )
}

pub(crate) fn run(matches: &ArgMatches) -> Result<(), Failure> {
    let parent = matches.get_one::<i32>("parent").copied().unwrap_or_default();
    let mut command = matches.get_many::<std::ffi::OsString>("command").into_iter().flatten();
    let program = command.next().ok_or_else(|| Failure::new(BAD_OPTIONS, "supervised needs a program"))?;
    rustix::process::set_parent_process_death_signal(Some(rustix::process::Signal::KILL))
        .map_err(Failure::cannot_start)?;
    // It may have ended before.
    if rustix::process::getppid().is_none_or(|found| found.as_raw_nonzero().get() != parent) {
        return Err(Failure::cannot_start("the parent has ended"));
    }
    let error = Process::new(program).args(command).exec();
    Err(Failure::cannot_start(format!("{}: {error}", program.display())))
}
