//! Requests whose reads are done before they begin, without a thread that waits for them.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;
use std::pin::Pin;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use arbor_base::Prefetch;
use arbor_server::{After, Handler, Limits, Peer, Place, Reads, Server, Session, bind, listen};

/// Waits on its worker.
const WAITS: u8 = 1;
/// Its read is done first.
const READS: u8 = 2;
/// Finds all in memory.
const CACHED: u8 = 3;
/// May read anything.
const UNKNOWN: u8 = 4;
/// May block.
const BLOCKS: u8 = 5;

/// A read that is submitted when it is awaited, and resolves once it was reaped.
#[derive(Clone)]
struct ToyRead {
    device: &'static ToyDevice,
    state: Arc<Mutex<ReadState>>,
}

#[derive(Default)]
struct ReadState {
    is_submitted: bool,
    is_complete: bool,
    waker: Option<Waker>,
}

impl Future for ToyRead {
    type Output = ();

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        let mut state = self.state.lock().unwrap();
        state.waker = Some(context.waker().clone());
        if state.is_complete {
            return Poll::Ready(());
        }
        let was_submitted = std::mem::replace(&mut state.is_submitted, true);
        drop(state);
        if !was_submitted {
            self.device.submitted.lock().unwrap().push(self.clone());
            (&self.device.bell).write_all(b"!").unwrap();
        }
        Poll::Pending
    }
}

struct ToyDevice {
    event: UnixStream,
    bell: UnixStream,
    submitted: Mutex<Vec<ToyRead>>,
    reaped: AtomicUsize,
}

impl ToyDevice {
    fn leaked() -> &'static ToyDevice {
        let (event, bell) = UnixStream::pair().unwrap();
        event.set_nonblocking(true).unwrap();
        let (submitted, reaped) = Default::default();
        Box::leak(Box::new(ToyDevice { event, bell, submitted, reaped }))
    }
}

impl Reads for ToyDevice {
    fn event(&self) -> BorrowedFd<'_> {
        self.event.as_fd()
    }

    fn reap(&self) {
        // or it is full in the end
        let _ = (&self.event).read(&mut [0; 64]);
        for read in std::mem::take(&mut *self.submitted.lock().unwrap()) {
            self.reaped.fetch_add(1, Ordering::SeqCst);
            let mut state = read.state.lock().unwrap();
            state.is_complete = true;
            state.waker.take().into_iter().for_each(Waker::wake);
        }
    }
}

struct Toy(&'static ToyDevice);

struct ToySession {
    device: &'static ToyDevice,
    read: Option<ToyRead>,
}

impl Handler for Toy {
    fn open(&self, _peer: Peer) -> Box<dyn Session> {
        Box::new(ToySession { device: self.0, read: None })
    }
}

impl Session for ToySession {
    fn place(&self, frame: &[u8]) -> Place {
        if frame[16] == BLOCKS { Place::Blocking } else { Place::Inline }
    }

    fn prefetch(&mut self, frame: &[u8]) -> Prefetch {
        match frame[16] {
            READS => {
                let read = self.read.insert(ToyRead { device: self.device, state: Arc::default() }).clone();
                Prefetch::Reading { bytes: 1, done: Box::pin(read) }
            }
            CACHED => Prefetch::InMemory,
            _ => Prefetch::Unknown,
        }
    }

    fn handle(&mut self, frame: &[u8], reply: &mut Vec<u8>) -> After {
        if frame[16] == WAITS {
            std::thread::sleep(Duration::from_micros(100));
        }
        let is_read = self.read.take().is_some_and(|read| read.state.lock().unwrap().is_complete);
        let text = format!("{} {is_read}", std::thread::current().name().unwrap());
        reply.extend_from_slice(&(16 + text.len() as i32).to_le_bytes());
        reply.extend_from_slice(&[0; 12]);
        reply.extend_from_slice(text.as_bytes());
        After::Continue
    }

    fn panicked(&mut self, _frame: &[u8], _message: &str, _reply: &mut Vec<u8>) {}
}

fn ask(stream: &mut TcpStream, kind: u8) -> String {
    let mut request = 17i32.to_le_bytes().to_vec();
    request.extend_from_slice(&[0; 12]);
    request.push(kind);
    stream.write_all(&request).unwrap();
    let mut head = [0; 16];
    stream.read_exact(&mut head).unwrap();
    let mut text = vec![0; i32::from_le_bytes(head[..4].try_into().unwrap()) as usize - 16];
    stream.read_exact(&mut text).unwrap();
    String::from_utf8(text).unwrap()
}

#[test]
fn where_requests_wait_their_reads_are_done_first_and_take_no_thread() {
    let device = ToyDevice::leaked();
    let listeners = bind(&["127.0.0.1".to_owned()], 0, false).unwrap();
    listen(&listeners).unwrap();
    let address = listeners[0].local_addr().unwrap();
    let server = Server::new(Limits::default()).with_workers(2).with_reads(Some(device));
    let (stop, metrics) = (server.stop(), server.metrics());
    let thread = std::thread::spawn(move || server.run(listeners, Arc::new(Toy(device))).unwrap());
    let mut streams: Vec<TcpStream> = (0..8).map(|_| TcpStream::connect(address).unwrap()).collect();
    let pooled = || metrics.statistics().requests_pooled;

    assert_eq!(ask(&mut streams[0], READS), "arbor-worker false", "no request has waited yet");
    // enough of them for the server to know
    while pooled() == 0 {
        assert_eq!(ask(&mut streams[0], WAITS).split(' ').next_back(), Some("false"));
    }
    assert_eq!(ask(&mut streams[0], UNKNOWN), "arbor-request false");
    assert_eq!(ask(&mut streams[0], BLOCKS), "arbor-worker false", "no worker has submitted a read");
    let before = pooled();
    std::thread::scope(|scope| {
        for stream in &mut streams {
            scope.spawn(move || {
                for _ in 0..50 {
                    assert_eq!(ask(stream, READS), "arbor-worker true");
                }
            });
        }
    });
    assert_eq!((pooled(), device.reaped.load(Ordering::SeqCst)), (before, 400));
    assert_eq!(ask(&mut streams[0], CACHED), "arbor-worker false");
    assert_eq!(pooled(), before);
    assert_eq!(ask(&mut streams[0], BLOCKS), "arbor-request false", "the worker completes its reads");
    drop(streams);
    stop.now();
    thread.join().unwrap();
}
