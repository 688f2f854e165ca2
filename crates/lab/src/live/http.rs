//! The little of HTTP that a live page needs: one page, one stream of events, to this machine only.
//!
//! Requests name the host they mean; one that means another name than this machine's is refused, so that no foreign page
//! can read a run through a name that it points here.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use super::hub::Hub;
use crate::report::{Shell, escaped, shell};

const HEAD_BYTES_MAX: u64 = 16 * 1024;
const PAGES_MAX: usize = 32;
const TIMEOUT: Duration = Duration::from_secs(10);
/// A silent connection is checked so often.
const HEARTBEAT: Duration = Duration::from_secs(10);

/// State shared by the threads of one live page.
#[derive(Debug)]
pub(super) struct Server {
    pub hub: Hub,
    page: String,
    /// Distinguishes runs on the same port.
    run: u64,
    /// Connections that are served.
    pub pages: AtomicUsize,
    pub closing: AtomicBool,
}

impl Server {
    pub(super) fn new(title: &str) -> Server {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let (pages, closing) = (AtomicUsize::new(0), AtomicBool::new(false));
        Server { hub: Hub::default(), page: page(title), run: now.as_nanos() as u64, pages, closing }
    }

    /// Serves until the run is over.
    pub(super) fn accept(self: &Arc<Server>, listener: &TcpListener) {
        for stream in listener.incoming() {
            if self.closing.load(Ordering::Acquire) {
                return;
            }
            let Ok(stream) = stream else {
                // out of file descriptors, say: the run matters more than its page
                std::thread::sleep(Duration::from_millis(200));
                continue;
            };
            if self.pages.fetch_add(1, Ordering::AcqRel) >= PAGES_MAX {
                self.pages.fetch_sub(1, Ordering::AcqRel);
                continue;
            }
            let server = Arc::clone(self);
            let serve = move || {
                // a page that went away is no error of ours
                let _ = server.serve(&stream);
                server.pages.fetch_sub(1, Ordering::AcqRel);
            };
            if std::thread::Builder::new().name("live-page".to_owned()).spawn(serve).is_err() {
                self.pages.fetch_sub(1, Ordering::AcqRel);
            }
        }
    }

    fn serve(&self, stream: &TcpStream) -> std::io::Result<()> {
        stream.set_read_timeout(Some(TIMEOUT))?;
        stream.set_write_timeout(Some(TIMEOUT))?;
        let request = read(&mut BufReader::new(stream.take(HEAD_BYTES_MAX)))?;
        let mut out = stream;
        let host = request.host.rsplit_once(':').map_or(request.host.as_str(), |(host, _)| host);
        let text = "text/plain";
        match (request.method.as_str(), request.path.as_str()) {
            _ if !["127.0.0.1", "localhost"].contains(&host) => {
                answer(&mut out, "403 Forbidden", text, "another host\n")
            }
            ("GET", "/") => answer(&mut out, "200 OK", "text/html; charset=utf-8", &self.page),
            ("GET", "/events") => self.events(&mut out, &request.seen),
            ("GET", _) => answer(&mut out, "404 Not Found", text, "there is / and /events\n"),
            _ => answer(&mut out, "405 Method Not Allowed", text, "GET only\n"),
        }
    }

    /// Sends all lines after the one that was `seen`, then each new one, until the run is over or the page is closed.
    fn events(&self, out: &mut impl Write, seen: &str) -> std::io::Result<()> {
        write!(
            out,
            "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nCache-Control: no-store\r\n\
             X-Content-Type-Options: nosniff\r\nConnection: close\r\n\r\nretry: 1000\n\n"
        )?;
        let of_this_run = seen.split_once('-').filter(|(run, _)| *run == self.run.to_string());
        let mut seen = of_this_run.and_then(|(_, line)| line.parse().ok()).unwrap_or(0);
        while let Some(lines) = self.hub.after(seen, HEARTBEAT) {
            let mut text = String::new();
            for line in &lines {
                text.push_str(&format!("id: {}-{}\ndata: {}\n\n", self.run, line.number, line.text));
                seen = line.number;
            }
            if lines.is_empty() {
                text.push_str(": still here\n\n");
            }
            out.write_all(text.as_bytes())?;
            out.flush()?;
        }
        Ok(())
    }
}

/// The page's HTML.
fn page(title: &str) -> String {
    let heading = escaped(title);
    let body = format!(
        "<header><h1>{heading}</h1><p class=\"about\" id=\"about\"></p></header>\n{}",
        include_str!("../../assets/live.html")
    );
    let script = include_str!("../../assets/live.js");
    shell(&Shell { title, body: &body, data: "null", script, live: true })
}

