//! Change streams: `$changeStream` on a collection, a database, or everything.
//!
//! ```text
//! feed::Follow ──> records ──> one event each change (event.rs, command.rs, images.rs)
//!                                  └─> the stages after $changeStream (pipeline.rs) ──> split (split.rs) ──> batches
//! ```
//!
//! A stream keeps no snapshot and no thread, only a position in the log; the resume token of each batch records how far it
//! has got.
//!
//! | file | holds |
//! |---|---|
//! | `options.rs`, `target.rs` | options and target of a stream |
//! | `token.rs` | resume tokens, with their bytes |
//! | `start.rs` | where in the log a stream begins |
//! | `event.rs`, `command.rs` | changes of documents, and of the catalogue, as events |
//! | `images.rs` | documents before and after a change |
//! | `pipeline.rs`, `split.rs` | the stages after `$changeStream` |
//! | `change_stream.rs` | the source of a cursor |

mod change_stream;
mod command;
mod event;
mod images;
mod options;
mod pipeline;
mod split;
mod start;
mod target;
mod token;

use arbor_bson::ValueRef;
use arbor_lang::Code;

pub use change_stream::ChangeStream;
pub use images::ImagesExpiry;
use options::Options;
pub use options::{DOCUMENTS_ONLY, LOOKED_UP_LATER, StartAt};
pub use pipeline::Stages;
use start::Start;
use target::Target;
pub use token::Token as ResumeToken;

use crate::source::Source;
use crate::stage_spec::only_field;
use crate::{AggregateSpec, Cursor, Database, Error, Result, Scope};

const NAME: &str = "$changeStream";

/// Returns true if the pipeline begins with `$changeStream`.
pub fn is_change_stream(spec: &AggregateSpec<'_>) -> bool {
    matches!(spec.pipeline.get(0).and_then(only_field), Some((NAME, _)))
}

/// Requires a pipeline that [`is_change_stream`].
pub fn open(scope: &Scope<'_>, spec: &AggregateSpec<'_>) -> Result<Cursor> {
    let database: &Database = scope;
    let given = spec.pipeline.get(0).and_then(only_field).map_or(ValueRef::Null, |(_, given)| given);
    if database.transactions.retention().is_none() {
        return Err(location(40573, "The $changeStream stage is only supported on replica sets"));
    }
    let options = Options::parse(given)?;
    let target = Target::of(spec, &options)?;
    if !spec.collectionless {
        refuse_what_is_no_collection(database, spec)?;
    }
    let context = scope.context(&spec.namespace, spec.collation.as_ref(), spec.let_variables)?;
    let stages = Stages::parse(spec.pipeline.iter().skip(1), &context)?;
    let start = Start::find(&database.feed, &options)?;
    let stream = ChangeStream::new(database, target, options, stages, start)?;
    Ok(Cursor::over_rows(spec.namespace.clone(), stream))
}

/// Returns the start that the options of a `$changeStream` name. Errors: they are not valid.
pub fn start_of(options: ValueRef<'_>) -> Result<Option<StartAt>> {
    Ok(Options::parse(options)?.start)
}

fn refuse_what_is_no_collection(database: &Database, spec: &AggregateSpec<'_>) -> Result<()> {
    let kind = match Source::of(&database.store, &spec.namespace) {
        Source::TimeSeries { .. } => "a timeseries collection",
        Source::View(_) | Source::Oplog | Source::SystemViews | Source::Server => "a view, not a collection",
        Source::Collection => return Ok(()),
    };
    let message = format!("Namespace {} is {kind}", spec.namespace);
    Err(Error::new(Code::COMMAND_NOT_SUPPORTED_ON_VIEW, message))
}

fn location(code: i32, message: impl Into<String>) -> Error {
    Error::Lang(arbor_lang::Error::location(code, message))
}
