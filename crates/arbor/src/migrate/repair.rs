//! Collections that may have changes or documents of others (M4): what differs from the source is replaced.

use std::collections::HashMap;

use arbor_bson::{ArrayBuf, DocBuf};

use super::changes::{delete, put};
use super::collections::{Collection, Kind};
use super::copy::Scan;
use super::{Migration, Result, Server};

/// Documents by the bytes of their `_id`.
type ById = HashMap<Vec<u8>, DocBuf>;

fn id_bytes(document: &DocBuf) -> Vec<u8> {
    document.get("_id").map_or_else(Vec::new, |id| DocBuf::new().with("_id", id).as_bytes().to_vec())
}

/// Returns those documents of a collection that have the same `_id` as these; only their `_id`, if the rest is of no use.
fn same_ids(server: &mut Server, own: &Collection, documents: &[DocBuf], only_ids: bool) -> Result<ById> {
    let ids: ArrayBuf = documents.iter().filter_map(|document| document.get("_id")).collect();
    let filter = DocBuf::new().with("_id", &DocBuf::new().with("$in", &ids));
    let mut find = DocBuf::new().with("find", own.name.as_str()).with("filter", &filter);
    if only_ids {
        find.append("projection", &DocBuf::new().with("_id", 1));
    }
    let found = server.all(&own.db, &find)?;
    Ok(found.into_iter().map(|document| (id_bytes(&document), document)).collect())
}

impl Migration {
    /// Makes a collection the source's if that is in doubt. Requires that it has the same name at the target, and that nothing is written to the source.
    pub(super) fn repair(&mut self, own: &Collection) -> Result<()> {
        let key = own.key();
        if self.places.get(&key).is_none_or(|progress| !progress.is_doubtful) {
            return Ok(());
        }
        match own.kind {
            Kind::Ordered => {
                let deleted = self.delete_others(own)?;
                let put = self.put_differing(own)?;
                eprintln!(
                    "{} was compared with the source: {put} documents replaced, {deleted} removed",
                    own.namespace()
                );
                self.note(&key, |progress| progress.is_doubtful = false)
            }
            // It begins without doubt.
            _ => self.copy_again(own),
        }
    }

    fn delete_others(&mut self, own: &Collection) -> Result<usize> {
        let (mut scan, mut count) = (Scan::new(own, None), 0);
        loop {
            let theirs = scan.next(&mut self.target)?;
            if theirs.is_empty() {
                return Ok(count);
            }
            let ours = same_ids(&mut self.source, own, &theirs, true)?;
            let others = theirs.iter().filter(|document| !ours.contains_key(&id_bytes(document)));
            let deletes: Vec<DocBuf> = others.filter_map(delete).collect();
            count += deletes.len();
            self.change(&(own.db.clone(), own.name.clone()), &[], &deletes)?;
        }
    }

    fn put_differing(&mut self, own: &Collection) -> Result<usize> {
        let (mut scan, mut count) = (Scan::new(own, None), 0);
        loop {
            let ours = scan.next(&mut self.source)?;
            if ours.is_empty() {
                return Ok(count);
            }
            let theirs = same_ids(&mut self.target, own, &ours, false)?;
            let is_same = |document: &&DocBuf| {
                theirs.get(&id_bytes(document)).is_some_and(|found| found.as_bytes() == document.as_bytes())
            };
            let updates: Vec<DocBuf> = ours.iter().filter(|document| !is_same(document)).filter_map(put).collect();
            count += updates.len();
            self.change(&(own.db.clone(), own.name.clone()), &updates, &[])?;
            self.pace.add(ours.iter().map(|document| document.as_bytes().len() as u64).sum());
        }
    }
}
