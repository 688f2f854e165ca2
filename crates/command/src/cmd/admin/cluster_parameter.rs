//! `setClusterParameter`, `getClusterParameter`: settings of the whole set, kept in `config.clusterParameters`.
//!
//! There is one: `changeStreamOptions: { preAndPostImages: { expireAfterSeconds: "off" | <n> } }`.

use std::sync::atomic::Ordering;

use arbor_bson::{ArrayBuf, Doc, DocBuf, Timestamp, ValueRef};
use arbor_lang::{Code, number};
use arbor_protocol::arguments::Field;
use arbor_query::{FindSpec, Interrupt, Scope};
use arbor_store::Namespace;

use crate::call::Call;
use crate::{Commands, Error, Result};

const CHANGE_STREAMS: &str = "changeStreamOptions";
const IMAGES: &str = "preAndPostImages";
const EXPIRY: &str = "expireAfterSeconds";

/// Images are shown as long as the log has them.
const OFF: i64 = -1;

pub(crate) fn set(call: &mut Call<'_>) -> Result<()> {
    call.only(&[])?;
    check_member(call)?;
    let parameters = call.field("setClusterParameter").document(call.target())?;
    let mut fields = parameters.iter();
    let (Some((name, value)), None) = (fields.next(), fields.next()) else {
        let text = format!("{} only supports setting exactly one parameter", call.info.name);
        return Err(Error::new(Code::INVALID_OPTIONS, text));
    };
    if name != CHANGE_STREAMS {
        return Err(unknown(name));
    }
    let seconds = expiry(Field::new("setClusterParameter", name).document(value)?)?;
    let doc = shown(seconds, call.database().transactions.time());
    call.server.persist(&namespace()?, doc.as_doc())?;
    call.database().images_expiry.store(seconds, Ordering::Relaxed);
    Ok(())
}

pub(crate) fn get(call: &mut Call<'_>) -> Result<()> {
    call.only(&["omitInFTDC"])?;
    check_member(call)?;
    let requested: Vec<&str> = match call.target() {
        ValueRef::String("*") => vec![CHANGE_STREAMS],
        ValueRef::String(name) => vec![name],
        ValueRef::Array(names) if !names.is_empty() => names
            .iter()
            .map(|name| call.field("getClusterParameter").string(name))
            .collect::<arbor_protocol::Result<_>>()?,
        _ => return Err(Error::bad_value("Must supply at least one cluster parameter name to getClusterParameter")),
    };
    if let Some(name) = requested.iter().find(|name| **name != CHANGE_STREAMS) {
        return Err(unknown(name));
    }
    let seconds = call.database().images_expiry.load(Ordering::Relaxed);
    let own = match stored(call.server, CHANGE_STREAMS)? {
        Some(stored) => stored,
        None => shown(seconds, 0),
    };
    let parameters: ArrayBuf = requested.iter().map(|_| &own).collect();
    call.reply.append("clusterParameters", &parameters);
    Ok(())
}

impl Commands {
    /// At the start: what was set before.
    pub fn read_cluster_parameters(&self) -> Result<()> {
        if let Some(stored) = stored(self, CHANGE_STREAMS)? {
            self.database.images_expiry.store(expiry(stored.as_doc())?, Ordering::Relaxed);
        }
        self.read_query_settings()
    }
}

pub(super) fn stored(server: &Commands, id: &str) -> Result<Option<DocBuf>> {
    let filter = DocBuf::new().with("_id", id);
    let spec = FindSpec { filter: filter.as_doc(), ..FindSpec::new(namespace()?) };
    let found = arbor_query::find(&Scope::of(&server.database), &spec, &Interrupt::never())?;
    Ok(found.all(&Interrupt::never())?.into_iter().next())
}

pub(super) fn namespace() -> Result<Namespace> {
    Ok(Namespace::new("config", "clusterParameters")?)
}

pub(super) fn check_member(call: &Call<'_>) -> Result<()> {
    match call.server.replication {
        Some(_) => Ok(()),
        None => Err(Error::new(Code::ILLEGAL_OPERATION, format!("{} cannot be run on standalones", call.info.name))),
    }
}

fn unknown(name: &str) -> Error {
    Error::new(Code::NO_SUCH_KEY, format!("Unknown Cluster Parameter {name}"))
}

fn shown(seconds: i64, time: u64) -> DocBuf {
    let images = match seconds {
        OFF => DocBuf::new().with(EXPIRY, "off"),
        seconds => DocBuf::new().with(EXPIRY, seconds),
    };
    let time = Timestamp { seconds: (time >> 32) as u32, increment: time as u32 };
    DocBuf::new()
        .with("_id", CHANGE_STREAMS)
        .with("clusterParameterTime", ValueRef::Timestamp(time))
        .with(IMAGES, &images)
}

fn expiry(options: Doc<'_>) -> Result<i64> {
    let images = match options.get(IMAGES) {
        Some(ValueRef::Document(images)) => images,
        Some(_) => return Err(Error::bad_value(format!("Expected an object for parameter {CHANGE_STREAMS}.{IMAGES}"))),
        None => return Err(Field::new(CHANGE_STREAMS, IMAGES).missing().into()),
    };
    match images.get(EXPIRY) {
        Some(ValueRef::String("off")) | None => Ok(OFF),
        Some(ValueRef::String(_)) => {
            let text = "Non-numeric value of 'expireAfterSeconds' should be 'off'";
            Err(Error::bad_value(text))
        }
        Some(value) => match number::exact_i64(value) {
            Some(seconds @ 1..) => Ok(seconds),
            _ => Err(Error::bad_value("Numeric value of 'expireAfterSeconds' should be positive")),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn seconds_or_off() {
        let read = |images: &DocBuf| expiry(DocBuf::new().with(IMAGES, images).as_doc());
        let check = |value: ValueRef<'_>| read(&DocBuf::new().with(EXPIRY, value)).ok();
        assert_eq!(check(100i32.into()), Some(100));
        assert_eq!(check(5i64.into()), Some(5));
        assert_eq!(check("off".into()), Some(OFF));
        for bad in [ValueRef::Int32(0), ValueRef::Int32(-1), "on".into(), true.into()] {
            assert_eq!(check(bad), None, "{bad}");
        }
        assert!(expiry(Doc::empty()).is_err());
        for seconds in [7, OFF] {
            assert_eq!(expiry(shown(seconds, 0).as_doc()).unwrap(), seconds);
        }
    }
}
