//! Encryption of what a target holds (`--key-file`): AES-256-GCM, under a key that never leaves this machine.
//!
//! A file that is written at once:
//!
//! | offset | size | content |
//! |---|---|---|
//! | 0 | 8 | magic `ARBORENC` |
//! | 8 | 4 | format version (1), little-endian |
//! | 12 | 8 | id of the key |
//! | 20 | 32 | salt |
//! | 52 | ... | chunks of 64 KiB, the last one shorter, each followed by its tag of 16 bytes |
//!
//! The archived log grows, and is encrypted block by block ([`super::log_files`]), with the same id and salt in its head.
//!
//! - E1: each file has a key of its own, made of the key and a random salt, so nonces are the numbers of its chunks and never repeat.
//! - E2: what is authenticated besides the bytes: the file's name in the target, the number of the chunk, and whether it is the last. So no
//!   file takes the place of another one, and none is cut short unnoticed. Of the log, whole blocks at the end may be missing: that is an earlier end.
//! - E3: not encrypted are the names of files, their sizes, and the ids of deployments in the log.

use std::fs::File;
use std::io::{Error as IoError, ErrorKind, Read};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use hmac::{Hmac, KeyInit, Mac};
use ring::aead::{AES_256_GCM, Aad, LessSafeKey, Nonce, UnboundKey};
use sha2::Sha256;

use super::files::{Entry, Files, Growing, NewFile, Opened};
use super::{Error, Result, io};

const MAGIC: [u8; 8] = *b"ARBORENC";
const VERSION: u32 = 1;
const ID_BYTES: usize = 8;
const SALT_BYTES: usize = 32;
/// Id and salt.
pub(super) const MARK_BYTES: usize = ID_BYTES + SALT_BYTES;
const HEAD_BYTES: usize = MAGIC.len() + 4 + MARK_BYTES;
const KEY_BYTES: usize = 32;
const TAG_BYTES: usize = 16;
const CHUNK_BYTES: usize = 64 << 10;
const SEALED_BYTES: u64 = (CHUNK_BYTES + TAG_BYTES) as u64;

/// The key of a target.
pub(super) struct Cipher {
    key: [u8; KEY_BYTES],
    id: [u8; ID_BYTES],
}

impl Drop for Cipher {
    fn drop(&mut self) {
        zeroize::Zeroize::zeroize(&mut self.key);
    }
}

/// The key of one file.
pub(super) struct FileKey {
    key: LessSafeKey,
    name: String,
}

fn derived(key: &[u8; KEY_BYTES], what: &[u8], salt: &[u8]) -> [u8; KEY_BYTES] {
    let mac = Hmac::<Sha256>::new_from_slice(key).expect("HMAC takes keys of every length");
    mac.chain_update(what).chain_update(salt).finalize().into_bytes().into()
}

impl Cipher {
    /// Reads a key file: 64 hexadecimal digits.
    pub(super) fn read(path: &Path) -> Result<Cipher> {
        let text = zeroize::Zeroizing::new(std::fs::read_to_string(path).map_err(io("read", path))?);
        let digits = text.trim();
        let mut key = [0; KEY_BYTES];
        let is_key = digits.len() == 2 * KEY_BYTES
            && digits.bytes().all(|digit| digit.is_ascii_hexdigit())
            && key.iter_mut().enumerate().all(|(at, byte)| {
                let parsed = digits.get(2 * at..2 * at + 2).map(|pair| u8::from_str_radix(pair, 16));
                parsed.is_some_and(|parsed| parsed.map(|parsed| *byte = parsed).is_ok())
            });
        match is_key {
            true => Ok(Cipher::new(key)),
            false => Err(Error::Refused(format!(
                "{} is no key: it has to have 64 hexadecimal digits, as `openssl rand -hex 32` makes them",
                path.display()
            ))),
        }
    }

    fn new(key: [u8; KEY_BYTES]) -> Cipher {
        let mut id = [0; ID_BYTES];
        id.copy_from_slice(&derived(&key, b"arbor backup: id", &[])[..ID_BYTES]);
        Cipher { key, id }
    }

    fn of_salt(&self, salt: &[u8], name: &str) -> FileKey {
        let own = derived(&self.key, b"arbor backup: file", salt);
        let key = UnboundKey::new(&AES_256_GCM, &own).expect("a key of AES-256 has 32 bytes");
        FileKey { key: LessSafeKey::new(key), name: name.to_owned() }
    }

