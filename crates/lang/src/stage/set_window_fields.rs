//! `$setWindowFields`: fields from the rows around each document, in its partition.
//!
//! ```text
//! [{$setWindowFields: {partitionBy: '$p', sortBy: {n: 1}, output: {s: {$sum: '$n', window: {documents: ['unbounded', 'current']}}}}}] on [{p: 2, n: 5}, {p: 1, n: 2}, {p: 1, n: 1}] => [{p: 1, n: 1, s: 1}, {p: 1, n: 2, s: 3}, {p: 2, n: 5, s: 5}]
//! [{$setWindowFields: {sortBy: {n: 1}, output: {a: {$avg: '$n', window: {documents: [-1, 1]}}, all: {$push: '$n', window: {documents: [-1, 0]}}}}}] on [{n: 1}, {n: 2}, {n: 6}] => [{n: 1, a: 1.5, all: [1]}, {n: 2, a: 3.0, all: [1, 2]}, {n: 6, a: 4.0, all: [2, 6]}]
//! [{$setWindowFields: {output: {total: {$sum: '$n'}}}}] on [{n: 1}, {n: 2}] => [{n: 1, total: 3}, {n: 2, total: 3}]
//! [{$setWindowFields: {sortBy: {n: 1}, output: {near: {$push: '$n', window: {range: [-1, 1]}}}}}] on [{n: 1}, {n: 2}, {n: 4}] => [{n: 1, near: [1, 2]}, {n: 2, near: [1, 2]}, {n: 4, near: [4]}]
//! [{$setWindowFields: {sortBy: {t: 1}, output: {c: {$count: {}, window: {range: [-1, 0], unit: 'hour'}}}}}] on [{t: Date(0)}, {t: Date(3600000)}, {t: Date(7200001)}] => [{t: Date(0), c: 1}, {t: Date(3600000), c: 2}, {t: Date(7200001), c: 1}]
//! [{$setWindowFields: {sortBy: {n: -1}, output: {r: {$rank: {}}, d: {$denseRank: {}}, i: {$documentNumber: {}}}}}] on [{n: 7}, {n: 9}, {n: 7}, {n: 1}] => [{n: 9, r: 1, d: 1, i: 1}, {n: 7, r: 2, d: 2, i: 2}, {n: 7, r: 2, d: 2, i: 3}, {n: 1, r: 4, d: 3, i: 4}]
//! [{$setWindowFields: {sortBy: {n: 1}, output: {b: {$shift: {output: '$n', by: -1, default: 'none'}}, 'x.f': {$shift: {output: '$n', by: 1}}}}}] on [{n: 1}, {n: 2}] => [{n: 1, b: 'none', x: {f: 2}}, {n: 2, b: 1, x: {f: null}}]
//! [{$setWindowFields: {sortBy: {t: 1}, output: {v: {$derivative: {input: '$k', unit: 'hour'}, window: {range: [-1, 0], unit: 'hour'}}}}}] on [{t: Date(0), k: 10}, {t: Date(1800000), k: 40}] => [{t: Date(0), k: 10, v: null}, {t: Date(1800000), k: 40, v: 60.0}]
//! [{$setWindowFields: {sortBy: {x: 1}, output: {v: {$integral: {input: '$y'}, window: {documents: ['unbounded', 'current']}}}}}] on [{x: 0, y: 1}, {x: 2, y: 3}, {x: 3, y: 3}] => [{x: 0, y: 1, v: 0.0}, {x: 2, y: 3, v: 4.0}, {x: 3, y: 3, v: 7.0}]
//! [{$setWindowFields: {sortBy: {n: 1}, output: {e: {$expMovingAvg: {input: '$n', alpha: 0.5}}}}}] on [{n: 1}, {n: 3}, {n: 4}] => [{n: 1, e: 1}, {n: 3, e: 2.0}, {n: 4, e: 3.0}]
//! [{$setWindowFields: {sortBy: {x: 1}, output: {c: {$covariancePop: ['$x', '$y'], window: {documents: ['unbounded', 'current']}}}}}] on [{x: 0, y: 0}, {x: 2, y: 4}] => [{x: 0, y: 0, c: 0.0}, {x: 2, y: 4, c: 2.0}]
//! [{$setWindowFields: {sortBy: {x: 1}, output: {c: {$covarianceSamp: ['$x', '$y'], window: {documents: ['unbounded', 'current']}}}}}] on [{x: 0, y: 0}, {x: 2, y: 4}] => [{x: 0, y: 0, c: null}, {x: 2, y: 4, c: 4.0}]
//! [{$setWindowFields: {sortBy: {x: 1}, output: {y: {$linearFill: '$y'}}}}] on [{x: 0}, {x: 1, y: 10}, {x: 2}, {x: 5, y: 50}, {x: 6}] => [{x: 0, y: null}, {x: 1, y: 10}, {x: 2, y: 20.0}, {x: 5, y: 50}, {x: 6, y: null}]
//! [{$setWindowFields: {sortBy: {x: 1}, output: {y: {$locf: '$y'}}}}] on [{x: 0}, {x: 1, y: 10}, {x: 2, y: null}] => [{x: 0, y: null}, {x: 1, y: 10}, {x: 2, y: 10}]
//! [{$setWindowFields: {sortBy: {x: 1}, output: {m: {$median: {input: '$x', method: 'approximate'}, window: {documents: [-1, 1]}}}}}] on [{x: 1}, {x: 2}, {x: 3}] => [{x: 1, m: 1.0}, {x: 2, m: 2.0}, {x: 3, m: 2.0}]
//! [{$setWindowFields: {partitionBy: '$p', output: {n: {$sum: 1}}}}] on [{p: null}, {}] => [{p: null, n: 2}, {n: 2}]
//! [{$setWindowFields: {partitionBy: '$p', output: {n: {$sum: 1}}}}] on [{p: [1]}] => error 14: An expression used to partition cannot evaluate to value of type array
//! [{$setWindowFields: {sortBy: {x: 1}, output: {y: {$linearFill: '$y'}}}}] on [{x: 1}, {x: 1}] => error 6050106: There can be no repeated values in the sort field
//! [{$setWindowFields: {sortBy: {x: 1}, output: {c: {$sum: 1, window: {range: [0, 1]}}}}}] on [{x: 'a'}] => error 5429414: Invalid range: Expected the sortBy field to be a number, but it was string
//! [{$setWindowFields: {sortBy: {x: 1}, output: {c: {$sum: 1, window: {range: [0, 1]}}}}}] on [{x: Date(0)}] => error 5429513: Invalid range: For windows that involve date or time ranges, a unit must be provided.
//! [{$setWindowFields: 1}] => error 9: the $setWindowFields stage specification must be an object, found int
//! [{$setWindowFields: {sortBy: {a: 1}}}] => error 40414: BSON field '$setWindowFields.output' is missing but a required field
//! [{$setWindowFields: {output: {}, x: 1}}] => error 40415: BSON field '$setWindowFields.x' is an unknown field.
//! [{$setWindowFields: {output: {a: {$nope: 1}}}}] => error 9: Unrecognized window function, $nope
//! [{$setWindowFields: {output: {a: {nope: 1}}}}] => error 9: Expected a $-prefixed window function, 'nope'
//! [{$setWindowFields: {output: {a: {$sum: 1, x: 1}}}}] => error 9: Window function $sum found an unknown argument: x
//! [{$setWindowFields: {output: {a: {$rank: {}}}}}] => error 5371602: $rank must be specified with a top level sortBy expression with exactly one element
//! [{$setWindowFields: {sortBy: {a: 1}, output: {a: {$rank: 1}}}}] => error 5371603: $rank must be specified with '{}' as the value
//! [{$setWindowFields: {output: {a: {$sum: 1, window: {documents: [0, 1]}}}}}] => error 5339901: Document-based bounds require a sortBy
//! [{$setWindowFields: {sortBy: {a: 1}, output: {a: {$sum: 1, window: {documents: [1, 0]}}}}}] => error 5339900: Lower bound must not exceed upper bound: [ 1, 0 ]
//! [{$setWindowFields: {sortBy: {a: 1}, output: {a: {$sum: 1, window: {documents: [1.5, 2]}}}}}] => error 9: Numeric document-based bounds must be an integer
//! [{$setWindowFields: {sortBy: {a: 1}, output: {a: {$integral: {input: '$b', unit: 'year'}}}}}] => error 5490710: unit must be 'week' or smaller
//! [{$setWindowFields: {sortBy: {a: 1}, output: {a: {$sum: 1, window: {range: [0.5, 1], unit: 'day'}}}}}] => error 9: With 'unit', range-based bounds must be an integer
//! [{$setWindowFields: {sortBy: {a: 1, b: 1}, output: {a: {$sum: 1, window: {range: [0, 1]}}}}}] => error 5339902: Range-based bounds require sortBy a single field
//! [{$setWindowFields: {sortBy: {a: 1}, output: {a: {$sum: 1, window: {documents: [0, 1], unit: 'day'}}}}}] => error 9: 'window' field can only contain 'documents' as the only argument or 'range' with an optional 'unit' field
//! ```
//!
//! Its input is sorted by the partition and `sortBy`. One partition at a time is in memory; when no function reads rows
//! ahead, only as many rows as they look back, and each row is passed on at once.

