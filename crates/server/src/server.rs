//! The runtime: accepts on every listener until [`Stop`].

use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use arbor_base::STATEMENT_STACK_BYTES;
use tokio::net::TcpStream;

use crate::connection::{self, Shared};
use crate::faults::FaultWatch;
use crate::memory::Admission;
use crate::pool::Pool;
use crate::{Bell, Error, Handler, Limits, Listeners, Metrics, Peer, Result, Stop, listen};

/// A server that is not running yet.
pub struct Server {
    limits: Limits,
    metrics: Arc<Metrics>,
    stop: Stop,
    bell: Bell,
    workers: Option<usize>,
    pool_begin: fn(),
}

impl Server {
    pub fn new(limits: Limits) -> Server {
        Server {
            limits,
            metrics: Arc::default(),
            stop: Stop::default(),
            bell: Bell::default(),
            workers: None,
            pool_begin: || {},
        }
    }

    /// Threads that run connections; the default is one per core.
    pub fn with_workers(mut self, workers: usize) -> Server {
        self.workers = Some(workers.max(1));
        self
    }

    /// Runs first in each thread of the pool for requests that may wait for a disk.
    pub fn with_pool_begin(mut self, begin: fn()) -> Server {
        self.pool_begin = begin;
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
        let workers = self.workers.unwrap_or_else(|| std::thread::available_parallelism().map_or(2, usize::from));
        builder.worker_threads(workers);
        let runtime = builder.build().map_err(|source| Error::Runtime { source })?;
        let stop_grace = self.limits.stop_grace;
        let Server { limits, metrics, stop, bell, pool_begin, .. } = self;
        let pool = Pool::new(limits.blocking_threads_max, pool_begin);
        let shared = Arc::new(Shared {
            handler,
            admission: Admission::new(limits.budget),
            limits,
            metrics,
            stop,
            bell,
            faults: FaultWatch::new(),
            workers,
            pool,
            running: AtomicUsize::new(0),
        });
        let served = runtime.block_on(accept_all(shared.clone(), listeners));
        runtime.block_on(async {
            let _ = tokio::time::timeout(stop_grace, shared.stop.drained()).await;
        });
        runtime.shutdown_timeout(if shared.stop.is_forced() { Duration::ZERO } else { Duration::from_secs(1) });
        served
    }
}

/// Accepts until the shutdown begins; the listeners are closed then.
async fn accept_all(shared: Arc<Shared>, listeners: Listeners) -> Result<()> {
    let numbers = Arc::new(AtomicU64::new(0));
    let mut loops = tokio::task::JoinSet::new();
    for listener in listeners {
        let listener = into_tokio(listener)?;
        loops.spawn(accept(shared.clone(), listener, numbers.clone()));
    }
    shared.stop.begun().await;
    loops.shutdown().await;
    Ok(())
}

fn into_tokio(listener: TcpListener) -> Result<tokio::net::TcpListener> {
    let nonblocking = listener.set_nonblocking(true).and_then(|()| tokio::net::TcpListener::from_std(listener));
    nonblocking.map_err(|source| Error::Runtime { source })
}

async fn accept(shared: Arc<Shared>, listener: tokio::net::TcpListener, numbers: Arc<AtomicU64>) {
    loop {
        match listener.accept().await {
            Ok((stream, remote)) => admit(&shared, stream, remote, &numbers),
            // Out of file descriptors: connections that end give some back.
            Err(_) => tokio::time::sleep(Duration::from_millis(50)).await,
        }
    }
}

/// Starts a connection, or closes it at once when there are too many.
fn admit(shared: &Arc<Shared>, stream: TcpStream, remote: SocketAddr, numbers: &AtomicU64) {
    let open = shared.metrics.open.fetch_add(1, Ordering::Relaxed) + 1;
    let connection = numbers.fetch_add(1, Ordering::Relaxed) + 1;
    let peer = Peer { connection, remote, local: stream.local_addr().unwrap_or(remote), open };
    if open > shared.limits.connections_max {
        shared.metrics.open.fetch_sub(1, Ordering::Relaxed);
        shared.metrics.rejected.fetch_add(1, Ordering::Relaxed);
        shared.handler.refused(peer);
        return;
    }
    shared.metrics.created.fetch_add(1, Ordering::Relaxed);
    tokio::spawn(connection::serve(shared.clone(), stream, peer));
}
