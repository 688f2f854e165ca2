//! Measurements of the table format on this machine: cost and gain of codecs, and times of the inner steps of reads and merges.
//! `cargo run --release -p arbor-ftree --example format_costs`

use std::hint::black_box;
use std::time::Instant;

use arbor_base::TreeId;
use arbor_ftree::block::{Block, BlockBuilder};
use arbor_ftree::codec;
use arbor_ftree::filter::{self, FilterBuilder};
use arbor_ftree::key_index::KeyIndex;
use arbor_ftree::table::{Reading, TableCursor, TableWriter};
use arbor_ftree::{Codec, Entry, Io, Kind, Seq, TreeSettings};

const ROWS: usize = 64;

/// A small generator, so that runs are equal.
struct Noise(u64);

impl Noise {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }
}

fn value(noise: &mut Noise) -> Vec<u8> {
    (0..60).map(|_| noise.next() as u8).chain([0; 60]).collect()
}

/// Nanoseconds of one call, the best of some rounds.
fn time(calls: usize, mut call: impl FnMut(usize)) -> f64 {
    let round = |call: &mut dyn FnMut(usize)| {
        let begin = Instant::now();
        (0..calls).for_each(&mut *call);
        begin.elapsed().as_nanos() as f64 / calls as f64
    };
    (0..9).map(|_| round(&mut call)).fold(f64::MAX, f64::min)
}

fn codecs(noise: &mut Noise, dense: bool) {
    for bytes in [4096, 8192, 16384, 32768] {
        for codec in [
            Codec::None,
            Codec::Lz4,
            Codec::Zstd(-5),
            Codec::Zstd(-3),
            Codec::Zstd(-1),
            Codec::Zstd(1),
            Codec::Zstd(2),
            Codec::Zstd(3),
        ] {
            let rows = bytes / 131;
            let raws: Vec<Vec<u8>> = (0..64)
                .map(|block| {
                    let mut keys: Vec<u64> = (0..rows as u64)
                        .map(|n| if dense { block * rows as u64 + n } else { noise.next() >> 20 })
                        .collect();
                    keys.sort_unstable();
                    let mut builder = BlockBuilder::default();
                    for key in keys {
                        builder.push(Entry {
                            key: &key.to_be_bytes(),
                            seq: Seq(0),
                            kind: Kind::Put,
                            value: &value(noise),
                        });
                    }
                    builder.finish()
                })
                .collect();
            let mut stored = Vec::new();
            let squeeze = time(raws.len(), |at| {
                stored.clear();
                codec::compress(codec, black_box(&raws[at]), &mut stored);
            });
            let all: Vec<Vec<u8>> = raws
                .iter()
                .map(|raw| {
                    let mut stored = Vec::new();
                    codec::compress(codec, raw, &mut stored);
                    stored
                })
                .collect();
            let open = time(raws.len(), |at| {
                black_box(codec::with_decompressed(&all[at], raws[at].len(), |raw| Ok(raw.len())).unwrap());
            });
            let decode = time(raws.len(), |at| {
                black_box(codec::with_decompressed(&all[at], raws[at].len(), Block::decode).unwrap());
            });
            let total: usize = all.iter().map(Vec::len).sum();
            let per_row = |ns: f64| ns / rows as f64;
            println!(
                "{} keys, {bytes:5} bytes, {:10}: {:6.2} bytes/row, compress {:5.0} ns/row, decompress {:4.0}, with decode {:4.0}",
                if dense { "dense" } else { "random" },
                format!("{codec:?}"),
                total as f64 / (64 * rows) as f64,
                per_row(squeeze),
                per_row(open),
                per_row(decode),
            );
        }
    }
}

