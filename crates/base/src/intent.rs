//! Intents of requests that carry a transaction number.

/// The intent of a request with a transaction number.
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
