//! Properties of a command that are known without executing it.

use crate::metrics::{Class, Kind};

/// Facts about one command. Old spellings have one of their own.
#[derive(Debug)]
pub struct CommandInfo {
    pub name: &'static str,
    pub runs: Runs,
    /// Only on the database `admin`.
    pub admin_only: bool,
    /// Takes a write concern.
    writes: bool,
    /// Part of API version 1.
    stable: bool,
    /// Ignores fields that it does not know, as MongoDB does for commands that clients of any version send.
    lenient: bool,
    /// Has fields that neither the log nor other clients may see.
    secret: bool,
    /// Waits for other members: how long it takes says nothing.
    waits: bool,
    pub kind: Kind,
    pub class: Class,
    pub help: &'static str,
}

/// Threads on which a command may run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Runs {
    /// On the thread that read it: it is answered from memory.
    Inline,
    /// On a thread that may block.
    Blocking,
    /// Inline when it looks for one document by `_id`.
    InlineById,
}

impl CommandInfo {
    /// A command that is answered from memory.
    pub const fn quick(name: &'static str, help: &'static str) -> CommandInfo {
        let (kind, class) = (Kind::Command, Class::Command);
        let (runs, lenient, secret, waits) = (Runs::Inline, false, false, false);
        let (admin_only, writes, stable) = (false, false, false);
        CommandInfo { name, runs, admin_only, writes, stable, lenient, secret, waits, kind, class, help }
    }

    /// A command that may wait for a disk.
    pub const fn slow(name: &'static str, help: &'static str) -> CommandInfo {
        let info = CommandInfo::quick(name, help);
        CommandInfo { runs: Runs::Blocking, ..info }
    }

    pub const fn read(name: &'static str, help: &'static str) -> CommandInfo {
        let info = CommandInfo::slow(name, help);
        CommandInfo { class: Class::Read, ..info }
    }

    pub const fn write(name: &'static str, help: &'static str) -> CommandInfo {
        let info = CommandInfo::slow(name, help);
        CommandInfo { class: Class::Write, writes: true, ..info }
    }

    pub const fn admin(self) -> CommandInfo {
        CommandInfo { admin_only: true, ..self }
    }

    /// Part of API version 1.
    pub const fn v1(self) -> CommandInfo {
        CommandInfo { stable: true, ..self }
    }

    /// Takes a write concern.
    pub const fn writing(self) -> CommandInfo {
        CommandInfo { writes: true, ..self }
    }

    /// Ignores fields that it does not know.
    pub const fn lenient(self) -> CommandInfo {
        CommandInfo { lenient: true, ..self }
    }

    /// Has fields that neither the log nor other clients may see.
    pub const fn secret(self) -> CommandInfo {
        CommandInfo { secret: true, ..self }
    }

    /// Waits for other members: it is not slow when it takes long.
    pub const fn waiting(self) -> CommandInfo {
        CommandInfo { waits: true, ..self }
    }

    pub const fn counted_as(self, kind: Kind) -> CommandInfo {
        CommandInfo { kind, ..self }
    }

    pub const fn at(self, runs: Runs) -> CommandInfo {
        CommandInfo { runs, ..self }
    }

    pub fn takes_write_concern(&self) -> bool {
        self.writes
    }

    pub fn ignores_unknown_fields(&self) -> bool {
        self.lenient
    }

    pub fn has_secrets(&self) -> bool {
        self.secret
    }

    pub fn is_waiting(&self) -> bool {
        self.waits
    }

    pub fn is_in_stable_api(&self) -> bool {
        self.stable
    }
}
