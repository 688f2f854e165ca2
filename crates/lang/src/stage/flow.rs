//! Stages whose documents come from several documents, or from none: they are fed the input one by one and are asked
//! for what they can give already. Driving them is `query`'s part, and so is the limit on the memory that they hold.

use arbor_bson::DocBuf;

use crate::{Error, Result};

/// A parsed stage that runs as a [`Flow`].
pub trait FlowStage: std::fmt::Debug + Send + Sync {
    /// The name in a pipeline and in `explain`.
    fn name(&self) -> &'static str;

    fn start(&self) -> Box<dyn Flow>;
}

/// One run of such a stage. Call `next` until it returns none, then feed, and so on; `end` after the last document.
pub trait Flow: Send {
    /// Says how many documents will come, where the stage below knows it (a sort does).
    fn expect(&mut self, _documents: u64) {}

    fn feed(&mut self, doc: DocBuf) -> Result<()>;

    /// There are no more documents to feed.
    fn end(&mut self) -> Result<()>;

    /// The next document, as far as it is settled already.
    fn next(&mut self) -> Result<Option<DocBuf>>;

    /// Memory held, estimated.
    fn size_bytes(&self) -> usize;

    /// The error for holding more memory than is allowed.
    fn too_large(&self, allowed_bytes: usize) -> Error;
}
