//! The runtime: accepts on every listener until [`Stop`].

use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use arbor_base::STATEMENT_STACK_BYTES;
use tokio::net::{TcpStream, UnixStream};

use crate::addresses::{Addresses, Rate};
use crate::connection::{self, Shared};
use crate::memory::Admission;
use crate::pool::Pool;
use crate::reads::{Reads, complete, watch};
use crate::waits::WaitWatch;
use crate::{Bell, Error, Handler, Limits, Listeners, Metrics, Peer, Refusal, Result, Stop, Tls, UnixSocket, listen};

/// Threads per worker for requests that are likely to wait for a disk.
// PERF: YCSB C larger than memory, 2 workers, 64 clients, LMDB, 4, 8 and 32 per worker: 53,530, 50,529 and 43,315 operations/s (2026-11-28).
const READERS_PER_WORKER: usize = 4;

/// Functions that the server's threads call.
#[derive(Clone, Copy)]
pub struct Hooks {
    /// Called by each thread that runs connections when it starts: one per worker, and as many as wait for disks without the pools.
    pub worker_start: fn(),
    /// Called by a thread of the pools, which run requests that may wait for a disk, after it has had nothing to do for a while.
    pub idle: fn(),
}

impl Default for Hooks {
    fn default() -> Hooks {
        Hooks { worker_start: || {}, idle: || {} }
    }
}

/// A server that is not running yet.
pub struct Server {
    limits: Limits,
    metrics: Arc<Metrics>,
    stop: Stop,
    bell: Bell,
    workers: Option<usize>,
    hooks: Hooks,
    reads: Option<&'static dyn Reads>,
    tls: Option<Arc<Tls>>,
    unix: Option<UnixSocket>,
}

impl Server {
    pub fn new(limits: Limits) -> Server {
        Server {
            limits,
            metrics: Arc::default(),
            stop: Stop::default(),
            bell: Bell::default(),
            workers: None,
            hooks: Hooks::default(),
            reads: None,
            tls: None,
            unix: None,
        }
    }

    /// Threads that run connections; the default is one per core.
    pub fn with_workers(mut self, workers: usize) -> Server {
        self.workers = Some(workers.max(1));
        self
    }

    pub fn with_hooks(mut self, hooks: Hooks) -> Server {
        self.hooks = hooks;
        self
    }

    /// Requests that wait for a device may do so without a thread.
    pub fn with_reads(mut self, reads: Option<&'static dyn Reads>) -> Server {
        self.reads = reads;
        self
    }

    /// Connections may, or have to, use TLS.
    pub fn with_tls(mut self, tls: Option<Arc<Tls>>) -> Server {
        self.tls = tls;
        self
    }

    /// Connections come through a Unix socket as well.
    pub fn with_unix_socket(mut self, unix: Option<UnixSocket>) -> Server {
        self.unix = unix;
        self
    }

    pub fn metrics(&self) -> Arc<Metrics> {
        self.metrics.clone()
    }

    pub fn stop(&self) -> Stop {
        self.stop.clone()
    }

    pub fn bell(&self) -> Bell {
        self.bell.clone()
    }

    /// Listens, if not done before, and serves until [`Stop::now`]; then running requests finish (within `stop_grace`) and are answered.
    pub fn run(self, listeners: Listeners, handler: Arc<dyn Handler>) -> Result<()> {
        listen(&listeners)?;
        let mut builder = tokio::runtime::Builder::new_multi_thread();
        builder.enable_all().thread_name("arbor-worker").thread_stack_size(STATEMENT_STACK_BYTES);
        builder.on_thread_start(self.hooks.worker_start);
        let workers = self.workers.unwrap_or_else(|| std::thread::available_parallelism().map_or(2, usize::from));
        builder.worker_threads(workers);
        let runtime = builder.build().map_err(|source| Error::Runtime { source })?;
        let stop_grace = self.limits.stop_grace;
        let Server { limits, metrics, stop, bell, hooks, reads, tls, unix, .. } = self;
        let watched = {
            let _entered = runtime.enter();
            reads.and_then(|reads| Some((reads, watch(reads).ok()?)))
        };
        let has_reads = watched.is_some();
        if let Some((reads, event)) = watched {
            runtime.spawn(complete(reads, event));
        }
        let threads_max = limits.blocking_threads_max;
        let few = (workers * READERS_PER_WORKER).min(threads_max / 8);
        let pool = Pool::new(threads_max - threads_max / 4 - few, hooks.idle);
        let scans = Pool::bounded(threads_max / 4, Some(few), hooks.idle);
        let shared = Arc::new(Shared {
            handler,
            addresses: Addresses::new(limits.connections_per_address_max),
            admission: Admission::new(limits.budget),
            limits,
            metrics,
            stop,
            bell,
            waits: WaitWatch::new(),
            workers,
            pool,
            scans,
            readers: Pool::new(few, hooks.idle),
            has_reads,
            running: AtomicUsize::new(0),
            tls,
        });
        let served = runtime.block_on(accept_all(shared.clone(), listeners, unix.as_ref()));
        drop(unix);
        runtime.block_on(async {
            let _ = tokio::time::timeout(stop_grace, shared.stop.drained()).await;
        });
        runtime.shutdown_timeout(if shared.stop.is_forced() { Duration::ZERO } else { Duration::from_secs(1) });
        served
    }
}

