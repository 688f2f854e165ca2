//! Empty types in the place of those that land later; goes away with the last of them.

pub struct KeyIndex;
pub struct Table;
pub struct MemTree;
pub struct NodeOnDisk;
