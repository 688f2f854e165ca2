//! A small HTTP/1.1 server, kept by hand: a few paths, one request per connection, no body is read. A server crate would bring
//! a runtime or a parser for what is one line here.

use std::io::{ErrorKind, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use subtle::ConstantTimeEq;

use crate::{Format, Source, console, render};

/// Requests at a time; more are closed at once.
const CONNECTIONS_MAX: usize = 8;
const HEAD_BYTES_MAX: usize = 8 * 1024;
/// Time for a whole request and its reply.
const REQUEST_TIME: Duration = Duration::from_secs(10);
/// The first byte of a TLS connection: the type of its first record.
const TLS_HANDSHAKE: u8 = 22;
/// Paths that need no TLS where it is required: probes have no certificates, and these say nothing about the data.
const HEALTH: &[&str] = &["/healthz", "/readyz"];
/// Interval at which the listener checks for a stop.
const TICK: Duration = Duration::from_millis(20);

#[derive(Clone)]
pub struct Options {
    /// `None`: the port speaks no TLS.
    pub secure: Option<Arc<dyn Secure>>,
    /// `/metrics` requires the token in this file, which is read for each request. `None`: it is open.
    pub token_file: Option<PathBuf>,
    /// Clients log in to the server: statements are shown, and ended, with a token only.
    pub has_access_control: bool,
    /// Collections with metrics of their own.
    pub collections_max: usize,
}

/// TLS of the port.
pub trait Secure: Send + Sync {
    /// Returns true if requests without TLS are for the server's health only.
    fn is_required(&self) -> bool;

    /// Begins TLS; the handshake takes place when the connection is read.
    fn encrypted(&self, stream: Timed) -> std::io::Result<Box<dyn Connection>>;
}

pub trait Connection: Read + Write {}

impl<T: Read + Write> Connection for T {}

/// A socket with a time limit for all that is read and written.
pub struct Timed {
    stream: TcpStream,
    until: Instant,
}

impl Timed {
    /// Waits for the first byte, which a client of TLS begins its handshake with.
    fn begins_tls(&self) -> std::io::Result<bool> {
        let mut first = [0];
        self.stream.set_read_timeout(Some(left(self.until)?))?;
        Ok(self.stream.peek(&mut first)? == 1 && first == [TLS_HANDSHAKE])
    }
}

impl Read for Timed {
    fn read(&mut self, bytes: &mut [u8]) -> std::io::Result<usize> {
        self.stream.set_read_timeout(Some(left(self.until)?))?;
        self.stream.read(bytes)
    }
}

impl Write for Timed {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.stream.set_write_timeout(Some(left(self.until)?))?;
        self.stream.write(bytes)
    }

    fn flush(&mut self) -> std::io::Result<()> {
        self.stream.flush()
    }
}

/// Replies to requests until `is_stopping` returns true.
pub fn serve(listener: &TcpListener, options: Options, source: Arc<dyn Source>, is_stopping: impl Fn() -> bool) {
    let (options, open) = (Arc::new(options), Arc::new(AtomicUsize::new(0)));
    if listener.set_nonblocking(true).is_err() {
        return;
    }
    while !is_stopping() {
        match listener.accept() {
            Ok((stream, _)) if open.load(Ordering::Relaxed) < CONNECTIONS_MAX => {
                open.fetch_add(1, Ordering::Relaxed);
                let guard = Open(open.clone());
                let (options, source) = (options.clone(), source.clone());
                // Without a thread the connection is closed, and counted no more.
                let _ = std::thread::Builder::new().name("arbor-http".to_owned()).spawn(move || {
                    let _guard = guard;
                    let _ = answer(stream, &options, &*source);
                });
            }
            Ok((stream, _)) => drop(stream),
            Err(_) => std::thread::sleep(TICK),
        }
    }
}

struct Open(Arc<AtomicUsize>);

