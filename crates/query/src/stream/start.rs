//! Start position of a stream in the log.

use std::sync::Arc;

use arbor_base::Position;
use arbor_lang::Code;

use super::options::{Options, StartAt};
use super::token::Token;
use crate::feed::Feed;
use crate::{Error, Result};

pub struct Start {
    pub position: Position,
    /// The time of the last record before the position, or an earlier one.
    pub time: u64,
    /// Everything up to here was seen.
    pub after: Token,
    /// The event of the token has to come by.
    pub is_event: bool,
}

impl Start {
    pub fn find(feed: &Arc<Feed>, options: &Options) -> Result<Start> {
        let deployment = feed.deployment();
        let after = match &options.start {
            None => {
                let (position, time) = feed.now()?;
                return Ok(Start { position, time, after: Token::end_of(time, deployment), is_event: false });
            }
            Some(StartAt::Time(time)) => Token::end_of(time.saturating_sub(1), deployment),
            Some(StartAt::Resume(token) | StartAt::After(token)) => *token,
        };
        if after.deployment != deployment {
            let message = "Invalid resume token: it is of another deployment";
            return Err(Error::new(Code::INVALID_RESUME_TOKEN, message));
        }
        let from = if after.end { after.time.saturating_add(1) } else { after.time };
        if oldest(feed)? > from {
            return Err(lost());
        }
        let history = feed.transactions().history_at(from).map_err(trimmed)?;
        let time = after.time.saturating_sub(u64::from(!after.end));
        Ok(Start { position: history.position(), time, after, is_event: !after.end })
    }
}

/// The time of the first record that is kept; 0 as long as nothing was trimmed away.
fn oldest(feed: &Feed) -> Result<u64> {
    let transactions = feed.transactions();
    let first = transactions.log().first();
    if first <= Position(1) {
        return Ok(0);
    }
    let read = transactions.history(first).read().map_err(trimmed)?;
    Ok(read.map_or(0, |(_, record)| record.stamp.time))
}

/// The log was trimmed under its reader.
pub(super) fn trimmed(error: impl Into<Error>) -> Error {
    match error.into() {
        Error::Txn(arbor_txn::Error::Log(arbor_log::Error::Trimmed { .. })) => lost(),
        other => other,
    }
}

fn lost() -> Error {
    let message = "Resume of change stream was not possible, as the resume point may no longer be in the oplog.";
    Error::new(Code::CHANGE_STREAM_HISTORY_LOST, message)
}