    /// Begins a file. Returns its mark as well: the id of the key, and the salt.
    pub(super) fn begin(&self, name: &str) -> ([u8; MARK_BYTES], FileKey) {
        let mut mark = [0; MARK_BYTES];
        let (id, salt) = mark.split_at_mut(ID_BYTES);
        id.copy_from_slice(&self.id);
        for part in salt.chunks_mut(16) {
            // 122 random bits each
            part.copy_from_slice(uuid::Uuid::new_v4().as_bytes());
        }
        let key = self.of_salt(salt, name);
        (mark, key)
    }

    /// Continues with the mark of a file. Errors: it is of another key.
    pub(super) fn resume(&self, mark: &[u8], name: &str, path: &Path) -> Result<FileKey> {
        assert_eq!(mark.len(), MARK_BYTES, "id and salt");
        let (id, salt) = mark.split_at(ID_BYTES);
        match id == self.id {
            true => Ok(self.of_salt(salt, name)),
            false => {
                Err(Error::Key(format!("{} is encrypted with another key than that of --key-file", path.display())))
            }
        }
    }
}

/// The error for a file that was read without the key.
pub(super) fn no_key(path: &Path) -> Error {
    Error::Key(format!("{} is encrypted: --key-file names the file with its key", path.display()))
}

/// The error for a file that ought to be encrypted.
pub(super) fn not_encrypted(path: &Path) -> Error {
    Error::Key(format!("{} is not encrypted: it was written without --key-file", path.display()))
}

/// Returns true for the begin of an encrypted file.
pub(super) fn is_encrypted(bytes: &[u8]) -> bool {
    bytes.starts_with(&MAGIC)
}

impl FileKey {
    fn nonce(number: u64, is_last: bool) -> Nonce {
        let mut nonce = [0; 12];
        nonce[..8].copy_from_slice(&number.to_le_bytes());
        nonce[8] = u8::from(is_last);
        Nonce::assume_unique_for_key(nonce)
    }

    /// Encrypts a part of the file. Requires that no part has had this number (E1).
    pub(super) fn seal(&self, number: u64, is_last: bool, bytes: &[u8]) -> Vec<u8> {
        let mut sealed = Vec::with_capacity(bytes.len() + TAG_BYTES);
        sealed.extend_from_slice(bytes);
        let aad = Aad::from(self.name.as_bytes());
        let done = self.key.seal_in_place_append_tag(FileKey::nonce(number, is_last), aad, &mut sealed);
        done.expect("a part is shorter than 64 GB");
        sealed
    }

    /// `None`: it is not what was encrypted under that number in a file of this name.
    pub(super) fn open(&self, number: u64, is_last: bool, mut sealed: Vec<u8>) -> Option<Vec<u8>> {
        let aad = Aad::from(self.name.as_bytes());
        let length = self.key.open_in_place(FileKey::nonce(number, is_last), aad, &mut sealed).ok()?.len();
        sealed.truncate(length);
        Some(sealed)
    }
}

/// Files that are encrypted on their way into others.
pub(super) struct Encrypted {
    inner: Arc<dyn Files>,
    cipher: Arc<Cipher>,
}

impl Encrypted {
    pub(super) fn new(inner: Arc<dyn Files>, cipher: Cipher) -> Encrypted {
        Encrypted { inner, cipher: Arc::new(cipher) }
    }
}

impl Files for Encrypted {
    fn path(&self, name: &str) -> PathBuf {
        self.inner.path(name)
    }

    fn child(&self, name: &str) -> Arc<dyn Files> {
        Arc::new(Encrypted { inner: self.inner.child(name), cipher: Arc::clone(&self.cipher) })
    }

    fn make(&self) -> Result<()> {
        self.inner.make()
    }

    fn list(&self, directory: &str) -> Result<Option<Vec<Entry>>> {
        self.inner.list(directory)
    }

