//! OP_COMPRESSED.
//!
//! | offset | size | what |
//! |---|---|---|
//! | 0 | 16 | header, opcode 2012 |
//! | 16 | 4 | original opcode |
//! | 20 | 4 | uncompressed size: bytes of the original message without its header |
//! | 24 | 1 | compressor |
//! | 25 | ... | compressed bytes |
//!
//! C1: a frame is taken only when its stream yields exactly the announced size, to the byte, and ends exactly at the end
//! of the frame. Anything else is how CVE-2025-14847 leaked memory.
//! C2: the announced size is checked against the limit and against 1000 times the compressed bytes before a buffer of
//! that size is made, so a short frame cannot make the server allocate much.
//! C3: only bytes the decompressor wrote become visible: buffers are either zeroed or grown by what was produced.

use flate2::{FlushCompress, FlushDecompress, Status};
use zstd::zstd_safe;

use crate::{CompressedFault, Error, Fault, Header, MESSAGE_BYTES_MAX, Opcode};
use arbor_base::Fields;

/// Below this size any ratio is taken: small messages of equal bytes compress arbitrarily well.
const RATIO_FREE_BYTES: usize = 1024 * 1024;
const RATIO_MAX: usize = 1000;
const ZSTD_WINDOW_BYTES_MAX: u64 = 8 * 1024 * 1024;
/// MongoDB's defaults: zlib level 6 and zstd level 3 balance speed and size.
const ZLIB_LEVEL: u32 = 6;
const ZSTD_LEVEL: i32 = 3;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Compressor {
    Noop = 0,
    Snappy = 1,
    Zlib = 2,
    Zstd = 3,
}

impl Compressor {
    pub const ALL: [Compressor; 4] = [Compressor::Noop, Compressor::Snappy, Compressor::Zlib, Compressor::Zstd];

    pub fn parse(id: u8) -> Option<Compressor> {
        Compressor::ALL.into_iter().find(|compressor| *compressor as u8 == id)
    }

    /// The name in `hello`'s `compression` field.
    pub fn name(self) -> &'static str {
        match self {
            Compressor::Noop => "noop",
            Compressor::Snappy => "snappy",
            Compressor::Zlib => "zlib",
            Compressor::Zstd => "zstd",
        }
    }

    pub fn by_name(name: &str) -> Option<Compressor> {
        Compressor::ALL.into_iter().find(|compressor| compressor.name() == name)
    }
}

/// Commands whose messages carry secrets or precede the agreement on a compressor. A client must not compress them and
/// the server refuses them when it does.
pub fn must_not_be_compressed(command: &str) -> bool {
    const NAMES: [&str; 11] = [
        "hello",
        "ismaster",
        "saslStart",
        "saslContinue",
        "getnonce",
        "authenticate",
        "createUser",
        "updateUser",
        "copydbSaslStart",
        "copydbgetnonce",
        "copydb",
    ];
    NAMES.iter().any(|name| name.eq_ignore_ascii_case(command))
}

/// Unpacks an OP_COMPRESSED frame into `plain`, which then holds a whole plain frame (header included).
pub fn decompress(frame: &[u8], uncompressed_bytes_max: usize, plain: &mut Vec<u8>) -> Result<Compressor, Fault> {
    let header = Header::parse(frame)?;
    let mut rest = Fields::new(frame.get(Header::LEN..).unwrap_or_default());
    let opcode = rest.i32().ok_or(Fault::Incomplete)?;
    let announced = rest.i32().ok_or(Fault::Incomplete)?;
    let id = rest.u8().ok_or(Fault::Incomplete)?;
    if !may_be_compressed(opcode) {
        return Err(CompressedFault::Opcode(opcode).into());
    }
    let compressor = Compressor::parse(id).ok_or(CompressedFault::Compressor(id))?;
    let size = checked_size(announced, rest.rest().len(), uncompressed_bytes_max)?;

    plain.clear();
    plain.extend_from_slice(&Header { length: Header::LEN + size, opcode, ..header }.to_bytes());
    unpack(compressor, rest.rest(), size, plain)?;
    let produced = plain.len() - Header::LEN;
    if produced != size {
        return Err(CompressedFault::Produced { announced: size, produced }.into());
    }
    Ok(compressor)
}

