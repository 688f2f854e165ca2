//! Compressing and decompressing what tables store.
//!
//! Stored form: one tag byte (0 none, 1 lz4, 2 zstd), then the payload, and in a piece with padding, whose tag has the highest bit set too, zeros
//! and two bytes with their number, these two included. The level is not stored; a block says itself how it
//! is read, so the codec of a tree may change at any time. Scratch memory belongs to the thread and is reused, as far as it is
//! small; zstd's contexts, 160 KB and more each, are shared: as many as there were threads that worked at once, and few kept.

use std::cell::RefCell;
use std::ops::{Range, RangeInclusive};

use arbor_base::paranoid;
use parking_lot::{Mutex, MutexGuard};

use crate::{Codec, Error, Result};

const TAG_NONE: u8 = 0;
const TAG_LZ4: u8 = 1;
const TAG_ZSTD: u8 = 2;
const PADDED: u8 = 0x80;

/// Bytes of the shortest and of the longest padding.
pub const PADDING: RangeInclusive<usize> = 2..=u16::MAX as usize;

/// No stored piece is larger: a length beyond it comes from damaged bytes and must not be allocated.
pub const RAW_BYTES_MAX: usize = 1 << 30;

struct Contexts {
    level: i32,
    compressor: zstd::bulk::Compressor<'static>,
    decompressor: zstd::bulk::Decompressor<'static>,
}

impl Contexts {
    fn new() -> std::io::Result<Contexts> {
        let (level, decompressor) = (1, zstd::bulk::Decompressor::new()?);
        Ok(Contexts { level, compressor: zstd::bulk::Compressor::new(level)?, decompressor })
    }
}

/// Contexts that are not in use.
static SPARE: Mutex<Vec<Contexts>> = Mutex::new(Vec::new());
/// Maximum number of spare contexts.
const SPARE_MAX: usize = 8;

/// Maximum scratch memory that a thread keeps.
const SCRATCH_BYTES_MAX: usize = 64 << 10;

thread_local! {
    static SCRATCH: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
}

/// A piece is stored compressed if that saves one part in this many at least.
const SAVED_PARTS: usize = 5;
/// Like [`SAVED_PARTS`], for [`Codec::Auto`]. Where only the entropy coder finds something, the shorter block is not worth the 4 to 15 us that a reader
/// of 8 KB pays (docs/performance.md, "Direct I/O, most of the memory, and no coder").
const AUTO_SAVED_PARTS: usize = 3;

/// The bytes before the raw ones in a stored piece that is not compressed.
pub const RAW_HEAD: &[u8] = &[TAG_NONE];

/// A longer value is sampled before it is compressed, for which its reader and its writer need memory.
const SAMPLED_BYTES_MIN: usize = 1 << 20;
const SAMPLES: usize = 4;
const SAMPLE_BYTES: usize = 16 << 10;

/// Returns true if parts of a long value do not shrink, so that it is to be stored as it is.
pub fn is_incompressible(codec: Codec, raw: &[u8]) -> bool {
    if raw.len() < SAMPLED_BYTES_MIN {
        return false;
    }
    let parts = raw.chunks(raw.len().div_ceil(SAMPLES));
    let sample: Vec<u8> = parts.flat_map(|part| part.iter().take(SAMPLE_BYTES)).copied().collect();
    let mut stored = Vec::new();
    compress(codec, &sample, &mut stored);
    is_raw(&stored)
}

/// Returns true if a stored piece is not compressed.
pub fn is_raw(stored: &[u8]) -> bool {
    stored.first().is_some_and(|tag| tag & !PADDED == TAG_NONE)
}

/// Returns the place of the raw bytes in a stored piece that is not compressed.
pub fn raw_payload(stored: &[u8], raw_len: usize) -> Option<Range<usize>> {
    let (_, payload) = without_padding(stored).filter(|_| is_raw(stored))?;
    (payload.len() == raw_len).then_some(1..1 + raw_len)
}

/// Returns tag and payload of a stored piece. `None`: the bytes are no such piece.
fn without_padding(stored: &[u8]) -> Option<(u8, &[u8])> {
    let (&tag, rest) = stored.split_first()?;
    if tag & PADDED == 0 {
        return Some((tag, rest));
    }
    let bytes = usize::from(u16::from_le_bytes(*rest.last_chunk()?));
    let payload = rest.get(..rest.len().checked_sub(bytes)?)?;
    PADDING.contains(&bytes).then_some((tag & !PADDED, payload))
}

/// Appends a stored piece without its padding. Requires: the piece was read before.
pub fn put_without_padding(stored: &[u8], out: &mut Vec<u8>) {
    let (tag, payload) = without_padding(stored).expect("a piece that was read");
    out.push(tag);
    out.extend_from_slice(payload);
}