    fn open(&self, name: &str, at: u64) -> Result<Option<Opened>> {
        let path = self.path(name);
        let Some(mut opened) = self.inner.open(name, 0)? else { return Ok(None) };
        let mut head = [0; HEAD_BYTES];
        let read = opened.reader.read_exact(&mut head);
        if !is_encrypted(&head) {
            return Err(not_encrypted(&path));
        }
        read.map_err(io("read", &path))?;
        let version = head.get(MAGIC.len()..MAGIC.len() + 4).and_then(|found| found.try_into().ok());
        let version = version.map_or(0, u32::from_le_bytes);
        if version == 0 {
            return Err(super::damaged(path, "its head is damaged"));
        }
        if version > VERSION {
            let text =
                format!("its encryption is of format {version}; this release reads {VERSION}. Use a newer release");
            return Err(super::damaged(path, text));
        }
        let key = self.cipher.resume(head.get(MAGIC.len() + 4..).unwrap_or_default(), name, &path)?;
        let sealed = opened.bytes - HEAD_BYTES as u64;
        let chunks = sealed.div_ceil(SEALED_BYTES).max(1);
        let Some(bytes) = sealed.checked_sub(chunks * TAG_BYTES as u64) else {
            return Err(super::damaged(path, "the file is cut short"));
        };
        let number = (at / CHUNK_BYTES as u64).min(chunks - 1);
        let mut reader = opened.reader;
        if number > 0 {
            let place = HEAD_BYTES as u64 + number * SEALED_BYTES;
            reader = self.inner.open(name, place)?.ok_or_else(|| super::damaged(&path, "the file is missing"))?.reader;
        }
        let skip = (at - number * CHUNK_BYTES as u64) as usize;
        let reader = Chunks { key, reader, number, chunks, chunk: Vec::new(), at: 0, skip };
        Ok(Some(Opened { bytes, reader: Box::new(reader) }))
    }

    fn create(&self, name: &str) -> Result<Box<dyn NewFile>> {
        let (mark, key) = self.cipher.begin(name);
        let mut file = self.inner.create(name)?;
        let mut head = MAGIC.to_vec();
        head.extend(VERSION.to_le_bytes());
        head.extend(mark);
        file.write(&head)?;
        Ok(Box::new(EncryptedFile { key, file, number: 0, chunk: Vec::new() }))
    }

    fn create_directory(&self, name: &str) -> Result<bool> {
        self.inner.create_directory(name)
    }

    fn remove(&self, name: &str) -> Result<()> {
        self.inner.remove(name)
    }

    fn remove_directory(&self, name: &str) -> Result<()> {
        self.inner.remove_directory(name)
    }

    fn begin_log(&self, name: &str, replaces: bool) -> Result<Box<dyn Growing>> {
        self.inner.begin_log(name, replaces)
    }

    fn open_log(&self, name: &str, at: u64) -> Result<Option<Opened>> {
        self.inner.open_log(name, at)
    }

    fn cipher(&self) -> Option<&Cipher> {
        Some(&self.cipher)
    }

    fn log_file_bytes(&self) -> u64 {
        self.inner.log_file_bytes()
    }

    fn cut(&self, name: &str, bytes: u64) -> Result<()> {
        self.inner.cut(name, bytes)
    }

    fn lock(&self, name: &str) -> Result<Option<File>> {
        self.inner.lock(name)
    }
}

struct EncryptedFile {
    key: FileKey,
    file: Box<dyn NewFile>,
    number: u64,
    chunk: Vec<u8>,
}

impl EncryptedFile {
    fn seal(&mut self, is_last: bool) -> Result<()> {
        let sealed = self.key.seal(self.number, is_last, &self.chunk);
        self.number += 1;
        self.chunk.clear();
        self.file.write(&sealed)
    }
}

impl NewFile for EncryptedFile {
    fn write(&mut self, mut bytes: &[u8]) -> Result<()> {
        while !bytes.is_empty() {
            // A full one may be the last.
            if self.chunk.len() == CHUNK_BYTES {
                self.seal(false)?;
            }
            let (part, rest) = bytes.split_at(bytes.len().min(CHUNK_BYTES - self.chunk.len()));
            self.chunk.extend_from_slice(part);
            bytes = rest;
        }
        Ok(())
    }

    fn finish(mut self: Box<Self>) -> Result<()> {
        self.seal(true)?;
        self.file.finish()
    }
}

/// Reads chunks from one of them on.
struct Chunks {
    key: FileKey,
    reader: Box<dyn Read + Send>,
    /// The next one, and the number of all.
    number: u64,
    chunks: u64,
    chunk: Vec<u8>,
    at: usize,
    /// Bytes of the first chunk that were not asked for.
    skip: usize,
}

