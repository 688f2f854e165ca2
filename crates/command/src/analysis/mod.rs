//! `analyzeShardKey`: how well a shard key would divide a collection. A server analyzes its own collection, a router one over shards:
//! each runs the pipelines here ([`Analyzed`]).

mod characteristics;
mod configure;
mod distribution;
pub(crate) mod sampler;
mod shard_key;

use arbor_bson::{ArrayBuf, Code, Doc, DocBuf, ValueRef};
use arbor_protocol::arguments::{Field, is_present};
use arbor_protocol::generic::is_generic;
use arbor_store::Namespace;

pub use configure::Configuration;
pub use sampler::{ANALYZERS, ConfigCollections, SAMPLES, expiring_index};
pub use shard_key::{checked_key, is_hashed};

use crate::{Error, Result};

const COMMAND: &str = "analyzeShardKey";
/// `analyzeShardKeyCharacteristicsDefaultSampleSize`
const SAMPLE_SIZE: u64 = 10_000_000;

/// A request to analyze a shard key.
pub struct Analysis {
    pub namespace: Namespace,
    key: DocBuf,
    /// Both false: refused.
    with_characteristics: bool,
    with_distribution: bool,
    sample: Sample,
}

/// Part of the documents that is read.
#[derive(Clone, Copy)]
enum Sample {
    Rate(f64),
    Size(u64),
}

/// A collection that is analyzed.
pub trait Analyzed {
    /// Errors: it does not exist, or is no collection.
    fn totals(&self, namespace: &Namespace) -> Result<Totals>;

    /// Returns the UUID by which its samples are known.
    fn uuid(&self, namespace: &Namespace) -> Result<Vec<u8>>;

    /// Returns the indexes as `listIndexes` shows them.
    fn indexes(&self, namespace: &Namespace) -> Result<Vec<DocBuf>>;

    /// Returns the samples of the collection's statements.
    fn samples(&self, namespace: &Namespace) -> Result<Vec<DocBuf>>;

    fn aggregate(&self, namespace: &Namespace, pipeline: &ArrayBuf) -> Result<Vec<DocBuf>>;
}

/// Numbers of a collection.
#[derive(Clone, Copy, Debug, Default)]
pub struct Totals {
    pub documents: u64,
    /// Documents that shards have but do not own. None: it is not sharded.
    pub orphans: Option<u64>,
    pub bytes_of_document: u64,
}

impl Analysis {
    pub fn parse(body: Doc<'_>) -> Result<Analysis> {
        let namespace = analyzed_namespace(COMMAND, body)?;
        let key = checked_key(COMMAND, body)?;
        let (mut with_characteristics, mut with_distribution) = (true, true);
        let (mut rate, mut size) = (None, None);
        let own = body.iter().skip(1).filter(|(name, value)| !is_generic(name) && is_present(*value));
        for (name, value) in own {
            let field = Field::new(COMMAND, name);
            match name {
                "key" => {}
                "keyCharacteristics" => with_characteristics = field.bool(value)?,
                "readWriteDistribution" => with_distribution = field.bool(value)?,
                "sampleRate" => rate = Some(read_rate(field, value)?),
                "sampleSize" => match field.integer(value)? {
                    number @ 1.. => size = Some(Sample::Size(number as u64)),
                    number => return Err(field.out_of_bounds("> 0", number).into()),
                },
                _ => return Err(field.unknown().into()),
            }
        }
        let invalid = |text: &str| Err(Error::new(Code::INVALID_OPTIONS, text));
        if !with_characteristics && !with_distribution {
            return invalid("one of keyCharacteristics and readWriteDistribution must be true");
        }
        if rate.is_some() && size.is_some() {
            return invalid("sampleRate and sampleSize cannot be set together");
        }
        let sample = rate.or(size).unwrap_or(Sample::Size(SAMPLE_SIZE));
        Ok(Analysis { namespace, key, with_characteristics, with_distribution, sample })
    }

