//! From the raw form to a block in memory. Any bytes give a block or an error.

use super::encode::{FLAG_PLAIN, FLAG_TRANSPOSED, SUFFIX_MAX, VERSION};
use super::{Block, Spans};
use crate::codec::RAW_BYTES_MAX;
use crate::key_index::Heads;
use crate::packed::PackedInts;
use crate::{Error, Result, Seq};

impl Block {
    /// Errors: `Corrupt` without a place, which the caller knows.
    pub fn decode(raw: &[u8]) -> Result<Block> {
        decode(raw).unwrap_or_else(|| corrupt("the structure of a block"))
    }
}

fn corrupt<T>(context: &str) -> Result<T> {
    Err(Error::Corrupt { place: String::new(), context: context.to_owned() })
}

fn number(input: &mut &[u8]) -> Option<usize> {
    Some(u32::from_le_bytes(*input.split_off(..4)?.first_chunk()?) as usize)
}

/// `None`: the bytes are no block.
fn decode(raw: &[u8]) -> Option<Result<Block>> {
    let mut input = raw;
    if *input.split_off_first()? != VERSION {
        return Some(corrupt("a block of another version"));
    }
    let flags = *input.split_off_first()?;
    let (rows, prefix) = (number(&mut input)?, number(&mut input)?);
    if rows > raw.len() {
        return None;
    }
    let mut array = || PackedInts::decode(&mut input, rows).ok();
    let (key_lengths, value_lengths, kinds, seqs) = (array()?, array()?, array()?, array()?);
    if (0..rows).any(|at| kinds.get(at) > 3) {
        return None;
    }
    let keys = Spans::of_lengths(&key_lengths, rows, 0)?;
    let key_bytes = keys.range(0, rows).1;
    let values = Spans::of_lengths(&value_lengths, rows, key_bytes)?;
    let (_, total) = values.range(0, rows);
    let prefix = input.split_off(..prefix)?;
    let mut bytes = Vec::with_capacity(total);
    match (&keys, flags & FLAG_TRANSPOSED != 0) {
        (Spans::Fixed { len, .. }, true) => {
            restore(&mut input, rows, prefix, len.checked_sub(prefix.len())?, &mut bytes)?
        }
        (Spans::Starts(_), true) => return None,
        (_, false) => join(&mut input, rows, prefix, &key_lengths, &mut bytes)?,
    }
    bytes.extend_from_slice(input);
    if bytes.len() != total {
        return None;
    }
    let max_seq =
        Seq((0..if seqs.same().is_some() { rows.min(1) } else { rows }).map(|at| seqs.get(at)).max().unwrap_or(0));
    let plain = flags & FLAG_PLAIN != 0;
    let heads = Heads::new(rows, |at| keys.slice(&bytes, at));
    Some(Ok(Block {
        rows,
        heads,
        keys,
        values,
        bytes: bytes.into(),
        kinds,
        seqs,
        max_seq,
        plain,
        as_of: Seq::ZERO,
        reach: None,
    }))
}

impl Spans {
    /// `None`: more than a block may hold.
    fn of_lengths(lengths: &PackedInts, rows: usize, first: usize) -> Option<Spans> {
        let fits = |end: u64| end <= RAW_BYTES_MAX as u64;
        if let Some(len) = lengths.same() {
            let total = len.checked_mul(rows as u64)?.checked_add(first as u64)?;
            return fits(total).then_some(Spans::Fixed { first, len: len as usize });
        }
        let mut starts = Vec::with_capacity(rows + 1);
        let mut end = first as u64;
        starts.push(end as u32);
        for at in 0..rows {
            end = end.checked_add(lengths.get(at)).filter(|&end| fits(end))?;
            starts.push(end as u32);
        }
        Some(Spans::Starts(starts.into()))
    }
}

/// Keys out of transposed differences.
fn restore(input: &mut &[u8], rows: usize, prefix: &[u8], suffix: usize, out: &mut Vec<u8>) -> Option<()> {
    let planes = input.split_off(..rows.checked_mul(suffix)?)?;
    if !(1..=SUFFIX_MAX).contains(&suffix) {
        return None;
    }
    let mut number = 0u128;
    for row in 0..rows {
        let bytes = planes.iter().skip(row).step_by(rows);
        let difference = bytes.fold(0, |number: u128, &byte| number << 8 | u128::from(byte));
        number = number.wrapping_add(difference);
        out.extend_from_slice(prefix);
        out.extend_from_slice(number.to_be_bytes().get(SUFFIX_MAX - suffix..)?);
    }
    Some(())
}

/// Keys out of what follows their prefix.
fn join(input: &mut &[u8], rows: usize, prefix: &[u8], lengths: &PackedInts, out: &mut Vec<u8>) -> Option<()> {
    for row in 0..rows {
        let suffix = (lengths.get(row) as usize).checked_sub(prefix.len())?;
        out.extend_from_slice(prefix);
        out.extend_from_slice(input.split_off(..suffix)?);
    }
    Some(())
}
