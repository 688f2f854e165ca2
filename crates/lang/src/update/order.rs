//! The order in which fields are updated.

use std::cmp::Ordering;

/// A field name that orders as MongoDB orders the fields of an update: names that are numbers by their number, all else
/// by bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct FieldName(pub Box<str>);

impl Ord for FieldName {
    fn cmp(&self, other: &FieldName) -> Ordering {
        compare_names(&self.0, &other.0)
    }
}

impl PartialOrd for FieldName {
    fn partial_cmp(&self, other: &FieldName) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

pub(super) fn compare_names(a: &str, b: &str) -> Ordering {
    let is_number = |name: &str| !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_digit());
    if is_number(a) && is_number(b) {
        let (x, y) = (a.trim_start_matches('0'), b.trim_start_matches('0'));
        return x.len().cmp(&y.len()).then_with(|| x.cmp(y)).then_with(|| a.cmp(b));
    }
    a.cmp(b)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_as_numbers() {
        let mut names = ["b", "10", "9", "a10", "a9", "", "09", "100000000000000000000000"];
        names.sort_by(|a, b| compare_names(a, b));
        assert_eq!(names, ["", "09", "9", "10", "100000000000000000000000", "a10", "a9", "b"]);
    }
}
