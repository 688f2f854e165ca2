//! The rows of an engine that may be damaged, read by a process of its own.
//!
//! LMDB, RocksDB and WiredTiger trust what they find in their files: damage may end the process that reads it by a signal. So
//! `arbor salvage` starts `arbor salvage-rows` on a copy and reads what it writes to its standard output. When the child ends
//! before it said [`END`], another one continues after the tree that it was in.
//!
//! | frame | fields behind its first byte, little-endian |
//! |---|---|
//! | [`APPLIED`] | position, 8 bytes: the state that the rows are of |
//! | [`TREE`] | number of the tree, 8: its rows follow |
//! | [`ROW`] | length of the key, 4, length of the value, 4, key, value |
//! | [`WHOLE`] | all rows of the tree were read |
//! | [`BROKEN`] | length, 4, text: why the rows end here |
//! | [`END`] | nothing follows |

use std::io::{self, BufRead, BufReader, BufWriter, Read, Write};
use std::path::Path;
use std::process::{Child, ChildStdout, Stdio};
use std::thread::JoinHandle;

use arbor_base::{Position, TreeId};
use arbor_engine::{Engine, Error, Result};
use clap::{Arg, ArgMatches, Command, value_parser};

use crate::engine_copy;
use crate::failure::Failure;

const APPLIED: u8 = 1;
const TREE: u8 = 2;
const ROW: u8 = 3;
const WHOLE: u8 = 4;
const BROKEN: u8 = 5;
const END: u8 = 6;

const PIPE_BYTES: usize = 1 << 20;

/// A finding of the child, in order.
#[derive(Debug, PartialEq)]
pub(crate) enum Found {
    Applied(Position),
    Tree(TreeId),
    Row(Vec<u8>, Vec<u8>),
    Whole,
    Broken(String),
}

/// Reads all rows of the engine in `copy`, which may be changed, and passes them to `take`.
///
/// Errors: the engine cannot be opened, no tree can be read, or an error of `take`.
pub(crate) fn read(name: &str, copy: &Path, mut take: impl FnMut(Found) -> Result<()>) -> Result<()> {
    let mut after = None;
    loop {
        let mut rows =
            ChildRows::start(name, copy, after).map_err(|source| io_error("start a process to read", source))?;
        let mut tree = None;
        let ended = rows.pass_on(|found| {
            match &found {
                Found::Tree(id) => tree = Some(*id),
                Found::Whole | Found::Broken(_) => after = tree.take(),
                Found::Applied(_) | Found::Row(..) => {}
            }
            take(found)
        })?;
        if ended {
            return Ok(());
        }
        let reason = rows.reason();
        let Some(id) = tree else { return Err(Error::Corrupt { place: format!("engine '{name}'"), context: reason }) };
        take(Found::Broken(reason))?;
        after = Some(id);
    }
}

fn io_error(action: &str, source: io::Error) -> Error {
    Error::Io { context: format!("{action} the engine's rows"), source }
}

struct ChildRows {
    child: Child,
    frames: Frames<BufReader<ChildStdout>>,
    /// Reads the child's errors to their end, so that it never waits for them to be read.
    errors: Option<JoinHandle<String>>,
}

impl ChildRows {
    fn start(name: &str, copy: &Path, after: Option<TreeId>) -> io::Result<ChildRows> {
        let mut command = std::process::Command::new(std::env::current_exe()?);
        command.args([NAME, "--engine", name, "--dbpath"]).arg(copy);
        if let Some(TreeId(after)) = after {
            command.args(["--after", &after.to_string()]);
        }
        let mut child = command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn()?;
        let Some(frames) = child.stdout.take() else { unreachable!("standard output is piped") };
        let errors = child.stderr.take().map(|stderr| std::thread::spawn(move || last_line(stderr)));
        Ok(ChildRows { child, errors, frames: Frames(BufReader::with_capacity(PIPE_BYTES, frames)) })
    }

    /// Returns false if the child ended before its last frame.
    fn pass_on(&mut self, mut take: impl FnMut(Found) -> Result<()>) -> Result<bool> {
        loop {
            match self.frames.next() {
                Ok(Some(found)) => take(found)?,
                Ok(None) => return Ok(true),
                Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Ok(false),
                Err(error) => return Err(io_error("read", error)),
            }
        }
    }

