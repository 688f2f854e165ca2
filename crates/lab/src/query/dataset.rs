//! The data set, in the database `labquery`: the same documents for the same number on every server.
//!
//! | collection | documents | indexes |
//! |---|---|---|
//! | `docs` | N of about 350 bytes: keys, words, an array of items, a place | `k`, `few,k`, `s`, `items.sku`, `w`, `loc`, text |
//! | `small` | N of about 80 bytes | `_id` |
//! | `codes` | 1000, joined without an index | |
//! | `tree` | 10,000, each with its parent | `parent` |
//! | `extra` | 10,000, for deletes | `k` |

use arbor_base::Random;
use arbor_bson::{ArrayBuf, DocBuf, Value};
use arbor_client::{Client, ClientError};

pub(super) const DATABASE: &str = "labquery";
const BATCH: u64 = 1000;
pub(super) const EXTRA: u64 = 10_000;

/// Spread over 64 bits, the same for the same number.
fn mixed(n: u64) -> u64 {
    Random::new(n).next_u64()
}

/// A permutation of `0..documents`, when that is no multiple of the factor.
fn key(n: u64, documents: u64) -> i32 {
    ((n * 7_368_787) % documents) as i32
}

fn doc(n: u64, documents: u64) -> DocBuf {
    let random = mixed(n);
    let item = |at: u64| {
        let own = mixed(random ^ at);
        DocBuf::new().with("sku", (own % 500) as i32).with("count", (own / 500 % 8) as i32)
    };
    let items: ArrayBuf = [item(1), item(2), item(3)].iter().collect();
    let tags: ArrayBuf = [random % 50, random / 50 % 50].iter().map(|tag| *tag as i32).collect();
    let place: ArrayBuf = [(random % 36_000) as f64 / 100.0 - 180.0, (random / 36_000 % 18_000) as f64 / 100.0 - 90.0]
        .into_iter()
        .collect();
    let words = [random % 1000, random / 1000 % 1000, random / 1_000_000 % 1000].map(|word| format!("word{word}"));
    DocBuf::new()
        .with("_id", n as i32)
        .with("k", key(n, documents))
        .with("few", (random % 10) as i32)
        .with("w", (random / 10 % 1000) as i32)
        .with("n", (random % 1_000_003) as f64 / 7.0)
        .with("s", &format!("w{:06}", random / 7 % 1_000_000))
        .with("at", &Value::DateTime(1_600_000_000_000 + (random % 100_000_000_000) as i64))
        .with("tags", &tags)
        .with("items", &items)
        .with("loc", &DocBuf::new().with("type", "Point").with("coordinates", &place))
        .with("text", &words.join(" "))
}

fn small(n: u64, documents: u64) -> DocBuf {
    let random = mixed(n);
    DocBuf::new()
        .with("_id", n as i32)
        .with("k", key(n, documents))
        .with("few", (random % 10) as i32)
        .with("many", (random % (documents / 10).max(1)) as i32)
        .with("w", (random / 10 % 1000) as i32)
        .with("n", (random % 1_000_003) as i32)
}

/// Drops and creates all collections.
pub(super) fn load(
    client: &mut Client,
    documents: u64,
    mut progress: impl FnMut(&str),
) -> Result<Vec<String>, ClientError> {
    client.command(DATABASE, &DocBuf::new().with("dropDatabase", 1))?;
    for (name, fields) in
        [("docs", "k"), ("docs", "few k"), ("docs", "s"), ("docs", "items.sku"), ("docs", "w"), ("tree", "parent")]
    {
        index(client, name, fields.split(' ').map(|field| (field, Value::Int32(1))).collect())?;
    }
    progress("docs");
    insert(client, "docs", documents, |n| doc(n, documents))?;
    progress("small");
    insert(client, "small", documents, |n| small(n, documents))?;
    insert(client, "codes", 1000, |n| DocBuf::new().with("_id", n as i32).with("code", n as i32).with("t", "code"))?;
    insert(client, "tree", 10_000, |n| DocBuf::new().with("_id", n as i32 + 1).with("parent", (n as i32 + 1) / 8))?;
    refill(client)?;
    let mut missing = Vec::new();
    for (field, kind) in [("text", "text"), ("loc", "2dsphere")] {
        progress(kind);
        let built = index(client, "docs", [(field, Value::String(kind.to_owned()))].into_iter().collect());
        match built {
            // a server that lacks this kind of index returns an error; its shapes are left out
            Err(error) if error.is_answer() => missing.push(format!("no {kind} index: {error}")),
            other => other?,
        }
    }
    Ok(missing)
}

/// The documents that the deletes take.
pub(super) fn refill(client: &mut Client) -> Result<(), ClientError> {
    client.command(DATABASE, &DocBuf::new().with("drop", "extra")).map(drop).or_else(|error| match error.code() {
        Some(26) => Ok(()),
        _ => Err(error),
    })?;
    index(client, "extra", vec![("k", Value::Int32(1))])?;
    insert(client, "extra", EXTRA, |n| small(n, EXTRA))
}

fn index(client: &mut Client, collection: &str, fields: Vec<(&str, Value)>) -> Result<(), ClientError> {
    let name: Vec<&str> = fields.iter().map(|(field, _)| *field).collect();
    let mut key = DocBuf::new();
    for (field, kind) in &fields {
        key.append(field, kind);
    }
    let spec = DocBuf::new().with("key", &key).with("name", &name.join("_"));
    let indexes: ArrayBuf = [spec].iter().collect();
    client.command(DATABASE, &DocBuf::new().with("createIndexes", collection).with("indexes", &indexes)).map(drop)
}

fn insert(client: &mut Client, collection: &str, count: u64, make: impl Fn(u64) -> DocBuf) -> Result<(), ClientError> {
    let command = DocBuf::new().with("insert", collection).with("ordered", true);
    let mut batch = Vec::with_capacity(BATCH as usize);
    let mut next = 0;
    while next < count {
        batch.clear();
        batch.extend((next..count.min(next + BATCH)).map(&make));
        next += BATCH;
        let reply = client.command_with(DATABASE, &command, &[("documents", &batch)])?;
        if let Some(error) = reply.first_write_error() {
            return Err(error);
        }
    }
    Ok(())
}
