//! The clean shutdown.
//!
//! `Stop::now` refuses new connections and closes the reading half of every open one: an idle connection ends, a running
//! request finishes and is answered, then its connection ends.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Weak};

use parking_lot::{Mutex, MutexGuard};
use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::net::{Shutdown, shutdown};
use tokio::net::TcpStream;
use tokio::sync::Notify;

/// Stops a [`Server`](crate::Server) from any thread.
#[derive(Clone, Default)]
pub struct Stop(Arc<Inner>);

#[derive(Default)]
struct Inner {
    stopping: AtomicBool,
    forced: AtomicBool,
    /// Wakes the accept loops and the waiter for the last connection.
    notify: Notify,
    sockets: Mutex<HashMap<u64, Weak<TcpStream>>>,
}

impl Stop {
    /// Begins the shutdown; a second call changes nothing.
    pub fn now(&self) {
        if !self.0.stopping.swap(true, Ordering::SeqCst) {
            for socket in self.sockets().values().filter_map(Weak::upgrade) {
                let _ = shutdown(&*socket, Shutdown::Read);
            }
        }
        self.0.notify.notify_waiters();
    }

    /// Gives up on running requests.
    pub fn force(&self) {
        self.0.forced.store(true, Ordering::SeqCst);
        self.now();
    }

    pub fn is_stopping(&self) -> bool {
        self.0.stopping.load(Ordering::Relaxed)
    }

    pub(crate) fn is_forced(&self) -> bool {
        self.0.forced.load(Ordering::Relaxed)
    }

    /// Resolves once the shutdown begins.
    pub(crate) async fn begun(&self) {
        loop {
            let notified = self.0.notify.notified();
            if self.is_stopping() {
                return;
            }
            notified.await;
        }
    }

    /// Resolves once no connection is open, or once the stop is forced.
    pub(crate) async fn drained(&self) {
        loop {
            let notified = self.0.notify.notified();
            if self.is_forced() || self.sockets().is_empty() {
                return;
            }
            notified.await;
        }
    }

    pub(crate) fn watch(&self, connection: u64, socket: &Arc<TcpStream>) {
        self.sockets().insert(connection, Arc::downgrade(socket));
        if self.is_stopping() {
            let _ = shutdown(&**socket, Shutdown::Read);
        }
    }

    /// Returns true if the client of a connection has closed it, or its side of it.
    pub fn has_left(&self, connection: u64) -> bool {
        // the shutdown closes sides of connections by itself
        let socket = self.sockets().get(&connection).and_then(Weak::upgrade).filter(|_| !self.is_stopping());
        let Some(socket) = socket else { return false };
        let mut polled = [PollFd::new(&*socket, PollFlags::RDHUP)];
        let now = Timespec::default();
        let ready = rustix::event::poll(&mut polled, Some(&now));
        ready.is_ok()
            && polled.iter().any(|fd| fd.revents().intersects(PollFlags::RDHUP | PollFlags::HUP | PollFlags::ERR))
    }

    pub(crate) fn forget(&self, connection: u64) {
        let mut sockets = self.sockets();
        sockets.remove(&connection);
        let last = sockets.is_empty() && self.is_stopping();
        drop(sockets);
        if last {
            self.0.notify.notify_waiters();
        }
    }

    /// A panic while the map was locked leaves it usable: every change is one insert or remove.
    fn sockets(&self) -> MutexGuard<'_, HashMap<u64, Weak<TcpStream>>> {
        self.0.sockets.lock()
    }
}
