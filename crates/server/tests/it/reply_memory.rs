//! The memory of a reply is always in an account: the connection reserves it before the batch that it was made of gives its own
//! back. 300 replies that were in none for a moment took 1.48 times the limit.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use arbor_base::memory::{Budget, Class, Reservation};
use arbor_server::{After, Handler, Limits, Peer, Place, Server, Session, bind, listen};

const REPLY_BYTES: usize = 1 << 20;

/// Bytes reserved for replies when a batch gave its memory back, one entry for each reply.
type Seen = Arc<Mutex<Vec<u64>>>;

struct Batches {
    budget: &'static Budget,
    seen: Seen,
}

/// Answers everything with a large reply whose batch holds memory.
struct Batch {
    budget: &'static Budget,
    memory: Reservation,
    seen: Seen,
}

impl Handler for Batches {
    fn open(&self, _peer: Peer) -> Box<dyn Session> {
        let memory = self.budget.reservation(Class::Batch);
        Box::new(Batch { budget: self.budget, memory, seen: self.seen.clone() })
    }
}

impl Session for Batch {
    fn place(&self, _frame: &[u8]) -> Place {
        Place::Inline
    }

    fn handle(&mut self, _request: &[u8], reply: &mut Vec<u8>) -> After {
        self.memory.cover(REPLY_BYTES);
        reply.extend(frame(REPLY_BYTES));
        After::Continue
    }

    fn panicked(&mut self, _request: &[u8], _message: &str, _reply: &mut Vec<u8>) {}

    fn release_reply_memory(&mut self) {
        assert_eq!(self.memory.bytes(), REPLY_BYTES);
        self.seen.lock().unwrap().push(self.budget.held(Class::Reply));
        self.memory.shrink_to(0);
    }
}

fn frame(bytes: usize) -> Vec<u8> {
    let mut frame: Vec<u8> = [bytes as i32, 7, 0, 2013].iter().flat_map(|word| word.to_le_bytes()).collect();
    frame.resize(bytes, b'x');
    frame
}

#[test]
fn a_reply_is_reserved_before_its_batch_gives_memory_back() {
    let budget: &'static Budget = Box::leak(Box::new(Budget::unlimited()));
    budget.set_limit(256 << 20);
    let listeners = bind(&["127.0.0.1".to_owned()], 0, false).unwrap();
    listen(&listeners).unwrap();
    let address = listeners[0].local_addr().unwrap();
    let server = Server::new(Limits { budget, ..Limits::default() }).with_workers(1);
    let (stop, seen) = (server.stop(), Seen::default());
    let handler = Arc::new(Batches { budget, seen: seen.clone() });
    let thread = std::thread::spawn(move || server.run(listeners, handler).unwrap());

    let mut stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
    for count in 1..=3 {
        stream.write_all(&frame(16)).unwrap();
        stream.read_exact(&mut vec![0; REPLY_BYTES]).unwrap();
        let seen = seen.lock().unwrap();
        assert_eq!(seen.len(), count);
        assert!(seen.iter().all(|reserved| *reserved >= REPLY_BYTES as u64), "{seen:?}");
    }
    let begun = Instant::now();
    while budget.reserved() > 0 && begun.elapsed() < Duration::from_secs(5) {
        std::thread::yield_now();
    }
    assert_eq!(budget.reserved(), 0, "what was sent is not held");
    stop.now();
    thread.join().unwrap();
}
