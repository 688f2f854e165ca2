//! Server parameters: one table, set at the start with `--setParameter` and some of them later with `setParameter`. Those of
//! log, checkpoints and engines are in `storage_parameters.rs`.

use arbor_bson::{Code, DocBuf, Value, ValueRef};
use parking_lot::Mutex;

use crate::{Error, Result, storage_parameters};

/// Time at which a parameter may be set, and the effect of setting it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Use {
    /// At the start and later.
    Runtime,
    Startup,
    /// Fixed; only read.
    ReadOnly,
    /// Accepted for the sake of old configurations: it steers something that Arbor does not have.
    NoEffect,
}

/// The kinds of value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Bool,
    Int,
    Text,
    /// Separated by commas at the start, an array later.
    List,
}

struct Row {
    name: &'static str,
    kind: Kind,
    use_: Use,
    default: &'static str,
    /// The least number that is taken.
    min: Option<i64>,
}

const fn row(name: &'static str, kind: Kind, use_: Use, default: &'static str) -> Row {
    Row { name, kind, use_, default, min: None }
}

#[rustfmt::skip]
static ROWS: &[Row] = &[
    row("allowDiskUseByDefault", Kind::Bool, Use::Runtime, "true"),
    row("auditAuthorizationSuccess", Kind::Bool, Use::Runtime, "false"),
    row("authFailedDelayMs", Kind::Int, Use::Startup, "0"),
    row("authFailedLockoutSecs", Kind::Int, Use::Runtime, "60"),
    row("authFailedLockoutThreshold", Kind::Int, Use::Runtime, "0"),
    row("authSchemaVersion", Kind::Int, Use::ReadOnly, "5"),
    row("authenticationMechanisms", Kind::List, Use::Startup, "MONGODB-X509,SCRAM-SHA-1,SCRAM-SHA-256"),
    row("autoMergerIntervalSecs", Kind::Int, Use::Runtime, "3600"),
    row("balancerMigrationsThrottlingMs", Kind::Int, Use::Runtime, "1000"),
    row("balancerRoundIntervalMs", Kind::Int, Use::Runtime, "10000"),
    row("cursorTimeoutMillis", Kind::Int, Use::Runtime, "600000"),
    row("defaultCompression", Kind::Text, Use::Startup, "zstd"),
    row("defaultFanout", Kind::Int, Use::Startup, "64"),
    row("defaultPageSize", Kind::Int, Use::Startup, "1048576"),
    row("defaultReadPageSize", Kind::Int, Use::Startup, "8192"),
    row("diagnosticDataCollectionDirectorySizeMB", Kind::Int, Use::Runtime, "200").from(10),
    row("diagnosticDataCollectionEnabled", Kind::Bool, Use::Runtime, "true"),
    row("diagnosticDataCollectionFileSizeMB", Kind::Int, Use::Runtime, "10").from(1),
    row("diagnosticDataCollectionPeriodMillis", Kind::Int, Use::Runtime, "1000").from(100),
    row("diagnosticDataCollectionSamplesPerChunk", Kind::Int, Use::Runtime, "300").from(2),
    row("diagnosticDataCollectionSamplesPerInterimUpdate", Kind::Int, Use::Runtime, "10").from(2),
    row("enableLocalhostAuthBypass", Kind::Bool, Use::Startup, "true"),
    row("enableTestCommands", Kind::Bool, Use::Startup, "false"),
    row("enforceUserClusterSeparation", Kind::Bool, Use::Startup, "true"),
    row("failIndexKeyTooLong", Kind::Bool, Use::NoEffect, "true"),
    row("fastUpdates", Kind::Bool, Use::Runtime, "false"),
    row("firstMessageTimeoutSecs", Kind::Int, Use::Startup, "30"),
    row("idleBeforeLoginTimeoutSecs", Kind::Int, Use::Startup, "300"),
    row("internalDocumentSourceGroupMaxMemoryBytes", Kind::Int, Use::Startup, "104857600"),
    row("internalQueryExecYieldIterations", Kind::Int, Use::NoEffect, "1000"),
    row("internalQueryExecYieldPeriodMS", Kind::Int, Use::NoEffect, "10"),
    row("internalQueryMaxBlockingSortMemoryUsageBytes", Kind::Int, Use::Startup, "104857600"),
    row("internalQueryPlannerMaxIndexedSolutions", Kind::Int, Use::NoEffect, "64"),
    row("internalQueryStatsRateLimit", Kind::Int, Use::Runtime, "0"),
    // there are no keys that sign cluster times
    row("KeysRotationIntervalSec", Kind::Int, Use::Startup, "7776000"),
    row("localLogicalSessionTimeoutMinutes", Kind::Int, Use::ReadOnly, "30"),
    row("logHeldForMembersMB", Kind::Int, Use::Runtime, "4096"),
    row("logLevel", Kind::Int, Use::Runtime, "0"),
    row("maxAcceptableLogicalClockDriftSecs", Kind::Int, Use::Startup, "31536000"),
    row("maxBSONDepth", Kind::Int, Use::NoEffect, "200"),
    row("maxIndexBuildMemoryUsageMegabytes", Kind::Int, Use::Runtime, "200"),
    row("maxSessions", Kind::Int, Use::Startup, "1000000"),
    row("maxTransactionLockRequestTimeoutMillis", Kind::Int, Use::NoEffect, "5"),
    row("notablescan", Kind::Bool, Use::Runtime, "false"),
    row("periodicNoopIntervalSecs", Kind::Int, Use::Startup, "10"),
    row("quiet", Kind::Bool, Use::Runtime, "false"),
    row("redactClientLogData", Kind::Bool, Use::Runtime, "false"),
    row("replWriterThreadCount", Kind::Int, Use::NoEffect, "16"),
    row("ShardingTaskExecutorPoolReplicaSetMatching", Kind::Text, Use::NoEffect, "automatic"),
    row("scramIterationCount", Kind::Int, Use::Runtime, "10000"),
    row("scramSHA256IterationCount", Kind::Int, Use::Runtime, "15000"),
    row("tcmallocAggressiveMemoryDecommit", Kind::Int, Use::NoEffect, "0"),
    row("testingDiagnosticsEnabled", Kind::Bool, Use::NoEffect, "false"),
    row("transactionLifetimeLimitSeconds", Kind::Int, Use::Runtime, "60"),
    row("ttlMonitorEnabled", Kind::Bool, Use::Runtime, "true"),
    row("ttlMonitorSleepSecs", Kind::Int, Use::Runtime, "60"),
    row("userCacheInvalidationIntervalSecs", Kind::Int, Use::Runtime, "30"),
    row("wiredTigerConcurrentReadTransactions", Kind::Int, Use::NoEffect, "128"),
    row("wiredTigerConcurrentWriteTransactions", Kind::Int, Use::NoEffect, "128"),
    row("writePeriodicNoops", Kind::Bool, Use::Startup, "true"),
];

