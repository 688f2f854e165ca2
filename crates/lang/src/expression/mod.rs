//! Aggregation expressions, compiled once per command and evaluated per document.
//!
//! | file | what |
//! |---|---|
//! | `parse.rs` | from BSON to the tree; constants are folded |
//! | `evaluated.rs` | results: borrowed from the document where possible |
//! | `environment.rs` | the document and the variables in scope |
//! | `field.rs` | field paths over documents and arrays |
//! | `arguments.rs` | operators with named arguments |
//! | `binary_format.rs` | texts and numbers of binary data |
//! | `arithmetic.rs`, `convert.rs`, `date.rs`, `real.rs` | what several operators share |
//! | `date_text.rs`, `zone_names.rs` | dates of texts without a format |
//! | `form.rs` | operators as functions of their evaluated arguments |
//! | `op/` | the operators, one file each |

mod arguments;
mod arithmetic;
mod binary_format;
mod bitwise;
mod convert;
pub(crate) mod date;
mod date_format;
mod date_input;
mod date_text;
mod date_unit;
mod environment;
mod evaluated;
#[cfg(test)]
mod examples;
mod field;
mod form;
mod index_of;
mod n_elements;
mod op;
mod over;
mod parse;
mod real;
mod regex_input;
mod replace;
mod set;
mod trim;
pub mod variable;
mod zone_names;

use std::sync::Arc;

use arbor_bson::{ArrayBuf, Doc, DocBuf, Value, ValueRef};

use crate::stop::{check_growth, tick, tick_for};
use crate::{Context, Input, MetaKind, Path, Result};

pub(crate) use date_unit::Unit;
pub use environment::Environment;
pub use evaluated::{Evaluated, is_true};
use form::Call;
pub use op::names as operator_names;
pub use op::{not_a_document, slice_range};
pub(crate) use parse::Parser;

/// Maximum size of the value that a constant expression is folded into.
const FOLDED_BYTES_MAX: usize = 64 << 10;

/// A compiled expression.
#[derive(Clone, Debug)]
pub enum Expression {
    /// `None` is "missing" (`$$REMOVE`). Shared, as a large variable of a command may be named any number of times.
    Constant(Option<Arc<Value>>),
    /// `$a.b`: a path into the document.
    Field(Path),
    /// `$$ROOT`.
    Root,
    /// `$meta`: metadata of the document.
    Meta(MetaKind),
    /// A variable that `$let`, `$map` ... bound, that many variables outwards, and a path into it.
    Variable { outwards: usize, path: Option<Path> },
    /// `{ a: <expression>, ... }`
    Document(Arc<[(Box<str>, Expression)]>),
    /// `[<expression>, ...]`
    Array(Arc<[Expression]>),
    /// An operator that is a function of its evaluated arguments.
    Call(Arc<Call>),
    /// An operator that decides what it evaluates.
    Special(Arc<dyn Special>),
}

/// An operator that evaluates its parts itself: it leaves some out or binds variables.
pub trait Special: std::fmt::Debug + Send + Sync {
    fn eval<'a>(&'a self, environment: &Environment<'a>) -> Result<Evaluated<'a>>;

    fn parts(&self) -> Vec<&Expression>;

    /// Returns true if equal inputs give equal results.
    fn is_pure(&self) -> bool {
        true
    }
}

/// Inputs of an expression from the document.
#[derive(Clone, Debug, Default)]
pub struct Dependencies {
    pub paths: Vec<Path>,
    pub whole_document: bool,
    /// The document's metadata.
    pub metadata: bool,
}

impl Expression {
    pub fn parse(value: ValueRef, context: &Context) -> Result<Expression> {
        Parser::new(context).expression(value)
    }

    pub fn constant(value: impl Into<Value>) -> Expression {
        Expression::of_value(Some(value.into()))
    }

    /// The value of a constant; none for "missing" and for what is no constant.
    pub fn into_constant(self) -> Option<Value> {
        match self {
            Expression::Constant(value) => value.map(Arc::unwrap_or_clone),
            _ => None,
        }
    }

    fn of_value(value: Option<Value>) -> Expression {
        Expression::Constant(value.map(Arc::new))
    }

