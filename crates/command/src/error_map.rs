//! The one place that gives the errors of other crates MongoDB's code and text.

use arbor_bson::{Code, DocBuf};
use arbor_lang::Collation;
use arbor_store::IndexProblem;

use crate::Error;

impl From<arbor_lang::Error> for Error {
    fn from(error: arbor_lang::Error) -> Error {
        Error::new(error.code, error.message)
    }
}

impl From<arbor_query::Error> for Error {
    fn from(error: arbor_query::Error) -> Error {
        use arbor_query::Error as E;
        match error {
            E::Lang(error) => error.into(),
            E::Store(error) => error.into(),
            E::Txn(error) => error.into(),
            E::DocumentInvalid { info } => {
                let details = DocBuf::new().with("errInfo", &*info);
                let text = "Document failed validation";
                Error::new(Code::DOCUMENT_VALIDATION_FAILURE, text).with_details(details)
            }
            E::TimeExpired => Error::new(Code::MAX_TIME_MS_EXPIRED, arbor_query::TIME_EXPIRED),
            E::During { what, error } => Error::from(*error).during(what),
            E::Killed | E::Paused => Error::new(Code::INTERRUPTED, arbor_query::KILLED),
        }
    }
}

impl From<arbor_store::Error> for Error {
    fn from(error: arbor_store::Error) -> Error {
        use arbor_store::Error as E;
        let text = error.to_string();
        match error {
            E::InvalidNamespace { namespace, .. } => invalid_namespace(&namespace),
            E::NamespaceNotFound(_) => Error::new(Code::NAMESPACE_NOT_FOUND, text),
            E::NamespaceExists(namespace) => {
                Error::new(Code::NAMESPACE_EXISTS, format!("Collection {namespace} already exists."))
            }
            E::NamespaceIsView(_) => Error::new(Code::COMMAND_NOT_SUPPORTED_ON_VIEW, text),
            E::ViewCycle(_) => Error::new(Code::GRAPH_CONTAINS_CYCLE, text),
            E::ViewTooDeep => Error::new(Code::VIEW_DEPTH_LIMIT_EXCEEDED, text),
            E::DatabaseDifferCase { .. } => Error::new(Code::DATABASE_DIFFER_CASE, text),
            E::IllegalOperation(_) => Error::new(Code::ILLEGAL_OPERATION, text),
            E::DuplicateKey { namespace, index_name, key_pattern, key_value, collation } => {
                duplicate_key(namespace.as_str(), &index_name, &key_pattern, &key_value, &collation)
            }
            E::LargerThanCapped | E::InvalidId(_) => Error::bad_value(text),
            E::CannotIndexParallelArrays { .. } => Error::new(Code::CANNOT_INDEX_PARALLEL_ARRAYS, text),
            E::AmbiguousArrayField { .. } => Error::new(Code(16746), text),
            E::Geo { code, .. } => Error::new(Code(code), text),
            E::HashedArray { .. } => Error::new(Code(16766), text),
            E::Filter(error) => error.into(),
            E::TooManyKeys { .. } => Error::new(Code::CANNOT_BUILD_INDEX_KEYS, text),
            E::UnknownEngine { .. } => Error::new(Code::INVALID_OPTIONS, text),
            E::CannotConvertToUnique { violations } => {
                let details = DocBuf::new().with("violations", &violations);
                Error::new(Code::CANNOT_CONVERT_INDEX_TO_UNIQUE, text).with_details(details)
            }
            E::ConflictingOperation(_) => Error::new(Code::CONFLICTING_OPERATION_IN_PROGRESS, text),
            E::SnapshotUnavailable(_) => Error::new(Code::SNAPSHOT_UNAVAILABLE, text),
            E::NotInTransaction(_) => Error::new(Code::OPERATION_NOT_SUPPORTED_IN_TRANSACTION, text),
            E::IndexBuildRunning { .. } => Error::new(Code::BACKGROUND_OPERATION_IN_PROGRESS_FOR_NAMESPACE, text),
            E::IndexBuildAborted { .. } => Error::new(Code::INDEX_BUILD_ABORTED, text),
            E::Interrupted => Error::new(Code::INTERRUPTED, "operation was interrupted"),
            E::BadStorageEngine(_) => Error::bad_value(text),
            E::Index { kind, .. } => Error::new(index_code(kind), text),
            E::Corrupt { .. } => Error::new(Code::DATA_CORRUPTION_DETECTED, text),
            E::Spill { .. } => Error::new(Code::OPERATION_FAILED, text),
            E::Txn(error) => error.into(),
        }
    }
}