/// Current values of the parameters in the table.
pub struct Parameters {
    values: Mutex<Vec<Value>>,
    /// Given at the start, for what is not open yet then.
    pub(crate) for_storage: Vec<(String, String)>,
    test_commands: bool,
}

/// A parameter that was accepted at the start and does nothing.
#[derive(Debug, PartialEq, Eq)]
pub struct WithoutEffect(pub String);

impl Parameters {
    /// The table with what was given at the start.
    pub fn new(given: &[(String, String)]) -> std::result::Result<(Parameters, Vec<WithoutEffect>), String> {
        let default = |row: &Row| row.kind.parse(row.default).unwrap_or(Value::Null);
        let mut values: Vec<Value> = ROWS.iter().map(default).collect();
        let (mut without_effect, mut for_storage) = (Vec::new(), Vec::new());
        for (name, text) in given {
            if storage_parameters::is_one(name) {
                for_storage.push((name.clone(), text.clone()));
                continue;
            }
            let index = index_of(name);
            // Query knobs come and go with MongoDB's versions; none of them has a meaning here.
            if index.is_none() && name.starts_with("internalQuery") {
                without_effect.push(WithoutEffect(name.clone()));
                continue;
            }
            let (index, row) = index.ok_or_else(|| format!("Unknown server parameter: '{name}'"))?;
            if row.use_ == Use::ReadOnly {
                return Err(format!("Cannot use --setParameter to set '{name}' at startup"));
            }
            let wrong = || format!("Bad value for parameter \"{name}\": '{text}'");
            let value = row.kind.parse(text).ok_or_else(wrong)?;
            row.check(&value)?;
            if let Some(slot) = values.get_mut(index) {
                *slot = value;
            }
            if row.use_ == Use::NoEffect {
                without_effect.push(WithoutEffect(name.clone()));
            }
        }
        let parameters = Parameters { values: Mutex::new(values), for_storage, test_commands: false };
        let test_commands = parameters.bool("enableTestCommands");
        Ok((Parameters { test_commands, ..parameters }, without_effect))
    }

