//! Sets of BSON types, as `$type` takes them.

/// A set of BSON types.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct TypeSet {}
