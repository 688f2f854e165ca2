//! `setClusterParameter`, `getClusterParameter`: settings of the whole set, kept in `config.clusterParameters`.
//!
//! | parameter | value | effect |
//! |---|---|---|
//! | `changeStreamOptions` | `{ preAndPostImages: { expireAfterSeconds: "off" \| <n> } }` | how long images are shown |
//! | `changeStreams` | `{ expireAfterSeconds: <n> }` | none: it is for the change collections of a serverless MongoDB |
//! | `pauseMigrationsDuringMultiUpdates` | `{ enabled: <bool> }` | none (COMPAT.md) |

use std::sync::atomic::Ordering;

use arbor_bson::{ArrayBuf, Doc, DocBuf, Timestamp, ValueRef};
use arbor_lang::{Code, number};
use arbor_protocol::arguments::{self, Field};
use arbor_query::{FindSpec, Interrupt, Scope};
use arbor_store::Namespace;

use crate::call::Call;
use crate::{Commands, Error, Result};

const IMAGES: &str = "preAndPostImages";
const EXPIRY: &str = "expireAfterSeconds";
const ENABLED: &str = "enabled";

/// Images are shown as long as the log has them.
const OFF: i64 = -1;

/// Retention of `changeStreams` that no client has set.
const DEFAULT_RETENTION_S: i64 = 3600;

#[derive(Clone, Copy, PartialEq, Eq)]
enum Parameter {
    ChangeStreamOptions,
    ChangeStreams,
    PauseMigrations,
}

impl Parameter {
    const ALL: [Parameter; 3] = [Parameter::ChangeStreamOptions, Parameter::ChangeStreams, Parameter::PauseMigrations];

    fn name(self) -> &'static str {
        match self {
            Parameter::ChangeStreamOptions => "changeStreamOptions",
            Parameter::ChangeStreams => "changeStreams",
            Parameter::PauseMigrations => "pauseMigrationsDuringMultiUpdates",
        }
    }

    fn named(name: &str) -> Result<Parameter> {
        let found = Parameter::ALL.into_iter().find(|parameter| parameter.name() == name);
        found.ok_or_else(|| Error::new(Code::NO_SUCH_KEY, format!("Unknown Cluster Parameter {name}")))
    }

    /// Returns the value as it is kept and shown, with what it leaves out.
    fn checked(self, value: Doc<'_>) -> Result<DocBuf> {
        match self {
            Parameter::ChangeStreamOptions => Ok(images_doc(expiry(value)?)),
            Parameter::ChangeStreams => {
                let seconds = self.only_field(value, EXPIRY, |field, value| field.integer(value))?;
                match seconds.unwrap_or(DEFAULT_RETENTION_S) {
                    seconds @ 1.. => Ok(DocBuf::new().with(EXPIRY, seconds)),
                    seconds => Err(Field::new("", EXPIRY).out_of_bounds(">= 1", seconds).into()),
                }
            }
            Parameter::PauseMigrations => {
                let enabled = self.only_field(value, ENABLED, |field, value| field.strict_bool(value))?;
                Ok(DocBuf::new().with(ENABLED, enabled.unwrap_or(false)))
            }
        }
    }

    fn only_field<T>(
        self,
        value: Doc<'_>,
        name: &str,
        read: impl Fn(Field<'_>, ValueRef<'_>) -> arbor_protocol::Result<T>,
    ) -> Result<Option<T>> {
        let mut found = None;
        for (own, value) in arguments::present(value) {
            let field = Field::new(self.name(), own);
            if own != name {
                return Err(field.unknown().into());
            }
            found = Some(read(field, value)?);
        }
        Ok(found)
    }

    /// Returns the value that holds until a client sets one.
    fn default_value(self) -> DocBuf {
        match self {
            Parameter::ChangeStreamOptions => images_doc(OFF),
            Parameter::ChangeStreams => DocBuf::new().with(EXPIRY, DEFAULT_RETENTION_S),
            Parameter::PauseMigrations => DocBuf::new().with(ENABLED, false),
        }
    }

    fn shown(self, value: &DocBuf, time: u64) -> DocBuf {
        let time = Timestamp { seconds: (time >> 32) as u32, increment: time as u32 };
        let mut shown = DocBuf::new().with("_id", self.name()).with("clusterParameterTime", ValueRef::Timestamp(time));
        for (name, value) in value.as_doc() {
            shown.append(name, value);
        }
        shown
    }
}

