//! Connections of laboratories, each on a thread of its own.

use std::io::{Error, Result};
use std::net::{TcpListener, TcpStream, ToSocketAddrs};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

const TIMEOUT: Duration = Duration::from_secs(5);

/// Serves as long as the listener accepts; connections above `most` are closed.
pub(crate) fn serve_each(listener: &TcpListener, most: usize, serve: impl Fn(&TcpStream) -> Result<()> + Sync) {
    let (open, serve) = (AtomicUsize::new(0), &serve);
    std::thread::scope(|scope| {
        for stream in listener.incoming() {
            let Ok(stream) = stream else {
                std::thread::sleep(Duration::from_millis(200));
                continue;
            };
            if open.fetch_add(1, Ordering::AcqRel) >= most {
                open.fetch_sub(1, Ordering::AcqRel);
                continue;
            }
            let open = &open;
            scope.spawn(move || {
                // a laboratory that went away is no error here
                let _ = stream.set_nodelay(true).and_then(|()| serve(&stream));
                open.fetch_sub(1, Ordering::AcqRel);
            });
        }
    });
}

/// Connects to `HOST:PORT`; each read and each write waits for five seconds at most.
pub(crate) fn connect(address: &str) -> Result<TcpStream> {
    let mut failure = Error::other("the name has no address");
    for address in address.to_socket_addrs()? {
        match TcpStream::connect_timeout(&address, TIMEOUT) {
            Ok(stream) => {
                stream.set_nodelay(true)?;
                stream.set_read_timeout(Some(TIMEOUT))?;
                stream.set_write_timeout(Some(TIMEOUT))?;
                return Ok(stream);
            }
            Err(error) => failure = error,
        }
    }
    Err(failure)
}