    /// Returns the reply.
    pub fn run(&self, on: &dyn Analyzed) -> Result<DocBuf> {
        let totals = on.totals(&self.namespace)?;
        let mut reply = DocBuf::new();
        if self.with_characteristics {
            match self.characteristics(on, totals)? {
                Some(characteristics) => drop(reply.append("keyCharacteristics", &characteristics)),
                None if self.with_distribution => {}
                None => {
                    let text = format!(
                        "Cannot analyze the characteristics of a shard key that does not have a supporting index: {}",
                        self.key.as_doc()
                    );
                    return Err(Error::new(Code::ILLEGAL_OPERATION, text));
                }
            }
        }
        if self.with_distribution {
            self.distributions(on, totals, &mut reply)?;
        }
        Ok(reply)
    }
}

/// Returns the collection behind the name of a command. Errors: it is one of the server.
fn analyzed_namespace(command: &str, body: Doc<'_>) -> Result<Namespace> {
    let field = Field::new(command, command);
    let namespace = Namespace::parse(field.string(body.first().map_or(ValueRef::Null, |(_, value)| value))?)?;
    if matches!(namespace.db(), "admin" | "config" | "local") || namespace.is_system() {
        let text = format!("cannot run {command} on the collection {namespace}, which is the server's own");
        return Err(Error::new(Code::ILLEGAL_OPERATION, text));
    }
    Ok(namespace)
}

/// Returns the filter of the samples of a collection.
pub fn samples_of(namespace: &Namespace, uuid: &[u8]) -> DocBuf {
    DocBuf::new().with("ns", namespace.as_str()).with("collectionUuid", ValueRef::Binary { subtype: 4, bytes: uuid })
}

fn read_rate(field: Field<'_>, value: ValueRef<'_>) -> Result<Sample> {
    let rate = match value {
        ValueRef::Double(rate) => rate,
        ValueRef::Int32(rate) => f64::from(rate),
        ValueRef::Int64(rate) => rate as f64,
        other => return Err(field.wrong_types(other, "[double, int, long, decimal]").into()),
    };
    if rate > 0.0 && rate <= 1.0 {
        return Ok(Sample::Rate(rate));
    }
    let bound = if rate > 1.0 { "<= 1" } else { "> 0" };
    Err(field.out_of_bounds(bound, rate).into())
}

#[cfg(test)]
mod tests {
    use super::*;
    use arbor_notation::doc;

    #[test]
    fn requests_are_checked() {
        let code = |rest: &str| {
            let body = doc(&format!("{{analyzeShardKey: 'd.c', key: {{a: 1}}{rest}}}"));
            Analysis::parse(body.as_doc()).err().map(|error| error.code.0)
        };
        for (rest, expect) in [
            ("", None),
            (", sampleRate: 1", None),
            (", sampleSize: 5, keyCharacteristics: true, lsid: {}", None),
            (", keyCharacteristics: false", None),
            (", keyCharacteristics: false, readWriteDistribution: false", Some(72)),
            (", sampleRate: 0.5, sampleSize: 5", Some(72)),
            (", sampleRate: 0", Some(2)),
            (", sampleRate: 1.5", Some(2)),
            (", sampleRate: 'x'", Some(14)),
            (", sampleSize: 0", Some(2)),
            (", size: 0", Some(40415)),
        ] {
            assert_eq!(code(rest), expect, "{rest}");
        }
        for (body, expect) in [
            ("{analyzeShardKey: 5, key: {a: 1}}", 14),
            ("{analyzeShardKey: 'c', key: {a: 1}}", 73),
            ("{analyzeShardKey: 'config.c', key: {a: 1}}", 20),
            ("{analyzeShardKey: 'd.c', key: {a: -1}}", 2),
            ("{analyzeShardKey: 'd.c'}", 40414),
        ] {
            assert_eq!(Analysis::parse(doc(body).as_doc()).err().map(|error| error.code.0), Some(expect), "{body}");
        }
    }
}
