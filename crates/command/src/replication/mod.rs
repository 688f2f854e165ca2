//! What a member of a replica set does with its data; the member itself is the crate `repl`.
//!
//! | file | what |
//! |---|---|
//! | `office` | taking and leaving the office of primary |
//! | `kept` | what a member keeps of its own in collections |
//! | `status` | `replSetGetStatus` |

mod kept;
mod office;
mod status;

pub(crate) use kept::OplogSize;
pub(crate) use office::note_noop;
