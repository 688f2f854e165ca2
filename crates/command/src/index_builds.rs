//! Index builds that the end of the process interrupted begin again at the start, each on a thread of the process's own, or
//! end with a warning when they did so too often.

use std::sync::atomic::Ordering;

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
        self.database.store.unfinished_builds().to_vec()
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
