//! `configureQueryAnalyzer`: which collections are sampled, and how often.

use arbor_bson::{Code, Doc, DocBuf, ValueRef};
use arbor_protocol::arguments::{Field, is_present};
use arbor_protocol::generic::is_generic;
use arbor_protocol::log::now_ms;
use arbor_query::Interrupt;
use arbor_store::Namespace;

use super::sampler::ANALYZERS;
use super::{Analyzed, analyzed_namespace};
use crate::{Commands, Error, Result};

const COMMAND: &str = "configureQueryAnalyzer";
const PER_SECOND_MAX: f64 = 50.0;

/// A request to sample a collection, or not to.
pub struct Configuration {
    pub namespace: Namespace,
    /// None: it is not to be sampled.
    per_second: Option<f64>,
}

impl Configuration {
    pub fn parse(body: Doc<'_>) -> Result<Configuration> {
        let namespace = analyzed_namespace(COMMAND, body)?;
        let (mut is_full, mut per_second) = (None, None);
        for (name, value) in body.iter().skip(1).filter(|(name, value)| !is_generic(name) && is_present(*value)) {
            let field = Field::new(COMMAND, name);
            match name {
                "mode" => is_full = Some(field.one_of(value, &["full", "off"])? == "full"),
                "samplesPerSecond" => {
                    per_second = Some(match value {
                        ValueRef::Double(rate) => rate,
                        ValueRef::Int32(rate) => f64::from(rate),
                        ValueRef::Int64(rate) => rate as f64,
                        other => return Err(field.wrong_types(other, "[double, int, long, decimal]").into()),
                    });
                }
                _ => return Err(field.unknown().into()),
            }
        }
        let is_full = is_full.ok_or_else(|| Field::new(COMMAND, "mode").missing())?;
        let per_second = match (is_full, per_second) {
            (false, _) => None,
            (true, Some(rate)) if rate > 0.0 && rate <= PER_SECOND_MAX => Some(rate),
            (true, Some(rate)) => {
                let bound = if rate > PER_SECOND_MAX { "<= 50" } else { "> 0" };
                return Err(Field::new(COMMAND, "samplesPerSecond").out_of_bounds(bound, rate).into());
            }
            (true, None) => {
                return Err(Error::new(Code::INVALID_OPTIONS, "samplesPerSecond must be given with the mode 'full'"));
            }
        };
        Ok(Configuration { namespace, per_second })
    }

    /// Stores it, follows it on this server at once, and returns the reply. Other routers follow within seconds.
    pub fn run(&self, server: &Commands, on: &dyn Analyzed, interrupt: &Interrupt) -> Result<DocBuf> {
        on.totals(&self.namespace)?;
        let uuid = on.uuid(&self.namespace)?;
        let config = server.config_collections();
        let by_id = DocBuf::new().with("_id", self.namespace.as_str());
        let before = config.read(ANALYZERS, &by_id, interrupt)?;
        let before = before.first().map(DocBuf::as_doc);
        let mut reply = DocBuf::new();
        if let Some(before) = before {
            reply.append("oldConfiguration", &shown(before));
        }
        let now = ValueRef::DateTime(now_ms());
        let begun = before.filter(|before| matches!(before.get("mode"), Some(ValueRef::String("full"))));
        let begun = begun.and_then(|before| before.get("startTime")).unwrap_or(now);
        let mut next = by_id.with("collUuid", ValueRef::Binary { subtype: 4, bytes: &uuid });
        match self.per_second {
            Some(rate) => next.append("mode", "full").append("samplesPerSecond", rate).append("startTime", begun),
            None => next.append("mode", "off").append("startTime", begun).append("stopTime", now),
        };
        if self.per_second.is_some() || before.is_some() {
            config.put(ANALYZERS, std::slice::from_ref(&next), interrupt)?;
            server.sampler.set(&config.read(ANALYZERS, &DocBuf::new(), interrupt)?);
        }
        Ok(reply.with("newConfiguration", &shown(next.as_doc())))
    }
}

fn shown(analyzer: Doc<'_>) -> DocBuf {
    analyzer.iter().filter(|(name, _)| ["mode", "samplesPerSecond"].contains(name)).collect()
}
