//! The files, as they are read: by `arbor report diagnostics`, and by the recorder at its start.

use std::path::{Path, PathBuf};

use arbor_bson::{Doc, ValueRef};

use super::chunk::Chunk;
use super::{INTERIM, PREFIX};

/// A document of a file.
#[derive(Debug)]
pub enum Record<'r> {
    /// The constants: build, options, machine.
    About(Doc<'r>),
    Chunk(Chunk),
}

/// Calls `each` with all records of a directory in the order of time; samples that are only in the interim file come last.
/// Files of MongoDB are read as well. Errors: the directory or a file cannot be read.
pub fn read(directory: &Path, each: &mut impl FnMut(Record<'_>)) -> std::io::Result<()> {
    for (path, _) in files(directory)? {
        read_file(&std::fs::read(path)?, each);
    }
    match std::fs::read(directory.join(INTERIM)) {
        Ok(bytes) => read_file(&bytes, each),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {}
        Err(error) => return Err(error),
    }
    Ok(())
}

fn read_file(bytes: &[u8], each: &mut impl FnMut(Record<'_>)) {
    for document in documents(bytes) {
        match (document.get("type"), document.get("doc"), document.get("data")) {
            (Some(ValueRef::Int32(0)), Some(ValueRef::Document(about)), _) => each(Record::About(about)),
            (Some(ValueRef::Int32(1)), _, Some(ValueRef::Binary { bytes, .. })) => match Chunk::decode(bytes) {
                Some(chunk) => each(Record::Chunk(chunk)),
                // what follows damage is not trusted (F2)
                None => return,
            },
            // other kinds of newer servers
            _ => {}
        }
    }
}

/// Returns the whole documents of a file, up to the first that is not one.
pub(super) fn documents(mut bytes: &[u8]) -> Vec<Doc<'_>> {
    let mut documents = Vec::new();
    while let Some(length) = bytes.first_chunk::<4>().map(|length| u32::from_le_bytes(*length) as usize) {
        let Some(Ok(document)) = bytes.get(..length).map(Doc::parse) else { break };
        documents.push(document);
        bytes = bytes.get(length..).unwrap_or_default();
    }
    documents
}

/// Returns the files with their sizes, the oldest first; without the interim file.
pub(super) fn files(directory: &Path) -> std::io::Result<Vec<(PathBuf, u64)>> {
    let mut files = Vec::new();
    for entry in std::fs::read_dir(directory)? {
        let entry = entry?;
        let name = entry.file_name();
        let name = name.to_string_lossy();
        if name.starts_with(PREFIX) && !name.starts_with(INTERIM) {
            files.push((entry.path(), entry.metadata()?.len()));
        }
    }
    files.sort();
    Ok(files)
}
