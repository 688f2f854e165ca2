//! Command-wide input of parsing: limits, collation, variables.

use std::sync::{Arc, OnceLock};

use arbor_bson::{Doc, Timestamp, Value};

use crate::expression::variable::Variables;
use crate::stop::{self, tick};
use crate::{Collation, Error, Result};

/// Bounds on what a client may send.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Levels of nested operators in a filter, an expression or a projection.
    pub depth_max: usize,
    /// Bytes of one array or string that an expression may build.
    pub value_bytes_max: usize,
}

impl Default for Limits {
    fn default() -> Limits {
        // A statement has as many levels as a stored document may have, within the 200 of the message. Results may not outgrow a document (16 MiB) by much; MongoDB
        // lets intermediate values of expressions reach 100 MB before it stops.
        Limits { depth_max: 180, value_bytes_max: 100 * 1024 * 1024 }
    }
}

/// Everything outside the documents that the meaning of a query depends on. One per command; parsing resolves `$$NOW`
/// and the `let` variables into constants, so nothing of it is needed later.
#[derive(Clone, Debug, Default)]
pub struct Context {
    /// `$$NOW`: milliseconds since 1970.
    pub now: i64,
    /// `$$CLUSTER_TIME`, where there is one.
    pub cluster_time: Option<Timestamp>,
    /// `$$NOW` and `$$CLUSTER_TIME` are not known to this command.
    pub without_times: bool,
    pub collation: Collation,
    pub limits: Limits,
    /// The command's `let`, evaluated.
    pub variables: Variables,
    pub constants: Constants,
}

/// The first error of a constant expression, where the statement is to fail with it whatever documents there are. It is reported after all
/// of the statement was parsed, as in MongoDB, which evaluates constants when it optimises a statement.
#[derive(Clone, Debug, Default)]
pub struct Constants(Option<Arc<OnceLock<Error>>>);

impl Constants {
    pub fn watched() -> Constants {
        Constants(Some(Arc::default()))
    }

    /// Keeps the error of a constant expression.
    pub(crate) fn note(&self, error: Error) {
        if let Some(first) = &self.0 {
            first.get_or_init(|| error);
        }
    }

    /// Errors: a constant expression of the pipeline has failed, or the statement is to end.
    pub fn check_pipeline(&self) -> Result<()> {
        let Some(Error { code, message }) = self.0.as_ref().and_then(|first| first.get()) else { return Ok(()) };
        stop::ask()?;
        Err(Error::new(*code, format!("Failed to optimize pipeline :: caused by :: {message}")))
    }
}

impl Context {
    pub fn new(now: i64) -> Context {
        Context { now, ..Context::default() }
    }

    /// Adds the variables of a command's `let` document, whose values are constant expressions.
    pub fn with_let(mut self, variables: Doc) -> Result<Context> {
        let without_times = std::mem::replace(&mut self.without_times, true);
        for (name, value) in variables {
            tick()?;
            if matches!(name, "NOW" | "CLUSTER_TIME") {
                let message = format!("The variable '{name}' of the system cannot be set by let");
                return Err(Error::location(4738901, message));
            }
            crate::expression::variable::check_user_name(name)?;
            let expression = crate::expression::Expression::parse(value, &self)?;
            if expression.reads_document() {
                let message = format!("Command let Expression tried to access a field: '{name}'");
                return Err(Error::location(4890500, message));
            }
            let value = expression.eval(Doc::empty())?.unwrap_or(Value::Undefined);
            self.variables.set(name, value);
        }
        self.without_times = without_times;
        Ok(self)
    }
}
