//! The wire protocol without sockets: frames in, requests out; replies in, bytes out.
//!
//! In the path of a request this crate is between `server`, which delivers whole frames, and `command`, which sees only
//! commands: [`decode`] checks a frame and borrows everything from it, [`Request::into_command`] converts every opcode to
//! a command, and [`ReplyTo`] holds the form of the reply (OP_MSG, OP_REPLY, compressed, checksummed, or none).
//!
//! | module | contents |
//! |---|---|
//! | `header` | the 16 bytes in front of each message |
//! | `request` | one frame decoded |
//! | `message` | OP_MSG |
//! | `compress` | OP_COMPRESSED |
//! | `legacy` | the opcodes before OP_MSG, translated to commands and back |
//! | `reply` | answers written into a caller's buffer |
//! | `error` | what can be wrong with a frame, by what the server does about it |
#![deny(clippy::unwrap_used, clippy::indexing_slicing)]

mod bytes;
pub mod compress;
mod error;
mod header;
pub mod legacy;
pub mod message;
mod reply;
mod request;

pub use compress::{Compressor, must_not_be_compressed};
pub use error::{CompressedFault, Error, Fault, Refusal};
pub use header::{Header, MESSAGE_BYTES_MAX, Opcode, frame_length};
pub use message::{Message, Sequence, peek_command_name};
pub use reply::{Form, ReplyTo, Start};
pub use request::{Body, Command, Limits, Operation, Request, Scratch, decode, unpacked_bytes};
