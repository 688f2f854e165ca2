//! sysbench for MongoDB as Percona ran it (founding text 002, spec/workloads.md section 3): `sbp`, the C driver with Lua
//! scripts of 2016, and `sbl`, the Lua rewrite of 2017. In fixed mode `sbp` sends the statements of sysbench-mongodb and
//! keeps its own habit: each statement chooses its collection.

mod draw;
mod load;
mod stream;

use draw::Distribution;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::sysbench::{self, Mix};
use super::{Client, Collection, Index, Kind, Mode, Place, Range, Row, Shape, Tables, Workload};

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Tool {
    Sbp,
    Sbl,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Script {
    Oltp,
    OltpRo,
    RangesRo,
    WriteOnly,
    Insert,
}

/// Statements that differ from sysbench-mongodb's; the others are [`super::Statement`]s. Tables may have the number 0.
#[derive(Clone, Copy, Debug)]
pub enum PerconaStatement<'a> {
    /// A find of which one document is decoded, then the cursor is given up. `by_k`: sorted.
    FirstOf {
        table: u32,
        ids: Range,
        by_k: bool,
    },
    /// The sum of the constant text "k" over ids between, not including, the ends: 0, and no document is needed.
    SumOfText {
        table: u32,
        ids: Range,
    },
    /// Distinct k over ids between the ends.
    DistinctK {
        table: u32,
        ids: Range,
    },
    /// c becomes a constant, after the first time the one it is already.
    SetConstant {
        table: u32,
        id: i32,
    },
    /// Replaces or makes the document by findAndModify.
    Replace {
        table: u32,
        row: &'a Row,
    },
    /// Sets k, c and pad of the document or makes it, by findAndModify.
    Upsert {
        table: u32,
        row: &'a Row,
    },
    /// Sum of k. This and the next two are pipelines: the range ordered by c, the distinct values of c in descending order.
    Sum {
        table: u32,
        ids: Range,
    },
    Order {
        table: u32,
        ids: Range,
    },
    Distinct {
        table: u32,
        ids: Range,
    },
    /// Rows with int32 ids: unordered, or each by itself.
    Load {
        table: u32,
        rows: &'a [Row],
        one_by_one: bool,
    },
}

impl PerconaStatement<'_> {
    pub fn kind(&self) -> Kind {
        match self {
            PerconaStatement::FirstOf { by_k: false, .. } => Kind::RANGE_QUERY,
            PerconaStatement::FirstOf { by_k: true, .. } | PerconaStatement::Order { .. } => Kind::ORDER_QUERY,
            PerconaStatement::SumOfText { .. } | PerconaStatement::Sum { .. } => Kind::SUM_QUERY,
            PerconaStatement::DistinctK { .. } | PerconaStatement::Distinct { .. } => Kind::DISTINCT_QUERY,
            PerconaStatement::SetConstant { .. } => Kind::NON_INDEX_UPDATE,
            PerconaStatement::Replace { .. } | PerconaStatement::Upsert { .. } => Kind::INSERT,
            PerconaStatement::Load { .. } => Kind::INSERT_BATCH,
        }
    }
}

/// Settings of an experiment.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Settings {
    tool: Option<Tool>,
    script: Option<Script>,
    tables: Option<u32>,
    /// Per table.
    docs: Option<u32>,
    /// Documents per insert of the load.
    batch: Option<u32>,
    /// Load with single inserts, all tables at the same time (`parallel_prepare`).
    parallel_prepare: Option<bool>,
    rand_type: Option<Distribution>,
    points: Option<u32>,
    ranges: Option<u32>,
    sums: Option<u32>,
    orders: Option<u32>,
    distincts: Option<u32>,
    index_updates: Option<u32>,
    non_index_updates: Option<u32>,
    inserts: Option<u32>,
    range_size: Option<u32>,
}

#[derive(Clone, Copy, Debug)]
pub struct Percona {
    tool: Tool,
    script: Script,
    shape: Shape,
    batch: u32,
    parallel_prepare: bool,
    distribution: Distribution,
    mix: Mix,
    mode: Mode,
}

impl Percona {
    pub fn new(mode: Mode, settings: &Settings) -> Result<Percona, String> {
        let (tool, default) = (settings.tool.unwrap_or(Tool::Sbp), Mix::default());
        // The 2016 default distribution is what a run without options got; it was not intended.
        let special = (tool, mode) == (Tool::Sbp, Mode::Compat);
        let distribution = if special { Distribution::Special } else { Distribution::Uniform };
        let percona = Percona {
            tool,
            script: settings.script.unwrap_or(Script::Oltp),
            shape: Shape { tables: settings.tables.unwrap_or(8), rows: settings.docs.unwrap_or(125_000) },
            batch: settings.batch.unwrap_or(1000),
            parallel_prepare: settings.parallel_prepare.unwrap_or(tool == Tool::Sbl),
            distribution: settings.rand_type.unwrap_or(distribution),
            mix: Mix {
                points: settings.points.unwrap_or(default.points),
                ranges: settings.ranges.unwrap_or(default.ranges),
                sums: settings.sums.unwrap_or(default.sums),
                orders: settings.orders.unwrap_or(default.orders),
                distincts: settings.distincts.unwrap_or(default.distincts),
                index_updates: settings.index_updates.unwrap_or(default.index_updates),
                non_index_updates: settings.non_index_updates.unwrap_or(default.non_index_updates),
                inserts: settings.inserts.unwrap_or(default.inserts),
                range_size: settings.range_size.unwrap_or(default.range_size),
            },
            mode,
        };
        let Percona { shape, batch, .. } = percona;
        // Ids of the run phase reach three times as far as those of the load.
        if shape.tables == 0 || batch == 0 || shape.rows < 2 || shape.rows > i32::MAX as u32 / 4 {
            return Err("percona: tables and batch must be at least 1, docs at least 2 and at most 2^29".to_owned());
        }
        Ok(percona)
    }
}

impl Workload for Percona {
    fn unit(&self) -> Kind {
        Kind::TRANSACTION
    }

    fn kinds(&self) -> &'static [Kind] {
        &sysbench::KINDS
    }

    fn is_divisible(&self) -> bool {
        true
    }

    fn settings(&self) -> Value {
        let mut settings = json!(self.mix);
        let own = json!({
            "tool": self.tool,
            "script": self.script,
            "tables": self.shape.tables,
            "docs": self.shape.rows,
            "batch": self.batch,
            "parallel_prepare": self.parallel_prepare,
            "rand_type": self.distribution,
        });
        if let (Value::Object(all), Value::Object(own)) = (&mut settings, own) {
            all.extend(own);
        }
        settings
    }

    fn database(&self) -> &'static str {
        Tables::DATABASE
    }

    fn collections(&self) -> Vec<Collection> {
        let tables = Tables { shape: self.shape, mode: self.mode, batch: self.batch };
        let rows = u64::from(self.shape.rows);
        let late = self.tool == Tool::Sbl;
        let index = || if late { Index::on(&["k"]).after_load() } else { Index::on(&["k"]) };
        let own = |collection: Collection| Collection {
            indexes: vec![index()],
            // Inserts of the original never hit a loaded id: a table grows to twice its size.
            documents: rows.saturating_sub(1000).max(1)..=2 * rows + 1000,
            ..collection
        };
        tables.collections().into_iter().map(own).collect()
    }

    fn loaders(&self, threads: usize) -> Vec<Box<dyn Client>> {
        load::streams(self, threads)
    }

    fn client(&self, place: Place, seed: u64) -> Box<dyn Client> {
        Box::new(stream::Stream::new(*self, place.number as u32, seed))
    }
}
