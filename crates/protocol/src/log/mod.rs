//! The server's log: one JSON document per line, in the layout of MongoDB 4.4 and later, so that the tools that read
//! those read these.
//!
//! `{"t":{"$date":...},"s":severity,"c":component,"id":number,"ctx":thread or connection,"msg":text,"attr":{...}}`
//!
//! The last lines stay in memory for `getLog`. Lines are written under one lock; nothing on the way of a fast request
//! writes one.

pub mod events;
mod redact;
mod time;

use std::collections::VecDeque;
use std::fmt::Write as _;
use std::fs::File;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU8, Ordering};
use std::time::SystemTime;

use arbor_bson::{Doc, DocBuf, ValueRef, extjson};
use parking_lot::{Mutex, MutexGuard};

pub use time::{iso8601, now_ms};

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Severity {
    Fatal,
    Error,
    Warning,
    Info,
    Debug,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Component {
    Access,
    Command,
    Control,
    Index,
    Network,
    Storage,
    Recovery,
    Repl,
    Write,
}

/// One event: its permanent id, and its text.
#[derive(Clone, Copy, Debug)]
pub struct Event {
    pub component: Component,
    pub id: u32,
    pub message: &'static str,
}

/// Lines that `getLog` answers.
const KEPT_LINES: usize = 1024;

pub struct Log {
    sink: Mutex<Sink>,
    verbosity: AtomicU8,
    quiet: AtomicBool,
    redacts: AtomicBool,
}

struct Sink {
    output: Output,
    recent: VecDeque<String>,
    warnings: Vec<String>,
}

enum Output {
    Standard,
    File {
        file: File,
        path: PathBuf,
    },
    /// No output; tests read the kept lines.
    Nowhere,
}

impl Log {
    /// To standard output.
    pub fn to_standard_output() -> Log {
        Log::new(Output::Standard)
    }

    /// Kept in memory only.
    pub fn in_memory() -> Log {
        Log::new(Output::Nowhere)
    }

    /// To a file, after what is in it or after it was moved away.
    pub fn to_file(path: &Path, append: bool) -> io::Result<Log> {
        if !append && std::fs::metadata(path).is_ok_and(|metadata| metadata.len() > 0) {
            move_away(path)?;
        }
        Ok(Log::new(Output::File { file: open(path)?, path: path.to_owned() }))
    }

    fn new(output: Output) -> Log {
        let sink = Sink { output, recent: VecDeque::new(), warnings: Vec::new() };
        Log {
            sink: Mutex::new(sink),
            verbosity: AtomicU8::new(0),
            quiet: AtomicBool::new(false),
            redacts: AtomicBool::new(false),
        }
    }

    pub fn set_verbosity(&self, verbosity: u8) {
        self.verbosity.store(verbosity, Ordering::Relaxed);
    }

    pub fn verbosity(&self) -> u8 {
        self.verbosity.load(Ordering::Relaxed)
    }

    /// No line has a value of a client from now on.
    pub fn set_redacting(&self, redacts: bool) {
        self.redacts.store(redacts, Ordering::Relaxed);
    }

    /// Quiet: no lines about connections.
    pub fn set_quiet(&self, quiet: bool) {
        self.quiet.store(quiet, Ordering::Relaxed);
    }

    pub fn is_quiet(&self) -> bool {
        self.quiet.load(Ordering::Relaxed)
    }

    pub fn info(&self, event: Event, context: &str, attributes: DocBuf) {
        self.write(Severity::Info, event, context, attributes.as_doc());
    }

    pub fn warn(&self, event: Event, context: &str, attributes: DocBuf) {
        self.write(Severity::Warning, event, context, attributes.as_doc());
    }

    pub fn error(&self, event: Event, context: &str, attributes: DocBuf) {
        self.write(Severity::Error, event, context, attributes.as_doc());
    }

    pub fn debug(&self, event: Event, context: &str, attributes: impl FnOnce() -> DocBuf) {
        if self.verbosity() > 0 {
            self.write(Severity::Debug, event, context, attributes().as_doc());
        }
    }

    /// A warning that `getLog: "startupWarnings"` shows to every shell that connects.
    pub fn startup_warning(&self, event: Event, attributes: DocBuf) {
        let line = line(Severity::Warning, event, "initandlisten", attributes.as_doc());
        self.sink().warnings.push(line.clone());
        self.emit(line);
    }

    pub fn write(&self, severity: Severity, event: Event, context: &str, attributes: Doc<'_>) {
        if self.redacts.load(Ordering::Relaxed) {
            let redacted = redact::attributes(attributes);
            return self.emit(line(severity, event, context, redacted.as_doc()));
        }
        self.emit(line(severity, event, context, attributes));
    }

    /// The last lines, oldest first.
    pub fn recent(&self) -> Vec<String> {
        self.sink().recent.iter().cloned().collect()
    }

    pub fn startup_warnings(&self) -> Vec<String> {
        self.sink().warnings.clone()
    }

    /// Moves the file away and begins a new one; without a file nothing happens.
    pub fn rotate(&self) -> io::Result<()> {
        let mut sink = self.sink();
        if let Output::File { file, path } = &mut sink.output {
            move_away(path)?;
            *file = open(path)?;
        }
        Ok(())
    }

    fn emit(&self, line: String) {
        let mut sink = self.sink();
        // A log that cannot be written must not stop the server; the line is still kept in memory.
        let _ = match &mut sink.output {
            Output::Standard => writeln!(io::stdout(), "{line}"),
            Output::File { file, .. } => file.write_all(format!("{line}\n").as_bytes()),
            Output::Nowhere => Ok(()),
        };
        if sink.recent.len() == KEPT_LINES {
            sink.recent.pop_front();
        }
        sink.recent.push_back(line);
    }

    fn sink(&self) -> MutexGuard<'_, Sink> {
        self.sink.lock()
    }
}

