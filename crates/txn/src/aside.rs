//! Views that are not being read: those of idle cursors.
//!
//! If a held snapshot takes memory that the writer needs ([`Capabilities::held_snapshot_bytes_max`]), such a view is put
//! aside: when the engine would have to grow because of what was written after it, the writer releases it, and its owner continues with
//! another view or ends. A view that is being read stays.
//!
//! [`Capabilities::held_snapshot_bytes_max`]: arbor_engine::Capabilities::held_snapshot_bytes_max

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Weak};

use parking_lot::Mutex;

use crate::ReadView;

/// A place for one view, which is empty while the view is read.
pub struct Aside(Arc<Place>);

struct Place {
    /// Bytes that were logged when the view was taken.
    log_bytes: u64,
    state: Mutex<State>,
}

enum State {
    Read,
    Aside(ReadView),
    /// Views of this age are released.
    Released,
}

/// The places of all views that may be released.
#[derive(Default)]
pub(crate) struct AsideViews {
    places: Mutex<Vec<Weak<Place>>>,
    /// Bytes that were logged at the last check.
    checked_at: AtomicU64,
}

/// The views are checked again after this many more bytes of log.
const CHECK_LOG_BYTES: u64 = 1 << 20;

impl Aside {
    /// Puts the view here, unless views of its age are released already.
    pub fn put(&self, view: &mut ReadView) {
        let mut state = self.0.state.lock();
        let released = view.released();
        let whole = std::mem::replace(view, released);
        if let State::Read = *state {
            *state = State::Aside(whole);
        }
    }

    /// Takes the view back. `None`: the writer has released it.
    pub fn take(&self) -> Option<ReadView> {
        let mut state = self.0.state.lock();
        match std::mem::replace(&mut *state, State::Read) {
            State::Aside(view) => Some(view),
            State::Read | State::Released => {
                *state = State::Released;
                None
            }
        }
    }
}

impl Place {
    /// Returns the view that was here. A view that is being read is released when it is put back.
    fn release(&self) -> Option<ReadView> {
        match std::mem::replace(&mut *self.state.lock(), State::Released) {
            State::Aside(view) => Some(view),
            State::Read | State::Released => None,
        }
    }
}

impl AsideViews {
    /// Returns a place for a view that is taken now.
    pub(crate) fn place(&self, log_bytes: u64) -> Aside {
        let place = Arc::new(Place { log_bytes, state: Mutex::new(State::Read) });
        self.places.lock().push(Arc::downgrade(&place));
        Aside(place)
    }

    /// Releases the views that are older than `most` bytes of log. `written`: the bytes logged until now.
    pub(crate) fn release(&self, written: u64, most: impl FnOnce() -> Option<u64>) {
        if written < self.checked_at.load(Ordering::Relaxed) + CHECK_LOG_BYTES {
            return;
        }
        self.checked_at.store(written, Ordering::Relaxed);
        let Some(most) = most() else { return };
        let mut released = Vec::new();
        self.places.lock().retain(|place| match place.upgrade() {
            Some(place) if place.log_bytes < written.saturating_sub(most) => {
                released.extend(place.release());
                false
            }
            place => place.is_some(),
        });
        // after the lock: the end of a snapshot may take a while
        drop(released);
    }
}

#[cfg(test)]
mod tests {
    use arbor_engine::Engine;
    use arbor_engine::model::ModelEngine;

    use super::*;

    fn view() -> ReadView {
        ReadView::new(ModelEngine::default().snapshot().unwrap())
    }

    const MOST: u64 = 10 << 20;

    #[test]
    fn old_idle_views_are_released() {
        let views = AsideViews::default();
        let (old, read, young) = (views.place(0), views.place(0), views.place(5 << 20));
        let (mut of_old, mut of_read, mut of_young) = (view(), view(), view());
        old.put(&mut of_old);
        young.put(&mut of_young);
        views.release(MOST, || Some(MOST));
        assert!(old.take().is_some(), "it is just old enough");
        old.put(&mut view());
        views.release(MOST + CHECK_LOG_BYTES, || Some(MOST));
        assert!(old.take().is_none() && old.take().is_none());
        assert!(young.take().is_some());
        // a view that was being read is released when it is put back
        read.put(&mut of_read);
        assert!(read.take().is_none());
        assert_eq!(views.places.lock().len(), 1);
        drop(young);
        views.release(MOST + 2 * CHECK_LOG_BYTES, || Some(MOST));
        assert!(views.places.lock().is_empty());
    }
}
