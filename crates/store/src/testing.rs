//! A store in memory, for the tests of the crates above.

use std::sync::Arc;

use crate::{Result, Store, StoreOptions};

/// An empty store over the model engine.
pub fn store() -> Result<Arc<Store>> {
    let transactions = arbor_txn::testing::transactions()?;
    Store::open(transactions, StoreOptions::default()).map(Arc::new)
}