    /// The value for this document; `None` is "missing" (as `$$REMOVE` or the path of an absent field).
    pub fn eval<'d>(&self, input: impl Into<Input<'d>>) -> Result<Option<Value>> {
        Ok(self.eval_in(&Environment::new(input))?.into_value())
    }

    /// The value as a condition: anything but false, zero, null, undefined and missing is true.
    pub fn eval_bool<'d>(&self, input: impl Into<Input<'d>>) -> Result<bool> {
        Ok(self.eval_in(&Environment::new(input))?.is_true())
    }

    /// The value, borrowed from the document or from this expression where possible. Errors: among others, a value that
    /// nests deeper than any document may.
    pub fn eval_in<'a>(&'a self, environment: &Environment<'a>) -> Result<Evaluated<'a>> {
        let made = match self {
            Expression::Constant(value) => return Ok(value.as_deref().map_or(Evaluated::Missing, Evaluated::borrowed)),
            Expression::Field(path) => return Ok(field::resolve(environment.root.into(), path.components())),
            Expression::Root => return Ok(Evaluated::Borrowed(environment.root.into())),
            Expression::Meta(kind) => {
                return Ok(environment.meta(*kind).map_or(Evaluated::Missing, Evaluated::Borrowed));
            }
            Expression::Variable { outwards, path } => {
                let Some(value) = environment.variable(*outwards) else { return Ok(Evaluated::Missing) };
                return Ok(field::resolve(value, path.as_ref().map_or(&[], Path::components)));
            }
            Expression::Document(fields) => document(fields, environment)?,
            Expression::Array(items) => array(items, environment)?,
            Expression::Call(call) => call.eval(environment)?,
            Expression::Special(special) => special.eval(environment)?,
        };
        tick_for(made.made_bytes())?;
        made.check_text()?;
        made.check_depth()?;
        Ok(made)
    }

    /// Returns true if any part of it reads the document.
    pub fn reads_document(&self) -> bool {
        let dependencies = self.dependencies();
        dependencies.whole_document || dependencies.metadata || !dependencies.paths.is_empty()
    }

    /// Returns everything it reads of the document.
    pub fn dependencies(&self) -> Dependencies {
        let mut dependencies = Dependencies::default();
        self.walk(&mut |part| match part {
            Expression::Field(path) => dependencies.paths.push(path.clone()),
            Expression::Root => dependencies.whole_document = true,
            Expression::Meta(_) => dependencies.metadata = true,
            _ => {}
        });
        dependencies
    }

    /// The names of the fields that it reads, when these are top-level ones. None: it reads deeper, or all of it.
    pub fn top_level_fields(&self) -> Option<Vec<String>> {
        let dependencies = self.dependencies();
        if dependencies.whole_document || dependencies.metadata {
            return None;
        }
        let name = |path: &Path| (path.components().len() == 1).then(|| path.as_str().to_owned());
        dependencies.paths.iter().map(name).collect()
    }

    /// Returns true if it has the same value for every document. Parts of `$let` and the like may still need their variables.
    fn is_constant(&self) -> bool {
        let mut constant = true;
        self.walk(&mut |part| match part {
            Expression::Field(_) | Expression::Root | Expression::Meta(_) | Expression::Variable { .. } => {
                constant = false;
            }
            Expression::Special(special) => constant &= special.is_pure(),
            _ => {}
        });
        constant
    }

    fn walk(&self, visit: &mut dyn FnMut(&Expression)) {
        visit(self);
        match self {
            Expression::Document(fields) => fields.iter().for_each(|(_, part)| part.walk(visit)),
            Expression::Array(items) => items.iter().for_each(|part| part.walk(visit)),
            Expression::Call(call) => call.arguments().iter().for_each(|part| part.walk(visit)),
            Expression::Special(special) => special.parts().iter().for_each(|part| part.walk(visit)),
            Expression::Constant(_)
            | Expression::Field(_)
            | Expression::Root
            | Expression::Meta(_)
            | Expression::Variable { .. } => {}
        }
    }

    /// Evaluates what does not depend on the document. An error is noted in `context` and left for the time of evaluation; a value that
    /// is much larger than what it is made of is left as well.
    fn fold(self, context: &Context) -> Expression {
        if matches!(self, Expression::Constant(_)) || !self.is_constant() {
            return self;
        }
        let value = match self.eval_in(&Environment::new(Doc::empty())) {
            Ok(value) if self.is_literal() || value.made_bytes() <= FOLDED_BYTES_MAX => value.into_value(),
            Ok(_) => return self,
            Err(error) => {
                context.constants.note(error);
                return self;
            }
        };
        Expression::of_value(value)
    }

    /// Returns true if it is an array or a document of constants, which is no larger than the client wrote it.
    fn is_literal(&self) -> bool {
        let constant = |part: &Expression| matches!(part, Expression::Constant(_));
        match self {
            Expression::Array(items) => items.iter().all(constant),
            Expression::Document(fields) => fields.iter().all(|(_, part)| constant(part)),
            _ => false,
        }
    }
}

fn document<'a>(fields: &'a [(Box<str>, Expression)], environment: &Environment<'a>) -> Result<Evaluated<'a>> {
    let mut doc = DocBuf::new();
    for (name, expression) in fields {
        if let Some(value) = expression.eval_in(environment)?.get() {
            doc.append(name, value);
        }
        tick()?;
        check_growth("a document", doc.as_bytes().len())?;
    }
    Ok(doc.into())
}

fn array<'a>(items: &'a [Expression], environment: &Environment<'a>) -> Result<Evaluated<'a>> {
    let mut array = ArrayBuf::new();
    for item in items {
        array.push(item.eval_in(environment)?.get().unwrap_or(ValueRef::Null));
        tick()?;
        check_growth("an array", array.as_array().as_bytes().len())?;
    }
    Ok(array.into())
}