/// Returns the uncompressed size that a compressed frame announces. None: no frame can have it.
pub(crate) fn announced_bytes(frame: &[u8]) -> Option<usize> {
    let mut rest = Fields::new(frame.get(Header::LEN + 4..)?);
    let (announced, _compressor) = (rest.i32()?, rest.u8()?);
    checked_size(announced, rest.rest().len(), MESSAGE_BYTES_MAX).ok()
}

fn may_be_compressed(opcode: i32) -> bool {
    use Opcode::*;
    matches!(Opcode::parse(opcode), Some(Message | Query | Insert | Update | Delete | GetMore | KillCursors | Reply))
}

fn checked_size(announced: i32, compressed: usize, max: usize) -> Result<usize, CompressedFault> {
    let max = max.min(MESSAGE_BYTES_MAX - Header::LEN);
    let size = usize::try_from(announced)
        .ok()
        .filter(|size| *size <= max)
        .ok_or(CompressedFault::Size { announced: announced.into(), max })?;
    if size > RATIO_FREE_BYTES && size / RATIO_MAX > compressed {
        return Err(CompressedFault::Ratio { compressed, announced: size });
    }
    Ok(size)
}

/// Appends what `stream` yields to `plain`: at most a little more than `size` bytes, so that too much shows (C1).
fn unpack(compressor: Compressor, stream: &[u8], size: usize, plain: &mut Vec<u8>) -> Result<(), CompressedFault> {
    match compressor {
        Compressor::Noop => {
            if stream.len() != size {
                return Err(CompressedFault::Produced { announced: size, produced: stream.len() });
            }
            plain.extend_from_slice(stream);
            Ok(())
        }
        Compressor::Snappy => unsnappy(stream, size, plain),
        Compressor::Zlib => inflate(stream, size, plain),
        Compressor::Zstd => unzstd(stream, size, plain),
    }
}

fn unsnappy(stream: &[u8], size: usize, plain: &mut Vec<u8>) -> Result<(), CompressedFault> {
    let damaged = |error: snap::Error| CompressedFault::Stream(error.to_string());
    let produced = snap::raw::decompress_len(stream).map_err(damaged)?;
    if produced != size {
        return Err(CompressedFault::Produced { announced: size, produced });
    }
    let start = plain.len();
    plain.resize(start + size, 0);
    let place = plain.get_mut(start..).unwrap_or_default();
    let written = snap::raw::Decoder::new().decompress(stream, place).map_err(damaged)?;
    plain.truncate(start + written);
    Ok(())
}

fn inflate(stream: &[u8], size: usize, plain: &mut Vec<u8>) -> Result<(), CompressedFault> {
    let start = plain.len();
    plain.reserve(size + 1);
    let mut inflater = flate2::Decompress::new(true);
    let status = inflater
        .decompress_vec(stream, plain, FlushDecompress::Finish)
        .map_err(|error| CompressedFault::Stream(error.to_string()))?;
    let produced = plain.len() - start;
    if produced > size {
        return Err(CompressedFault::Produced { announced: size, produced });
    }
    if status != Status::StreamEnd {
        return Err(CompressedFault::Stream("the stream does not end".to_owned()));
    }
    let trailing = stream.len().saturating_sub(inflater.total_in() as usize);
    if trailing > 0 { Err(CompressedFault::Trailing(trailing)) } else { Ok(()) }
}

