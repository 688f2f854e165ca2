//! Server parameters of log, checkpoints and engines. Their values are kept by what they steer, and are asked for there.
//!
//! | name | steers |
//! |---|---|
//! | `syncdelay`, TokuMX's `checkpointPeriod` | seconds between checkpoints |
//! | `journalCommitInterval`, TokuMX's `logFlushPeriod` | milliseconds between fsyncs of the log |
//! | `ftreeCacheSize`, `tokuftEngineCacheSize` | memory of the fractal tree, in bytes or as `8G` |
//! | `rocksdbRuntimeConfigCacheSizeGB`, `rocksdbRuntimeConfigMaxWriteMBPerSec` | RocksDB's cache and its bound of writes |
//! | `wiredTigerEngineRuntimeConfig` | WiredTiger, by its own configuration string |
//! | `memoryLimit` | memory of the whole process, in bytes or as `8G` |
//! | `minSnapshotHistoryWindowInSeconds` | how far back a member of a replica set is read (`atClusterTime`) |
//! | `ENGINE.NAME` | what that engine lets change while it runs, by its own name |
//!
//! Nothing of this is kept: the next start has its settings again.

use std::time::Duration;

use arbor_base::memory;
use arbor_bson::{Code, Value, ValueRef};
use arbor_engine::{Error as EngineError, MemberState};
use arbor_txn::Transactions;

use crate::{Error, Result};

/// With less there is room for hardly one statement.
const MEMORY_LIMIT_MIN: u64 = 64 << 20;
const GIGABYTE: f64 = (1u64 << 30) as f64;
/// As MongoDB has it: a bit more than a hundred days.
const SYNC_DELAY_SECONDS_MAX: f64 = 9_000_000.0;

