//! A real server on a free port with a small handler: opcode 1 echoes inline, 2 on the pool, 3 panics, 4 streams three
//! replies, 5 closes, 6 takes 200 ms on the pool, 7 waits up to 300 ms for news, 8 for
//! 30 s, 9 keeps its thread until there are news, as a read from a slow disk does, 10 gives up its processor for 100 us, as a
//! read from a fast one does.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use arbor_base::memory::{Budget, Class};
use arbor_server::{
    After, Bell, Handler, Limits, Metrics, NetworkStatistics, Peer, Place, Server, Session, Stop, bind, listen,
};

/// Requests of opcode 10 that run, and the most that ran at once.
static AT_ONCE: AtomicUsize = AtomicUsize::new(0);
static AT_ONCE_MAX: AtomicUsize = AtomicUsize::new(0);

struct Toy {
    /// Event that requests of opcode 7 wait for.
    news: Arc<AtomicBool>,
}

struct ToySession {
    left: u8,
    news: Arc<AtomicBool>,
    until: Option<Instant>,
}

impl ToySession {
    fn wait(&mut self, ms: u64, reply: &mut Vec<u8>) -> After {
        let until = *self.until.get_or_insert_with(|| Instant::now() + Duration::from_millis(ms));
        let news = self.news.load(Ordering::SeqCst);
        if !news && Instant::now() < until {
            return After::Wait { until };
        }
        self.until = None;
        reply.extend(frame(7, if news { b"news" } else { b"none" }));
        After::Continue
    }
}

fn opcode(frame: &[u8]) -> i32 {
    i32::from_le_bytes(frame[12..16].try_into().unwrap())
}

fn frame(opcode: i32, body: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    for word in [16 + body.len() as i32, 7, 0, opcode] {
        out.extend_from_slice(&word.to_le_bytes());
    }
    out.extend_from_slice(body);
    out
}

impl Handler for Toy {
    fn open(&self, _peer: Peer) -> Box<dyn Session> {
        Box::new(ToySession { left: 0, news: self.news.clone(), until: None })
    }
}

impl Session for ToySession {
    fn place(&self, frame: &[u8]) -> Place {
        if matches!(opcode(frame), 2 | 6) { Place::Blocking } else { Place::Inline }
    }

    fn handle(&mut self, request: &[u8], reply: &mut Vec<u8>) -> After {
        match opcode(request) {
            3 => panic!("toy {}", 3),
            4 => {
                self.left = 2;
                reply.extend(frame(4, b"first"));
                return After::More;
            }
            5 => return After::Close,
            7 => return self.wait(300, reply),
            8 => return self.wait(30_000, reply),
            9 => {
                let begun = Instant::now();
                arbor_base::aside::wait(|| {
                    while !self.news.load(Ordering::SeqCst) && begun.elapsed() < Duration::from_secs(20) {
                        std::thread::sleep(Duration::from_millis(1));
                    }
                });
                reply.extend(frame(9, if self.news.load(Ordering::SeqCst) { b"news" } else { b"none" }));
                return After::Continue;
            }
            6 => std::thread::sleep(Duration::from_millis(200)),
            10 => {
                AT_ONCE_MAX.fetch_max(AT_ONCE.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
                std::thread::sleep(Duration::from_micros(100));
                AT_ONCE.fetch_sub(1, Ordering::SeqCst);
            }
            _ => {}
        }
        reply.extend_from_slice(request);
        After::Continue
    }

    fn more(&mut self, reply: &mut Vec<u8>) -> After {
        if self.until.is_some() {
            return self.wait(0, reply);
        }
        self.left -= 1;
        reply.extend(frame(4, b"next"));
        if self.left == 0 { After::Continue } else { After::More }
    }

    fn too_large(&mut self, head: &[u8], bytes_max: u64, reply: &mut Vec<u8>) -> After {
        if opcode(head) == 5 {
            return After::Close;
        }
        reply.extend(frame(98, bytes_max.to_string().as_bytes()));
        After::Continue
    }

    fn panicked(&mut self, _request: &[u8], message: &str, reply: &mut Vec<u8>) {
        reply.extend(frame(99, message.as_bytes()));
    }
}

struct Running {
    address: SocketAddr,
    stop: Stop,
    metrics: Arc<Metrics>,
    bell: Bell,
    news: Arc<AtomicBool>,
    thread: Option<std::thread::JoinHandle<()>>,
}

impl Running {
    fn start(limits: Limits) -> Running {
        let listeners = bind(&["127.0.0.1".to_owned()], 0, false).unwrap();
        listen(&listeners).unwrap();
        let address = listeners[0].local_addr().unwrap();
        let server = Server::new(limits).with_workers(2);
        let (stop, metrics, bell) = (server.stop(), server.metrics(), server.bell());
        let news = Arc::<AtomicBool>::default();
        let toy = Toy { news: news.clone() };
        let thread = std::thread::spawn(move || server.run(listeners, Arc::new(toy)).unwrap());
        Running { address, stop, metrics, bell, news, thread: Some(thread) }
    }

