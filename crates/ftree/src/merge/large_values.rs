//! Values that stand in extents of their own, on their way through a job.

use super::rewrite::{Messages, Rewrite};
use crate::blob;
use crate::io::Io;
use crate::table::{Table, TableWriter};
use crate::{Codec, Entry, Error, Kind, Result};

pub struct LargeValues<'a> {
    io: &'a Io,
    codec: Codec,
    /// Longer values are taken out of their rows.
    bytes_max: usize,
    /// The tables that hold such extents: who takes a row over takes a share in its extent.
    holders: Vec<&'a Table>,
}

impl<'a> LargeValues<'a> {
    pub fn of(job: &'a Rewrite<'_>) -> LargeValues<'a> {
        let runs = job.inputs.iter().filter_map(|input| match &input.messages {
            Messages::Run(run) => Some(run),
            Messages::Memtable(_) => None,
        });
        let tables = runs.chain(job.leaves()).map(|table| &**table);
        LargeValues {
            io: job.io,
            codec: job.settings.codec,
            bytes_max: job.settings.blob_bytes as usize,
            holders: tables.filter(|table| !table.meta.blobs.is_empty()).collect(),
        }
    }

    /// Pushes an entry with what it needs.
    #[inline]
    pub fn push(&self, writer: &mut TableWriter<'_>, entry: Entry<'_>) -> Result<()> {
        match entry.kind {
            Kind::PutBlob => self.push_pointer(writer, entry),
            Kind::Put if entry.value.len() > self.bytes_max => self.push_large(writer, entry),
            _ => {
                writer.push(entry, None);
                Ok(())
            }
        }
    }

    #[cold]
    fn push_pointer(&self, writer: &mut TableWriter<'_>, entry: Entry<'_>) -> Result<()> {
        let Some(extent) = self.holders.iter().find_map(|table| table.blob(entry.value)) else {
            let place = format!("{}", self.io.file.path().display());
            return Err(Error::Corrupt {
                place,
                context: "a row points to a large value its table does not hold".into(),
            });
        };
        writer.push(entry, Some(extent));
        Ok(())
    }

    #[cold]
    fn push_large(&self, writer: &mut TableWriter<'_>, entry: Entry<'_>) -> Result<()> {
        let (pointer, extent) = blob::write_with(self.io, self.codec, entry.value)?;
        writer.push(Entry { kind: Kind::PutBlob, value: &pointer.encode(), ..entry }, Some(extent));
        Ok(())
    }
}
