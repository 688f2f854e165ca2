//! Settings of a tree by name, as users write them. Names and values of TokuMX and of other engines are understood.

use arbor_engine::TreeOptions;

use crate::{Codec, Error, Result, TreeSettings};

/// The settings that a new tree with these options has. Errors: a name or value that is not known.
pub fn settings_of(options: &TreeOptions, defaults: &TreeSettings) -> Result<TreeSettings> {
    let mut settings = defaults.clone();
    for (name, value) in &options.settings {
        set(&mut settings, name, value)
            .map_err(|reason| Error::InvalidOption { name: name.clone(), reason: reason.to_owned() })?;
    }
    Ok(settings)
}

fn set(settings: &mut TreeSettings, name: &str, value: &str) -> std::result::Result<(), &'static str> {
    match name {
        "compression" => settings.codec = codec(value).ok_or("expected auto, none, lz4 or zstd[:level]")?,
        "pageSize" | "leafSize" => settings.leaf_bytes = bytes(value, 4 << 10, 256 << 20)?,
        "readPageSize" | "blockSize" => settings.block_bytes = bytes(value, 256, 1 << 20)?,
        "fanout" => settings.fanout = bytes(value, 4, 1024)?,
        "blobSize" => settings.blob_bytes = bytes(value, 64, 16 << 20)?,
        "writeBias" => settings.buffer_percent = bias(value).ok_or("expected low, normal or high")?,
        "leafFilters" => settings.leaf_filters = value.parse().map_err(|_| "expected true or false")?,
        _ => return Err("unknown to the engine ftree"),
    }
    Ok(())
}

fn codec(value: &str) -> Option<Codec> {
    let (name, level) = match value.split_once(':') {
        Some((name, level)) => (name, Some(level.parse::<i32>().ok()?)),
        None => (value, None),
    };
    match (name, level) {
        ("none", None) => Some(Codec::None),
        ("auto", None) => Some(Codec::Auto),
        ("lz4" | "quicklz" | "snappy", None) => Some(Codec::Lz4),
        ("zstd", level) => Some(Codec::Zstd(level.unwrap_or(1))).filter(|_| (1..=19).contains(&level.unwrap_or(1))),
        ("zlib", None) => Some(Codec::Zstd(3)),
        ("lzma", None) => Some(Codec::Zstd(15)),
        _ => None,
    }
}

fn bias(value: &str) -> Option<u32> {
    match value {
        "low" => Some(5),
        "normal" => Some(12),
        "high" => Some(20),
        _ => None,
    }
}

fn bytes(value: &str, least: u32, most: u32) -> std::result::Result<u32, &'static str> {
    let number: u32 = value.parse().map_err(|_| "expected a number")?;
    if (least..=most).contains(&number) { Ok(number) } else { Err("the number is out of bounds") }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(name: &str, value: &str) -> Option<TreeSettings> {
        let options = TreeOptions { settings: vec![(name.to_owned(), value.to_owned())] };
        settings_of(&options, &TreeSettings::default()).ok()
    }

    #[test]
    fn names_of_the_founding_texts() {
        for (value, codec) in [
            ("none", Codec::None),
            ("auto", Codec::Auto),
            ("quicklz", Codec::Lz4),
            ("snappy", Codec::Lz4),
            ("zlib", Codec::Zstd(3)),
            ("lzma", Codec::Zstd(15)),
            ("zstd:7", Codec::Zstd(7)),
        ] {
            assert_eq!(check("compression", value).map(|settings| settings.codec), Some(codec), "{value}");
        }
        assert_eq!(check("pageSize", "4194304").map(|settings| settings.leaf_bytes), Some(4 << 20));
        assert_eq!(check("writeBias", "high").map(|settings| settings.buffer_percent), Some(20));
    }

    #[test]
    fn what_is_not_known_is_refused() {
        for (name, value) in [("compression", "best"), ("compression", "zstd:99"), ("fanout", "1"), ("colour", "red")] {
            assert!(check(name, value).is_none(), "{name}={value}");
        }
    }
}