    fn connect(&self) -> TcpStream {
        let stream = TcpStream::connect(self.address).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
        stream
    }

    fn statistics_once(&self, done: impl Fn(&NetworkStatistics) -> bool) -> NetworkStatistics {
        let begun = Instant::now();
        loop {
            let statistics = self.metrics.statistics();
            if done(&statistics) || begun.elapsed() > Duration::from_secs(5) {
                return statistics;
            }
            std::thread::yield_now();
        }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.stop.now();
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

fn read_frame(stream: &mut TcpStream) -> Option<Vec<u8>> {
    let mut head = [0; 16];
    stream.read_exact(&mut head).ok()?;
    let length = i32::from_le_bytes(head[..4].try_into().unwrap()) as usize;
    let mut bytes = head.to_vec();
    bytes.resize(length, 0);
    stream.read_exact(&mut bytes[16..]).ok()?;
    Some(bytes)
}

fn ask(stream: &mut TcpStream, request: &[u8]) -> Option<Vec<u8>> {
    stream.write_all(request).ok()?;
    read_frame(stream)
}

#[test]
fn requests_run_inline_and_on_the_pool() {
    let server = Running::start(Limits::default());
    let mut stream = server.connect();
    for opcode in [1, 2, 1] {
        let request = frame(opcode, b"hello");
        assert_eq!(ask(&mut stream, &request).unwrap(), request);
    }
    let statistics = server.metrics.statistics();
    assert_eq!((statistics.requests, statistics.requests_pooled, statistics.bytes_in), (3, 1, 63));
    assert_eq!((statistics.connections_open, statistics.connections_created), (1, 1));
    drop(stream);
    assert_eq!(server.statistics_once(|f| f.connections_open == 0).connections_open, 0);
}

#[test]
fn requests_that_wait_on_workers_hold_up_no_other() {
    let server = Running::start(Limits::default());
    let workers = std::thread::available_parallelism().map_or(2, usize::from);
    let mut waiting: Vec<TcpStream> = (0..workers).map(|_| server.connect()).collect();
    waiting.iter_mut().for_each(|stream| stream.write_all(&frame(9, b"wait")).unwrap());
    // long enough for each of them to begin
    std::thread::sleep(Duration::from_millis(200));
    let (mut other, echo) = (server.connect(), frame(1, b"quick"));
    assert_eq!(ask(&mut other, &echo), Some(echo));
    server.news.store(true, Ordering::SeqCst);
    for stream in &mut waiting {
        assert_eq!(read_frame(stream), Some(frame(9, b"news")), "the other request came before the end of the wait");
    }
}

#[test]
fn large_split_and_pipelined_frames_arrive_whole() {
    let server = Running::start(Limits::default());
    let mut stream = server.connect();
    let large = frame(1, &vec![9; 5 << 20]);
    let mut reader = stream.try_clone().unwrap();
    std::thread::scope(|scope| {
        scope.spawn(|| large.chunks(700_000).for_each(|part| stream.write_all(part).unwrap()));
        assert_eq!(read_frame(&mut reader).unwrap(), large);
    });
    let pipelined: Vec<u8> = (0..50).flat_map(|n| frame(1 + n % 2, &[n as u8])).collect();
    stream.write_all(&pipelined).unwrap();
    for n in 0..50 {
        assert_eq!(read_frame(&mut reader).unwrap()[16..], [n]);
    }
}

#[test]
fn a_panic_is_answered_and_ends_only_its_connection() {
    let server = Running::start(Limits::default());
    let (mut victim, mut other) = (server.connect(), server.connect());
    let reply = ask(&mut victim, &frame(3, b"")).unwrap();
    assert_eq!((opcode(&reply), &reply[16..]), (99, &b"toy 3"[..]));
    assert!(ask(&mut victim, &frame(1, b"")).is_none());
    assert!(ask(&mut other, &frame(1, b"")).is_some());
    assert_eq!(server.metrics.statistics().panics, 1);
}

#[test]
fn exhaust_replies_come_before_the_next_request() {
    let server = Running::start(Limits::default());
    let mut stream = server.connect();
    stream.write_all(&frame(4, b"")).unwrap();
    stream.write_all(&frame(1, b"after")).unwrap();
    let replies: Vec<Vec<u8>> = (0..4).map(|_| read_frame(&mut stream).unwrap()[16..].to_vec()).collect();
    assert_eq!(replies, [&b"first"[..], b"next", b"next", b"after"]);
    assert!(ask(&mut stream, &frame(5, b"")).is_none());
}

#[test]
fn lying_and_trickled_frames_close_their_connection() {
    let server = Running::start(Limits { frame_grace: Duration::from_millis(100), ..Limits::default() });
    for length in [-1, 0, 15, 48_000_001, i32::MAX] {
        let mut stream = server.connect();
        let mut lie = frame(1, b"");
        lie[..4].copy_from_slice(&i32::to_le_bytes(length));
        assert!(ask(&mut stream, &lie).is_none(), "{length}");
    }
    let mut idle = server.connect();
    let mut slow = server.connect();
    slow.write_all(&frame(1, b"abc")[..10]).unwrap();
    assert!(read_frame(&mut slow).is_none());
    assert_eq!(server.metrics.statistics().slow_frames, 1);
    assert!(ask(&mut idle, &frame(1, b"")).is_some(), "an idle connection stays");
}

/// A budget in which large messages are let in one at a time.
fn no_budget() -> &'static Budget {
    // one large message fits, but not together with what running it takes
    budget_of((24 << 20) + LARGE as u64 + 100_000)
}

fn budget_of(limit: u64) -> &'static Budget {
    let budget: &'static Budget = Box::leak(Box::new(Budget::unlimited()));
    budget.set_limit(limit);
    budget
}

const LARGE: usize = 1_500_000;

/// A connection that has announced a large message and sent a part of it, and whose memory is reserved.
fn half_sent(server: &Running, budget: &Budget) -> TcpStream {
    let mut stream = server.connect();
    stream.write_all(&frame(1, &vec![1; LARGE])[..200_000]).unwrap();
    await_that(|| budget.held(Class::Message) > LARGE as u64);
    stream
}

fn await_that(is_so: impl Fn() -> bool) {
    let begun = Instant::now();
    while !is_so() {
        assert!(begun.elapsed() < Duration::from_secs(20));
        std::thread::sleep(Duration::from_millis(1));
    }
}

#[test]
fn announced_but_unsent_bytes_hold_no_memory() {
    let budget = no_budget();
    let server = Running::start(Limits { budget, ..Limits::default() });
    let mut stream = server.connect();
    stream.write_all(&frame(1, &vec![1; LARGE])[..1000]).unwrap();
    let mut other = server.connect();
    assert_eq!(ask(&mut other, &frame(1, &vec![2; LARGE])).unwrap().len(), 16 + LARGE);
    stream.write_all(&frame(1, &vec![1; LARGE])[1000..]).unwrap();
    assert_eq!(read_frame(&mut stream).unwrap().len(), 16 + LARGE);
    await_that(|| budget.reserved() == 0);
}

#[test]
fn a_large_message_waits_for_the_memory_of_another() {
    let budget = no_budget();
    let server = Running::start(Limits { budget, ..Limits::default() });
    let half = half_sent(&server, budget);
    std::thread::scope(|scope| {
        let waiting = scope.spawn(|| ask(&mut server.connect(), &frame(1, &vec![2; LARGE])).unwrap().len());
        assert!(ask(&mut server.connect(), &frame(1, b"small")).is_some(), "small ones do not wait");
        drop(half);
        assert_eq!(waiting.join().unwrap(), 16 + LARGE);
    });
    assert_eq!(server.metrics.statistics().slow_frames, 0);
    await_that(|| budget.reserved() == 0);
}

#[test]
fn who_sends_slowly_while_others_wait_for_memory_is_closed() {
    let budget = no_budget();
    let limits = Limits { budget, frame_grace: Duration::from_millis(1200), ..Limits::default() };
    let server = Running::start(limits);
    let mut half = half_sent(&server, budget);
    assert!(ask(&mut server.connect(), &frame(1, &vec![2; LARGE])).is_some());
    assert!(read_frame(&mut half).is_none());
    assert_eq!(server.metrics.statistics().slow_frames, 1);
}

#[test]
fn who_does_not_read_while_memory_is_scarce_is_closed() {
    let budget = budget_of((24 << 20) + 8 * LARGE as u64 + 100_000);
    let limits = Limits { budget, frame_grace: Duration::from_millis(1200), ..Limits::default() };
    let server = Running::start(limits);
    let mut deaf = server.connect();
    deaf.write_all(&frame(1, &vec![1; 8 * LARGE])).unwrap();
    await_that(|| server.metrics.statistics().slow_frames == 1);
    await_that(|| budget.reserved() == 0);
}

#[test]
fn a_message_waits_for_memory_no_longer_than_it_may() {
    let budget = no_budget();
    let server = Running::start(Limits { budget, memory_wait: Duration::from_millis(100), ..Limits::default() });
    let half = half_sent(&server, budget);
    let mut other = server.connect();
    let _ = other.write_all(&frame(1, &vec![2; LARGE]));
    assert!(read_frame(&mut other).is_none());
    assert_eq!(server.metrics.statistics().without_memory, 1);
    drop(half);
}

#[test]
fn a_message_beyond_the_whole_budget_is_refused_and_the_connection_stays() {
    let budget = budget_of((24 << 20) + LARGE as u64);
    let server = Running::start(Limits { budget, ..Limits::default() });
    let mut stream = server.connect();
    let mut large = frame(1, &vec![1; LARGE]);
    // the next request is on its way already
    large.extend(frame(1, b"small"));
    let reply = ask(&mut stream, &large).unwrap();
    assert_eq!((opcode(&reply), &reply[16..]), (98, LARGE.to_string().as_bytes()));
    assert_eq!(read_frame(&mut stream).unwrap()[16..], *b"small");
    // one byte less is let in, for no other request holds memory
    let fitting = frame(1, &vec![1; LARGE - 16]);
    assert!(ask(&mut stream, &fitting) == Some(fitting));
    assert_eq!(server.metrics.statistics().without_memory, 1);
    await_that(|| budget.reserved() == 0);
    // who has not said whether it wants a reply is closed
    let _ = stream.write_all(&frame(5, &vec![1; LARGE]));
    assert!(read_frame(&mut stream).is_none());
}

#[test]
fn requests_leave_the_workers_when_many_wait_for_a_disk() {
    const CLIENTS: usize = 32;
    let server = Running::start(Limits::default());
    let ask_often = |opcode| {
        std::thread::scope(|scope| {
            for _ in 0..CLIENTS {
                scope.spawn(|| {
                    let mut stream = server.connect();
                    (0..50).for_each(|_| assert!(ask(&mut stream, &frame(opcode, b"")).is_some()));
                });
            }
        });
        server.metrics.statistics().requests_pooled
    };
    assert_eq!(ask_often(1), 0, "requests that do not wait stay");
    assert!(ask_often(10) > 0);
    // two workers, and four threads for each of them
    let most = AT_ONCE_MAX.load(Ordering::SeqCst);
    assert!((2..=10).contains(&most), "{most} at once");
}

#[test]
fn too_many_connections_are_refused() {
    let server = Running::start(Limits { connections_max: 2, ..Limits::default() });
    let mut kept: Vec<TcpStream> = (0..2).map(|_| server.connect()).collect();
    kept.iter_mut().for_each(|stream| assert!(ask(stream, &frame(1, b"")).is_some()));
    assert!(ask(&mut server.connect(), &frame(1, b"")).is_none());
    let statistics = server.statistics_once(|f| f.connections_rejected == 1);
    assert_eq!((statistics.connections_open, statistics.connections_rejected), (2, 1));
}

#[test]
fn a_stop_lets_running_requests_finish() {
    let server = Running::start(Limits::default());
    let (mut busy, mut idle) = (server.connect(), server.connect());
    assert!(ask(&mut idle, &frame(1, b"")).is_some());
    busy.write_all(&frame(6, b"slow")).unwrap();
    server.statistics_once(|f| f.requests_pooled == 1);
    let begun = Instant::now();
    server.stop.now();
    assert!(read_frame(&mut idle).is_none(), "idle connections end at once");
    assert_eq!(read_frame(&mut busy).unwrap()[16..], *b"slow");
    drop(server);
    assert!(begun.elapsed() < Duration::from_secs(3));
    assert!(read_frame(&mut busy).is_none());
}

#[test]
fn a_thousand_idle_connections_are_served() {
    let server = Running::start(Limits::default());
    let mut streams: Vec<TcpStream> = (0..1000).map(|_| server.connect()).collect();
    for stream in streams.iter_mut().step_by(97) {
        assert!(ask(stream, &frame(1, b"x")).is_some());
    }
    assert_eq!(server.statistics_once(|f| f.connections_open == 1000).connections_open, 1000);
}

#[test]
fn who_waits_for_news_is_woken_by_it_or_answered_in_time() {
    let server = Running::start(Limits::default());
    let mut one = server.connect();
    let begun = Instant::now();
    assert_eq!(ask(&mut one, &frame(7, &[])).unwrap(), frame(7, b"none"));
    assert!(begun.elapsed() >= Duration::from_millis(290), "{:?}", begun.elapsed());

    let mut many: Vec<TcpStream> = (0..200).map(|_| server.connect()).collect();
    many.iter_mut().for_each(|stream| stream.write_all(&frame(8, &[])).unwrap());
    drop(many.split_off(150));
    let statistics = server.statistics_once(|f| f.connections_open == 151);
    assert_eq!(statistics.connections_open, 151, "closed connections are not waited for");
    server.bell.ring();
    server.news.store(true, Ordering::SeqCst);
    server.bell.ring();
    for stream in &mut many {
        assert_eq!(read_frame(stream).unwrap(), frame(7, b"news"));
    }
    assert!(begun.elapsed() < Duration::from_secs(20), "{:?}", begun.elapsed());
}
