//! Functions of `$setWindowFields`: what they make of the rows of one partition.
//!
//! | file | holds |
//! |---|---|
//! | `rows.rs` | the rows of a partition in order |
//! | `bounds.rs` | windows: which rows belong to a row |
//! | `sliding.rs` | accumulators over windows that move |
//! | the others | the functions, one file each |
//!
//! W1: a [`Column`] computes its rows in order, each once, so windows only move forward.

mod bounds;
mod covariance;
mod derivative;
mod exp_moving_avg;
mod gathered;
mod integral;
mod linear_fill;
mod locf;
mod min_max_scaler;
mod rank;
mod rows;
mod shift;
mod sliding;

use std::sync::Arc;

use arbor_bson::{Value, ValueRef};

use crate::accumulator::Accumulator;
use crate::stop::tick;
use crate::{Context, Error, Result, SortPattern};

pub(crate) use bounds::order;
use bounds::{Bounds, Window};
pub(crate) use rows::{Place, Rows};

/// A parsed window function.
pub(crate) trait WindowFunction: std::fmt::Debug + Send + Sync {
    /// For a new partition.
    fn start(&self) -> Box<dyn Column>;

    /// Returns how many rows back it reads, when it never reads ahead. None: it needs the whole partition.
    fn look_back(&self) -> Option<usize> {
        None
    }
}

/// The values that a function gives the rows of one partition.
pub(crate) trait Column: Send {
    /// The value of row `at`.
    fn value(&mut self, at: usize, rows: &Rows) -> Result<Value>;

    /// Memory held, estimated.
    fn size_bytes(&self) -> usize {
        0
    }
}

/// `{ <function>: <argument>, window: <bounds> }`, taken apart.
struct Call<'v, 'c> {
    name: &'v str,
    argument: ValueRef<'v>,
    window: Option<ValueRef<'v>>,
    sort_by: &'c SortPattern,
    context: &'c Context,
}

/// The names of the functions that are no accumulators.
pub const NAMES: &[&str] = &[
    "$covariancePop",
    "$covarianceSamp",
    "$denseRank",
    "$derivative",
    "$documentNumber",
    "$expMovingAvg",
    "$integral",
    "$linearFill",
    "$locf",
    "$minMaxScaler",
    "$rank",
    "$shift",
];

/// Parses the function of one field of `output`.
pub(crate) fn parse(
    field: &str,
    spec: ValueRef,
    sort_by: &SortPattern,
    context: &Context,
) -> Result<Arc<dyn WindowFunction>> {
    tick()?;
    let ValueRef::Document(doc) = spec else {
        return Err(Error::failed_to_parse(format!("The field '{field}' must be an object")));
    };
    let Some((name, argument)) = doc.iter().find(|(name, _)| name.starts_with('$')) else {
        let found = doc.first().map_or("", |(name, _)| name);
        return Err(Error::failed_to_parse(format!("Expected a $-prefixed window function, '{found}'")));
    };
    if let Some((other, _)) = doc.iter().find(|(other, _)| *other != name && *other != "window") {
        let message = format!("Window function {name} found an unknown argument: {other}");
        if matches!(name, "$rank" | "$denseRank" | "$documentNumber") {
            return Err(Error::location(5371601, message));
        }
        return Err(Error::failed_to_parse(message));
    }
    let call = Call { name, argument, window: doc.get("window"), sort_by, context };
    if !NAMES.contains(&name) {
        return of_accumulator(&call);
    }
    match name {
        "$rank" | "$denseRank" | "$documentNumber" => rank::parse(&call),
        "$shift" => shift::parse(&call),
        "$derivative" => derivative::parse(&call),
        "$integral" => integral::parse(&call),
        "$expMovingAvg" => exp_moving_avg::parse(&call),
        "$covariancePop" | "$covarianceSamp" => covariance::parse(&call),
        "$linearFill" => linear_fill::parse(&call),
        "$locf" => locf::parse(&call),
        "$minMaxScaler" => min_max_scaler::parse(&call),
        _ => unreachable!("{name} is one of the names"),
    }
}

fn of_accumulator(call: &Call) -> Result<Arc<dyn WindowFunction>> {
    let parsed = Accumulator::of_operator(call.name, call.argument, call.context);
    let accumulator = parsed.map_err(|error| match error.code.0 {
        15952 => Error::failed_to_parse(format!("Unrecognized window function, {}", call.name)),
        _ => error,
    })?;
    gathered::parse(call, accumulator)
}

impl Call<'_, '_> {
    fn bounds(&self) -> Result<Bounds> {
        Bounds::parse(self.window, self.sort_by)
    }

    fn refuse_window(&self) -> Result<()> {
        match self.window {
            None => Ok(()),
            Some(_) => Err(Error::failed_to_parse(format!("{} does not accept a 'window' field", self.name))),
        }
    }

    /// Fails without a `sortBy`, or with one of several fields.
    fn require_single_sort(&self, code: i32) -> Result<()> {
        match self.sort_by.parts() {
            [_] => Ok(()),
            [] => Err(Error::location(code, format!("{} requires a sortBy", self.name))),
            _ => Err(Error::location(code, format!("{} requires a non-compound sortBy", self.name))),
        }
    }
}
