//! What makes a state survive a crash: superblocks, the catalogue, blocks of inner nodes, and recovery.

mod node_block;

pub use node_block::{NodeOnDisk, NodePointer};
