//! Resolution of a name, once for each statement.

use std::sync::Arc;

use arbor_store::{Collection, Namespace, Store, ViewDefinition};

use crate::view::ResolvedView;
use crate::{Result, Scope};

const OPLOG: &str = "local.oplog.rs";

/// Returns true if the name is that of the oplog, and there is one.
pub fn is_oplog(store: &Store, namespace: &Namespace) -> bool {
    namespace.as_str() == OPLOG && store.transactions().retention().is_some()
}

/// Target of a statement's reads or writes.
pub(crate) enum Source {
    /// A collection, which need not exist.
    Collection,
    View(Arc<ViewDefinition>),
    /// A view over its buckets.
    TimeSeries {
        view: Arc<ViewDefinition>,
        buckets: Arc<Collection>,
    },
    /// `local.oplog.rs` of a member of a replica set.
    Oplog,
    /// `system.views` of a database.
    SystemViews,
    /// The server's own state, as documents.
    Server,
}

impl Source {
    pub(crate) fn of(store: &Store, namespace: &Namespace) -> Source {
        if namespace.is_system_views() {
            return Source::SystemViews;
        }
        if is_oplog(store, namespace) {
            return Source::Oplog;
        }
        // what most statements are about is found by one look, which touches nothing that threads share
        if store.look(namespace, |own| own.is_some()) {
            return Source::Collection;
        }
        match (store.view(namespace), store.buckets_of(namespace)) {
            (Some(view), Some(buckets)) => Source::TimeSeries { view, buckets },
            (Some(view), None) => Source::View(view),
            (None, _) => Source::Collection,
        }
    }

    /// Returns what a statement that takes a view reads. None: a collection.
    pub(crate) fn as_view(&self, store: &Store, namespace: &Namespace) -> Result<Option<ResolvedView>> {
        match self {
            Source::Collection => Ok(None),
            Source::View(view) | Source::TimeSeries { view, .. } => ResolvedView::of(store, view.clone()).map(Some),
            Source::Oplog | Source::SystemViews | Source::Server => Ok(Some(ResolvedView::plain(namespace))),
        }
    }
}

impl Scope<'_> {
    pub(crate) fn source(&self, namespace: &Namespace) -> Source {
        match self.has_of_server(namespace) {
            true => Source::Server,
            false => Source::of(&self.store, namespace),
        }
    }

    /// Resolves a name other than a collection's as a view.
    pub(crate) fn resolved_view(&self, namespace: &Namespace) -> Result<Option<ResolvedView>> {
        self.source(namespace).as_view(&self.store, namespace)
    }
}
