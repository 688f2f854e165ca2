//! Errors by what the caller can do about them. `command` maps them to MongoDB's codes.

use arbor_bson::{ArrayBuf, DocBuf};
use arbor_lang::Collation;
use uuid::Uuid;

use crate::Namespace;

pub type Result<T, E = Error> = std::result::Result<T, E>;

#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// 73 InvalidNamespace.
    #[error("invalid namespace '{namespace}': {reason}")]
    InvalidNamespace { namespace: String, reason: &'static str },
    /// 26 NamespaceNotFound.
    #[error("ns not found: {0}")]
    NamespaceNotFound(Namespace),
    /// 48 NamespaceExists.
    #[error("namespace {0} exists")]
    NamespaceExists(Namespace),
    /// 166 CommandNotSupportedOnView.
    #[error("Namespace {0} is a view, not a collection")]
    NamespaceIsView(Namespace),
    /// 5 GraphContainsCycle.
    #[error("View cycle detected: {0}")]
    ViewCycle(String),
    /// 165 ViewDepthLimitExceeded.
    #[error("View depth too deep or view cycle detected; maximum depth is {max}", max = crate::VIEW_DEPTH_MAX)]
    ViewTooDeep,
    /// 13297 DatabaseDifferCase.
    #[error("db already exists with different case already have: [{existing}] trying to create [{requested}]")]
    DatabaseDifferCase { existing: String, requested: String },
    /// 20 IllegalOperation: what may not be done to this namespace.
    #[error("{0}")]
    IllegalOperation(String),
    /// 11000 DuplicateKey.
    #[error("duplicate key in {namespace}, index {index_name}")]
    DuplicateKey {
        namespace: Namespace,
        index_name: String,
        key_pattern: DocBuf,
        /// As the index has them: of strings under a collation their keys.
        key_value: DocBuf,
        collation: Collation,
    },
    /// 2 BadValue or 53 InvalidIdField: an `_id` that is missing or of a type that no `_id` may have.
    #[error("{0}")]
    InvalidId(&'static str),
    /// 171 CannotIndexParallelArrays.
    #[error("cannot index parallel arrays [{first}] [{second}]")]
    CannotIndexParallelArrays { first: String, second: String },
    /// 16746: `a.0` names an array's element and a field of an element.
    #[error(
        "Ambiguous field name found in array (do not use numeric field names in embedded elements in an array), \
         field: '{field}' for array"
    )]
    AmbiguousArrayField { field: String },
    /// 16766.
    #[error("hashed indexes do not currently support array values. Found array at path: {path}")]
    HashedArray { path: String },
    /// 16755, 13026 or 13027: the value of a geo field is no location.
    #[error("{reason}")]
    Geo { code: i32, reason: String },
    /// The filter of a partial index does not parse.
    #[error("{0}")]
    Filter(#[from] arbor_lang::Error),
    /// 201 CannotBuildIndexKeys.
    #[error("Index key generation produced too many keys; the maximum is {keys_max}")]
    TooManyKeys { keys_max: usize },
    /// 2 BadValue.
    #[error("object to insert exceeds cappedMaxSize")]
    LargerThanCapped,
    /// 72 InvalidOptions: an engine that is unknown, or not in this build.
    #[error("{name} is not a registered storage engine for this server, which has {known}")]
    UnknownEngine { name: String, known: String },
    /// 2 BadValue: `storageEngine` is not the options of one engine.
    #[error("{0}")]
    BadStorageEngine(String),
    /// 359 CannotConvertIndexToUnique: `{ids: [...]}` for each key that several documents have.
    #[error("Cannot convert the index to unique. Please resolve conflicting documents before running collMod again.")]
    CannotConvertToUnique { violations: ArrayBuf },
    /// 117 ConflictingOperationInProgress.
    #[error("{0}")]
    ConflictingOperation(String),
    /// 12587 BackgroundOperationInProgressForNamespace.
    #[error("cannot perform operation: an index build is currently running for collection with UUID: {collection}")]
    IndexBuildRunning { collection: Uuid },
    /// 276 IndexBuildAborted.
    #[error("Index build aborted: {build}: {reason}")]
    IndexBuildAborted { build: Uuid, reason: &'static str },
    /// 246 SnapshotUnavailable: the collection, or one of its name, was changed after the snapshot of the transaction.
    #[error(
        "Unable to read from a snapshot due to pending collection catalog changes to collection '{0}'; please retry the \
         operation"
    )]
    SnapshotUnavailable(Namespace),
    /// 263 OperationNotSupportedInTransaction.
    #[error("{0}")]
    NotInTransaction(String),
    /// The caller asked it to stop.
    #[error("the operation was interrupted")]
    Interrupted,
    #[error("{reason}")]
    Index { kind: IndexProblem, reason: String },
    #[error("corrupt data in {place}: {reason}")]
    Corrupt { place: String, reason: String },
    #[error("{context}: {source}")]
    Spill { context: String, source: std::io::Error },
    #[error(transparent)]
    Txn(#[from] arbor_txn::Error),
}

/// The reason why indexes could not be made or dropped, by MongoDB's code.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IndexProblem {
    /// 67 CannotCreateIndex.
    CannotCreate,
    /// 2 BadValue.
    BadValue,
    /// 14 TypeMismatch.
    TypeMismatch,
    /// 9 FailedToParse: a required field of the specification is missing.
    FailedToParse,
    /// 197 InvalidIndexSpecificationOption.
    InvalidOption,
    /// 85 IndexOptionsConflict.
    OptionsConflict,
    /// 86 IndexKeySpecsConflict.
    KeySpecsConflict,
    /// 68 IndexAlreadyExists.
    AlreadyExists,
    /// 27 IndexNotFound.
    NotFound,
    /// 72 InvalidOptions: `_id` may not be dropped, and the like.
    InvalidOptions,
    /// 238 NotImplemented: an index type or option that this release refuses.
    NotImplemented,
    /// 20 IllegalOperation.
    Illegal,
    /// 181 AmbiguousIndexKeyPattern: several indexes have this key pattern.
    Ambiguous,
    /// A code without a name.
    Location(i32),
}

impl arbor_txn::MaybeConflict for Error {
    fn is_conflict(&self) -> bool {
        matches!(self, Error::Txn(arbor_txn::Error::Conflict))
    }
}

impl From<arbor_engine::Error> for Error {
    fn from(error: arbor_engine::Error) -> Error {
        Error::Txn(error.into())
    }
}
