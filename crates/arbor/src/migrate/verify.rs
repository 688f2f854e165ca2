//! Comparison of source and target, range by range.

use arbor_bson::{DocBuf, ValueRef};

use super::collections::{Collection, Kind};
use super::copy::Scan;
use super::server::id_of;
use super::{Migration, Result};

/// Documents of a range.
const RANGE: usize = 2000;
/// Differences that are looked for.
const MOST: usize = 20;

/// Documents of one side that were read and are not compared.
struct Side {
    scan: Scan,
    rest: Vec<DocBuf>,
    is_at_end: bool,
}

impl Side {
    fn new(own: &Collection) -> Side {
        Side { scan: Scan::new(own, None), rest: Vec::new(), is_at_end: false }
    }

    /// Makes sure that there is a range, or all that is left.
    fn fill(&mut self, server: &mut super::Server) -> Result<()> {
        while self.rest.len() < RANGE && !self.is_at_end {
            let mut batch = self.scan.next(server)?;
            self.is_at_end = batch.is_empty();
            self.rest.append(&mut batch);
        }
        Ok(())
    }

    fn take(&mut self) -> Vec<DocBuf> {
        let later = self.rest.split_off(self.rest.len().min(RANGE));
        std::mem::replace(&mut self.rest, later)
    }
}

fn checksum(documents: &[DocBuf]) -> u32 {
    documents.iter().fold(0, |crc, document| crc32c::crc32c_append(crc, document.as_bytes()))
}

impl Migration {
    /// Returns the ranges in which the documents differ, by number or checksum.
    pub(super) fn verify(&mut self) -> Result<Vec<String>> {
        let (mut differences, mut documents) = (Vec::new(), 0);
        for own in self.asked_collections()? {
            match own.kind {
                Kind::Ordered => documents += self.verify_ordered(&own, &mut differences)?,
                Kind::Whole | Kind::TimeSeries => documents += self.verify_whole(&own, &mut differences)?,
                Kind::View => {}
            }
            if differences.len() >= MOST {
                break;
            }
        }
        println!("{documents} documents verified, {} ranges differ", differences.len());
        Ok(differences)
    }

    fn verify_ordered(&mut self, own: &Collection, differences: &mut Vec<String>) -> Result<u64> {
        let (mut source, mut target, mut documents) = (Side::new(own), Side::new(own), 0);
        loop {
            source.fill(&mut self.source)?;
            target.fill(&mut self.target)?;
            let (ours, theirs) = (source.take(), target.take());
            documents += ours.len() as u64;
            if ours.is_empty() && theirs.is_empty() {
                return Ok(documents);
            }
            if self.is_time_to_report() {
                eprintln!("verifying {}: {documents} documents", own.namespace());
            }
            if (ours.len(), checksum(&ours)) != (theirs.len(), checksum(&theirs)) {
                let mut both = ours.iter().zip(&theirs);
                let place = both.position(|(one, other)| one.as_bytes() != other.as_bytes());
                let place = place.unwrap_or(ours.len().min(theirs.len()));
                let id = ours.get(place).or(theirs.get(place)).and_then(id_of);
                let shown = id.as_ref().map_or_else(String::new, |id| format!("{:?}", ValueRef::from(id)));
                let (ours, theirs) = (ours.len(), theirs.len());
                differences.push(format!(
                    "{}: {ours} and {theirs} documents, the first difference is at _id {shown}",
                    own.namespace()
                ));
                // What is behind it is shifted.
                return Ok(documents);
            }
        }
    }

    /// Compares number and the sum of the checksums: the order may be another one.
    fn verify_whole(&mut self, own: &Collection, differences: &mut Vec<String>) -> Result<u64> {
        let mut sums = Vec::new();
        for server in [&mut self.source, &mut self.target] {
            let mut sum = (0u64, 0u64);
            let mut cursor = server.open(&own.db, &DocBuf::new().with("find", own.name.as_str()))?;
            loop {
                for document in &cursor.batch {
                    sum = (sum.0 + 1, sum.1.wrapping_add(crc32c::crc32c(document.as_bytes()).into()));
                }
                if cursor.id == 0 {
                    break;
                }
                server.more(&own.db, &mut cursor, None)?;
            }
            sums.push(sum);
        }
        if let [ours, theirs] = sums.as_slice()
            && ours != theirs
        {
            differences.push(format!("{}: {} and {} documents, or their contents", own.namespace(), ours.0, theirs.0));
        }
        Ok(sums.first().map_or(0, |sum| sum.0))
    }
}