impl From<arbor_txn::Error> for Error {
    fn from(error: arbor_txn::Error) -> Error {
        use arbor_txn::Error as E;
        let text = error.to_string();
        match error {
            E::Conflict => Error::new(
                Code::WRITE_CONFLICT,
                "WriteConflict error: this operation conflicted with another operation. Please retry your operation \
                 or multi-document transaction.",
            ),
            E::OutOfSpace { .. } | E::CommittedNotApplied { .. } => Error::new(Code::OUT_OF_DISK_SPACE, text),
            E::NotPrepared => Error::new(Code::NO_SUCH_TRANSACTION, text),
            E::CreatesTrees => Error::new(Code::OPERATION_NOT_SUPPORTED_IN_TRANSACTION, text),
            E::Unsettled { .. } => Error::new(Code::INTERRUPTED_DUE_TO_REPL_STATE_CHANGE, text),
            E::NotLeading => Error::new(Code::NOT_WRITABLE_PRIMARY, "not primary"),
            E::Closed => Error::new(Code::SHUTDOWN_IN_PROGRESS, "the server is shutting down"),
            E::TooLarge { .. } => Error::new(Code::TRANSACTION_TOO_LARGE, text),
            E::UnknownTree(_) => {
                Error::new(Code::QUERY_PLAN_KILLED, "collection or index dropped during the operation")
            }
            E::SnapshotTooOld { .. } => {
                Error::new(Code::SNAPSHOT_TOO_OLD, "Read timestamp is older than the oldest available timestamp.")
            }
            E::NotYet { .. } => Error::new(
                Code::INVALID_OPTIONS,
                "readConcern atClusterTime value must not be greater than the current clusterTime",
            ),
            E::CorruptRecord { .. } | E::LogGap { .. } => Error::new(Code::DATA_CORRUPTION_DETECTED, text),
            E::Engine(arbor_engine::Error::CacheFull { .. }) => Error::new(Code::TEMPORARILY_UNAVAILABLE, text),
            E::Engine(arbor_engine::Error::Corrupt { .. }) => Error::new(Code::DATA_CORRUPTION_DETECTED, text),
            E::Engine(arbor_engine::Error::InvalidOption { .. }) => Error::new(Code::INVALID_OPTIONS, text),
            E::Engine(arbor_engine::Error::Unavailable { tree, .. }) => {
                let mut error = Error::new(Code::OPERATION_FAILED, text);
                error.tree = tree;
                error
            }
            E::Engine(arbor_engine::Error::Unsupported { .. }) => Error::new(Code::COMMAND_NOT_SUPPORTED, text),
            E::Peer { .. } | E::NotSynced { .. } => Error::new(Code::OPERATION_FAILED, text),
            E::Poisoned { .. } | E::Engine(_) | E::Log(_) | E::Refused { .. } => Error::new(Code::INTERNAL_ERROR, text),
        }
    }
}

impl From<arbor_session::Error> for Error {
    fn from(error: arbor_session::Error) -> Error {
        match (error.code(), error) {
            (_, arbor_session::Error::Txn(error)) => error.into(),
            (code, error) => Error::new(code.unwrap_or(Code::INTERNAL_ERROR), error.to_string()),
        }
    }
}

impl From<&arbor_wire::Refusal> for Error {
    fn from(refusal: &arbor_wire::Refusal) -> Error {
        Error::new(Code(refusal.code), refusal.message.clone())
    }
}

pub(crate) fn invalid_namespace(namespace: &str) -> Error {
    Error::new(Code::INVALID_NAMESPACE, format!("Invalid namespace specified '{namespace}'"))
}

fn duplicate_key(namespace: &str, index: &str, pattern: &DocBuf, value: &DocBuf, collation: &Collation) -> Error {
    let shown = arbor_bson::display::shell_doc(value.as_doc());
    let mut details = DocBuf::new().with("keyPattern", pattern).with("keyValue", value);
    let mut under = String::new();
    if !collation.is_simple() {
        let collation = collation.to_doc();
        under = format!(" collation: {}", arbor_bson::display::shell_doc(collation.as_doc()));
        details.append("collation", &collation);
    }
    let text = format!("E11000 duplicate key error collection: {namespace} index: {index}{under} dup key: {shown}");
    Error::new(Code::DUPLICATE_KEY, text).with_details(details)
}

fn index_code(problem: IndexProblem) -> Code {
    match problem {
        IndexProblem::CannotCreate => Code::CANNOT_CREATE_INDEX,
        IndexProblem::BadValue => Code::BAD_VALUE,
        IndexProblem::TypeMismatch => Code::TYPE_MISMATCH,
        IndexProblem::FailedToParse => Code::FAILED_TO_PARSE,
        IndexProblem::InvalidOption => Code::INVALID_INDEX_SPECIFICATION_OPTION,
        IndexProblem::OptionsConflict => Code::INDEX_OPTIONS_CONFLICT,
        IndexProblem::KeySpecsConflict => Code::INDEX_KEY_SPECS_CONFLICT,
        IndexProblem::AlreadyExists => Code::INDEX_ALREADY_EXISTS,
        IndexProblem::NotFound => Code::INDEX_NOT_FOUND,
        IndexProblem::InvalidOptions => Code::INVALID_OPTIONS,
        IndexProblem::NotImplemented => Code::NOT_IMPLEMENTED,
        IndexProblem::Illegal => Code::ILLEGAL_OPERATION,
        IndexProblem::Location(code) => Code(code),
        IndexProblem::Ambiguous => Code::AMBIGUOUS_INDEX_KEY_PATTERN,
    }
}