    /// Returns why the child ended: the last line of its errors, or its status.
    fn reason(&mut self) -> String {
        let status = self.child.wait().map_or_else(|error| error.to_string(), |status| status.to_string());
        let last = self.errors.take().and_then(|errors| errors.join().ok()).filter(|line| !line.is_empty());
        last.unwrap_or_else(|| format!("the process that read it ended: {status}"))
    }
}

impl Drop for ChildRows {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Returns the last line that is not empty, of at most [`PIPE_BYTES`].
fn last_line(from: impl Read) -> String {
    let (mut from, mut last, mut line) = (BufReader::new(from), String::new(), Vec::new());
    while (&mut from).take(PIPE_BYTES as u64).read_until(b'\n', &mut line).is_ok_and(|bytes| bytes > 0) {
        let text = String::from_utf8_lossy(&line);
        if !text.trim().is_empty() {
            last = text.trim().to_owned();
        }
        line.clear();
    }
    last
}

/// Decodes frames.
struct Frames<R>(R);

impl<R: Read> Frames<R> {
    /// Returns `None` for the last frame. Errors: `UnexpectedEof` where there is no last frame.
    fn next(&mut self) -> io::Result<Option<Found>> {
        Ok(Some(match self.number::<1>()? as u8 {
            APPLIED => Found::Applied(Position(self.number::<8>()?)),
            TREE => Found::Tree(TreeId(self.number::<8>()?)),
            ROW => {
                let (key, value) = (self.number::<4>()?, self.number::<4>()?);
                Found::Row(self.bytes(key)?, self.bytes(value)?)
            }
            WHOLE => Found::Whole,
            BROKEN => {
                let length = self.number::<4>()?;
                Found::Broken(String::from_utf8_lossy(&self.bytes(length)?).into_owned())
            }
            END => return Ok(None),
            other => return Err(io::Error::other(format!("{NAME} wrote a frame of kind {other}"))),
        }))
    }

    fn number<const BYTES: usize>(&mut self) -> io::Result<u64> {
        let mut bytes = [0; BYTES];
        self.0.read_exact(&mut bytes)?;
        Ok(bytes.iter().rev().fold(0, |number, byte| number << 8 | u64::from(*byte)))
    }

    fn bytes(&mut self, length: u64) -> io::Result<Vec<u8>> {
        let mut bytes = vec![0; length as usize];
        self.0.read_exact(&mut bytes)?;
        Ok(bytes)
    }
}

const NAME: &str = "salvage-rows";

/// The child's command, for `arbor salvage` only.
pub(crate) fn command() -> Command {
    Command::new(NAME)
        .hide(true)
        .arg(Arg::new("engine").long("engine").required(true))
        .arg(Arg::new("dbpath").long("dbpath").required(true))
        .arg(Arg::new("after").long("after").value_parser(value_parser!(u64)))
}

pub(crate) fn run(matches: &ArgMatches) -> std::result::Result<(), Failure> {
    let text = |name| matches.get_one::<String>(name).map_or("", String::as_str);
    let after = matches.get_one::<u64>("after").map(|after| TreeId(*after));
    let engine = engine_copy::open_damaged(text("engine"), Path::new(text("dbpath"))).map_err(Failure::cannot_start)?;
    let mut frames = BufWriter::with_capacity(PIPE_BYTES, io::stdout().lock());
    write_rows(&*engine, after, &mut frames).map_err(Failure::cannot_start)
}

fn write_rows(engine: &dyn Engine, after: Option<TreeId>, frames: &mut impl Write) -> Result<()> {
    let written = |source| io_error("write", source);
    frames.write_all(&[APPLIED]).and_then(|()| frames.write_all(&engine.applied().0.to_le_bytes())).map_err(written)?;
    let mut trees = engine.trees()?;
    trees.sort_unstable();
    for tree in trees.into_iter().filter(|tree| after.is_none_or(|after| *tree > after)) {
        // The frames before the tree reach the parent, should reading the tree end this process.
        frames.write_all(&[TREE]).and_then(|()| frames.write_all(&tree.0.to_le_bytes())).map_err(written)?;
        frames.flush().map_err(written)?;
        match write_tree(engine, tree, frames) {
            Ok(()) => frames.write_all(&[WHOLE]).map_err(written)?,
            Err(error) => write_text(BROKEN, &error.to_string(), frames).map_err(written)?,
        }
    }
    frames.write_all(&[END]).and_then(|()| frames.flush()).map_err(written)
}

fn write_tree(engine: &dyn Engine, tree: TreeId, frames: &mut impl Write) -> Result<()> {
    let snapshot = engine.snapshot()?;
    let mut cursor = snapshot.cursor(tree)?;
    let mut more = cursor.seek(&[])?;
    let mut last = None;
    while more {
        check_order(&mut last, cursor.key())?;
        write_row(cursor.key(), cursor.value(), frames).map_err(|source| io_error("write", source))?;
        more = cursor.next()?;
    }
    Ok(())
}

/// Refuses a key that is not behind the last one: pages without checksums may lead back, and the scan would never end.
fn check_order(last: &mut Option<Vec<u8>>, key: &[u8]) -> Result<()> {
    if last.as_deref().is_some_and(|last| last >= key) {
        let context = "its rows are out of order".to_owned();
        return Err(Error::Corrupt { place: "a tree".to_owned(), context });
    }
    let last = last.get_or_insert_default();
    last.clear();
    last.extend_from_slice(key);
    Ok(())
}

fn write_row(key: &[u8], value: &[u8], frames: &mut impl Write) -> io::Result<()> {
    frames.write_all(&[ROW])?;
    frames.write_all(&(key.len() as u32).to_le_bytes())?;
    frames.write_all(&(value.len() as u32).to_le_bytes())?;
    frames.write_all(key)?;
    frames.write_all(value)
}

fn write_text(kind: u8, text: &str, frames: &mut impl Write) -> io::Result<()> {
    frames.write_all(&[kind])?;
    frames.write_all(&(text.len() as u32).to_le_bytes())?;
    frames.write_all(text.as_bytes())
}

#[cfg(test)]
mod tests {
    use arbor_engine::model::ModelEngine;
    use arbor_engine::{Batch, Op, TreeOptions};

