//! A workload by its name and settings, as experiments and `--set` give them.

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::iibench::Iibench;
use super::linkbench::LinkBench;
use super::percona::Percona;
use super::pointquery::PointQuery;
use super::sharded::Sharded;
use super::sysbench::{Mix, Sysbench};
use super::ycsb::Ycsb;
use super::{Mode, Shape, Tables, Workload};

/// The names that [`build`] knows.
pub const NAMES: [&str; 7] = ["iibench", "linkbench", "percona", "pointquery", "sharded", "sysbench", "ycsb"];

/// A new workload at its beginning. Settings that are not named keep their defaults; a name that is unknown or a value
/// that does not fit is the error, in words for people.
pub fn build(name: &str, mode: Mode, settings: &Map<String, Value>) -> Result<Box<dyn Workload>, String> {
    Ok(match name {
        "iibench" => Box::new(Iibench::new(mode, read(name, settings)?)?),
        "linkbench" => Box::new(LinkBench::new(mode, &read(name, settings)?)?),
        "percona" => Box::new(Percona::new(mode, &read(name, settings)?)?),
        "pointquery" => {
            let (queried, tables) = split(settings, &["queried"]);
            let tables = read::<TableSettings>(name, &tables)?.tables(mode)?;
            let queried = read::<QueriedSettings>(name, &queried)?.queried.unwrap_or(tables.shape.rows);
            if queried == 0 || queried > tables.shape.rows {
                return Err("queried must be from 1 to docs".to_owned());
            }
            Box::new(PointQuery { tables, queried })
        }
        "sharded" => Box::new(Sharded::new(mode, read(name, settings)?)?),
        "sysbench" => {
            let (tables, mix) = split(settings, &["tables", "docs", "batch"]);
            Box::new(Sysbench {
                tables: read::<TableSettings>(name, &tables)?.tables(mode)?,
                mix: read::<Mix>(name, &mix)?,
            })
        }
        "ycsb" => Box::new(Ycsb::new(mode, &read(name, settings)?)?),
        _ => return Err(format!("unknown workload {name:?}; known are {}, {}", NAMES.join(", "), super::own::NAME)),
    })
}

fn read<T: DeserializeOwned>(name: &str, settings: &Map<String, Value>) -> Result<T, String> {
    serde_json::from_value(Value::Object(settings.clone())).map_err(|error| format!("workload {name}: {error}"))
}

/// The settings with these names, and the others.
fn split(settings: &Map<String, Value>, names: &[&str]) -> (Map<String, Value>, Map<String, Value>) {
    settings.clone().into_iter().partition(|(name, _)| names.contains(&name.as_str()))
}

#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct TableSettings {
    tables: u32,
    /// Per table.
    docs: u32,
    /// Per insert of the load.
    batch: u32,
}

impl Default for TableSettings {
    fn default() -> TableSettings {
        TableSettings { tables: 8, docs: 125_000, batch: 1000 }
    }
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct QueriedSettings {
    /// Rows of each table that are queried, from the first; all by default.
    queried: Option<u32>,
}

impl TableSettings {
    fn tables(&self, mode: Mode) -> Result<Tables, String> {
        if self.tables == 0 || self.batch == 0 || self.docs < self.batch || self.docs > i32::MAX as u32 / 2 {
            return Err("tables and batch must be at least 1, docs at least batch and an int32".to_owned());
        }
        Ok(Tables { shape: Shape { tables: self.tables, rows: self.docs }, mode, batch: self.batch })
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn built(name: &str, settings: Value) -> Result<Box<dyn Workload>, String> {
        build(name, Mode::Compat, settings.as_object().unwrap())
    }

    #[test]
    fn every_name_has_defaults_and_refuses_what_it_does_not_know() {
        for name in NAMES {
            let workload = built(name, json!({})).unwrap();
            assert!(workload.kinds().contains(&workload.unit()), "{name}");
            let again = built(name, workload.settings()).unwrap();
            assert_eq!(again.settings(), workload.settings());
            let error = built(name, json!({"frob": 1})).err().unwrap();
            assert!(error.contains("frob") && error.contains(name), "{error}");
        }
        assert!(built("frob", json!({})).err().unwrap().contains("unknown workload \"frob\""));
    }

    #[test]
    fn settings_are_checked() {
        let error = |name, settings| built(name, settings).err().unwrap();
        assert!(error("sysbench", json!({"docs": "many"})).contains("invalid type: string \"many\""));
        assert!(error("sysbench", json!({"docs": 10})).contains("docs at least batch"));
        assert!(error("pointquery", json!({"points": 3})).contains("unknown field `points`"));
        assert!(error("pointquery", json!({"docs": 2000, "queried": 2001})).contains("queried must be from 1 to docs"));
        assert!(built("sysbench", json!({"tables": 2, "points": 3})).is_ok());
    }
}