/// Appends this many bytes of padding to the stored piece at `piece`, which has none.
pub fn pad(out: &mut Vec<u8>, piece: Range<usize>, bytes: usize) {
    assert!(PADDING.contains(&bytes), "a padding of {bytes} bytes");
    let end = piece.end;
    out.splice(end..end, std::iter::repeat_n(0, bytes));
    let count = out.get_mut(end..end + bytes).and_then(<[u8]>::last_chunk_mut);
    *count.expect("padding has room for its length") = (bytes as u16).to_le_bytes();
    let tag = out.get_mut(piece.start).expect("a piece has a tag");
    assert!(*tag & PADDED == 0, "a piece has padding once");
    *tag |= PADDED;
}

/// Appends the stored form of `raw` to `out`. What hardly shrinks, or what the codec fails on, is stored as it is.
pub fn compress(codec: Codec, raw: &[u8], out: &mut Vec<u8>) {
    assert!(raw.len() <= RAW_BYTES_MAX, "a piece of {} bytes would not be read again", raw.len());
    let start = out.len();
    let (codec, parts) = match codec {
        Codec::Auto => (Codec::Zstd(1), AUTO_SAVED_PARTS),
        other => (other, SAVED_PARTS),
    };
    let room = (raw.len() - raw.len() / parts).saturating_sub(1);
    out.resize(start + 1 + room, 0);
    let written = out.get_mut(start..).and_then(|stored| {
        let (tag, payload) = stored.split_first_mut()?;
        let (which, written) = match codec {
            Codec::None | Codec::Auto => return None,
            Codec::Lz4 => (TAG_LZ4, compress_lz4(raw, payload)?),
            Codec::Zstd(level) => (TAG_ZSTD, compress_zstd(level, raw, payload)?),
        };
        *tag = which;
        Some(written)
    });
    match written {
        Some(written) => out.truncate(start + 1 + written),
        None => {
            out.truncate(start);
            out.push(TAG_NONE);
            out.extend_from_slice(raw);
        }
    }
    debug_assert!(out.len() - start <= 1 + raw.len(), "what hardly shrinks is stored as it is");
    paranoid!(is_stored(out.get(start..).unwrap_or_default(), raw), "a piece is read as it was written");
}

fn is_stored(stored: &[u8], raw: &[u8]) -> bool {
    decompress(stored, raw.len()).is_ok_and(|read| read == raw)
}

/// `None`: it does not fit into `payload`, which is shorter than `raw`.
fn compress_lz4(raw: &[u8], payload: &mut [u8]) -> Option<usize> {
    lz4::block::compress_to_buffer(raw, None, false, payload).ok()
}

fn compress_zstd(level: i32, raw: &[u8], payload: &mut [u8]) -> Option<usize> {
    with_contexts(|contexts| {
        if contexts.level != level {
            contexts.compressor.set_compression_level(level).ok()?;
            contexts.level = level;
        }
        contexts.compressor.compress_to_buffer(raw, payload).ok()
    })
}

fn with_contexts<T>(act: impl FnOnce(&mut Contexts) -> Option<T>) -> Option<T> {
    let spare = spare().pop();
    let mut contexts = match spare {
        Some(contexts) => contexts,
        None => Contexts::new().ok()?,
    };
    let done = act(&mut contexts);
    let mut spare = self::spare();
    if spare.len() < SPARE_MAX {
        spare.push(contexts);
    }
    done
}

fn spare() -> MutexGuard<'static, Vec<Contexts>> {
    SPARE.lock()
}

/// The raw bytes of a stored piece. Errors: `Corrupt` without a place, which the caller knows.
pub fn decompress(stored: &[u8], raw_len: usize) -> Result<Vec<u8>> {
    let mut raw = Vec::new();
    decompress_into(stored, raw_len, &mut raw)?;
    Ok(raw)
}

/// Hands the raw bytes to `read`, without an allocation when called again and again.
pub fn with_decompressed<T>(stored: &[u8], raw_len: usize, read: impl FnOnce(&[u8]) -> Result<T>) -> Result<T> {
    if let Some(payload) = raw_payload(stored, raw_len).and_then(|payload| stored.get(payload)) {
        return read(payload);
    }
    let mut scratch = SCRATCH.take();
    let result = decompress_into(stored, raw_len, &mut scratch).and_then(|()| read(&scratch));
    if scratch.capacity() <= SCRATCH_BYTES_MAX {
        SCRATCH.set(scratch);
    }
    result
}

