//! The version of this binary, its commit and how it was built.

/// As in Cargo.toml.
pub(crate) const VERSION: &str = env!("CARGO_PKG_VERSION");
/// 40 hexadecimal digits, with `-modified` behind them where files differ from the commit; or `unknown`.
pub(crate) const COMMIT: &str = env!("ARBOR_COMMIT");

/// One line: `0.1.0, commit 0123..., release, jemalloc, engines ftree lmdb rocksdb`.
pub(crate) fn long() -> &'static str {
    static LONG: std::sync::LazyLock<String> = std::sync::LazyLock::new(|| {
        let engines = crate::engines::NAMES.join(" ");
        format!("{VERSION}, commit {COMMIT}, {}, jemalloc, engines {engines}", env!("ARBOR_PROFILE"))
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
