//! `arbor supervised PARENT PROGRAM ...`, not shown in the help: becomes the program, which the kernel kills at the end of the parent.
//!
//! The signal is asked for here, in the process itself: the standard library has no safe way to do it between fork and exec. It comes at the end of
//! the thread that started this process, so that thread has to live as long as the parent.
//!
//! The kernel kills this one process. [`run_group`] is for programs that start others.

use std::os::unix::process::CommandExt;
use std::process::{Command as Process, ExitStatus, Stdio};
use std::time::Duration;

use clap::{Arg, ArgAction, ArgMatches, Command, value_parser};
use rustix::process::{Pid, Signal, getppid, kill_process_group, set_parent_process_death_signal};

use crate::failure::{BAD_OPTIONS, Failure};

const NAME: &str = "supervised";
/// Interval at which the end of the parent is noticed.
const WATCH: Duration = Duration::from_millis(50);

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
    set_parent_process_death_signal(Some(Signal::KILL)).map_err(Failure::cannot_start)?;
    // It may have ended before.
    if getppid().is_none_or(|found| found.as_raw_nonzero().get() != parent) {
        return Err(Failure::cannot_start("the parent has ended"));
    }
    let error = Process::new(program).args(command).exec();
    Err(Failure::cannot_start(format!("{}: {error}", program.display())))
}

/// Runs a program in a process group of its own, which is killed when `parent`, that of this process, ends. This process is not killed by the
/// kernel from then on, since it has to see to that.
pub(crate) fn run_group(mut program: Process, parent: Option<Pid>) -> Result<ExitStatus, Failure> {
    set_parent_process_death_signal(None).map_err(Failure::cannot_start)?;
    let mut leader = program.process_group(0).stdin(Stdio::null()).spawn().map_err(Failure::cannot_start)?;
    loop {
        if let Some(status) = leader.try_wait().map_err(Failure::cannot_start)? {
            return Ok(status);
        }
        if getppid() != parent {
            // the group is there, since its leader was not waited for
            kill_process_group(Pid::from_child(&leader), Signal::KILL).map_err(Failure::cannot_start)?;
            return Err(Failure::cannot_start("the parent has ended"));
        }
        std::thread::sleep(WATCH);
    }
}
