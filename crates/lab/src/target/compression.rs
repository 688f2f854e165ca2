//! Compression of a server's files as its arguments choose it: sizes on disk mean nothing without.

/// Arguments that choose the compression of collections, by engine; the last one counts.
const ARGUMENTS: [(&str, &[&str]); 3] = [
    ("ftree", &["ftreeCompression", "tokuftCollectionCompression", "PerconaFTCollectionCompression"]),
    ("rocksdb", &["rocksdbCompression"]),
    ("wiredTiger", &["wiredTigerCollectionBlockCompressor"]),
];

/// Returns the compression that the arguments of a server choose; `None`: the engine's usual one.
pub(crate) fn chosen(engine: &str, arguments: &[String]) -> Option<String> {
    let (_, names) = ARGUMENTS.iter().find(|(name, _)| name.eq_ignore_ascii_case(engine))?;
    let is_named = |argument: &str| names.iter().any(|name| argument.strip_prefix("--") == Some(name));
    let mut chosen = None;
    for (n, argument) in arguments.iter().enumerate() {
        match argument.split_once('=') {
            Some((name, value)) if is_named(name) => chosen = Some(value.to_owned()),
            None if is_named(argument) => chosen = arguments.get(n + 1).cloned(),
            _ => {}
        }
    }
    chosen
}

#[cfg(test)]
mod tests {
    #[test]
    fn the_last_argument_counts() {
        let chosen = |engine: &str, arguments: &str| {
            super::chosen(engine, &arguments.split_whitespace().map(str::to_owned).collect::<Vec<_>>())
        };
        assert_eq!(chosen("ftree", "--ftreeCompression lz4 --quiet"), Some("lz4".to_owned()));
        let both = "--ftreeCompression=lz4 --tokuftCollectionCompression quicklz";
        assert_eq!(chosen("ftree", both), Some("quicklz".to_owned()));
        assert_eq!(chosen("rocksdb", both), None);
        assert_eq!(chosen("wiredtiger", "--wiredTigerCollectionBlockCompressor zlib"), Some("zlib".to_owned()));
        assert_eq!(chosen("lmdb", "--ftreeCompression lz4"), None);
    }
}