fn blocks(noise: &mut Noise) {
    let mut keys: Vec<[u8; 8]> = (0..ROWS).map(|_| noise.next().to_be_bytes()).collect();
    keys.sort_unstable();
    let values: Vec<Vec<u8>> = (0..ROWS).map(|_| value(noise)).collect();
    let mut builder = BlockBuilder::default();
    let entry = |at: usize| Entry { key: &keys[at], seq: Seq(at as u64), kind: Kind::Put, value: &values[at] };
    let push = time(200, |_| {
        builder.clear();
        (0..ROWS).for_each(|at| builder.push(black_box(entry(at))));
    });
    println!("BlockBuilder::push {:.1} ns", push / ROWS as f64);
    let block = builder.block();
    let copy = time(200, |_| {
        builder.clear();
        builder.push_rows(black_box(&block), 0..ROWS);
    });
    println!("BlockBuilder::push_rows {:.1} ns/row", copy / ROWS as f64);
    let mut raw = Vec::new();
    let encode = time(200, |_| {
        raw.clear();
        builder.encode(&mut raw);
    });
    println!("BlockBuilder::encode {:.1} ns/row", encode / ROWS as f64);
    println!(
        "BlockBuilder::block {:.1} ns/row",
        time(200, |_| {
            black_box(builder.block());
        }) / ROWS as f64
    );
    println!(
        "Block::decode {:.1} ns/row",
        time(200, |_| {
            black_box(Block::decode(&raw).unwrap());
        }) / ROWS as f64
    );
    println!("Block memory {:.1} bytes/row of {}", block.memory_bytes() as f64 / ROWS as f64, 128);
    let order: Vec<usize> = (0..4096).map(|_| noise.next() as usize % ROWS).collect();
    let get = time(order.len(), |at| {
        let row = black_box(&block).lower_bound(&keys[order[at]]);
        black_box(block.entry(row).value);
    });
    println!("point lookup in a block of {ROWS}: {get:.1} ns");
    let mut many: Vec<[u8; 8]> = (0..128).map(|_| noise.next().to_be_bytes()).collect();
    many.sort_unstable();
    let index = KeyIndex::new(many.iter().map(|key| &key[..]));
    let probes: Vec<[u8; 8]> = (0..4096).map(|_| noise.next().to_be_bytes()).collect();
    println!(
        "KeyIndex::upper_bound over 128: {:.1} ns",
        time(4096, |at| {
            black_box(black_box(&index).upper_bound(&probes[at]));
        })
    );
    let text: Vec<String> = (0..128).map(|n| format!("customer/{:08}", n * 7919)).collect();
    let index = KeyIndex::new(text.iter().map(|key| key.as_bytes()));
    let probes: Vec<String> = (0..4096).map(|_| format!("customer/{:08}", noise.next() % 1_000_000)).collect();
    println!(
        "KeyIndex::upper_bound over 128 texts: {:.1} ns",
        time(4096, |at| {
            black_box(black_box(&index).upper_bound(probes[at].as_bytes()));
        })
    );
    let mut builder = FilterBuilder::default();
    (0..8000u64).for_each(|n| builder.add(filter::hash(&n.to_be_bytes())));
    let filter = builder.finish();
    let hashes: Vec<u64> = (0..4096u64).map(|n| filter::hash(&(n * 5).to_be_bytes())).collect();
    println!(
        "Filter::may_contain {:.1} ns",
        time(4096, |at| {
            black_box(black_box(&filter).may_contain(hashes[at]));
        })
    );
    println!(
        "Filter build {:.1} ns/key",
        time(10, |_| {
            black_box(builder.finish());
        }) / 8000.0
    );
    println!(
        "hash of 8 bytes {:.1} ns",
        time(4096, |at| {
            black_box(filter::hash(black_box(&keys[at % ROWS])));
        })
    );
}

fn tables(noise: &mut Noise) {
    let io = Io::scratch(1 << 30);
    let rows = 8000u64;
    let values: Vec<Vec<u8>> = (0..rows).map(|_| value(noise)).collect();
    let write = |codec, level, keep| {
        let settings = TreeSettings { codec, ..TreeSettings::default() };
        let mut writer = TableWriter::new(&io, TreeId(1), level, &settings, keep);
        for (n, value) in values.iter().enumerate() {
            writer.push(Entry { key: &(n as u64 * 16).to_be_bytes(), seq: Seq(0), kind: Kind::Put, value }, None);
        }
        writer.finish(Seq(0)).unwrap().unwrap()
    };
    for codec in [Codec::None, Codec::Lz4, Codec::Zstd(-1), Codec::Zstd(1)] {
        let ns = time(3, |_| {
            black_box(write(codec, 0, false));
        });
        println!(
            "TableWriter, leaf, {codec:?}: {:.0} ns/row, {:.2} bytes/row",
            ns / rows as f64,
            write(codec, 0, false).meta.bytes as f64 / rows as f64
        );
    }
    let table = write(Codec::Zstd(1), 0, true);
    let body = table.body(&io).unwrap();
    println!("TableBody memory {:.2} bytes/row", body.memory_bytes() as f64 / rows as f64);
    for (name, io_reading) in [("cached", Reading::Point), ("cached, sequential", Reading::Sequential)] {
        let scan = time(3, |_| {
            let mut cursor = TableCursor::new(table.clone(), &io, io_reading);
            cursor.first().unwrap();
            while let Some(entry) = cursor.entry() {
                black_box(entry);
                cursor.next().unwrap();
            }
        });
        println!("TableCursor::next, {name}: {:.1} ns", scan / rows as f64);
    }
    let cold = write(Codec::Zstd(1), 0, false);
    let scan = time(3, |_| {
        let mut cursor = TableCursor::new(cold.clone(), &io, Reading::Sequential);
        cursor.first().unwrap();
        while let Some(entry) = cursor.entry() {
            black_box(entry);
            cursor.next().unwrap();
        }
    });
    println!("TableCursor::next, not cached, zstd:1: {:.1} ns", scan / rows as f64);
    let get = time(100_000, |_| {
        let key = (noise.next() % rows * 16).to_be_bytes();
        let body = table.body(&io).unwrap();
        let block = body.block(body.block_of(&key), &io).unwrap();
        black_box(block.entry(block.lower_bound(&key)).value);
    });
    println!("get from a cached leaf of {rows}: {get:.1} ns");
}

fn main() {
    let mut noise = Noise(0x9E37_79B9_7F4A_7C15);
    blocks(&mut noise);
    tables(&mut noise);
    codecs(&mut noise, true);
    codecs(&mut noise, false);
}