impl Read for Chunks {
    fn read(&mut self, into: &mut [u8]) -> std::io::Result<usize> {
        while self.at == self.chunk.len() {
            if self.number == self.chunks {
                return Ok(0);
            }
            let mut sealed = Vec::new();
            (&mut self.reader).take(SEALED_BYTES).read_to_end(&mut sealed)?;
            let is_last = self.number + 1 == self.chunks;
            let opened = self.key.open(self.number, is_last, sealed);
            let number = self.number;
            self.chunk = opened.ok_or_else(|| {
                let text = format!("it is damaged: chunk {number} is not what was encrypted with this key");
                IoError::new(ErrorKind::InvalidData, text)
            })?;
            self.number += 1;
            self.at = std::mem::take(&mut self.skip).min(self.chunk.len());
        }
        let rest = self.chunk.get(self.at..).unwrap_or_default();
        let bytes = rest.len().min(into.len());
        into[..bytes].copy_from_slice(&rest[..bytes]);
        self.at += bytes;
        Ok(bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::super::files::Directory;
    use super::*;

    fn files(directory: &Path, key: u8) -> Encrypted {
        Encrypted::new(Arc::new(Directory::new(directory)), Cipher::new([key; KEY_BYTES]))
    }

    fn bytes(length: usize) -> Vec<u8> {
        (0..length).map(|at| (at % 251) as u8).collect()
    }

    #[test]
    fn files_of_all_sizes_come_back_from_every_place() {
        let dir = tempfile::tempdir().unwrap();
        let files = files(dir.path(), 1);
        for length in [0, 1, CHUNK_BYTES - 1, CHUNK_BYTES, CHUNK_BYTES + 1, 3 * CHUNK_BYTES, 3 * CHUNK_BYTES + 7] {
            let whole = bytes(length);
            let mut file = files.create("f").unwrap();
            whole.chunks(10_000).for_each(|part| file.write(part).unwrap());
            file.finish().unwrap();
            assert_eq!(files.read("f").unwrap().unwrap(), whole, "{length}");
            for at in [0, length / 2, CHUNK_BYTES.min(length), length] {
                let mut opened = files.open("f", at as u64).unwrap().unwrap();
                let mut rest = Vec::new();
                opened.reader.read_to_end(&mut rest).unwrap();
                assert_eq!((opened.bytes, &rest[..]), (length as u64, &whole[at..]), "{length} from {at}");
            }
        }
    }

    #[test]
    fn every_damage_another_name_and_another_key_are_found() {
        let dir = tempfile::tempdir().unwrap();
        let own = files(dir.path(), 1);
        let plain = b"a secret".repeat(CHUNK_BYTES / 4);
        own.write("f", &plain).unwrap();
        let path = dir.path().join("f");
        let whole = std::fs::read(&path).unwrap();
        assert!(!whole.windows(8).any(|window| window == b"a secret"));
        for at in (0..HEAD_BYTES).chain((HEAD_BYTES..whole.len()).step_by(997)).chain([whole.len() - 1]) {
            let mut flipped = whole.clone();
            flipped[at] ^= 1;
            std::fs::write(&path, flipped).unwrap();
            assert!(own.read("f").is_err(), "flipped at {at}");
            std::fs::write(&path, &whole[..at]).unwrap();
            assert!(own.read("f").is_err(), "cut at {at}");
        }
        let cut = HEAD_BYTES + SEALED_BYTES as usize;
        std::fs::write(&path, &whole[..cut]).unwrap();
        assert!(own.read("f").is_err(), "a whole chunk is missing at the end");
        std::fs::write(dir.path().join("g"), &whole).unwrap();
        assert!(own.read("g").is_err(), "it was written under another name");
        std::fs::write(&path, &whole).unwrap();
        let text = |error: Error| error.to_string();
        assert!(files(dir.path(), 2).read("f").map_err(text).unwrap_err().contains("another key"));
        std::fs::write(&path, "{}").unwrap();
        assert!(own.read("f").map_err(text).unwrap_err().contains("is not encrypted"));
    }

    #[test]
    fn two_files_with_the_same_content_differ() {
        let dir = tempfile::tempdir().unwrap();
        let own = files(dir.path(), 1);
        own.write("f", b"same").unwrap();
        let before = std::fs::read(dir.path().join("f")).unwrap();
        own.write("f", b"same").unwrap();
        let after = std::fs::read(dir.path().join("f")).unwrap();
        assert_ne!(before[HEAD_BYTES..], after[HEAD_BYTES..]);
    }

    #[test]
    fn key_files() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("key");
        for (text, is_key) in [
            ("0f".repeat(32), true),
            (format!("{}\n", "AB".repeat(32)), true),
            (String::new(), false),
            ("0f".repeat(31), false),
            ("0g".repeat(32), false),
            ("+f".repeat(32), false),
            ("\u{e9}".repeat(32), false),
        ] {
            std::fs::write(&path, &text).unwrap();
            assert_eq!(Cipher::read(&path).is_ok(), is_key, "{text}");
        }
    }
}
