//! Accumulators of `$group`: one file each.
//!
//! [`Accumulator`] is the parsed form; [`State`] is what one group has gathered so far.

mod add_to_set;
mod arrays;
mod avg;
mod extreme;
mod first;
mod last;
mod merge_objects;
mod moving;
mod n_values;
mod percentile;
mod push;
mod std_dev;
mod sum;
#[cfg(test)]
mod tests;
mod top;

use arbor_bson::{ArrayBuf, Doc, Value, ValueRef};

use crate::expression::{Environment, Evaluated};
use crate::{Collation, Context, Error, Expression, Input, Result};
use arrays::ArrayElements;
use moving::{Arrived, Distinct, Merged, Part, Ranked};

pub use avg::Avg;
pub use extreme::Extreme;
pub use moving::Moving;
pub use percentile::Percentile;
pub use std_dev::{Estimator, StdDev};
pub use sum::Sum;

/// Accumulated state of one field of one group.
pub trait State: std::fmt::Debug + Send {
    fn add(&mut self, value: Evaluated, root: Doc) -> Result<()>;

    fn finish(self: Box<Self>) -> Value;

    /// Returns the partial state in the form that [`State::absorb`] of an equal state takes: for spilling and for windows.
    fn partial(&self) -> Value;

    /// Takes what a state that came later gathered.
    fn absorb(&mut self, partial: ValueRef) -> Result<()>;

    /// Memory held, estimated.
    fn size_bytes(&self) -> usize {
        64
    }
}

/// `{ $sum: <expression> }`, parsed.
#[derive(Clone, Debug)]
pub struct Accumulator {
    argument: Expression,
    kind: Kind,
}

#[derive(Clone, Debug)]
enum Kind {
    Simple(fn() -> Box<dyn State>),
    Deviation(Estimator),
    /// It compares strings.
    Comparing(StartBy, Collation),
    Push,
    MergeObjects,
    AddToSet(Collation),
    ConcatArrays,
    SetUnion(Collation),
    NValues(n_values::Selector, usize, Collation),
    Top(top::Top),
    Percentile(percentile::Percentile),
}

/// The names of all accumulators.
pub const NAMES: &[&str] = &[
    "$addToSet",
    "$avg",
    "$bottom",
    "$bottomN",
    "$concatArrays",
    "$count",
    "$first",
    "$firstN",
    "$last",
    "$lastN",
    "$max",
    "$maxN",
    "$median",
    "$mergeObjects",
    "$min",
    "$minN",
    "$percentile",
    "$push",
    "$setUnion",
    "$stdDevPop",
    "$stdDevSamp",
    "$sum",
    "$top",
    "$topN",
];

impl Accumulator {
    /// Parses the accumulator of one output field of `$group`, which takes no list of arguments.
    pub fn parse(field: &str, value: ValueRef, context: &Context) -> Result<Accumulator> {
        let no_accumulator = || Error::location(40234, format!("The field '{field}' must be an accumulator object"));
        let ValueRef::Document(doc) = value else {
            return Err(no_accumulator());
        };
        let mut operators = doc.iter();
        let (name, operand) = match (operators.next(), operators.next()) {
            (Some((name, operand)), None) if name.starts_with('$') => (name, operand),
            (Some(_), Some(_)) => {
                return Err(Error::location(40238, format!("The field '{field}' must specify one accumulator")));
            }
            _ => return Err(no_accumulator()),
        };
        if matches!(operand, ValueRef::Array(_)) {
            return Err(Error::location(40237, format!("The {name} accumulator is a unary operator")));
        }
        Accumulator::of_operator(name, operand, context)
    }

    /// Parses an accumulator, whose argument may be an array.
    pub fn of_operator(name: &str, operand: ValueRef, context: &Context) -> Result<Accumulator> {
        if !NAMES.contains(&name) {
            return Err(match name {
                "$accumulator" => Error::not_implemented(name),
                _ => Error::location(15952, format!("unknown group operator '{name}'")),
            });
        }
        if let Some(kind) = simple(name) {
            return Ok(Accumulator { argument: Expression::parse(operand, context)?, kind: Kind::Simple(kind) });
        }
        if let Some(start) = comparing(name) {
            let kind = Kind::Comparing(start, context.collation.clone());
            return Ok(Accumulator { argument: Expression::parse(operand, context)?, kind });
        }
        let collecting = match name {
            "$stdDevPop" => Some(Kind::Deviation(Estimator::Population)),
            "$stdDevSamp" => Some(Kind::Deviation(Estimator::Sample)),
            "$push" => Some(Kind::Push),
            "$mergeObjects" => Some(Kind::MergeObjects),
            "$addToSet" => Some(Kind::AddToSet(context.collation.clone())),
            "$concatArrays" => Some(Kind::ConcatArrays),
            "$setUnion" => Some(Kind::SetUnion(context.collation.clone())),
            _ => None,
        };
        if let Some(kind) = collecting {
            return Ok(Accumulator { argument: Expression::parse(operand, context)?, kind });
        }
        if let Some(selector) = n_values::Selector::of_operator(name) {
            let (argument, n) = n_values::parse(name, operand, context)?;
            return Ok(Accumulator { argument, kind: Kind::NValues(selector, n, context.collation.clone()) });
        }
        match name {
            "$count" => match operand {
                ValueRef::Document(doc) if doc.is_empty() => {
                    Ok(Accumulator { argument: Expression::constant(1), kind: Kind::Simple(|| Box::<Sum>::default()) })
                }
                _ => Err(Error::type_mismatch("$count takes no arguments, i.e. $count:{}")),
            },
            "$top" | "$bottom" | "$topN" | "$bottomN" => {
                let (argument, top) = top::Top::parse(name, operand, context)?;
                Ok(Accumulator { argument, kind: Kind::Top(top) })
            }
            "$median" | "$percentile" => {
                let (argument, percentile) = percentile::Percentile::parse(name, operand, context)?;
                Ok(Accumulator { argument, kind: Kind::Percentile(percentile) })
            }
            _ => unreachable!("{name} is one of the names"),
        }
    }

