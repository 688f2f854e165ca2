//! What a request wants of the transaction number of its session.

/// What a request with a transaction number wants.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Intent {
    /// A retryable write.
    Write,
    /// The first operation of a transaction.
    Begin,
    /// A later one.
    Continue,
    Commit,
    Abort,
}
