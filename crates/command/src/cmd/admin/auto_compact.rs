//! `autoCompact`: compacts all collections in the background, once or again and again.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use arbor_bson::Code;
use arbor_protocol::arguments::is_present;
use arbor_store::Store;
use parking_lot::Mutex;

use crate::call::Call;
use crate::{Error, Result};

/// Free space from which a collection is compacted, if the client names none.
const TARGET_MB: i64 = 20;
/// Time from the end of one pass to the next.
const PAUSE: Duration = Duration::from_secs(3600);
/// Time after which a thread that sleeps looks whether it is to end.
const STEP: Duration = Duration::from_millis(200);

/// The compaction in the background, if one is enabled.
#[derive(Default)]
pub(crate) struct AutoCompact {
    running: Mutex<Option<Arc<AtomicBool>>>,
}

pub(crate) fn run(call: &mut Call<'_>) -> Result<()> {
    let target = call.target();
    if !is_present(target) {
        return Err(call.field("autoCompact").missing().into());
    }
    let enable = call.field("autoCompact").strict_bool(target)?;
    if call.optional("writeConcern").is_some() {
        return Err(Error::new(Code::INVALID_OPTIONS, "Command autoCompact does not support writeConcern"));
    }
    let (mut free_mb, mut once) = (TARGET_MB, false);
    for (name, value) in call.own_fields() {
        let field = call.field(name);
        match name {
            "freeSpaceTargetMB" => {
                free_mb = field.integer(value)?;
                if free_mb < 1 {
                    return Err(field.out_of_bounds(">= 1", free_mb).into());
                }
            }
            "runOnce" => once = field.strict_bool(value)?,
            _ => return Err(field.unknown().into()),
        }
    }
    let state = &call.server.auto_compact;
    if !enable {
        state.stop();
        return Ok(());
    }
    let bytes = free_mb.checked_mul(1 << 20).and_then(|bytes| u64::try_from(bytes).ok());
    let bytes = bytes.ok_or_else(|| Error::bad_value("freeSpaceTargetMB is too large"))?;
    state.start(&call.database().store, bytes, once)
}

impl AutoCompact {
    /// Errors: it is enabled already.
    fn start(&self, store: &Arc<Store>, free_bytes: u64, once: bool) -> Result<()> {
        let mut running = self.running.lock();
        // the thread has the other reference while it runs
        if running.as_ref().is_some_and(|stop| Arc::strong_count(stop) > 1) {
            let text = "autoCompact is enabled already: disable it to change its options";
            return Err(Error::new(Code(314), text));
        }
        let stop = Arc::new(AtomicBool::new(false));
        let (own, store) = (stop.clone(), Arc::downgrade(store));
        let body = move || passes(&store, free_bytes, once, &own);
        let spawned = std::thread::Builder::new().name("auto-compact".into()).spawn(body);
        spawned.map_err(|error| Error::new(Code::OPERATION_FAILED, format!("no thread: {error}")))?;
        *running = Some(stop);
        Ok(())
    }

    /// Makes the thread end soon.
    pub(crate) fn stop(&self) {
        if let Some(stop) = self.running.lock().take() {
            stop.store(true, Ordering::Relaxed);
        }
    }
}

fn passes(store: &Weak<Store>, free_bytes: u64, once: bool, stop: &AtomicBool) {
    let stopped = || stop.load(Ordering::Relaxed);
    loop {
        let Some(store) = store.upgrade().filter(|_| !stopped()) else { return };
        let databases = store.list_databases();
        for collection in databases.iter().flat_map(|db| store.list_collections(db)) {
            if stopped() {
                return;
            }
            // one that was dropped, or cannot be compacted now, has its turn in the next pass
            let enough = store.compactable_bytes(&collection.namespace).is_ok_and(|bytes| bytes >= free_bytes);
            let _ = enough.then(|| store.compact(&collection.namespace, &stopped));
        }
        drop(store);
        if once {
            return;
        }
        let ended = Instant::now();
        while ended.elapsed() < PAUSE {
            if stopped() {
                return;
            }
            std::thread::sleep(STEP);
        }
    }
}
