//! The live page: what a run does while it does it, on 127.0.0.1 (`--live PORT`).
//!
//! A run publishes its news to `Live`; each is one line of JSON in the `Hub`, which every open page gets from its beginning and
//! then as it grows, as server-sent events. A page that loses its connection asks for what it has not seen; one that
//! outlives its run follows the next one on the same port.
//!
//! Threads: one that accepts, one per open page (a few); the run's own thread only appends a line. No thread waits for a page.

mod estimate;
mod http;
mod hub;
mod news;
mod watcher;

use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::thread::JoinHandle;
use std::time::Duration;

pub use estimate::Estimate;
use http::Server;
pub use news::{Moment, News};
pub use watcher::Watcher;

use crate::{Error, Result};

/// The server of one run's live page; dropping it frees the port.
#[derive(Debug)]
pub struct Live {
    server: Arc<Server>,
    address: SocketAddr,
    accepting: Option<JoinHandle<()>>,
}

impl Live {
    /// Listens on 127.0.0.1; port 0 is any free one. `title` is the experiment's name.
    pub fn start(port: u16, title: &str) -> Result<Live> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, port))
            .map_err(|error| Error::Usage(format!("--live: 127.0.0.1:{port}: {error}")))?;
        let address = listener.local_addr()?;
        let server = Arc::new(Server::new(title));
        let serving = Arc::clone(&server);
        let accept = move || serving.accept(&listener);
        let accepting = std::thread::Builder::new().name("live".to_owned()).spawn(accept)?;
        Ok(Live { server, address, accepting: Some(accepting) })
    }

    pub fn url(&self) -> String {
        format!("http://{}/", self.address)
    }

    pub fn publish(&self, news: &News<'_>) {
        self.server.hub.add(news.line(), news.is_interval());
    }
}

/// Time that open pages have to read the last lines.
const LAST_LINES: Duration = Duration::from_millis(500);

impl Drop for Live {
    fn drop(&mut self) {
        self.server.hub.close();
        self.server.closing.store(true, Ordering::Release);
        // a connection wakes the thread that accepts, which then sees that it is over
        let woken = TcpStream::connect_timeout(&self.address, LAST_LINES).is_ok();
        if let (Some(accepting), true) = (self.accepting.take(), woken) {
            let _ = accepting.join();
        }
        let begun = std::time::Instant::now();
        while self.server.pages.load(Ordering::Acquire) > 0 && begun.elapsed() < LAST_LINES {
            std::thread::sleep(Duration::from_millis(10));
        }
    }
}
