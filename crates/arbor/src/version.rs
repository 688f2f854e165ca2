//! The version of this binary, its commit and how it was built.

/// As in Cargo.toml.
pub(crate) const VERSION: &str = env!("CARGO_PKG_VERSION");
/// 40 hexadecimal digits, with `-modified` behind them where files differ from the commit; or `unknown`.
pub(crate) const COMMIT: &str = env!("ARBOR_COMMIT");

/// Cargo features that this binary was built with.
const FEATURES: [(&str, bool); 3] = [
    ("mysql", cfg!(feature = "mysql")),
    ("official-driver", cfg!(feature = "official-driver")),
    ("rocksdb-vendored", cfg!(feature = "rocksdb-vendored")),
];

/// One line: `0.1.0, commit 0123..., release, jemalloc, engines ftree lmdb rocksdb, features mysql`.
pub(crate) fn long() -> &'static str {
    static LONG: std::sync::LazyLock<String> = std::sync::LazyLock::new(|| {
        let engines = crate::engines::NAMES.join(" ");
        let features: Vec<&str> = FEATURES.iter().filter(|(_, is_on)| *is_on).map(|(name, _)| *name).collect();
        let features =
            if features.is_empty() { "no features".to_owned() } else { format!("features {}", features.join(" ")) };
        format!("{VERSION}, commit {COMMIT}, {}, jemalloc, engines {engines}, {features}", env!("ARBOR_PROFILE"))
    });
    &LONG
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_commit_is_named() {
        let digits = COMMIT.trim_end_matches("-modified");
        assert!(COMMIT == "unknown" || (digits.len() == 40 && digits.bytes().all(|byte| byte.is_ascii_hexdigit())));
        assert!(long().starts_with(VERSION) && long().contains(COMMIT) && long().contains(" ftree lmdb"), "{}", long());
    }
}
