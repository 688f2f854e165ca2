//! Releases of etcd. Before 3.5.30 (and 3.6.11) a transaction could write what its user may not (CVE-2026-44283), and
//! 3.4 has watches and revisions that go back.

use std::fmt;

/// `major.minor.patch`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Release(pub u32, pub u32, pub u32);

/// Older releases are refused.
pub const OLDEST: Release = Release(3, 5, 30);
const RECOMMENDED: Release = Release(3, 6, 11);

impl Release {
    /// Returns the release of a text such as `3.6.16` or `3.7.0-rc.1`; `None`: this is none.
    pub fn parse(text: &str) -> Option<Release> {
        let numbers = text.trim().trim_start_matches('v').split(['-', '+']).next()?;
        let mut parts = numbers.split('.').map(str::parse);
        match (parts.next()?, parts.next()?, parts.next()?, parts.next()) {
            (Ok(major), Ok(minor), Ok(patch), None) => Some(Release(major, minor, patch)),
            _ => None,
        }
    }

    pub fn is_too_old(self) -> bool {
        self < OLDEST
    }

    /// Returns why another release should be used; `None`: there is no reason.
    pub fn warning(self) -> Option<String> {
        (self < RECOMMENDED).then(|| format!("etcd {self} has known defects; {RECOMMENDED} or later is recommended"))
    }
}

impl fmt::Display for Release {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}.{}", self.0, self.1, self.2)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn releases_are_read_and_compared() {
        assert_eq!(Release::parse("3.6.16"), Some(Release(3, 6, 16)));
        assert_eq!(Release::parse("v3.7.0-rc.1\n"), Some(Release(3, 7, 0)));
        for text in ["", "3", "3.6", "3.6.1.2", "three", "3.x.1", "<html>"] {
            assert_eq!(Release::parse(text), None, "{text}");
        }
        assert!(Release(3, 4, 44).is_too_old() && Release(3, 5, 29).is_too_old());
        assert!(!Release(3, 5, 30).is_too_old() && !Release(3, 6, 0).is_too_old());
        assert!(Release(3, 6, 10).warning().is_some() && Release(3, 6, 11).warning().is_none());
    }
}
