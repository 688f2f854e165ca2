//! Numbers in replies.

use arbor_bson::ValueRef;

/// Returns an int32 if the number fits into one, else an int64: so does MongoDB show most of its statistics.
pub(crate) fn fitting(number: u64) -> ValueRef<'static> {
    match i32::try_from(number) {
        Ok(number) => ValueRef::Int32(number),
        Err(_) => ValueRef::Int64(i64::try_from(number).unwrap_or(i64::MAX)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_type_depends_on_the_size() {
        assert!(matches!(fitting(2_147_483_647), ValueRef::Int32(i32::MAX)));
        assert!(matches!(fitting(2_147_483_648), ValueRef::Int64(2_147_483_648)));
        assert!(matches!(fitting(u64::MAX), ValueRef::Int64(i64::MAX)));
    }
}