fn open(path: &Path) -> io::Result<File> {
    File::options().create(true).append(true).open(path)
}

/// `server.log` becomes `server.log.2026-11-21T09-30-00`, or the same with a number when there is such a file.
pub fn move_away(path: &Path) -> io::Result<()> {
    let stamp = iso8601(now_ms()).get(..19).unwrap_or_default().replace(':', "-");
    for number in 0u32.. {
        let mut target = path.as_os_str().to_owned();
        target.push(if number == 0 { format!(".{stamp}") } else { format!(".{stamp}.{number}") });
        // A link fails where a rename would replace the older file.
        match std::fs::hard_link(path, &target) {
            Ok(()) => return std::fs::remove_file(path),
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            // Not every file system has links.
            Err(_) if !Path::new(&target).exists() => return std::fs::rename(path, target),
            Err(_) => {}
        }
    }
    unreachable!("one of the numbers is free")
}

fn line(severity: Severity, event: Event, context: &str, attributes: Doc<'_>) -> String {
    let mut out = String::with_capacity(160 + attributes.as_bytes().len() * 2);
    out.push_str("{\"t\":{\"$date\":\"");
    out.push_str(&iso8601(time::ms_of(SystemTime::now())));
    out.push_str("\"},\"s\":\"");
    out.push_str(severity.letter());
    out.push_str("\",  \"c\":\"");
    out.push_str(event.component.name());
    out.push_str("\",  \"id\":");
    out.push_str(&event.id.to_string());
    out.push_str(", \"ctx\":");
    push(&mut out, ValueRef::String(context));
    out.push_str(",\"msg\":");
    push(&mut out, ValueRef::String(event.message));
    if !attributes.is_empty() {
        out.push_str(",\"attr\":");
        if attributes.as_bytes().len() <= ATTRIBUTE_BYTES_MAX {
            push(&mut out, attributes.into());
        } else {
            push(&mut out, shortened(attributes).as_doc().into());
        }
    }
    out.push('}');
    out
}

/// Most bytes of one attribute in a line, as of a whole line of MongoDB's (`maxLogSizeKB`): an error's text may quote a
/// document of 16 MB.
const ATTRIBUTE_BYTES_MAX: usize = 10 << 10;

/// The attributes with long ones cut: of a string its beginning is kept, of a document or an array that of its text. No more is
/// gone over than is shown.
fn shortened(attributes: Doc<'_>) -> DocBuf {
    let mut short = DocBuf::new();
    for (name, value) in attributes {
        match value {
            _ if value.content_bytes() <= ATTRIBUTE_BYTES_MAX => short.append(name, value),
            ValueRef::String(text) => short.append(name, &*beginning(text, text.len())),
            value => short.append(name, &*beginning(&Beginning::of(value), value.content_bytes())),
        };
    }
    short
}

/// The text up to the limit, and how many bytes there were of what it is the text of.
fn beginning(text: &str, bytes: usize) -> String {
    let kept = text.get(..text.floor_char_boundary(ATTRIBUTE_BYTES_MAX)).unwrap_or_default();
    format!("{kept}... ({bytes} bytes)")
}

/// Takes text until there is enough of it.
struct Beginning(String);

impl Beginning {
    fn of(value: ValueRef<'_>) -> String {
        let mut text = Beginning(String::new());
        let _cut = write!(text, "{}", extjson::value(value, extjson::Form::Relaxed));
        text.0
    }
}

impl std::fmt::Write for Beginning {
    fn write_str(&mut self, part: &str) -> std::fmt::Result {
        self.0.push_str(part);
        if self.0.len() <= ATTRIBUTE_BYTES_MAX { Ok(()) } else { Err(std::fmt::Error) }
    }
}

/// Writing to a string cannot fail.
fn push(out: &mut String, value: ValueRef<'_>) {
    let _ = write!(out, "{}", extjson::value(value, extjson::Form::Relaxed));
}

