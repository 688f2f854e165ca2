//! Values in extents of their own, on their way through a job.

use arbor_base::sometimes;

use super::rewrite::{LargeValuePolicy, Messages, Rewrite};
use crate::blob::{self, BlobPointer};
use crate::io::Io;
use crate::table::{Table, TableWriter};
use crate::{Codec, Entry, Error, Kind, Result};

pub(super) struct LargeValues<'a> {
    io: &'a Io,
    codec: Codec,
    /// Longer values are taken out of their rows.
    bytes_max: usize,
    kept: LargeValuePolicy,
    /// The tables that hold such extents: a table that takes a row over takes a share in its extent.
    holders: Vec<&'a Table>,
}

impl<'a> LargeValues<'a> {
    pub(super) fn of(job: &'a Rewrite<'_>) -> LargeValues<'a> {
        let runs = job.inputs.iter().filter_map(|input| match &input.messages {
            Messages::Run(run) => Some(run),
            Messages::Memtable(_) => None,
        });
        let tables = runs.chain(job.leaves()).map(|table| &**table);
        LargeValues {
            io: job.io,
            codec: job.settings.codec,
            bytes_max: job.settings.blob_bytes as usize,
            kept: job.large_values,
            holders: tables.filter(|table| !table.meta.blobs.is_empty()).collect(),
        }
    }

    /// Pushes an entry with what it needs.
    #[inline]
    pub(super) fn push(&self, writer: &mut TableWriter<'_>, entry: Entry<'_>) -> Result<()> {
        match entry.kind {
            Kind::PutBlob => self.push_pointer(writer, entry),
            Kind::Put if entry.value.len() > self.bytes_max => self.push_large(writer, entry),
            _ => {
                writer.push(entry, None);
                Ok(())
            }
        }
    }

    /// Returns true if rows with large values have to be pushed one by one.
    pub(super) fn renews(&self) -> bool {
        self.kept != LargeValuePolicy::Stay
    }

    #[cold]
    fn push_pointer(&self, writer: &mut TableWriter<'_>, entry: Entry<'_>) -> Result<()> {
        match (self.kept, BlobPointer::decode(entry.value)) {
            (LargeValuePolicy::AreRewritten, Some(pointer)) => {
                let value = &blob::read(self.io, &pointer)?;
                let entry = Entry { kind: Kind::Put, value, ..entry };
                return if value.len() > self.bytes_max {
                    self.push_large(writer, entry)
                } else {
                    writer.push(entry, None);
                    Ok(())
                };
            }
            (LargeValuePolicy::MoveFrom(end), Some(pointer)) if pointer.offset >= end => {
                if let Some((pointer, extent)) = blob::move_down(self.io, &pointer)? {
                    sometimes!("ftree: a large value moves to the front of the file");
                    writer.push(Entry { value: &pointer.encode(), ..entry }, Some(extent));
                    return Ok(());
                }
            }
            _ => {}
        }
        let found = self.holders.iter().find_map(|table| Some((table, table.blob(entry.value)?)));
        let Some((holder, extent)) = found else {
            let place = format!("{}", self.io.file.path().display());
            return Err(Error::Corrupt {
                place,
                context: "a row points to a large value its table does not hold".into(),
            });
        };
        writer.note_origin(holder);
        writer.push(entry, Some(extent));
        Ok(())
    }

    #[cold]
    fn push_large(&self, writer: &mut TableWriter<'_>, entry: Entry<'_>) -> Result<()> {
        sometimes!("ftree: a value moves to an extent of its own");
        let (pointer, extent) = blob::write_with(self.io, self.codec, entry.value)?;
        writer.push(Entry { kind: Kind::PutBlob, value: &pointer.encode(), ..entry }, Some(extent));
        Ok(())
    }
}
