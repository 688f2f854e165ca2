//! Stands in for `arbor_log::Log` until it lands: the same calls, in memory.

use std::path::PathBuf;
use std::sync::Mutex;

use arbor_base::Position;

#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("no space")]
    OutOfSpace,
    #[error("poisoned")]
    Poisoned,
    #[error("corrupt {segment:?}")]
    Corrupt { segment: PathBuf },
}

#[derive(Default)]
pub struct Log(Mutex<Vec<Vec<u8>>>);

impl Log {
    pub fn append(&self, payloads: &[&[u8]]) -> Result<Position, Error> {
        let mut records = self.0.lock().unwrap_or_else(|e| e.into_inner());
        records.extend(payloads.iter().map(|p| p.to_vec()));
        Ok(Position(records.len() as u64))
    }
    pub fn appended(&self) -> Position {
        Position(self.0.lock().unwrap_or_else(|e| e.into_inner()).len() as u64)
    }
    pub fn first(&self) -> Position {
        Position(1)
    }
    pub fn wait_durable(&self, _position: Position) -> Result<(), Error> {
        Ok(())
    }
    pub fn trim(&self, _before: Position) -> Result<(), Error> {
        Ok(())
    }
    pub fn close(&self) -> Result<(), Error> {
        Ok(())
    }
    pub fn read(&self, from: Position) -> impl Iterator<Item = Result<(Position, Vec<u8>), Error>> {
        let records = self.0.lock().unwrap_or_else(|e| e.into_inner()).clone();
        let numbered = records.into_iter().enumerate().map(|(i, r)| Ok((Position(i as u64 + 1), r)));
        numbered.skip(from.0.saturating_sub(1) as usize)
    }
}
