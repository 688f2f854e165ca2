//! The user's own text in WiredTiger's configuration.
//!
//! Such a text may change anything that WiredTiger has, also what the engine depends on (its log, formats of keys, other
//! files). So each name must be on a list here, and the whole must be one that WiredTiger takes.

use arbor_engine::{Error, Result};

use crate::options::COMPRESSORS;
use crate::raw::check_config;

/// Names of `wiredtiger_open` that a user may set.
const OPEN: &[&str] = &[
    "buffer_alignment",
    "cache_max_wait_ms",
    "cache_overflow",
    "cache_overhead",
    "checkpoint_sync",
    "direct_io",
    "eviction",
    "eviction_checkpoint_target",
    "eviction_dirty_target",
    "eviction_dirty_trigger",
    "eviction_target",
    "eviction_trigger",
    "file_extend",
    "file_manager",
    "io_capacity",
    "mmap",
    "session_max",
    "statistics",
];

/// Names of `WT_CONNECTION.reconfigure` that a user may set.
const RUNNING: &[&str] = &[
    "cache_max_wait_ms",
    "cache_overhead",
    "cache_size",
    "eviction",
    "eviction_checkpoint_target",
    "eviction_dirty_target",
    "eviction_dirty_trigger",
    "eviction_target",
    "eviction_trigger",
    "file_manager",
    "io_capacity",
    "statistics",
];

/// Names of `WT_SESSION.create` that a user may set.
const CREATE: &[&str] = &[
    "access_pattern_hint",
    "allocation_size",
    "block_allocation",
    "block_compressor",
    "cache_resident",
    "checksum",
    "dictionary",
    "internal_key_max",
    "internal_key_truncate",
    "internal_page_max",
    "leaf_key_max",
    "leaf_page_max",
    "leaf_value_max",
    "memory_page_image_max",
    "memory_page_max",
    "os_cache_dirty_max",
    "os_cache_max",
    "prefix_compression",
    "prefix_compression_min",
    "split_pct",
];

/// Errors: `InvalidOption` of this name, for what the engine cannot be opened with.
pub(crate) fn check_open(name: &str, text: &str) -> Result<()> {
    check(name, "wiredtiger_open", OPEN, text)
}

/// For the running engine: the bytes of `cache_size`, if it is there, and the rest of the text.
pub(crate) fn split_running(name: &str, text: &str) -> Result<(Option<String>, String)> {
    check(name, "WT_CONNECTION.reconfigure", RUNNING, text)?;
    let (sizes, rest): (Vec<_>, Vec<_>) =
        parts(text).unwrap_or_default().into_iter().partition(|(key, _)| *key == "cache_size");
    let rest: Vec<String> = rest.iter().map(|(key, value)| format!("{key}={value}")).collect();
    let size =
        sizes.last().map(|(_, size)| bytes(size).ok_or_else(|| invalid(name, format!("'{size}' is not a size"))));
    Ok((size.transpose()?.map(|bytes| bytes.to_string()), rest.join(",")))
}

/// WiredTiger's way to write sizes.
fn bytes(size: &str) -> Option<u64> {
    let size = size.to_ascii_uppercase();
    let size = size.trim_end_matches('B');
    let shift = |suffix: &str, shift: u32| size.strip_suffix(suffix).map(|digits| (digits.to_owned(), shift));
    let found = shift("K", 10).or_else(|| shift("M", 20)).or_else(|| shift("G", 30)).or_else(|| shift("T", 40));
    let (digits, shift) = found.unwrap_or_else(|| (size.to_owned(), 0));
    digits.parse::<u64>().ok()?.checked_mul(1 << shift)
}

/// Errors: `InvalidOption` of this name, for what no table can be made with.
pub(crate) fn check_create(name: &str, text: &str) -> Result<()> {
    check(name, "WT_SESSION.create", CREATE, text)?;
    let compressors = parts(text).into_iter().flatten().filter(|(key, _)| *key == "block_compressor");
    for (_, compressor) in compressors {
        if !COMPRESSORS.contains(&compressor.trim_matches('"')) {
            return Err(invalid(name, format!("this WiredTiger has no block compressor '{compressor}'")));
        }
    }
    Ok(())
}