    /// Returns true if it reads documents, rather than only counting them.
    pub fn reads_document(&self) -> bool {
        matches!(self.kind, Kind::Top(_)) || self.argument.reads_document()
    }

    /// The top-level fields that it reads. None: it may read any.
    pub fn fields_read(&self) -> Option<Vec<String>> {
        if matches!(self.kind, Kind::Top(_)) { None } else { self.argument.top_level_fields() }
    }

    /// An empty state for a new group.
    pub fn start(&self) -> Box<dyn State> {
        match &self.kind {
            Kind::Simple(start) => start(),
            Kind::Deviation(estimator) => Box::new(StdDev::new(*estimator)),
            Kind::Comparing(start, collation) => start(collation),
            Kind::Push => Box::<push::Push>::default(),
            Kind::MergeObjects => Box::<merge_objects::MergeObjects>::default(),
            Kind::AddToSet(collation) => Box::new(add_to_set::AddToSet::new(collation)),
            Kind::ConcatArrays => Box::new(ArrayElements::new("$concatArrays", Box::<push::Push>::default())),
            Kind::SetUnion(collation) => {
                Box::new(ArrayElements::new("$setUnion", Box::new(add_to_set::AddToSet::new(collation))))
            }
            Kind::NValues(selector, n, collation) => selector.start(*n, collation),
            Kind::Top(top) => top.start(),
            Kind::Percentile(percentile) => percentile.start(),
        }
    }

    /// An empty window, if what it gathers grows with its rows. None: its states are small, so a window is put together
    /// from them.
    pub fn start_moving(&self) -> Option<Box<dyn Moving>> {
        Some(match &self.kind {
            Kind::Simple(_) | Kind::Deviation(_) | Kind::Comparing(..) | Kind::ConcatArrays | Kind::SetUnion(_) => {
                return None;
            }
            Kind::Push => Box::new(Arrived::new(Part::Present)),
            Kind::MergeObjects => Box::<Merged>::default(),
            Kind::AddToSet(collation) => Box::new(Distinct::new(collation)),
            Kind::NValues(selector, n, collation) => selector.start_moving(*n, collation),
            Kind::Top(top) => top.start_moving(),
            Kind::Percentile(percentile) => Box::new(Ranked::new(percentile)),
        })
    }

    /// Feeds a document to a window of this accumulator.
    pub fn enter<'d>(&self, window: &mut dyn Moving, input: impl Into<Input<'d>>) -> Result<()> {
        let input = input.into();
        window.enter(self.argument.eval_in(&Environment::new(input))?, input.doc)
    }

    /// Feeds a document to a state of this accumulator.
    pub fn add<'d>(&self, state: &mut dyn State, input: impl Into<Input<'d>>) -> Result<()> {
        let input = input.into();
        let environment = Environment::new(input);
        state.add(self.argument.eval_in(&environment)?, input.doc)
    }

    /// Returns true for the standard deviations.
    pub fn is_deviation(&self) -> bool {
        matches!(self.kind, Kind::Deviation(_))
    }

    pub fn argument(&self) -> &Expression {
        &self.argument
    }
}

fn simple(name: &str) -> Option<fn() -> Box<dyn State>> {
    Some(match name {
        "$sum" => || Box::<Sum>::default(),
        "$avg" => || Box::<Avg>::default(),
        "$first" => || Box::<first::First>::default(),
        "$last" => || Box::<last::Last>::default(),
        _ => return None,
    })
}

/// An empty state of an accumulator that compares strings.
type StartBy = fn(&Collation) -> Box<dyn State>;

fn comparing(name: &str) -> Option<StartBy> {
    Some(match name {
        "$min" => |collation| Box::new(Extreme::least(collation)),
        "$max" => |collation| Box::new(Extreme::greatest(collation)),
        _ => return None,
    })
}

/// Nothing or one value as an array, the partial form of several states.
fn optional(value: &Option<Value>) -> Value {
    Value::Array(value.iter().collect::<ArrayBuf>())
}

/// The elements of a partial form that is an array.
fn elements(partial: ValueRef<'_>) -> impl Iterator<Item = ValueRef<'_>> {
    let array = match partial {
        ValueRef::Array(array) => Some(array),
        _ => None,
    };
    array.into_iter().flat_map(|array| array.iter())
}

/// Memory of a value, estimated.
pub(crate) fn value_bytes(value: &Value) -> usize {
    size_of::<Value>()
        + match value {
            Value::String(text) => text.len(),
            Value::Document(doc) => doc.as_bytes().len(),
            Value::Array(array) => array.as_array().as_bytes().len(),
            Value::Binary { bytes, .. } => bytes.len(),
            _ => 0,
        }
}
