//! Errors of bytes that claim to be BSON, a key, or a number.

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// The bytes break the format. `offset` counts from the start of the outermost document.
    #[error("invalid BSON at offset {offset}: {problem}")]
    Malformed { offset: usize, problem: Problem },
    #[error("BSON document is nested deeper than {max} levels")]
    TooDeep { max: usize },
    #[error("BSON document of {size} bytes is larger than {max} bytes")]
    TooLarge { size: usize, max: usize },
    #[error("not a key: {0}")]
    BadKey(&'static str),
    #[error("not a decimal number: {0:?}")]
    BadDecimal(String),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Problem {
    #[error("the bytes end early")]
    Truncated,
    #[error("bytes follow the document")]
    TrailingBytes,
    #[error("the announced length is wrong")]
    Length,
    #[error("the final NUL is missing")]
    Terminator,
    #[error("unknown type {0:#04x}")]
    Type(u8),
    #[error("text is not UTF-8")]
    Utf8,
    #[error("a boolean is neither 0 nor 1")]
    Bool,
    #[error("the inner length of binary data of subtype 2 is wrong")]
    OldBinary,
}
