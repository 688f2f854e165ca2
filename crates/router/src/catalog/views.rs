//! Views and time series that no shard can read alone: the router resolves them.

use std::sync::Arc;
use std::time::Instant;

use arbor_bson::{Array, ArrayBuf, Doc, DocBuf};
use arbor_command::Result;
use arbor_lang::time_series::Unpack;
use arbor_query::Interrupt;

use super::{Catalog, RECENT, RECENT_MAX};
use crate::definitions::first_batch;
use crate::fields;
use crate::pipeline::others;
use crate::table::Table;
use crate::time_series::BUCKETS;

/// Views upon views.
const VIEWS_MAX: usize = 20;

/// A view, and those below it, that the router resolves.
#[derive(Debug)]
pub(crate) struct View {
    /// Collection of the same database.
    pub on: String,
    /// The collection has the buckets of this time series.
    pub is_time_series: bool,
    pub stages: ArrayBuf,
    /// Empty: the simple one.
    pub collation: DocBuf,
}

impl Catalog {
    /// Returns what `find_out` says of a name, or has said a moment ago.
    fn recently(&self, name: String, find_out: impl FnOnce() -> Result<bool>) -> Result<bool> {
        if let Some((found, when)) = self.recent.lock().get(&name)
            && when.elapsed() < RECENT
        {
            return Ok(*found);
        }
        let found = find_out()?;
        let mut recent = self.recent.lock();
        if recent.len() >= RECENT_MAX {
            recent.clear();
        }
        recent.insert(name, (found, Instant::now()));
        Ok(found)
    }

    /// Returns the view of a name if no shard can read it alone: it is over a sharded collection, or its stages use one. Requires that
    /// the name, if it is no view, is read by [`Catalog::routing`].
    pub(crate) fn view_to_resolve(&self, db: &str, name: &str, interrupt: &Interrupt) -> Result<Option<View>> {
        let is_none = self.no_views.lock().contains(&format!("{db}.{name}"));
        if is_none { Ok(None) } else { self.view_now(db, name, interrupt) }
    }

    /// Like [`Catalog::view_to_resolve`], for a name that is read in any way.
    pub(crate) fn view_now(&self, db: &str, name: &str, interrupt: &Interrupt) -> Result<Option<View>> {
        if matches!(db, "admin" | "config" | "local") || name.is_empty() {
            return Ok(None);
        }
        let any = self.recently(db.to_owned(), || Ok(!self.sharded_of(db, interrupt)?.is_empty()))?;
        let namespace = format!("{db}.{name}");
        if !any || self.table(&namespace, interrupt)?.is_some() {
            return Ok(None);
        }
        let (is_view, found) = self.find_view(db, name, interrupt)?;
        if !is_view {
            let mut no_views = self.no_views.lock();
            if no_views.len() >= RECENT_MAX {
                no_views.clear();
            }
            no_views.insert(namespace);
        }
        Ok(found)
    }

    /// A shard has found a view, or a time series on several shards, of a name that was none.
    pub(crate) fn forget_no_views(&self) {
        self.no_views.lock().clear();
        self.recent.lock().clear();
        let is_no_series = |name: &str, table: &Option<Arc<Table>>| {
            table.is_none() && name.split_once('.').is_some_and(|(_, name)| name.starts_with(BUCKETS))
        };
        self.known.lock().collections.retain(|name, table| !is_no_series(name, table));
    }

    /// Returns the table of the buckets of a name, if it is a time series on chosen shards.
    pub(crate) fn buckets(&self, db: &str, name: &str, interrupt: &Interrupt) -> Result<Option<Arc<Table>>> {
        if matches!(db, "admin" | "config" | "local") || name.is_empty() || name.starts_with("system.") {
            return Ok(None);
        }
        Ok(self.table(&format!("{db}.{BUCKETS}{name}"), interrupt)?.filter(|table| table.time_series.is_some()))
    }

    /// Returns whether a name is a view, and it if the router is to resolve it.
    fn find_view(&self, db: &str, name: &str, interrupt: &Interrupt) -> Result<(bool, Option<View>)> {
        let Some(database) = self.database(db, interrupt)? else { return Ok((false, None)) };
        let shard = self.shard(&database.primary, interrupt)?;
        let (mut on, mut parts, mut is_needed) = (name.to_owned(), Vec::new(), false);
        let (mut collation, mut is_time_series) = (None, false);
        for _ in 0..VIEWS_MAX {
            if let Some(table) = self.buckets(db, &on, interrupt)? {
                let unpack = table.time_series.as_ref().map(|options| Unpack::of(options).to_doc());
                parts.push(unpack.iter().collect());
                (on, is_needed, is_time_series) = (format!("{BUCKETS}{on}"), true, parts.len() == 1);
                break;
            }
            let filter = DocBuf::new().with("name", on.as_str()).with("type", "view");
            let list = DocBuf::new().with("listCollections", 1i32).with("filter", &filter);
            let listed = shard.call(db, &list, interrupt)?;
            let views = first_batch(listed.as_doc())?;
            let options = views.first().and_then(|view| fields::document(*view, "options"));
            let Some(below) = options.and_then(|options| fields::string(options, "viewOn")) else { break };
            let stages = options.and_then(|options| fields::array(options, "pipeline")).unwrap_or(Array::empty());
            for (db, other) in others(db, stages) {
                is_needed |= self.table(&format!("{db}.{other}"), interrupt)?.is_some()
                    || self.buckets(&db, &other, interrupt)?.is_some();
            }
            parts.push(stages.to_buf());
            let own = options.and_then(|options| fields::document(options, "collation"));
            collation.get_or_insert_with(|| own.map_or_else(DocBuf::new, Doc::to_buf));
            below.clone_into(&mut on);
            if self.table(&format!("{db}.{on}"), interrupt)?.is_some() {
                is_needed = true;
                break;
            }
        }
        let stages = parts.iter().rev().flat_map(|part| part.as_array().iter()).collect();
        let collation = collation.unwrap_or_default();
        Ok((!parts.is_empty(), is_needed.then_some(View { on, is_time_series, stages, collation })))
    }
}