/// A day: a window holds snapshots, and snapshots hold space.
const HISTORY_WINDOW_SECONDS_MAX: f64 = 86_400.0;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Steers {
    Checkpoints,
    LogSync,
    HistoryWindow,
    MemoryLimit,
    /// Numbers, in bytes.
    Bytes(&'static str),
    Gigabytes(&'static str),
    Number(&'static str),
    Text(&'static str),
}

#[rustfmt::skip]
static ROWS: &[(&str, Steers)] = &[
    ("checkpointPeriod", Steers::Checkpoints),
    ("ftreeCacheSize", Steers::Bytes("ftree.cacheBytes")),
    ("journalCommitInterval", Steers::LogSync),
    ("logFlushPeriod", Steers::LogSync),
    ("memoryLimit", Steers::MemoryLimit),
    ("minSnapshotHistoryWindowInSeconds", Steers::HistoryWindow),
    ("rocksdbRuntimeConfigCacheSizeGB", Steers::Gigabytes("rocksdb.cacheBytes")),
    ("rocksdbRuntimeConfigMaxWriteMBPerSec", Steers::Number("rocksdb.maxWriteMBPerSec")),
    ("syncdelay", Steers::Checkpoints),
    ("tokuftEngineCacheSize", Steers::Bytes("ftree.cacheBytes")),
    ("wiredTigerEngineRuntimeConfig", Steers::Text("wiredTiger.runtimeConfig")),
];

/// Returns true if a name belongs to this file. `ENGINE.NAME` does, whether or not the engine accepts it.
pub(crate) fn is_one(name: &str) -> bool {
    name.contains('.') || ROWS.iter().any(|(known, _)| *known == name)
}

/// The parameters over what they steer.
#[derive(Clone, Copy)]
pub(crate) struct StorageParameters<'t>(pub &'t Transactions);

impl StorageParameters<'_> {
    /// Returns a parameter's value. `None`: no such parameter exists, or its engine is not open.
    pub(crate) fn get(self, name: &str) -> Option<Value> {
        let Some((_, steers)) = ROWS.iter().find(|(known, _)| *known == name) else {
            return name.contains('.').then(|| self.0.engine().parameter(name).map(value_of))?;
        };
        let present = |parameter| self.0.engine().parameter(parameter);
        match *steers {
            Steers::Checkpoints => Some(Value::Double(self.0.checkpoint_interval().as_secs_f64())),
            Steers::LogSync => Some(int_value(self.0.log().commit_interval().as_millis() as i64)),
            Steers::HistoryWindow => Some(int_value(self.0.history_window().as_secs() as i64)),
            Steers::MemoryLimit => memory::process().limit().map(|bytes| int_value(bytes as i64)),
            Steers::Bytes(parameter) | Steers::Number(parameter) => present(parameter).map(value_of),
            Steers::Gigabytes(parameter) => {
                present(parameter)?.parse::<f64>().ok().map(|bytes| Value::Double(bytes / GIGABYTE))
            }
            Steers::Text(parameter) => present(parameter).map(Value::String),
        }
    }

    /// Those of the table that have a value.
    pub(crate) fn all(self) -> Vec<(&'static str, Value)> {
        ROWS.iter().filter_map(|(name, _)| Some((*name, self.get(name)?))).collect()
    }

    /// Returns the value before, where there was one.
    pub(crate) fn set(self, name: &str, value: ValueRef<'_>) -> Result<Option<Value>> {
        let before = self.get(name);
        let Some((_, steers)) = ROWS.iter().find(|(known, _)| *known == name) else {
            self.require_engine(name)?;
            self.steer(name, name, &text(name, value)?)?;
            return Ok(before);
        };
        match *steers {
            Steers::Checkpoints => self.set_checkpoints(number_within(name, value, 0.0, SYNC_DELAY_SECONDS_MAX)?)?,
            Steers::LogSync => {
                let milliseconds = number_within(name, value, 1.0, 500.0)?;
                self.0.log().set_commit_interval(Duration::from_millis(milliseconds as u64));
            }
            Steers::HistoryWindow => {
                let seconds = number_within(name, value, 0.0, HISTORY_WINDOW_SECONDS_MAX)?;
                self.0.set_history_window(Duration::from_secs(seconds as u64));
            }
            Steers::MemoryLimit => set_memory_limit(name, bytes(name, value)?)?,
            Steers::Bytes(parameter) => self.steer(name, parameter, &bytes(name, value)?.to_string())?,
            Steers::Gigabytes(parameter) => {
                let gigabytes = number_within(name, value, 0.0, 10_000.0)?;
                self.steer(name, parameter, &((gigabytes * GIGABYTE) as u64).to_string())?;
            }
            Steers::Number(parameter) | Steers::Text(parameter) => self.steer(name, parameter, &text(name, value)?)?,
        }
        Ok(before)
    }

    /// Like [`StorageParameters::set`], for what was given at the start; answers why it has no effect. An engine that is
    /// not open is no error then: old configurations name any.
    pub(crate) fn set_at_start(self, name: &str, text: &str) -> Result<Option<String>> {
        if let Some(engine) = self.closed_engine(name) {
            return Ok(Some(format!("the storage engine {engine} is not open")));
        }
        self.set(name, ValueRef::String(text)).map(|_| None)
    }

    /// 0 meant "never" in MongoDB; the log would grow without end.
    fn set_checkpoints(self, seconds: f64) -> Result<()> {
        let interval = Duration::from_secs_f64(seconds.max(1.0));
        self.0.set_checkpoint_interval(interval);
        let milliseconds = interval.as_millis().to_string();
        if self.0.engine().parameter("ftree.checkpointIntervalMs").is_some() {
            self.steer("syncdelay", "ftree.checkpointIntervalMs", &milliseconds)?;
        }
        Ok(())
    }

    fn steer(self, name: &str, parameter: &str, value: &str) -> Result<()> {
        self.0.engine().set_parameter(parameter, value).map_err(|error| match error {
            EngineError::InvalidOption { reason, .. } => invalid(name, &reason),
            error => arbor_txn::Error::from(error).into(),
        })
    }

    fn require_engine(self, name: &str) -> Result<()> {
        let engine = owner_of(name);
        match self.0.engine().members().iter().any(|member| Some(member.name.as_str()) == engine) {
            true => Ok(()),
            false => Err(unknown(name)),
        }
    }

    /// The engine of a parameter, if it is not open.
    fn closed_engine(self, name: &str) -> Option<&str> {
        let row = ROWS.iter().find(|(known, _)| *known == name);
        let parameter = match row.map(|(_, steers)| *steers) {
            Some(Steers::Bytes(name) | Steers::Gigabytes(name) | Steers::Number(name) | Steers::Text(name)) => name,
            Some(Steers::Checkpoints | Steers::LogSync | Steers::HistoryWindow | Steers::MemoryLimit) | None => {
                return None;
            }
        };
        let engine = owner_of(parameter)?;
        let members = self.0.engine().members();
        let open = |state: &MemberState| matches!(state, MemberState::Open { .. });
        (!members.iter().any(|member| member.name == engine && open(&member.state))).then_some(engine)
    }
}

pub(crate) fn unknown(name: &str) -> Error {
    let text = format!("attempted to set unrecognized parameter [{name}], use help:true to see options");
    Error::new(Code::INVALID_OPTIONS, text)
}

fn owner_of(parameter: &str) -> Option<&str> {
    parameter.split_once('.').map(|(engine, _)| engine)
}

fn invalid(name: &str, reason: &str) -> Error {
    Error::bad_value(format!("Invalid value for parameter {name}: {reason}"))
}

fn number(name: &str, value: ValueRef<'_>) -> Result<f64> {
    let number = match value {
        ValueRef::Int32(number) => Some(number.into()),
        ValueRef::Int64(number) => Some(number as f64),
        ValueRef::Double(number) => Some(number),
        ValueRef::String(text) => text.trim().parse().ok(),
        _ => None,
    };
    number.filter(|number: &f64| number.is_finite()).ok_or_else(|| invalid(name, "it is not a number"))
}

fn number_within(name: &str, value: ValueRef<'_>, least: f64, most: f64) -> Result<f64> {
    match number(name, value)? {
        number if number < least => Err(invalid(name, &format!("{number} is not greater than or equal to {least}"))),
        number if number > most => Err(invalid(name, &format!("{number} is not less than or equal to {most}"))),
        number => Ok(number),
    }
}

/// A number, or a text with a suffix (`512M`, `2GB`).
fn bytes(name: &str, value: ValueRef<'_>) -> Result<u64> {
    let ValueRef::String(text) = value else {
        return number_within(name, value, 0.0, u64::MAX as f64).map(|bytes| bytes as u64);
    };
    let upper = text.trim().to_ascii_uppercase();
    let digits = upper.trim_end_matches('B');
    let (digits, shift) = match digits.char_indices().last() {
        Some((at, 'K')) => (&digits[..at], 10),
        Some((at, 'M')) => (&digits[..at], 20),
        Some((at, 'G')) => (&digits[..at], 30),
        Some((at, 'T')) => (&digits[..at], 40),
        _ => (digits, 0),
    };
    let parsed = digits.trim().parse::<u64>().ok().and_then(|number| number.checked_mul(1 << shift));
    parsed.ok_or_else(|| invalid(name, &format!("'{text}' is not a size")))
}

/// Errors: less than the server itself needs.
fn set_memory_limit(name: &str, bytes: u64) -> Result<()> {
    if bytes < MEMORY_LIMIT_MIN {
        return Err(invalid(name, &format!("{bytes} is less than {MEMORY_LIMIT_MIN}")));
    }
    memory::process().set_limit(bytes);
    Ok(())
}

fn text(name: &str, value: ValueRef<'_>) -> Result<String> {
    match value {
        ValueRef::String(text) => Ok(text.to_owned()),
        ValueRef::Bool(value) => Ok(value.to_string()),
        ValueRef::Int32(number) => Ok(number.to_string()),
        ValueRef::Int64(number) => Ok(number.to_string()),
        ValueRef::Double(number) if number.is_finite() => Ok(number.to_string()),
        _ => Err(invalid(name, "it is neither a text nor a number")),
    }
}

/// Numbers as numbers.
fn value_of(text: String) -> Value {
    text.parse().map_or(Value::String(text), int_value)
}

fn int_value(value: i64) -> Value {
    i32::try_from(value).map_or(Value::Int64(value), Value::Int32)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_have_suffixes() {
        let check =
            |text: &str, expect: Option<u64>| assert_eq!(bytes("p", ValueRef::String(text)).ok(), expect, "{text}");
        check("123", Some(123));
        check("2G", Some(2 << 30));
        check("512 mb", Some(512 << 20));
        check("1T", Some(1 << 40));
        check("99999999T", None);
        check("", None);
        check("-1", None);
        check("G", None);
        assert_eq!(bytes("p", 7i32.into()).unwrap(), 7);
        assert_eq!(bytes("p", ValueRef::Double(-1.0)).unwrap_err().code, Code::BAD_VALUE);
        assert_eq!(bytes("p", ValueRef::Null).unwrap_err().code, Code::BAD_VALUE);
    }

    #[test]
    fn numbers_have_bounds() {
        let check = |value: ValueRef<'_>, expect: &str| {
            let message =
                number_within("p", value, 1.0, 500.0).map_or_else(|error| error.message.clone(), |n| n.to_string());
            assert_eq!(message, expect);
        };
        check(1i32.into(), "1");
        check(ValueRef::Double(1.5), "1.5");
        check("500".into(), "500");
        check(0i32.into(), "Invalid value for parameter p: 0 is not greater than or equal to 1");
        check(ValueRef::Int64(501), "Invalid value for parameter p: 501 is not less than or equal to 500");
        check("x".into(), "Invalid value for parameter p: it is not a number");
        check(ValueRef::Double(f64::NAN), "Invalid value for parameter p: it is not a number");
    }
}