/// Accepts until the shutdown begins; the listeners are closed then.
async fn accept_all(shared: Arc<Shared>, listeners: Listeners, unix: Option<&UnixSocket>) -> Result<()> {
    let gate = Arc::new(Gate { numbers: AtomicU64::new(0), rate: Rate::new(shared.limits.new_connections_per_second) });
    let mut loops = tokio::task::JoinSet::new();
    for listener in listeners {
        let listener = into_tokio(listener)?;
        loops.spawn(accept(shared.clone(), listener, gate.clone()));
    }
    if let Some(unix) = unix {
        let (listener, path) = unix.accept_from().map_err(|source| Error::Runtime { source })?;
        loops.spawn(accept_unix(shared.clone(), listener, path, gate));
    }
    shared.stop.begun().await;
    loops.shutdown().await;
    Ok(())
}

/// State that all listeners share.
struct Gate {
    /// Number of the last connection.
    numbers: AtomicU64,
    rate: Rate,
}

impl Gate {
    async fn pass(&self) {
        let wait = self.rate.wait(Instant::now());
        if !wait.is_zero() {
            tokio::time::sleep(wait).await;
        }
    }
}

fn into_tokio(listener: TcpListener) -> Result<tokio::net::TcpListener> {
    let nonblocking = listener.set_nonblocking(true).and_then(|()| tokio::net::TcpListener::from_std(listener));
    nonblocking.map_err(|source| Error::Runtime { source })
}

async fn accept(shared: Arc<Shared>, listener: tokio::net::TcpListener, gate: Arc<Gate>) {
    loop {
        match listener.accept().await {
            Ok((stream, remote)) => {
                gate.pass().await;
                let local = stream.local_addr().unwrap_or(remote);
                admit(&shared, stream, Peer::new(0, remote, local, 0), &gate.numbers);
            }
            // Out of file descriptors: connections that end give some back.
            Err(_) => tokio::time::sleep(Duration::from_millis(50)).await,
        }
    }
}

/// Accepts at a Unix socket. The connections are the network's from here on: every call that a connection makes of a socket is one
/// of both kinds, so the path of a request has no second kind of stream.
async fn accept_unix(shared: Arc<Shared>, listener: tokio::net::UnixListener, path: Arc<str>, gate: Arc<Gate>) {
    let loopback = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
    loop {
        match listener.accept().await.and_then(|(stream, _)| into_tcp(stream)) {
            Ok(stream) => {
                gate.pass().await;
                let peer = Peer { unix: Some(path.clone()), ..Peer::new(0, loopback, loopback, 0) };
                admit(&shared, stream, peer, &gate.numbers);
            }
            Err(_) => tokio::time::sleep(Duration::from_millis(50)).await,
        }
    }
}

fn into_tcp(stream: UnixStream) -> std::io::Result<TcpStream> {
    let descriptor = OwnedFd::from(stream.into_std()?);
    TcpStream::from_std(std::net::TcpStream::from(descriptor))
}

/// Starts a connection, or closes it at once when there are too many.
fn admit(shared: &Arc<Shared>, stream: TcpStream, mut peer: Peer, numbers: &AtomicU64) {
    peer.open = shared.metrics.open.fetch_add(1, Ordering::Relaxed) + 1;
    peer.connection = numbers.fetch_add(1, Ordering::Relaxed) + 1;
    let refusal = if peer.open > shared.limits.connections_max {
        Some(Refusal::TooMany)
    } else if peer.unix.is_none() && !shared.addresses.came(peer.remote.ip()) {
        Some(Refusal::TooManyOfAddress)
    } else {
        None
    };
    if let Some(refusal) = refusal {
        shared.metrics.open.fetch_sub(1, Ordering::Relaxed);
        shared.metrics.rejected.fetch_add(1, Ordering::Relaxed);
        shared.handler.refused(&peer, refusal);
        return;
    }
    shared.metrics.created.fetch_add(1, Ordering::Relaxed);
    tokio::spawn(connection::serve(shared.clone(), stream, peer));
}
