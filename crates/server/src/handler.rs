//! Interface to the crate that interprets frames.

use std::time::Duration;

use arbor_base::Prefetch;
use arbor_protocol::transport::{After, News, Peer, Place, Refusal};

/// One per server. Opens a session for each accepted connection.
pub trait Handler: Send + Sync + 'static {
    fn open(&self, peer: Peer) -> Box<dyn Session>;

    /// A connection was closed before its first request.
    fn refused(&self, _peer: &Peer, _refusal: Refusal) {}
}

/// The state of one connection. Its calls never overlap; they may come from different threads.
pub trait Session: Send + 'static {
    /// Returns the thread on which this frame is to run. Called on a network worker: must not block and should be almost free.
    fn place(&self, frame: &[u8]) -> Place;

    /// Starts to read what a frame that runs inline would wait for first. Called on a network worker: must not block.
    fn prefetch(&mut self, _frame: &[u8]) -> Prefetch {
        Prefetch::Unknown
    }

    /// Returns the length of the longest frame that the connection may send now; a longer one closes it.
    fn frame_bytes_max(&self) -> usize {
        usize::MAX
    }

    /// Returns the longest wait for the next whole frame; None: any time. A connection that is too late is closed.
    fn silence_max(&self) -> Option<Duration> {
        None
    }

    /// Replies to one frame: appends whole reply frames to `reply`, or nothing.
    /// `frame` is complete (its first four bytes are its length).
    fn handle(&mut self, frame: &[u8], reply: &mut Vec<u8>) -> After;

    /// The next reply of a stream that [`After::More`] announced, or the one that [`After::Wait`] put off.
    fn more(&mut self, _reply: &mut Vec<u8>) -> After {
        After::Continue
    }

    /// The memory of the replies, which the connection has reserved as well by now.
    fn release_reply_memory(&mut self) {}

    /// Returns the event that a request with [`After::Wait`] waits for, if it is not the bell.
    fn news(&mut self) -> Option<News> {
        None
    }

    /// Returns the thread on which `more` is to run.
    fn place_of_more(&self) -> Place {
        Place::Blocking
    }

    /// A frame is longer than the memory for messages, `bytes_max`, and is thrown away while it arrives. Appends the error reply
    /// of the request that begins with `head`.
    fn too_large(&mut self, _head: &[u8], _bytes_max: u64, _reply: &mut Vec<u8>) -> After {
        After::Close
    }

    /// `handle` or `more` panicked: appends the error reply, if one can be made. The connection closes after it.
    fn panicked(&mut self, frame: &[u8], message: &str, reply: &mut Vec<u8>);

    /// The connection is gone; no call follows. Requests are not running any more.
    fn closed(&mut self, _open: usize) {}
}
