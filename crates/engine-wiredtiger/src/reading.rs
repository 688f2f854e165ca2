//! The state that readers share.

use std::sync::Arc;

use crate::estimate::Samples;
use crate::pool::Pool;
use crate::published::Published;

/// State that snapshots need, which may outlive the engine. The fields close in this order.
pub(crate) struct Reading {
    pub published: Arc<Published>,
    pub pool: Pool,
    pub samples: Samples,
}