fn unzstd(stream: &[u8], size: usize, plain: &mut Vec<u8>) -> Result<(), CompressedFault> {
    check_zstd_header(stream)?;
    let damaged = |error| CompressedFault::Stream(zstd_safe::get_error_name(error).to_owned());
    let frame = zstd_safe::find_frame_compressed_size(stream).map_err(damaged)?;
    if let Some(trailing) = stream.len().checked_sub(frame).filter(|trailing| *trailing > 0) {
        return Err(CompressedFault::Trailing(trailing));
    }
    let start = plain.len();
    plain.resize(start + size, 0);
    let place = plain.get_mut(start..).unwrap_or_default();
    let written = zstd_safe::decompress(place, stream).map_err(damaged)?;
    plain.truncate(start + written);
    Ok(())
}

/// Reads the frame header of RFC 8878 section 3.1.1 as far as window and dictionary go: the one-shot decompressor would
/// honour neither limit, and it takes skippable frames for empty ones.
fn check_zstd_header(stream: &[u8]) -> Result<(), CompressedFault> {
    const MAGIC: u32 = 0xFD2F_B528;
    let cut = || CompressedFault::Stream("the zstd header is cut".to_owned());
    let mut header = Fields::new(stream);
    if header.u32().ok_or_else(cut)? != MAGIC {
        return Err(CompressedFault::Stream("not a zstd frame".to_owned()));
    }
    let descriptor = header.u8().ok_or_else(cut)?;
    if descriptor & 0b11 != 0 {
        return Err(CompressedFault::Dictionary);
    }
    // A single segment has no window field; its window is its content, which the announced size bounds. The decoder
    // writes straight into our buffer then and allocates no window.
    let single_segment = descriptor & 0b10_0000 != 0;
    if single_segment {
        return Ok(());
    }
    let window = header.u8().ok_or_else(cut)?;
    let base = 1u64 << (10 + (window >> 3));
    let bytes = base + base / 8 * u64::from(window & 7);
    if bytes > ZSTD_WINDOW_BYTES_MAX { Err(CompressedFault::Window { bytes }) } else { Ok(()) }
}

/// Replaces the plain frame at `out[start..]` by its OP_COMPRESSED form.
pub fn compress(compressor: Compressor, start: usize, out: &mut Vec<u8>) -> Result<(), Error> {
    let frame = out.get(start..).unwrap_or_default();
    let header = Header::parse(frame)?;
    let body = frame.get(Header::LEN..).unwrap_or_default();
    let packed = pack(compressor, body)?;
    let size = body.len() as u32;
    out.truncate(start);
    let length = Header::LEN + 9 + packed.len();
    out.extend_from_slice(&Header { length, opcode: Opcode::Compressed as i32, ..header }.to_bytes());
    out.extend_from_slice(&header.opcode.to_le_bytes());
    out.extend_from_slice(&size.to_le_bytes());
    out.push(compressor as u8);
    out.extend_from_slice(&packed);
    Ok(())
}

fn pack(compressor: Compressor, body: &[u8]) -> Result<Vec<u8>, Fault> {
    let failed = |error: String| Fault::Compressed(CompressedFault::Stream(error));
    match compressor {
        Compressor::Noop => Ok(body.to_vec()),
        Compressor::Snappy => snap::raw::Encoder::new().compress_vec(body).map_err(|error| failed(error.to_string())),
        Compressor::Zlib => deflate(body).map_err(failed),
        Compressor::Zstd => zstd::bulk::compress(body, ZSTD_LEVEL).map_err(|error| failed(error.to_string())),
    }
}

fn deflate(body: &[u8]) -> Result<Vec<u8>, String> {
    let mut deflater = flate2::Compress::new(flate2::Compression::new(ZLIB_LEVEL), true);
    // zlib's bound for data that does not shrink.
    let mut packed = Vec::with_capacity(body.len() + body.len() / 1000 + 64);
    loop {
        let rest = body.get(deflater.total_in() as usize..).unwrap_or_default();
        let status =
            deflater.compress_vec(rest, &mut packed, FlushCompress::Finish).map_err(|error| error.to_string())?;
        if status == Status::StreamEnd {
            return Ok(packed);
        }
        packed.reserve(packed.capacity() / 2 + 64);
    }
}
