//! A collection as statements write to it: documents pass its validator first.

use std::ops::Deref;

use arbor_bson::{Doc, DocBuf};
use arbor_store::{Collection, UpdateKind};
use arbor_txn::Transaction;

use crate::validator::Validator;
use crate::{Error, Result, Scope};

pub(crate) struct Validated<'c> {
    scope: &'c Scope<'c>,
    collection: &'c Collection,
    /// None: any document may be written.
    validator: Option<Validator>,
}

impl<'c> Validated<'c> {
    /// With `bypass` the validator is not asked.
    pub(crate) fn new(scope: &'c Scope<'c>, collection: &'c Collection, bypass: bool) -> Result<Validated<'c>> {
        let validator = if bypass { None } else { Validator::of(collection, scope.cluster_time())? };
        Ok(Validated { scope, collection, validator })
    }

    /// Returns true if documents pass a validator before they are written.
    pub(crate) fn is_checked(&self) -> bool {
        self.validator.is_some()
    }

    /// Nothing is written on an error.
    pub(crate) fn insert(&self, txn: &mut Transaction, doc: Doc<'_>) -> Result<()> {
        self.check(None, doc)?;
        match arbor_store::insert(txn, self.collection, doc) {
            Err(arbor_store::Error::DuplicateKey { .. }) if self.scope.delete_left(txn, self.collection, doc)? => {
                Ok(arbor_store::insert(txn, self.collection, doc)?)
            }
            outcome => Ok(outcome?),
        }
    }

    /// Nothing is written on an error.
    pub(crate) fn update(&self, txn: &mut Transaction, old: Doc<'_>, new: Doc<'_>, kind: UpdateKind<'_>) -> Result<()> {
        self.check(Some(old), new)?;
        Ok(arbor_store::update(txn, self.collection, old, new, kind)?)
    }

    fn check(&self, old: Option<Doc<'_>>, new: Doc<'_>) -> Result<()> {
        let Some(validator) = &self.validator else { return Ok(()) };
        match validator.mismatch(old, new)? {
            Some(info) if validator.only_warns() => {
                self.scope.warn_of_mismatch(self.collection, &info);
                Ok(())
            }
            Some(info) => Err(Error::DocumentInvalid { info: Box::<DocBuf>::new(info) }),
            None => Ok(()),
        }
    }
}

impl Deref for Validated<'_> {
    type Target = Collection;
    fn deref(&self) -> &Collection {
        self.collection
    }
}
