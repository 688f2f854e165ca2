//! Index builds that the end of the process interrupted begin again at the start, each on a thread of the process's own, or
//! end with a warning when they did so too often.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use arbor_bson::{ArrayBuf, DocBuf};
use arbor_protocol::log::events;
use arbor_protocol::operation::{About, Begin, Begun};
use arbor_query::Interrupt;
use arbor_store::UnfinishedBuild;

use crate::watcher::Watcher;
use crate::{Commands, Error, Result};

const CONTEXT: &str = "IndexBuilds";
/// Beyond the numbers of connections; operation ids made from it are exact in a double.
const FIRST_NUMBER: u64 = 1_000_000_000;

impl Commands {
    /// Returns the builds to be passed to [`Commands::build_again`].
    pub fn unfinished_builds(&self) -> Vec<UnfinishedBuild> {
        self.database.store.unfinished_builds()
    }

    /// Continues the builds that another member had begun, each on a thread of its own. The builds end by themselves when the server stops
    /// or another member takes over.
    pub(crate) fn continue_builds(self: &Arc<Commands>) {
        for (number, build) in (0..).zip(self.unfinished_builds()) {
            let (commands, name) = (self.clone(), format!("arbor-build-{number}"));
            let thread = std::thread::Builder::new().name(name).stack_size(arbor_base::STATEMENT_STACK_BYTES);
            match thread.spawn(move || commands.build_again(number, &build)) {
                Ok(thread) => self.several.builds.lock().push(thread),
                Err(error) => {
                    let attributes = DocBuf::new().with("error", &error.to_string());
                    self.log.warn(events::INDEX_BUILD_FAILED, CONTEXT, attributes);
                }
            }
        }
    }

    /// Ends the builds of an earlier term of this member, also those whose threads have only just begun.
    pub(crate) fn end_earlier_builds(&self) {
        let threads = std::mem::take(&mut *self.several.builds.lock());
        let store = &self.database.store;
        store.break_off_builds();
        while threads.iter().any(|thread| !thread.is_finished()) {
            std::thread::sleep(Duration::from_millis(1));
            store.break_off_builds();
        }
        store.wait_for_builds();
    }

    /// One build, to its end or that of the server. `number`: that of the build among those of this start.
    pub fn build_again(&self, number: u64, build: &UnfinishedBuild) {
        let names = build.specs.iter().filter_map(|spec| match spec.get("name") {
            Some(arbor_bson::ValueRef::String(name)) => Some(name),
            _ => None,
        });
        let attributes = DocBuf::new()
            .with("buildUUID", &build.uuid.to_string())
            .with("namespace", build.namespace.as_str())
            .with("indexes", &names.collect::<ArrayBuf>());
        if build.begins_again() {
            self.log.info(events::INDEX_BUILD_AGAIN, CONTEXT, attributes.clone());
        }
        let body = DocBuf::new()
            .with("createIndexes", build.namespace.collection())
            .with("indexes", &build.specs.iter().collect::<ArrayBuf>());
        let connection = FIRST_NUMBER + number;
        let about = About { name: Some(format!("{CONTEXT}-{number}")), ..About::default() };
        let slot = self.operations.open(connection, about);
        let begin = Begin {
            kind: "command",
            db: build.namespace.db(),
            body: body.as_doc(),
            session: None,
            limit: None,
            on_behalf: None,
            key: None,
            ends_with_client: false,
            again: false,
        };
        let Begun { deadline, killed } = slot.begin(begin);
        let interrupt = Interrupt::new(deadline, killed);
        let outcome = self.watched(build, &Watcher { server: self, interrupt: &interrupt, slot: &slot });
        slot.end();
        self.operations.close(connection);
        match outcome {
            Ok(built) => self.log.info(events::INDEX_BUILD_DONE, CONTEXT, attributes.with("collectionIsThere", built)),
            Err(error) => {
                self.log.warn(events::INDEX_BUILD_FAILED, CONTEXT, attributes.with("error", &error.to_string()))
            }
        }
    }

    fn watched(&self, build: &UnfinishedBuild, watcher: &Watcher<'_>) -> Result<bool> {
        if self.stopping.load(Ordering::Relaxed) {
            return Err(Error::from(arbor_store::Error::Interrupted));
        }
        let built = self.database.store.build_again(build, watcher.build_settings());
        watcher.explained(built).map(|created| created.is_some())
    }
}