use std::sync::Arc;

use arbor_bson::{DocBuf, ValueRef};

use super::flow::{Flow, FlowStage};
use super::{Arrange, Stage};
use crate::document::Places;
use crate::expression::Environment;
use crate::projection::Paths;
use crate::sort::SortPart;
use crate::stop::tick;
use crate::window::{self, Column, Rows, WindowFunction};
use crate::{Context, Error, Expression, Result, SortPattern, field_path, text};

#[derive(Clone, Debug)]
struct SetWindowFields {
    partition_by: Option<Expression>,
    sort_by: SortPattern,
    output: Vec<Arc<dyn WindowFunction>>,
    /// Output fields of the functions.
    places: Arc<Places>,
}

pub(super) fn parse(spec: ValueRef, context: &Context) -> Result<Vec<Stage>> {
    let ValueRef::Document(spec) = spec else {
        let found = text::type_name(Some(spec));
        let message = format!("the $setWindowFields stage specification must be an object, found {found}");
        return Err(Error::failed_to_parse(message));
    };
    let (mut partition_by, mut sort_by, mut output) =
        (None, SortPattern::of_parts(Vec::new(), &context.collation), None);
    for (name, value) in spec {
        match (name, value) {
            ("partitionBy", value) => partition_by = Some(Expression::parse(value, context)?),
            ("sortBy", ValueRef::Document(pattern)) => sort_by = SortPattern::parse(pattern, context)?,
            ("output", ValueRef::Document(fields)) => output = Some(fields),
            ("sortBy" | "output", other) => {
                let found = text::type_name(Some(other));
                let message =
                    format!("BSON field '$setWindowFields.{name}' is the wrong type '{found}', expected type 'object'");
                return Err(Error::type_mismatch(message));
            }
            _ => {
                let message = format!("BSON field '$setWindowFields.{name}' is an unknown field.");
                return Err(Error::location(40415, message));
            }
        }
    }
    let missing = || {
        let message = "BSON field '$setWindowFields.output' is missing but a required field";
        Error::location(40414, message)
    };
    let (mut functions, mut paths, mut places) = (Vec::new(), Paths::default(), Places::default());
    for (name, value) in output.ok_or_else(missing)? {
        let path = field_path::parse(name)?;
        paths.add(&path)?;
        places.add(path.components(), functions.len());
        functions.push(window::parse(name, value, &sort_by, context)?);
    }
    let partition_by = partition_by.filter(|by| !matches!(by, Expression::Constant(_)));
    let mut stages: Vec<Stage> = order(partition_by.as_ref(), &sort_by).into_iter().collect();
    stages.push(Stage::Flow(Arc::new(SetWindowFields {
        partition_by,
        sort_by,
        output: functions,
        places: Arc::new(places),
    })));
    Ok(stages)
}