/// Replaces the content of `raw`.
fn decompress_into(stored: &[u8], raw_len: usize, raw: &mut Vec<u8>) -> Result<()> {
    let (tag, payload) =
        without_padding(stored).ok_or_else(|| corrupt("a piece without tag or with impossible padding"))?;
    if raw_len > RAW_BYTES_MAX {
        return Err(corrupt("impossible length"));
    }
    raw.clear();
    let length = match tag {
        TAG_NONE => {
            raw.extend_from_slice(payload);
            Some(payload.len())
        }
        TAG_LZ4 => {
            raw.resize(raw_len, 0);
            lz4::block::decompress_to_buffer(payload, Some(raw_len as i32), raw).ok()
        }
        TAG_ZSTD => {
            raw.resize(raw_len, 0);
            with_contexts(|contexts| contexts.decompressor.decompress_to_buffer(payload, raw.as_mut_slice()).ok())
        }
        _ => return Err(corrupt("unknown codec")),
    };
    match length {
        Some(length) if length == raw_len => Ok(()),
        _ => Err(corrupt("does not decompress")),
    }
}

fn corrupt(context: &str) -> Error {
    Error::Corrupt { place: String::new(), context: context.to_owned() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_codec_gives_back_what_it_got() {
        let mut noise = 1u64;
        let random: Vec<u8> = std::iter::repeat_with(|| {
            noise = noise.wrapping_mul(6364136223846793005).wrapping_add(1);
            (noise >> 56) as u8
        })
        .take(5000)
        .collect();
        for codec in [Codec::None, Codec::Lz4, Codec::Zstd(1), Codec::Zstd(-3), Codec::Zstd(19), Codec::Auto] {
            for raw in [&b""[..], b"a", &[7; 9000], &random] {
                let mut stored = vec![9];
                compress(codec, raw, &mut stored);
                assert!(stored.len() <= raw.len() + 2);
                assert_eq!(decompress(&stored[1..], raw.len()).unwrap(), raw, "{codec:?}");
                assert!(with_decompressed(&stored[1..], raw.len(), |again| Ok(again == raw)).unwrap());
            }
        }
    }

    #[test]
    fn padding_is_not_read() {
        for codec in [Codec::None, Codec::Lz4, Codec::Zstd(1)] {
            let raw = [7; 900];
            let mut out = vec![9];
            compress(codec, &raw, &mut out);
            let (plain, end) = (out[1..].to_vec(), out.len());
            out.extend_from_slice(b"next");
            for bytes in [2, 3, 700] {
                let mut padded = out.clone();
                pad(&mut padded, 1..end, bytes);
                assert_eq!((padded[0], &padded[end + bytes..]), (9, &b"next"[..]));
                let piece = &padded[1..end + bytes];
                assert_eq!(decompress(piece, raw.len()).unwrap(), raw);
                assert!(with_decompressed(piece, raw.len(), |again| Ok(again == raw)).unwrap());
                assert_eq!(is_raw(piece), codec == Codec::None);
                let mut again = Vec::new();
                put_without_padding(piece, &mut again);
                assert_eq!(again, plain);
                // more padding than bytes, or less than its length takes
                for count in [u16::MAX, 1] {
                    let mut damaged = piece.to_vec();
                    *damaged.last_chunk_mut().unwrap() = count.to_le_bytes();
                    assert!(decompress(&damaged, raw.len()).is_err());
                }
            }
        }
        assert!(decompress(&[PADDED], 0).is_err() && decompress(&[PADDED, 2], 0).is_err());
    }

    /// Letters of an alphabet of this size, in no order: nothing repeats.
    fn letters(alphabet: u64) -> Vec<u8> {
        let mut noise = 1u64;
        let next = || {
            noise = noise.wrapping_mul(6364136223846793005).wrapping_add(1);
            b' ' + ((noise >> 33) % alphabet) as u8
        };
        std::iter::repeat_with(next).take(8192).collect()
    }

    #[test]
    fn a_piece_that_hardly_shrinks_is_stored_as_it_is() {
        // 6.6 of 8 bits for each letter, 6, and 4
        for (codec, alphabet, tag) in [
            (Codec::Zstd(1), 95, TAG_NONE),
            (Codec::Zstd(1), 64, TAG_ZSTD),
            (Codec::Auto, 64, TAG_NONE),
            (Codec::Auto, 16, TAG_ZSTD),
        ] {
            let (raw, mut stored) = (letters(alphabet), Vec::new());
            compress(codec, &raw, &mut stored);
            assert_eq!(stored[0], tag, "{codec:?}, {alphabet} letters: {} of {} bytes", stored.len(), raw.len());
            assert_eq!(decompress(&stored, raw.len()).unwrap(), raw);
        }
    }

    #[test]
    fn damage_is_an_error() {
        let mut stored = Vec::new();
        compress(Codec::Zstd(1), &[7; 1000], &mut stored);
        assert!(decompress(&stored, 999).is_err());
        assert!(decompress(&stored, 1001).is_err());
        assert!(decompress(&stored, usize::MAX).is_err());
        assert!(decompress(&stored[..stored.len() - 1], 1000).is_err());
        assert!(decompress(&[], 0).is_err());
        assert!(decompress(&[9, 1], 1).is_err());
    }
}
