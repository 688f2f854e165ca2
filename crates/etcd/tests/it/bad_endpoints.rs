use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use arbor_etcd::{Error, Etcd, EtcdOptions, Patience};
use arbor_repl::coordinator::contract;
use arbor_repl::{Coordinator, Replaced};

use crate::process::{Process, binary, free_port};

/// Starts a server that sends the same bytes to everybody; returns its URL.
fn replies_with(bytes: &'static [u8]) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    thread::spawn(move || {
        for client in listener.incoming() {
            let Ok(mut client) = client else { return };
            let _ = client.read(&mut [0; 4096]);
            let _ = client.write_all(bytes);
        }
    });
    url
}

fn etcd(url: &str) -> Etcd {
    let timeout = Duration::from_millis(500);
    Etcd::new(&EtcdOptions { timeout, ..EtcdOptions::new(vec![url.to_owned()], "rs0") }).unwrap()
}

#[test]
fn what_is_no_etcd_is_named() {
    let html = replies_with(b"HTTP/1.1 200 OK\r\ncontent-length: 13\r\n\r\n<html></html>");
    let error = etcd(&html).health().unwrap_err().to_string();
    assert_eq!(error, format!("{html} does not speak etcd's JSON gateway: status 200, '<html></html>'"));
    let missing = replies_with(b"HTTP/1.1 404 Not Found\r\ncontent-length: 0\r\n\r\n");
    let error = etcd(&missing).health().unwrap_err().to_string();
    assert_eq!(error, format!("{missing} does not speak etcd's JSON gateway: status 404, an empty reply"));
    assert!(matches!(etcd(&missing).replace(None, &contract::agreement(1)), Ok(Replaced::Unknown)));
    let other = replies_with(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n{}");
    assert!(etcd(&other).read().is_err(), "a reply without header is no empty etcd");
    assert!(matches!(etcd(&other).replace(None, &contract::agreement(1)), Ok(Replaced::Unknown)));
    for bytes in [&b"\x00\x01\x02garbage\r\n\r\n"[..], b"", b"HTTP/1.1 200 OK\r\ncontent-length: 99999999\r\n\r\n{"] {
        let url = replies_with(bytes);
        assert!(etcd(&url).health().is_err() && etcd(&url).read().is_err());
        assert!(matches!(etcd(&url).replace(None, &contract::agreement(1)), Ok(Replaced::Unknown)));
    }
}

#[test]
fn an_etcd_that_is_too_old_is_refused() {
    let old = replies_with(b"HTTP/1.1 200 OK\r\ncontent-length: 25\r\n\r\n{\"etcdserver\":\"3.4.23\"}\r\n");
    let error = etcd(&old).health().unwrap_err();
    assert!(matches!(error, Error::TooOld { .. }));
    assert_eq!(
        error.to_string(),
        format!("{old} is etcd 3.4.23, which is too old: 3.5.30 is the oldest that is safe here")
    );
    let warned = replies_with(b"HTTP/1.1 200 OK\r\ncontent-length: 24\r\n\r\n{\"etcdserver\":\"3.6.8\"}\r\n");
    let health = etcd(&warned).health().unwrap();
    assert_eq!((health.up.len(), health.warnings.len()), (1, 1));
}

#[test]
fn an_absent_etcd_changes_nothing() {
    let url = format!("http://127.0.0.1:{}", free_port());
    let error = etcd(&url).health().unwrap_err();
    assert!(matches!(error, Error::Unreachable(_)), "{error}");
    let error = etcd(&url).replace(None, &contract::agreement(1)).unwrap_err().to_string();
    assert!(error.starts_with("no etcd can be reached: ") && error.contains(&url), "{error}");
    let nowhere = etcd("http://no-such-host.invalid:2379");
    assert!(
        nowhere.read().is_err() && !matches!(nowhere.replace(None, &contract::agreement(1)), Ok(Replaced::Done(_)))
    );
}

#[test]
fn a_foreign_value_is_no_agreement() {
    let Some(binary) = binary() else { return };
    let process = Process::start(&binary, None);
    let url = format!("http://127.0.0.1:{}", process.port);
    let (one, other) = (etcd(&url), EtcdOptions::new(vec![url], "rs1"));
    // "/arbor/1/rs/rs0/state" and "garbage", in base64
    let body = r#"{"key":"L2FyYm9yLzEvcnMvcnMwL3N0YXRl","value":"Z2FyYmFnZQ=="}"#;
    let mut stream = TcpStream::connect(("127.0.0.1", process.port)).unwrap();
    let head = format!(
        "POST /v3/kv/put HTTP/1.1\r\nhost: etcd\r\ncontent-length: {}\r\nconnection: close\r\n\r\n",
        body.len()
    );
    stream.write_all((head + body).as_bytes()).unwrap();
    let mut reply = String::new();
    stream.read_to_string(&mut reply).unwrap();
    assert!(reply.starts_with("HTTP/1.1 200"), "{reply}");
    let error = one.read().unwrap_err().to_string();
    assert_eq!(error, "the key /arbor/1/rs/rs0/state of etcd holds something that is not a replica set's agreement");
    assert!(matches!(one.replace(None, &contract::agreement(1)), Ok(Replaced::Stale)), "and is not overwritten");
    assert!(Etcd::new(&other).unwrap().read().unwrap().is_none());
    assert!(process.directory.path().exists());
}

#[test]
fn a_change_of_members_ends_with_the_server() {
    let stopped = AtomicBool::new(false);
    thread::scope(|scope| {
        let change = scope.spawn(|| {
            let patience = Patience { time: Duration::from_secs(3600), stopped: Some(&stopped) };
            etcd("http://127.0.0.1:1").add_member("http://127.0.0.1:2", &patience)
        });
        thread::sleep(Duration::from_millis(50));
        assert!(!change.is_finished(), "it is tried again");
        stopped.store(true, Ordering::Release);
        assert!(matches!(change.join().unwrap(), Err(Error::Unreachable(_))));
    });
}
