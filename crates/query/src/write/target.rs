//! The documents that a write statement is about.
//!
//! W1: a statement about one document finds and changes it in one transaction. W2: a statement about many reads from
//! one snapshot that its own writes do not change (no document is found twice), and checks each document again in the
//! transaction that changes it: one that changed in between counts only if it still matches.

use std::ops::ControlFlow;

use arbor_bson::{Doc, DocBuf};
use arbor_lang::Filter;
use arbor_store::Collection;
use arbor_txn::{ReadView, Transaction, View};

use super::statements::is_full;
use crate::operator::{Operator, Row, Run};
use crate::plan::{self, Query, Slots};
use crate::{Interrupt, Result, Scope};

/// The first document of the query, as this transaction sees it.
pub(crate) fn find_one(
    scope: &Scope<'_>,
    view: &dyn View,
    collection: &Collection,
    query: &Query,
    interrupt: &Interrupt,
) -> Result<Option<Row>> {
    let query = &*scope.constrained(collection, query);
    let solution = plan::plan(view, collection, query)?.winner;
    plan::note_use(collection, &solution);
    let mut slots = Slots::default();
    let mut root = plan::operator(&solution, query, &scope.settings, &mut slots);
    let mut run = Run::new(view, Some(collection), interrupt, slots.count());
    root.next(&mut run)
}

/// All documents of a query in groups that fit into one transaction each.
pub(crate) struct Targets<'t> {
    scope: &'t Scope<'t>,
    collection: &'t Collection,
    filter: &'t Filter,
    interrupt: &'t Interrupt,
    view: ReadView,
    root: Box<dyn Operator>,
    slots: usize,
}

impl<'t> Targets<'t> {
    pub(crate) fn of(
        scope: &'t Scope<'t>,
        collection: &'t Collection,
        query: &'t Query,
        interrupt: &'t Interrupt,
    ) -> Result<Targets<'t>> {
        let view = scope.view()?;
        let allowed = scope.constrained(collection, query);
        let solution = plan::plan(&view, collection, &allowed)?.winner;
        plan::note_use(collection, &solution);
        let mut slots = Slots::default();
        let root = plan::operator(&solution, query, &scope.settings, &mut slots);
        Ok(Targets { scope, collection, filter: &query.filter, interrupt, view, root, slots: slots.count() })
    }

    /// Changes the documents, many in one transaction. `change` adds to the counters so far, which this returns, and may
    /// end the statement. It may run again for a document, with the counters from before the transaction.
    pub(crate) fn change_all<T: Clone>(
        mut self,
        mut counted: T,
        change: impl Fn(&mut Transaction, Doc<'_>, &mut T) -> Result<ControlFlow<()>>,
    ) -> Result<T> {
        loop {
            let rows = self.next_group()?;
            if rows.is_empty() {
                return Ok(counted);
            }
            let mut rest = rows.as_slice();
            while !rest.is_empty() {
                let change_rows = |txn: &mut Transaction| -> Result<(T, usize, bool)> {
                    let (mut counted, mut looked_at) = (counted.clone(), 0);
                    for row in rest {
                        if is_full(txn) {
                            break;
                        }
                        looked_at += 1;
                        let Some(document) = self.current(txn, row)? else { continue };
                        if change(txn, document.as_doc(), &mut counted)?.is_break() {
                            return Ok((counted, looked_at, true));
                        }
                    }
                    Ok((counted, looked_at, false))
                };
                let (now, looked_at, ended) = self.scope.write(change_rows)?;
                counted = now;
                if ended {
                    return Ok(counted);
                }
                rest = &rest[looked_at..];
            }
        }
    }

    /// Empty at the end.
    fn next_group(&mut self) -> Result<Vec<Row>> {
        let settings = &self.scope.settings;
        let mut run = Run::new(&self.view, Some(self.collection), self.interrupt, self.slots);
        let (mut rows, mut bytes) = (Vec::new(), 0);
        while rows.len() < settings.write_docs_max && bytes < settings.write_bytes_max {
            let Some(row) = self.root.next(&mut run)? else { return Ok(rows) };
            bytes += row.document.as_bytes().len();
            rows.push(row);
        }
        self.root.suspend(&mut run);
        Ok(rows)
    }

    /// The document of a row as the transaction sees it. None: it is gone or does not match any more.
    fn current(&self, txn: &Transaction, row: &Row) -> Result<Option<DocBuf>> {
        let Some(record) = arbor_store::record(txn, self.collection, &row.id_key)? else { return Ok(None) };
        if *record == *row.document.as_bytes() || self.filter.matches(Doc::trusted(&record))? {
            return Ok(Some(DocBuf::from_trusted(record.into_owned())));
        }
        Ok(None)
    }
}