fn invalid(name: &str, reason: String) -> Error {
    Error::InvalidOption { name: name.to_owned(), reason }
}

fn check(name: &str, method: &str, allowed: &[&str], text: &str) -> Result<()> {
    let parts =
        parts(text).ok_or_else(|| invalid(name, format!("'{text}' has a quote or bracket without its pair")))?;
    if let Some((unknown, _)) = parts.iter().find(|(key, _)| !allowed.contains(key)) {
        let reason = format!("'{unknown}' cannot be set; known are {}", allowed.join(", "));
        return Err(invalid(name, reason));
    }
    check_config(method, text).map_err(|said| invalid(name, said))
}

/// The names and values of the outermost level; `None` if brackets or quotes do not pair.
fn parts(text: &str) -> Option<Vec<(&str, &str)>> {
    let (mut parts, mut open, mut quoted, mut begin) = (Vec::new(), Vec::new(), false, 0);
    let mut take = |part: &'_ std::ops::Range<usize>| {
        let part = text.get(part.clone()).unwrap_or_default().trim();
        let (key, value) = part.split_once(['=', ':']).unwrap_or((part, "true"));
        if !part.is_empty() {
            parts.push((key.trim().trim_matches('"'), value.trim()));
        }
    };
    for (at, character) in text.char_indices() {
        match character {
            // WiredTiger's quotes know backslashes; the names and values here need none.
            '\\' => return None,
            '"' => quoted = !quoted,
            _ if quoted => {}
            '(' | '[' | '{' => open.push(character),
            ')' | ']' | '}' => {
                let opening = open.pop()?;
                if !matches!((opening, character), ('(', ')') | ('[', ']') | ('{', '}')) {
                    return None;
                }
            }
            ',' if open.is_empty() => {
                take(&(begin..at));
                begin = at + 1;
            }
            _ => {}
        }
    }
    take(&(begin..text.len()));
    (open.is_empty() && !quoted).then_some(parts)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_outermost_names_are_found() {
        let check = |text: &str, expected: &[(&str, &str)]| assert_eq!(parts(text).unwrap(), expected, "{text}");
        check("", &[]);
        check("a=1, b=(c=2,d=[3,4]) ,e", &[("a", "1"), ("b", "(c=2,d=[3,4])"), ("e", "true")]);
        check("\"log\"=(enabled),x=\"a,b\"", &[("log", "(enabled)"), ("x", "\"a,b\"")]);
        for wrong in ["a=(1", "a=)", "a=(1]", "a=\"1", "a=\\\"1"] {
            assert!(parts(wrong).is_none(), "{wrong}");
        }
    }

    #[test]
    fn the_cache_of_a_running_engine_is_set_apart() {
        let check = |text: &str, size: Option<&str>, rest: &str| {
            assert_eq!(split_running("r", text).unwrap(), (size.map(str::to_owned), rest.to_owned()), "{text}");
        };
        check("cache_size=2G", Some("2147483648"), "");
        check("eviction=(threads_max=8), cache_size=512MB", Some("536870912"), "eviction=(threads_max=8)");
        check("eviction_target=70", None, "eviction_target=70");
        check("", None, "");
        for wrong in ["cache_size=lots", "log=(enabled)", "checkpoint=(wait=1)", "shared_cache=(name=x)"] {
            assert!(split_running("r", wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn only_harmless_names_pass() {
        check_open("o", "eviction=(threads_max=8),statistics=(fast)").unwrap();
        for wrong in ["in_memory=true", "extensions=[/tmp/x.so]", "log", "encryption=(name=x)", "eviction=(threads=1)"]
        {
            assert!(matches!(check_open("o", wrong), Err(Error::InvalidOption { name, .. }) if name == "o"), "{wrong}");
        }
        check_create("c", "leaf_page_max=16KB,prefix_compression").unwrap();
        for wrong in ["key_format=S", "colgroups=(a)", "columns=(a,b)", "log=(enabled=true)", "leaf_page_max=big"] {
            assert!(check_create("c", wrong).is_err(), "{wrong}");
        }
    }
}
