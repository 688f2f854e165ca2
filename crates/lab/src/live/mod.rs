//! The live page: what a run does while it does it, on 127.0.0.1 (`--live PORT`).
//!
//! A run tells `Live` its news; each is one line of JSON in the `Hub`, which every open page gets from its beginning and
//! then as it grows, as server-sent events. A page that loses its connection asks for what it has not seen.
//!
//! Threads: one that accepts, one per open page (a few); the run's own thread only appends a line. Nobody waits for a page.

mod estimate;
mod http;
mod hub;
mod news;

use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::sync::Arc;

pub use estimate::Estimate;
use hub::Hub;
pub use news::{Interval, News};

use crate::{Error, Result};

/// The server of one run's live page. It ends with the process.
#[derive(Clone, Debug)]
pub struct Live {
    hub: Arc<Hub>,
    address: SocketAddr,
}

impl Live {
    /// Listens on 127.0.0.1; port 0 is any free one. `title` is the experiment's name.
    pub fn start(port: u16, title: &str) -> Result<Live> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, port))
            .map_err(|error| Error::Usage(format!("--live: 127.0.0.1:{port}: {error}")))?;
        let address = listener.local_addr()?;
        let hub = Arc::new(Hub::default());
        let (pages, page) = (Arc::clone(&hub), http::page(title));
        std::thread::Builder::new().name("live".to_owned()).spawn(move || http::accept(&listener, &pages, &page))?;
        Ok(Live { hub, address })
    }

    pub fn url(&self) -> String {
        format!("http://{}/", self.address)
    }

    pub fn tell(&self, news: &News<'_>) {
        self.hub.add(news.line(), news.is_interval());
    }
}
