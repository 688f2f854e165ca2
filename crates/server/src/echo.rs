//! The bare peer of the laboratory: the same accepting, framing and writing as the real server, and a canned reply of a
//! given size instead of a database. The distance between the two is what the database costs.

use std::sync::Arc;

use crate::{After, Handler, Limits, Listeners, Peer, Place, Result, Server, Session, Stop};

/// Bytes of an OP_MSG reply before its document: header, flags, section kind.
const BEFORE_DOCUMENT: usize = 16 + 4 + 1;

/// `{ ok: 1.0, pad: BinData }` without the bytes of `pad`.
const DOCUMENT_OVERHEAD: usize = 4 + (1 + 3 + 8) + (1 + 4 + 4 + 1) + 1;

const OP_MSG: i32 = 2013;

/// Replies to every frame with one OP_MSG of about `reply_bytes` bytes, until `stop`.
pub fn run(listeners: Listeners, reply_bytes: usize, stop: impl FnOnce(Stop)) -> Result<()> {
    let server = Server::new(Limits::default());
    stop(server.stop());
    server.run(listeners, Arc::new(Echo { reply: canned_reply(reply_bytes) }))
}

struct Echo {
    reply: Vec<u8>,
}

struct EchoSession {
    reply: Vec<u8>,
}

impl Handler for Echo {
    fn open(&self, _peer: Peer) -> Box<dyn Session> {
        Box::new(EchoSession { reply: self.reply.clone() })
    }
}

impl Session for EchoSession {
    fn place(&self, _frame: &[u8]) -> Place {
        Place::Inline
    }

    fn handle(&mut self, frame: &[u8], reply: &mut Vec<u8>) -> After {
        let from = reply.len();
        reply.extend_from_slice(&self.reply);
        if let (Some(request_id), Some(response_to)) = (frame.get(4..8), reply.get_mut(from + 8..from + 12)) {
            response_to.copy_from_slice(request_id);
        }
        After::Continue
    }

    fn panicked(&mut self, _frame: &[u8], _message: &str, _reply: &mut Vec<u8>) {}
}

/// A whole OP_MSG with the document `{ ok: 1.0, pad: BinData }`; not smaller than that takes.
pub fn canned_reply(reply_bytes: usize) -> Vec<u8> {
    let pad = reply_bytes.saturating_sub(BEFORE_DOCUMENT + DOCUMENT_OVERHEAD);
    let mut out = Vec::with_capacity(reply_bytes);
    for word in [(BEFORE_DOCUMENT + DOCUMENT_OVERHEAD + pad) as i32, 0, 0, OP_MSG, 0] {
        out.extend_from_slice(&word.to_le_bytes());
    }
    out.push(0);
    out.extend_from_slice(&((DOCUMENT_OVERHEAD + pad) as i32).to_le_bytes());
    out.extend_from_slice(b"\x01ok\0");
    out.extend_from_slice(&1.0f64.to_le_bytes());
    out.extend_from_slice(b"\x05pad\0");
    out.extend_from_slice(&(pad as i32).to_le_bytes());
    out.push(0);
    out.resize(out.len() + pad, 0);
    out.push(0);
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_reply_has_the_size_asked_for() {
        for size in [64, 300, 5000] {
            let reply = canned_reply(size);
            assert_eq!(reply.len(), size);
            assert_eq!(reply[..4], (size as i32).to_le_bytes());
            assert_eq!(reply[21..25], ((size - 21) as i32).to_le_bytes());
        }
    }
}