    pub fn test_commands(&self) -> bool {
        self.test_commands
    }

    pub fn bool(&self, name: &str) -> bool {
        matches!(self.get(name), Some(Value::Bool(true)))
    }

    pub fn int(&self, name: &str) -> Option<i64> {
        match self.get(name)? {
            Value::Int32(value) => Some(value.into()),
            Value::Int64(value) => Some(value),
            _ => None,
        }
    }

    pub fn get(&self, name: &str) -> Option<Value> {
        let (index, _) = index_of(name)?;
        self.values.lock().get(index).cloned()
    }

    /// Every parameter with its value that `requested` takes, which is asked whether it may be set at runtime and at the start.
    pub fn all(&self, requested: impl Fn(bool, bool) -> bool) -> DocBuf {
        self.all_with(requested, |_, value| value.clone())
    }

    /// Like `all`, as `getParameter` with `showDetails` answers them.
    pub fn all_detailed(&self, requested: impl Fn(bool, bool) -> bool) -> DocBuf {
        self.all_with(requested, |row, value| Value::Document(row.detailed(value)))
    }

    pub fn detailed(&self, name: &str) -> Option<DocBuf> {
        let (_, row) = index_of(name)?;
        Some(row.detailed(&self.get(name)?))
    }

    /// Sets a parameter while the server runs; answers the value before.
    pub fn set(&self, name: &str, value: ValueRef<'_>) -> Result<Value> {
        let unknown = || storage_parameters::unknown(name);
        let (index, row) = index_of(name).ok_or_else(unknown)?;
        if matches!(row.use_, Use::Startup | Use::ReadOnly) {
            let text = format!("not allowed to change [{name}] at runtime");
            return Err(Error::new(Code::ILLEGAL_OPERATION, text));
        }
        let wrong = || Error::bad_value(format!("invalid value for parameter [{name}]"));
        let value = row.kind.convert(value).ok_or_else(wrong)?;
        row.check(&value).map_err(Error::bad_value)?;
        let mut values = self.values.lock();
        let slot = values.get_mut(index).ok_or_else(unknown)?;
        Ok(std::mem::replace(slot, value))
    }

    fn all_with(&self, requested: impl Fn(bool, bool) -> bool, show: impl Fn(&Row, &Value) -> Value) -> DocBuf {
        let values = self.values.lock();
        let mut doc = DocBuf::new();
        for (row, value) in ROWS.iter().zip(values.iter()).filter(|(row, _)| requested(row.runtime(), row.startup())) {
            doc.append(row.name, &show(row, value));
        }
        doc
    }
}

fn index_of(name: &str) -> Option<(usize, &'static Row)> {
    ROWS.iter().enumerate().find(|(_, row)| row.name == name)
}

/// A parameter as `showDetails` has it.
pub(crate) fn detail(value: &Value, runtime: bool, startup: bool) -> DocBuf {
    DocBuf::new().with("value", value).with("settableAtRuntime", runtime).with("settableAtStartup", startup)
}

impl Row {
    const fn from(self, min: i64) -> Row {
        Row { min: Some(min), ..self }
    }

    fn check(&self, value: &Value) -> std::result::Result<(), String> {
        let number = match value {
            Value::Int32(number) => i64::from(*number),
            Value::Int64(number) => *number,
            _ => return Ok(()),
        };
        match self.min {
            Some(min) if number < min => Err(format!(
                "Invalid value for parameter {}: {number} is not greater than or equal to {min}",
                self.name
            )),
            _ => Ok(()),
        }
    }