impl Drop for Open {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

pub(crate) struct Reply {
    pub status: &'static str,
    pub content: &'static str,
    pub body: String,
}

impl Reply {
    pub(crate) fn text(status: &'static str, body: impl Into<String>) -> Reply {
        let mut body = body.into();
        body.push('\n');
        Reply { status, content: "text/plain; charset=utf-8", body }
    }
}

fn answer(stream: TcpStream, options: &Options, source: &dyn Source) -> std::io::Result<()> {
    stream.set_nonblocking(false)?;
    let stream = Timed { stream, until: Instant::now() + REQUEST_TIME };
    let mut health_only = false;
    let mut connection: Box<dyn Connection> = match &options.secure {
        Some(secure) if stream.begins_tls()? => secure.encrypted(stream)?,
        secure => {
            health_only = secure.as_ref().is_some_and(|secure| secure.is_required());
            Box::new(stream)
        }
    };
    let head = match read_head(&mut *connection)? {
        Ok(head) => head,
        Err(reply) => return write(&mut *connection, &reply, true),
    };
    let (reply, has_body) = match health_only && !HEALTH.contains(&path_of(&head)) {
        true => (Reply::text("403 Forbidden", "this port requires https"), true),
        false => reply_to(&head, options, source),
    };
    write(&mut *connection, &reply, has_body)
}

fn path_of(head: &str) -> &str {
    let target = head.lines().next().unwrap_or_default().split(' ').nth(1).unwrap_or_default();
    target.split('?').next().unwrap_or_default()
}

fn write(stream: &mut dyn Connection, reply: &Reply, has_body: bool) -> std::io::Result<()> {
    let challenge = if reply.status.starts_with("401") { "WWW-Authenticate: Bearer\r\n" } else { "" };
    let mut out = format!(
        "HTTP/1.1 {}\r\nContent-Type: {}\r\nContent-Length: {}\r\nCache-Control: no-store\r\nX-Content-Type-Options: nosniff\r\n\
         {challenge}Connection: close\r\n\r\n",
        reply.status,
        reply.content,
        reply.body.len()
    );
    if has_body {
        out.push_str(&reply.body);
    }
    stream.write_all(out.as_bytes())?;
    stream.flush()
}

fn left(until: Instant) -> std::io::Result<Duration> {
    let left = until.saturating_duration_since(Instant::now());
    if left.is_zero() { Err(ErrorKind::TimedOut.into()) } else { Ok(left) }
}

/// Reads up to the empty line. The inner error is the reply to a head that is too long.
fn read_head(stream: &mut dyn Connection) -> std::io::Result<Result<String, Reply>> {
    let (mut head, mut buffer) = (Vec::new(), [0; 1024]);
    loop {
        let read = stream.read(&mut buffer)?;
        if read == 0 {
            return Err(ErrorKind::UnexpectedEof.into());
        }
        head.extend_from_slice(buffer.get(..read).unwrap_or_default());
        if head.windows(4).any(|end| end == b"\r\n\r\n") {
            return Ok(Ok(String::from_utf8_lossy(&head).into_owned()));
        }
        if head.len() > HEAD_BYTES_MAX {
            return Ok(Err(Reply::text("431 Request Header Fields Too Large", "the request is too long")));
        }
    }
}

/// Returns the reply, and whether its body is sent.
fn reply_to(head: &str, options: &Options, source: &dyn Source) -> (Reply, bool) {
    let mut words = head.lines().next().unwrap_or_default().split(' ');
    let (method, target) = (words.next().unwrap_or_default(), words.next().unwrap_or_default());
    if !words.next().is_some_and(|version| version.starts_with("HTTP/1.")) {
        return (Reply::text("400 Bad Request", "this is no request of HTTP/1.1"), true);
    }
    let path = path_of(head);
    let reply = match (method, path) {
        ("GET" | "HEAD", "/metrics") => metrics(head, options, source),
        ("GET" | "HEAD", "/") => Reply { status: "200 OK", content: "text/html; charset=utf-8", body: console::page() },
        ("GET" | "HEAD", "/console.json") => console::document(head, target, options, source),
        ("POST", "/kill") => console::kill(head, target, options, source),
        ("GET" | "HEAD", "/healthz") => state(source.health()),
        ("GET" | "HEAD", "/readyz") => state(source.readiness()),
        (_, "/" | "/console.json" | "/metrics" | "/healthz" | "/readyz") => {
            Reply::text("405 Method Not Allowed", "only GET and HEAD")
        }
        _ => Reply::text("404 Not Found", "here are /, /metrics, /healthz and /readyz"),
    };
    (reply, method != "HEAD")
}

fn state(state: Result<(), String>) -> Reply {
    match state {
        Ok(()) => Reply::text("200 OK", "ok"),
        Err(reason) => Reply::text("503 Service Unavailable", reason),
    }
}

fn metrics(head: &str, options: &Options, source: &dyn Source) -> Reply {
    if let Some(refusal) = without_token(head, options) {
        return refusal;
    }
    let format = match header(head, "accept") {
        Some(accept) if accept.contains("application/openmetrics-text") => Format::OpenMetrics,
        _ => Format::Prometheus,
    };
    match source.statistics() {
        Ok(statistics) => Reply {
            status: "200 OK",
            content: format.content_type(),
            body: render(statistics.as_doc(), format, options.collections_max),
        },
        Err(reason) => Reply::text("503 Service Unavailable", reason),
    }
}

/// Returns the reply to a request that lacks the token, where one is required.
pub(crate) fn without_token(head: &str, options: &Options) -> Option<Reply> {
    let file = options.token_file.as_ref()?;
    let given = header(head, "authorization").and_then(|value| value.strip_prefix("Bearer "));
    let is_known = given.is_some_and(|given| is_token(given.trim(), file));
    (!is_known).then(|| Reply::text("401 Unauthorized", "the bearer token is missing or wrong"))
}

/// Compares in a time that does not depend on where the two differ. A file that is missing or empty has no token.
fn is_token(given: &str, file: &Path) -> bool {
    let token = std::fs::read_to_string(file).unwrap_or_default();
    let token = token.trim();
    !token.is_empty() && bool::from(token.as_bytes().ct_eq(given.as_bytes()))
}

pub(crate) fn header<'h>(head: &'h str, name: &str) -> Option<&'h str> {
    let fields = head.lines().skip(1).filter_map(|line| line.split_once(':'));
    fields.into_iter().find(|(own, _)| own.eq_ignore_ascii_case(name)).map(|(_, value)| value.trim())
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicBool;

    use arbor_bson::DocBuf;

    use super::*;

    struct Fixed;

    impl Source for Fixed {
        fn statistics(&self) -> Result<DocBuf, String> {
            Ok(DocBuf::new().with("connections", &DocBuf::new().with("current", 7i32)))
        }

        fn console(&self, operations: bool, _: bool) -> Result<DocBuf, String> {
            Ok(DocBuf::new().with("operations", operations))
        }

        fn kill(&self, operation: u64) -> Result<(), String> {
            assert_eq!(operation, 7);
            Ok(())
        }

        fn health(&self) -> Result<(), String> {
            Ok(())
        }

        fn readiness(&self) -> Result<(), String> {
            Err("the server recovers".to_owned())
        }
    }

    fn unprotected() -> Options {
        Options { secure: None, token_file: None, has_access_control: false, collections_max: 10 }
    }

    fn reply(head: &str, token_file: Option<&Path>) -> Reply {
        let options = Options { token_file: token_file.map(Path::to_owned), ..unprotected() };
        reply_to(head, &options, &Fixed).0
    }

    #[test]
    fn paths_methods_and_formats() {
        let status = |head: &str| reply(head, None).status;
        assert_eq!(status("GET /healthz HTTP/1.1\r\n\r\n"), "200 OK");
        assert_eq!(status("GET /nothing HTTP/1.1\r\n\r\n"), "404 Not Found");
        assert_eq!(status("POST /metrics HTTP/1.1\r\n\r\n"), "405 Method Not Allowed");
        assert_eq!(status("what\r\n\r\n"), "400 Bad Request");
        let ready = reply("GET /readyz?verbose HTTP/1.1\r\n\r\n", None);
        assert_eq!((ready.status, &*ready.body), ("503 Service Unavailable", "the server recovers\n"));
        let plain = reply("GET /metrics HTTP/1.1\r\n\r\n", None);
        assert!(plain.body.contains("\narbor_connections 7\n") && !plain.body.contains("# EOF"), "{}", plain.body);
        let open = reply("GET /metrics HTTP/1.1\r\nACCEPT: application/openmetrics-text\r\n\r\n", None);
        assert!(open.content.starts_with("application/openmetrics-text") && open.body.ends_with("# EOF\n"));
    }

    #[test]
    fn the_token_protects_the_metrics() {
        let file = std::env::temp_dir().join(format!("arbor-token-{}", std::process::id()));
        let status = |authorization: &str| {
            reply(&format!("GET /metrics HTTP/1.1\r\n{authorization}\r\n\r\n"), Some(&file)).status
        };
        assert_eq!(status("Authorization: Bearer "), "401 Unauthorized", "without the file there is no token");
        std::fs::write(&file, "secret\n").unwrap();
        assert_eq!(status("Authorization: Bearer secret"), "200 OK");
        for wrong in ["Authorization: Bearer secre", "Authorization: Basic secret", "Authorization: Bearer", "A: b"] {
            assert_eq!(status(wrong), "401 Unauthorized", "{wrong}");
        }
        assert_eq!(reply("GET /healthz HTTP/1.1\r\n\r\n", Some(&file)).status, "200 OK");
        std::fs::remove_file(&file).unwrap();
    }

    #[test]
    fn the_console_and_its_button() {
        let page = reply("GET / HTTP/1.1\r\n\r\n", None);
        assert!(page.status == "200 OK" && page.body.contains("<title>Arbor"));
        let file = std::env::temp_dir().join(format!("arbor-console-{}", std::process::id()));
        std::fs::write(&file, "secret").unwrap();
        let ask = |head: &str, has_access_control: bool, with_file: bool| {
            let token_file = with_file.then(|| file.clone());
            reply_to(head, &Options { token_file, has_access_control, ..unprotected() }, &Fixed).0
        };
        let data = "GET /console.json HTTP/1.1\r\nHost: 127.0.0.1:9216\r\n";
        assert_eq!(ask(&format!("{data}\r\n"), false, false).body, "{\"operations\":true}");
        assert_eq!(ask(&format!("{data}\r\n"), true, false).body, "{\"operations\":false}", "there is no token");
        assert_eq!(ask(&format!("{data}\r\n"), true, true).status, "401 Unauthorized");
        let token = "Authorization: Bearer secret\r\n";
        assert_eq!(ask(&format!("{data}{token}\r\n"), true, true).body, "{\"operations\":true}");
        let foreign = "GET /console.json HTTP/1.1\r\nHost: evil.example:9216\r\n\r\n";
        assert_eq!(ask(foreign, false, false).status, "403 Forbidden", "a name that was made to lead here");
        let kill = "POST /kill?op=7 HTTP/1.1\r\nHost: [::1]:9216\r\n";
        let own = "X-Arbor-Console: 1\r\n";
        for (head, has_access_control, with_file, status) in [
            (format!("{kill}{own}\r\n"), false, false, "200 OK"),
            (format!("{kill}\r\n"), false, false, "403 Forbidden"),
            (format!("{kill}{own}\r\n"), true, false, "403 Forbidden"),
            (format!("{kill}{own}\r\n"), true, true, "401 Unauthorized"),
            (format!("{kill}{own}{token}\r\n"), true, true, "200 OK"),
            (format!("{}{own}\r\n", kill.replace("=7", "=x")), false, false, "400 Bad Request"),
        ] {
            assert_eq!(ask(&head, has_access_control, with_file).status, status, "{head}");
        }
        std::fs::remove_file(&file).unwrap();
    }

    #[test]
    fn clients_without_end_do_not_keep_others_out() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let stop = Arc::new(AtomicBool::new(false));
        let stopping = stop.clone();
        let options = unprotected();
        let server =
            std::thread::spawn(move || serve(&listener, options, Arc::new(Fixed), || stopping.load(Ordering::Relaxed)));
        let ask = |text: &[u8]| {
            let mut stream = TcpStream::connect(address).unwrap();
            let _ = stream.write_all(text);
            let mut reply = String::new();
            let _ = stream.read_to_string(&mut reply);
            reply
        };
        assert!(ask(b"GET /healthz HTTP/1.1\r\n\r\n").starts_with("HTTP/1.1 200 OK\r\n"));
        assert!(ask(b"HEAD /metrics HTTP/1.1\r\n\r\n").ends_with("\r\n\r\n"));
        assert!(ask(&[b'x'; HEAD_BYTES_MAX + 1]).starts_with("HTTP/1.1 431 "));
        let silent: Vec<TcpStream> = (0..CONNECTIONS_MAX).map(|_| TcpStream::connect(address).unwrap()).collect();
        drop(silent);
        let until = Instant::now() + Duration::from_secs(60);
        while !ask(b"GET /healthz HTTP/1.1\r\n\r\n").starts_with("HTTP/1.1 200 OK\r\n") {
            assert!(Instant::now() < until, "connections that were closed are released");
            std::thread::sleep(TICK);
        }
        stop.store(true, Ordering::Relaxed);
        server.join().unwrap();
    }
}
