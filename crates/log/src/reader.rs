//! Reading records in order from a position on, also while the log grows.

use std::sync::Arc;

use arbor_base::Position;

use crate::format::Kind;
use crate::scanner::{Scanner, Step};
use crate::shared::Shared;
use crate::{Error, Result};

/// An iterator over records. At the end of the log it returns `None`, and continues after more was appended. After an
/// error it always returns `None`. Trimming does not disturb a reader within its current segment.
#[derive(Debug)]
pub struct Reader {
    shared: Arc<Shared>,
    /// Position of the next record to hand out.
    next: u64,
    scanner: Option<Scanner>,
    /// Cuts of the log that are noticed here.
    generation: u64,
    failed: bool,
}

impl Reader {
    pub(crate) fn new(shared: Arc<Shared>, from: Position) -> Reader {
        let generation = shared.cuts.generation();
        Reader { shared, next: from.0.max(1), scanner: None, generation, failed: false }
    }

    /// Position of the record that `next` returns next.
    pub fn position(&self) -> Position {
        Position(self.next)
    }

    /// Epoch of the record that was read last; 0 before the first.
    pub fn epoch(&self) -> u64 {
        self.scanner.as_ref().map_or(0, |scanner| scanner.segment().epoch())
    }

    /// Like `next`, without a copy: the payload stays in the reader's buffer until the next call.
    pub fn next_borrowed(&mut self) -> Option<Result<(Position, &[u8])>> {
        if self.failed {
            return None;
        }
        match self.advance() {
            Ok(false) => None,
            Ok(true) => {
                let position = Position(self.next - 1);
                let payload = self.scanner.as_ref().map_or(&[][..], Scanner::payload);
                Some(Ok((position, payload)))
            }
            Err(error) => {
                self.failed = true;
                Some(Err(error))
            }
        }
    }

    /// Moves the scanner behind the record `self.next`; false at the end of the log.
    fn advance(&mut self) -> Result<bool> {
        loop {
            let (generation, next) = (self.shared.cuts.generation(), self.next);
            if generation != self.generation {
                self.notice_cut(generation)?;
            }
            let advanced = self.advance_uncut();
            if self.shared.cuts.generation() == generation {
                return advanced;
            }
            // It may have been torn by the cut, or be cut off since.
            self.next = next;
        }
    }

    /// Errors: records that were read are no longer there.
    fn notice_cut(&mut self, generation: u64) -> Result<()> {
        let kept = self.shared.cuts.kept_since(self.generation);
        (self.generation, self.scanner) = (generation, None);
        if self.next - 1 > kept {
            return Err(Error::Cut { position: Position(self.next - 1), last: Position(kept) });
        }
        Ok(())
    }

    fn advance_uncut(&mut self) -> Result<bool> {
        if self.next > self.shared.appended().0 {
            return Ok(false);
        }
        let mut scanner = match self.scanner.take() {
            Some(scanner) => scanner,
            None => self.open()?,
        };
        let found = self.find(&mut scanner);
        self.scanner = Some(scanner);
        found
    }

    fn find(&mut self, scanner: &mut Scanner) -> Result<bool> {
        loop {
            // Looked up before the scan: once a following segment exists, the end of this one is final.
            let following = self.shared.segment_after(scanner.segment().sequence());
            match scanner.step()? {
                Step::Record(header) if header.kind == Kind::Data && header.position >= self.next => {
                    self.next = header.position + 1;
                    return Ok(true);
                }
                Step::Record(_) => {}
                Step::Bad(reason) => return Err(scanner.segment().corrupt(scanner.offset(), reason)),
                Step::End => match following {
                    Some(segment) => scanner.enter(segment),
                    None if self.shared.is_last(scanner.segment().sequence()) => return Ok(false),
                    // The following segments were trimmed, or one came just now.
                    None => *scanner = self.open()?,
                },
            }
        }
    }

    fn open(&self) -> Result<Scanner> {
        let segment = self
            .shared
            .segment_holding(self.next)
            .ok_or_else(|| Error::Trimmed { position: Position(self.next), first: self.shared.first() })?;
        let (offset, position) = segment.landmark_before(self.next);
        Ok(Scanner::new(segment, offset, Some(position), None))
    }
}

impl Iterator for Reader {
    type Item = Result<(Position, Vec<u8>)>;

    fn next(&mut self) -> Option<Self::Item> {
        let read = self.next_borrowed()?;
        Some(read.map(|(position, payload)| (position, payload.to_vec())))
    }
}