    fn detailed(&self, value: &Value) -> DocBuf {
        detail(value, self.runtime(), self.startup())
    }

    fn runtime(&self) -> bool {
        matches!(self.use_, Use::Runtime | Use::NoEffect)
    }

    fn startup(&self) -> bool {
        self.use_ != Use::ReadOnly
    }
}

impl Kind {
    fn parse(self, text: &str) -> Option<Value> {
        match self {
            Kind::Bool => match text {
                "true" | "1" => Some(Value::Bool(true)),
                "false" | "0" => Some(Value::Bool(false)),
                _ => None,
            },
            Kind::Int => text.parse().ok().map(int_value),
            Kind::Text => Some(Value::String(text.to_owned())),
            Kind::List => Some(Value::Array(text.split(',').map(str::trim).collect())),
        }
    }

    fn convert(self, value: ValueRef<'_>) -> Option<Value> {
        let field = arbor_protocol::arguments::Field::new("setParameter", "");
        match self {
            Kind::Bool => Some(Value::Bool(arbor_lang::expression::is_true(value))),
            Kind::Int => match value {
                ValueRef::Bool(value) => Some(Value::Int32(value.into())),
                value => field.integer(value).ok().map(int_value),
            },
            Kind::Text => field.string(value).ok().map(|text| Value::String(text.to_owned())),
            Kind::List => field.array(value).ok().map(|list| Value::Array(list.to_buf())),
        }
    }
}

fn int_value(value: i64) -> Value {
    i32::try_from(value).map_or(Value::Int64(value), Value::Int32)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn given(pairs: &[(&str, &str)]) -> std::result::Result<(Parameters, Vec<WithoutEffect>), String> {
        Parameters::new(&pairs.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect::<Vec<_>>())
    }

    #[test]
    fn the_founding_texts_parameters_are_known() {
        let pairs = [
            ("defaultCompression", "quicklz"),
            ("defaultFanout", "128"),
            ("defaultReadPageSize", "16384"),
            ("fastUpdates", "true"),
            ("wiredTigerConcurrentReadTransactions", "64"),
            ("internalQueryPlanEvaluationWorks", "1"),
        ];
        let (parameters, without_effect) = given(&pairs).unwrap();
        assert_eq!(parameters.int("defaultFanout"), Some(128));
        assert!(parameters.bool("fastUpdates"));
        let names: Vec<&str> = without_effect.iter().map(|w| w.0.as_str()).collect();
        // The first three are for the fractal tree, the next one for updates.
        assert_eq!(names, pairs[4..].iter().map(|(name, _)| *name).collect::<Vec<_>>());
        assert!(given(&[("enableTestCommands", "1")]).unwrap().0.test_commands());
    }

    #[test]
    fn unknown_and_wrong_ones_are_refused() {
        assert!(given(&[("noSuchThing", "1")]).err().unwrap().contains("noSuchThing"));
        assert!(given(&[("defaultFanout", "many")]).err().unwrap().contains("defaultFanout"));
        let (parameters, _) = given(&[]).unwrap();
        assert!(matches!(parameters.set("logLevel", 2i32.into()), Ok(Value::Int32(0))));
        assert_eq!(parameters.int("logLevel"), Some(2));
        assert!(matches!(parameters.set("logLevel", true.into()), Ok(Value::Int32(2))));
        assert_eq!(parameters.int("logLevel"), Some(1));
        let text = DocBuf::new().with("a", 1i32);
        for (value, expected) in
            [("x".into(), true), (ValueRef::Null, false), ((&text).into(), true), (0.0.into(), false)]
        {
            parameters.set("quiet", value).unwrap();
            assert_eq!(parameters.bool("quiet"), expected, "{value}");
        }
        for (name, value, code) in [
            ("noSuchThing", ValueRef::Int32(1), 72),
            ("enableTestCommands", 1i32.into(), 20),
            ("logLevel", "x".into(), 2),
            ("diagnosticDataCollectionPeriodMillis", 99i32.into(), 2),
        ] {
            assert_eq!(parameters.set(name, value).unwrap_err().code.0, code, "{name}");
        }
    }
}
