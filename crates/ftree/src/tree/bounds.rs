//! The keys that a slot, a node or a job is responsible for.

#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Bounds {
    pub from: Vec<u8>,
    /// `None`: to the end of the tree.
    pub to: Option<Vec<u8>>,
}

impl Bounds {
    /// A whole tree.
    pub fn all() -> Bounds {
        Bounds { from: Vec::new(), to: None }
    }

    pub fn contains(&self, key: &[u8]) -> bool {
        self.from.as_slice() <= key && self.to.as_deref().is_none_or(|to| key < to)
    }

    /// Returns true if `other` is inside.
    pub fn covers(&self, other: &Bounds) -> bool {
        self.from <= other.from && ends_by(other.to.as_deref(), self.to.as_deref())
    }

    pub fn overlaps(&self, other: &Bounds) -> bool {
        before_end(&self.from, other.to.as_deref()) && before_end(&other.from, self.to.as_deref())
    }

    /// Returns the range that both contain.
    pub fn intersection(&self, other: &Bounds) -> Bounds {
        let from = self.from.clone().max(other.from.clone());
        let to = if ends_by(self.to.as_deref(), other.to.as_deref()) { self.to.clone() } else { other.to.clone() };
        Bounds { from, to }
    }
}

fn before_end(key: &[u8], to: Option<&[u8]>) -> bool {
    to.is_none_or(|to| key < to)
}

fn ends_by(to: Option<&[u8]>, limit: Option<&[u8]>) -> bool {
    match (to, limit) {
        (_, None) => true,
        (None, Some(_)) => false,
        (Some(to), Some(limit)) => to <= limit,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bounds(text: &str) -> Bounds {
        let (from, to) = text.split_once("..").unwrap();
        Bounds { from: from.into(), to: (!to.is_empty()).then(|| to.into()) }
    }

    #[test]
    fn overlap_and_cover() {
        for (left, right, overlaps, covers) in [
            ("..", "..", true, true),
            ("..", "b..c", true, true),
            ("b..c", "..", true, false),
            ("a..b", "b..c", false, false),
            ("a..c", "b..", true, false),
            ("b..", "a..c", true, false),
            ("a..c", "b..c", true, true),
        ] {
            let (left, right) = (bounds(left), bounds(right));
            assert_eq!((left.overlaps(&right), left.covers(&right)), (overlaps, covers), "{left:?} {right:?}");
            assert_eq!(right.overlaps(&left), overlaps);
        }
        assert_eq!(bounds("a..c").intersection(&bounds("b..")), bounds("b..c"));
        assert_eq!(bounds("..").intersection(&bounds("b..d")), bounds("b..d"));
    }
}