/// The sort that brings partitions together. A plain path is a sort that an index may give.
fn order(partition_by: Option<&Expression>, sort_by: &SortPattern) -> Option<Stage> {
    match partition_by {
        None if sort_by.is_empty() => None,
        None => Some(Stage::Sort(sort_by.clone())),
        Some(Expression::Field(path)) if sort_by.parts().iter().all(|part| !part.path.overlaps(path)) => {
            let mut parts = vec![SortPart::of_path(path.clone(), false)];
            parts.extend(sort_by.parts().iter().cloned());
            Some(Stage::Sort(SortPattern::of_parts(parts, sort_by.collation())))
        }
        Some(by) => Some(Stage::Arrange(Arrange { by: by.clone(), pattern: sort_by.clone() })),
    }
}

impl FlowStage for SetWindowFields {
    fn name(&self) -> &'static str {
        "$setWindowFields"
    }

    fn start(&self) -> Box<dyn Flow> {
        let reaches = self.output.iter().map(|function| function.look_back());
        let look_back = reaches.reduce(|a, b| Some(a?.max(b?))).flatten();
        Box::new(Partitions {
            stage: self.clone(),
            look_back,
            rows: Rows::new(self.sort_by.clone()),
            key: Vec::new(),
            columns: Vec::new(),
            at: None,
            waiting: None,
        })
    }
}