impl Severity {
    fn letter(self) -> &'static str {
        match self {
            Severity::Fatal => "F",
            Severity::Error => "E",
            Severity::Warning => "W",
            Severity::Info => "I",
            Severity::Debug => "D1",
        }
    }
}

impl Component {
    fn name(self) -> &'static str {
        match self {
            Component::Access => "ACCESS",
            Component::Command => "COMMAND",
            Component::Control => "CONTROL",
            Component::Index => "INDEX",
            Component::Network => "NETWORK",
            Component::Storage => "STORAGE",
            Component::Recovery => "RECOVERY",
            Component::Repl => "REPL",
            Component::Write => "WRITE",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const EVENT: Event = Event { component: Component::Network, id: 23016, message: "Waiting for connections" };

    #[test]
    fn a_line_is_json_in_mongodbs_layout() {
        let log = Log::in_memory();
        log.info(EVENT, "listener", DocBuf::new().with("port", 27017i32).with("note", "a \"b\"\n"));
        let line = log.recent().pop().unwrap();
        let parsed: serde_json::Value = serde_json::from_str(&line).unwrap();
        assert_eq!(parsed["s"], "I");
        assert_eq!(parsed["c"], "NETWORK");
        assert_eq!(parsed["id"], 23016);
        assert_eq!(parsed["ctx"], "listener");
        assert_eq!(parsed["attr"]["port"], 27017);
        assert_eq!(parsed["attr"]["note"], "a \"b\"\n");
        assert!(parsed["t"]["$date"].as_str().unwrap().ends_with("+00:00"));
    }

    #[test]
    fn a_rotated_file_begins_empty() {
        let directory = std::env::temp_dir().join(format!("arbor-log-{}", std::process::id()));
        std::fs::create_dir_all(&directory).unwrap();
        let path = directory.join("server.log");
        let log = Log::to_file(&path, false).unwrap();
        log.info(EVENT, "a", DocBuf::new());
        log.rotate().unwrap();
        log.info(EVENT, "b", DocBuf::new());
        let text = std::fs::read_to_string(&path).unwrap();
        let files = std::fs::read_dir(&directory).unwrap().count();
        std::fs::remove_dir_all(&directory).unwrap();
        assert!(text.contains("\"ctx\":\"b\"") && !text.contains("\"ctx\":\"a\""));
        assert_eq!(files, 2);
    }

    #[test]
    fn files_rotated_within_a_second_are_all_kept() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("server.log");
        let log = Log::to_file(&path, false).unwrap();
        for _ in 0..5 {
            log.info(EVENT, "a", DocBuf::new());
            log.rotate().unwrap();
        }
        let files: Vec<PathBuf> =
            std::fs::read_dir(directory.path()).unwrap().map(|file| file.unwrap().path()).collect();
        let lines: usize = files.iter().map(|file| std::fs::read_to_string(file).unwrap().lines().count()).sum();
        assert_eq!((files.len(), lines), (6, 5));
    }

    #[test]
    fn long_attributes_are_cut_and_errors_stay_whole_up_to_there() {
        let log = Log::in_memory();
        let (whole, long) = ("e".repeat(9000), "\u{e4}".repeat(1 << 20));
        let many = DocBuf::new().with("text", long.as_str());
        let attributes =
            DocBuf::new().with("error", whole.as_str()).with("errMsg", long.as_str()).with("command", &many);
        log.info(EVENT, "x", attributes);
        let line = log.recent().pop().unwrap();
        let parsed: serde_json::Value = serde_json::from_str(&line).unwrap();
        assert_eq!(parsed["attr"]["error"].as_str(), Some(whole.as_str()));
        assert!(line.len() < 64 << 10, "{}", line.len());
        assert!(parsed["attr"]["errMsg"].as_str().unwrap().ends_with("... (2097152 bytes)"));
    }

    #[test]
    fn of_a_long_document_only_the_beginning_is_written() {
        let many: DocBuf = (0..1000).map(|n| (format!("field{n}"), n)).collect();
        let text = shortened(DocBuf::new().with("command", &many).as_doc());
        let Some(ValueRef::String(text)) = text.get("command") else { panic!("{text:?}") };
        assert!(text.starts_with(r#"{"field0":0,"field1":1,"#), "{text}");
        assert!(text.ends_with(&format!("... ({} bytes)", many.as_bytes().len())), "{text}");
        assert!(Beginning::of((&many).into()).len() < ATTRIBUTE_BYTES_MAX + 100);
    }

    #[test]
    fn old_lines_make_room() {
        let log = Log::in_memory();
        (0..KEPT_LINES + 5).for_each(|_| log.info(EVENT, "x", DocBuf::new()));
        assert_eq!(log.recent().len(), KEPT_LINES);
        log.startup_warning(EVENT, DocBuf::new());
        assert_eq!(log.startup_warnings().len(), 1);
    }
}