/// A parsed request.
#[derive(Debug, Default, PartialEq, Eq)]
struct Request {
    method: String,
    path: String,
    host: String,
    /// The last line a page has seen before it lost its connection.
    seen: String,
}

fn read(reader: &mut impl BufRead) -> std::io::Result<Request> {
    let mut line = String::new();
    reader.read_line(&mut line)?;
    let mut words = line.split_whitespace().map(str::to_owned);
    let mut request = Request {
        method: words.next().unwrap_or_default(),
        path: words.next().unwrap_or_default(),
        ..Request::default()
    };
    loop {
        line.clear();
        if reader.read_line(&mut line)? == 0 || line.trim().is_empty() {
            return Ok(request);
        }
        let Some((name, value)) = line.split_once(':') else { continue };
        match name.to_ascii_lowercase().as_str() {
            "host" => value.trim().clone_into(&mut request.host),
            "last-event-id" => value.trim().clone_into(&mut request.seen),
            _ => {}
        }
    }
}

fn answer(out: &mut impl Write, status: &str, kind: &str, body: &str) -> std::io::Result<()> {
    write!(
        out,
        "HTTP/1.1 {status}\r\nContent-Type: {kind}\r\nContent-Length: {}\r\nCache-Control: no-store\r\n\
         X-Content-Type-Options: nosniff\r\nConnection: close\r\n\r\n{body}",
        body.len()
    )?;
    out.flush()
}

#[cfg(test)]
mod tests {
    use super::super::{Live, News};
    use super::*;

    fn ask(live: &Live, request: &str, until: &str) -> String {
        let mut stream = TcpStream::connect(live.address).unwrap();
        stream.set_read_timeout(Some(TIMEOUT)).unwrap();
        stream.write_all(request.as_bytes()).unwrap();
        let (mut text, mut buffer) = (String::new(), [0_u8; 4096]);
        while !text.contains(until) {
            let length = stream.read(&mut buffer).unwrap();
            if length == 0 {
                break;
            }
            text.push_str(&String::from_utf8_lossy(&buffer[..length]));
        }
        text
    }

    #[test]
    fn one_page_and_its_events_for_this_machine() {
        let live = Live::start(0, "a <b> c").unwrap();
        for (request, expect) in [
            ("GET / HTTP/1.1\r\nHost: 127.0.0.1:1\r\n\r\n", "200 OK"),
            ("GET /x HTTP/1.1\r\nHost: localhost:1\r\n\r\n", "404 Not Found"),
            ("POST / HTTP/1.1\r\nHost: localhost\r\n\r\n", "405 Method Not Allowed"),
            ("GET / HTTP/1.1\r\nHost: evil.example\r\n\r\n", "403 Forbidden"),
            ("GET / HTTP/1.1\r\n\r\n", "403 Forbidden"),
            ("\r\n\r\n", "403 Forbidden"),
        ] {
            assert!(ask(&live, request, "\r\n\r\n").starts_with(&format!("HTTP/1.1 {expect}\r\n")), "{request}");
        }
        assert!(!page("a <b> c").contains("a <b> c"));
        live.publish(&News::Begin { experiment: "first", about: "" });
        live.publish(&News::End { ending: "complete", report: "x" });
        let request = |more: &str| format!("GET /events HTTP/1.1\r\nHost: localhost\r\n{more}\r\n");
        let run = live.server.run;
        let all = ask(&live, &request(""), &format!("id: {run}-2\ndata: {{"));
        assert!(all.contains("text/event-stream") && all.contains(&format!("id: {run}-1\ndata: {{")), "{all}");
        let seen = format!("Last-Event-ID: {run}-1\r\n");
        let rest = ask(&live, &request(&seen), &format!("id: {run}-2\ndata: {{"));
        assert!(!rest.contains(&format!("id: {run}-1\n")), "{rest}");
        let of_another_run = ask(&live, &request("Last-Event-ID: 7-900\r\n"), "data: {");
        assert!(of_another_run.contains(&format!("id: {run}-1\n")), "{of_another_run}");
    }

    #[test]
    fn a_port_in_use_is_said_and_is_free_again_after_the_run() {
        let live = Live::start(0, "x").unwrap();
        let port = live.address.port();
        let error = Live::start(port, "y").unwrap_err().to_string();
        assert!(error.starts_with("--live: 127.0.0.1:"), "{error}");
        live.publish(&News::End { ending: "complete", report: "x" });
        std::thread::scope(|scope| {
            let page = scope.spawn(|| ask(&live, "GET /events HTTP/1.1\r\nHost: localhost\r\n\r\n", "\"end\""));
            assert!(page.join().unwrap().contains("complete"));
        });
        drop(live);
        assert!(Live::start(port, "z").is_ok());
    }
}