/// One partition after the other.
struct Partitions {
    stage: SetWindowFields,
    /// Rows that are kept before the current one. None: all.
    look_back: Option<usize>,
    rows: Rows,
    key: Vec<u8>,
    columns: Vec<Box<dyn Column>>,
    /// The row that is given next; none while rows are collected.
    at: Option<usize>,
    /// The first row of the next partition.
    waiting: Option<(Vec<u8>, DocBuf)>,
}

impl Partitions {
    fn key_of(&self, doc: &DocBuf) -> Result<Vec<u8>> {
        let Some(by) = &self.stage.partition_by else { return Ok(Vec::new()) };
        let value = by.eval_in(&Environment::new(doc.as_doc()))?;
        if matches!(value.get(), Some(ValueRef::Array(_))) {
            let message = "An expression used to partition cannot evaluate to value of type array";
            return Err(Error::type_mismatch(message));
        }
        Ok(self.stage.sort_by.collation().key_of(value.or_null()).bytes)
    }

    fn begin(&mut self, key: Vec<u8>) {
        self.key = key;
        self.rows.clear();
        self.columns = self.stage.output.iter().map(|function| function.start()).collect();
    }

    fn collect(&mut self, key: Vec<u8>, doc: DocBuf) {
        if self.rows.is_empty() || key != self.key {
            self.begin(key);
        }
        self.rows.push(doc);
        if self.look_back.is_some() {
            self.at = Some(self.rows.len() - 1);
        }
    }

    /// The row with its new fields.
    fn row(&mut self, at: usize) -> Result<Option<DocBuf>> {
        let Some(row) = self.rows.get(at) else { return Ok(None) };
        let mut values = Vec::with_capacity(self.columns.len());
        for column in &mut self.columns {
            tick()?;
            values.push(column.value(at, &self.rows)?);
        }
        Ok(Some(self.stage.places.set(row.as_doc(), &values)))
    }
}

impl Flow for Partitions {
    fn feed(&mut self, doc: DocBuf) -> Result<()> {
        let key = self.key_of(&doc)?;
        let same_partition = self.look_back.is_some() || self.rows.is_empty() || key == self.key;
        if same_partition {
            self.collect(key, doc);
        } else {
            self.waiting = Some((key, doc));
            self.at = Some(0);
        }
        Ok(())
    }

    fn end(&mut self) -> Result<()> {
        self.at = Some(if self.look_back.is_some() { self.rows.len() } else { 0 });
        Ok(())
    }

    fn next(&mut self) -> Result<Option<DocBuf>> {
        let Some(at) = self.at else { return Ok(None) };
        if let Some(doc) = self.row(at)? {
            self.at = match self.look_back {
                Some(rows) => {
                    self.rows.keep_last(rows);
                    None
                }
                None => Some(at + 1),
            };
            return Ok(Some(doc));
        }
        self.at = None;
        self.rows.clear();
        if let Some((key, doc)) = self.waiting.take() {
            self.collect(key, doc);
        }
        Ok(None)
    }

    fn size_bytes(&self) -> usize {
        self.rows.size_bytes() + self.columns.iter().map(|column| column.size_bytes()).sum::<usize>()
    }

    fn too_large(&self, allowed_bytes: usize) -> Error {
        let used = self.size_bytes();
        let message = format!(
            "Exceeded memory limit in DocumentSourceSetWindowFields, used {used} bytes but max allowed is {allowed_bytes}"
        );
        Error::location(5414201, message)
    }
}