pub(crate) fn set(call: &mut Call<'_>) -> Result<()> {
    call.only(&[])?;
    check_member(call)?;
    let parameters = call.field("setClusterParameter").document(call.target())?;
    let mut fields = parameters.iter();
    let (Some((name, value)), None) = (fields.next(), fields.next()) else {
        let text = format!("{} only supports setting exactly one parameter", call.info.name);
        return Err(Error::new(Code::INVALID_OPTIONS, text));
    };
    let parameter = Parameter::named(name)?;
    let ValueRef::Document(value) = value else {
        return Err(Error::bad_value("Cluster parameter value must be an object"));
    };
    let value = parameter.checked(value)?;
    let doc = parameter.shown(&value, call.database().transactions.time());
    call.server.persist(&namespace()?, doc.as_doc())?;
    if parameter == Parameter::ChangeStreamOptions {
        call.database().images_expiry.store(expiry(value.as_doc())?, Ordering::Relaxed);
    }
    Ok(())
}

pub(crate) fn get(call: &mut Call<'_>) -> Result<()> {
    call.only(&["omitInFTDC"])?;
    check_member(call)?;
    let requested: Vec<Parameter> = match call.target() {
        ValueRef::String("*") => Parameter::ALL.to_vec(),
        ValueRef::String(name) => vec![Parameter::named(name)?],
        ValueRef::Array(names) if names.is_empty() => {
            return Err(Error::bad_value("Must supply at least one cluster parameter name to getClusterParameter"));
        }
        ValueRef::Array(names) => {
            let names = names.iter().enumerate().map(|(index, name)| match name {
                ValueRef::String(name) => Parameter::named(name),
                other => Err(arguments::wrong_type(
                    &format!("getClusterParameter.getClusterParameter.{index}"),
                    other,
                    "string",
                )
                .into()),
            });
            names.collect::<Result<_>>()?
        }
        other => return Err(call.field("getClusterParameter").wrong_types(other, "[string, array]'").into()),
    };
    let mut parameters = ArrayBuf::new();
    for parameter in requested {
        let stored = stored(call.server, parameter.name())?;
        parameters.push(&stored.unwrap_or_else(|| parameter.shown(&parameter.default_value(), 0)));
    }
    call.reply.append("clusterParameters", &parameters);
    Ok(())
}

impl Commands {
    /// At the start: what was set before.
    pub fn read_cluster_parameters(&self) -> Result<()> {
        if let Some(stored) = stored(self, Parameter::ChangeStreamOptions.name())? {
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

fn images_doc(seconds: i64) -> DocBuf {
    let images = match seconds {
        OFF => DocBuf::new().with(EXPIRY, "off"),
        seconds => DocBuf::new().with(EXPIRY, seconds),
    };
    DocBuf::new().with(IMAGES, &images)
}

fn expiry(options: Doc<'_>) -> Result<i64> {
    let images = match options.get(IMAGES) {
        Some(ValueRef::Document(images)) => images,
        Some(_) => {
            let name = Parameter::ChangeStreamOptions.name();
            return Err(Error::bad_value(format!("Expected an object for parameter {name}.{IMAGES}")));
        }
        None => return Err(Field::new(Parameter::ChangeStreamOptions.name(), IMAGES).missing().into()),
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
            assert_eq!(expiry(images_doc(seconds).as_doc()).unwrap(), seconds);
        }
    }
}