    use super::*;

    fn decode(bytes: &[u8]) -> io::Result<Vec<Found>> {
        let mut frames = Frames(bytes);
        let mut found = Vec::new();
        while let Some(next) = frames.next()? {
            found.push(next);
        }
        Ok(found)
    }

    #[test]
    fn a_scan_that_leads_back_ends() {
        let mut last = None;
        for key in [&b""[..], b"a", b"aa", b"b"] {
            check_order(&mut last, key).unwrap();
        }
        for key in [&b"b"[..], b"aa", b""] {
            assert!(check_order(&mut last.clone(), key).is_err(), "{key:?}");
        }
    }

    #[test]
    fn rows_arrive_as_they_were_read_and_a_cut_stream_is_noticed() {
        let engine = ModelEngine::new();
        let create = |tree| Op::CreateTree { tree: TreeId(tree), options: TreeOptions::default() };
        let put = |tree, key: &[u8], value: &[u8]| Op::Put { tree: TreeId(tree), key: key.into(), value: value.into() };
        let ops = vec![create(3), create(7), put(3, b"a", b""), put(3, b"b", &[9; 300]), put(7, b"", b"x")];
        engine.apply(&[Batch { position: Position(5), ops }]).unwrap();
        let mut bytes = Vec::new();
        write_rows(&engine, None, &mut bytes).unwrap();
        let row = |key: &[u8], value: &[u8]| Found::Row(key.into(), value.into());
        let last = [Found::Tree(TreeId(7)), row(b"", b"x"), Found::Whole];
        let first = [Found::Applied(Position(5)), Found::Tree(TreeId(3)), row(b"a", b""), row(b"b", &[9; 300])];
        let all: Vec<Found> = first.into_iter().chain([Found::Whole]).chain(last).collect();
        assert_eq!(decode(&bytes).unwrap(), all);
        for cut in 0..bytes.len() {
            assert_eq!(decode(&bytes[..cut]).unwrap_err().kind(), io::ErrorKind::UnexpectedEof, "{cut}");
        }
        let mut after = Vec::new();
        write_rows(&engine, Some(TreeId(3)), &mut after).unwrap();
        assert_eq!(decode(&after).unwrap()[1..], all[5..]);
        assert!(decode(&[99]).is_err());
    }
}
