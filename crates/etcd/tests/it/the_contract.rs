use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

use arbor_etcd::{Etcd, EtcdOptions, TlsFiles};
use arbor_repl::coordinator::contract;
use arbor_repl::{Coordinator, Replaced};

use crate::process::{Certificates, Process, binary, free_port, wait_for};

/// Returns coordinators of another set each.
fn sets<'a>(endpoints: &'a [String], tls: &'a TlsFiles) -> impl Fn() -> Box<dyn Coordinator> + Sync + 'a {
    let count = AtomicU64::new(0);
    move || {
        let number = count.fetch_add(1, Ordering::Relaxed);
        let options = EtcdOptions::new(endpoints.to_vec(), &format!("rs{number}"));
        Box::new(Etcd::new(&EtcdOptions { tls: tls.clone(), ..options }).unwrap())
    }
}

#[test]
fn passes_the_contract() {
    let Some(binary) = binary() else { return };
    let process = Process::start(&binary, None);
    let endpoints = [format!("http://127.0.0.1:{}", process.port)];
    contract::run(&sets(&endpoints, &TlsFiles::default()));
}

#[test]
fn passes_the_contract_with_certificates_and_a_dead_endpoint() {
    let Some(binary) = binary() else { return };
    let directory = tempfile::tempdir().unwrap();
    let certificates = Certificates::write(directory.path());
    let process = Process::start(&binary, Some(&certificates));
    let url = format!("https://127.0.0.1:{}", process.port);
    let endpoints = [format!("https://127.0.0.1:{}", free_port()), url.clone()];
    contract::run(&sets(&endpoints, &certificates.of_client()));
    // Without a certificate, and without the authority, nothing is read.
    for tls in [
        TlsFiles { certificate_key: None, ..certificates.of_client() },
        TlsFiles { ca: None, ..certificates.of_client() },
    ] {
        let etcd = Etcd::new(&EtcdOptions { tls, ..EtcdOptions::new(vec![url.clone()], "rs0") }).unwrap();
        assert!(etcd.read().is_err());
    }
}

/// Passes bytes on, and cuts connections after a request or in the middle of a reply.
struct Proxy {
    port: u16,
    stopped: Arc<AtomicBool>,
}

impl Proxy {
    fn start(target: u16) -> Proxy {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let stopped = Arc::new(AtomicBool::new(false));
        let flag = stopped.clone();
        thread::spawn(move || {
            for (number, client) in listener.incoming().enumerate() {
                if flag.load(Ordering::Relaxed) {
                    return;
                }
                let Ok(client) = client else { return };
                // connections live for some replies, then one is lost
                thread::spawn(move || pass(client, target, number % 5));
            }
        });
        Proxy { port, stopped }
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.stopped.store(true, Ordering::Relaxed);
        let _ = TcpStream::connect(("127.0.0.1", self.port));
    }
}

fn pass(mut client: TcpStream, target: u16, replies: usize) {
    let Ok(mut server) = TcpStream::connect(("127.0.0.1", target)) else { return };
    let (mut from_client, mut to_server) = (client.try_clone().unwrap(), server.try_clone().unwrap());
    thread::spawn(move || {
        let _ = std::io::copy(&mut from_client, &mut to_server);
        let _ = to_server.shutdown(Shutdown::Both);
    });
    let mut bytes = [0; 4096];
    for _ in 0..replies {
        match server.read(&mut bytes) {
            Ok(count @ 1..) if client.write_all(&bytes[..count]).is_ok() => {}
            _ => break,
        }
    }
    // The next reply is awaited, so that its request is executed, and thrown away.
    let _ = server.read(&mut bytes);
    let _ = client.shutdown(Shutdown::Both);
    let _ = server.shutdown(Shutdown::Both);
}

#[test]
fn passes_the_contract_with_lost_replies() {
    let Some(binary) = binary() else { return };
    let process = Process::start(&binary, None);
    let proxy = Proxy::start(process.port);
    let endpoints = [format!("http://127.0.0.1:{}", proxy.port)];
    contract::histories(&sets(&endpoints, &TlsFiles::default()));
    let etcd = Etcd::new(&EtcdOptions::new(endpoints.to_vec(), "unknown")).unwrap();
    let mut version = None;
    let unknown = (0..200).any(|number| match etcd.replace(version, &contract::agreement(number)) {
        Ok(Replaced::Unknown) => true,
        _ => {
            version = etcd.read().ok().flatten().map(|(version, _)| version).or(version);
            false
        }
    });
    assert!(unknown, "no reply was lost in 200 replacements");
}

#[test]
fn an_etcd_that_hangs_leaves_the_outcome_open() {
    let Some(binary) = binary() else { return };
    let process = Process::start(&binary, None);
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let hanging = format!("http://{}", listener.local_addr().unwrap());
    let timeout = Duration::from_millis(300);
    let alone = Etcd::new(&EtcdOptions { timeout, ..EtcdOptions::new(vec![hanging.clone()], "rs0") }).unwrap();
    assert_eq!(alone.replace(None, &contract::agreement(1)).unwrap(), Replaced::Unknown);
    assert!(alone.read().is_err());
    // With a second endpoint a read is sent again; a replacement is not, but the next one begins there.
    let both = vec![hanging, format!("http://127.0.0.1:{}", process.port)];
    let etcd = Etcd::new(&EtcdOptions { timeout, ..EtcdOptions::new(both, "rs0") }).unwrap();
    assert_eq!(etcd.replace(None, &contract::agreement(1)).unwrap(), Replaced::Unknown);
    assert!(matches!(etcd.replace(None, &contract::agreement(1)).unwrap(), Replaced::Done(_)));
    assert!(etcd.read().unwrap().is_some());
}

#[test]
fn a_change_of_another_client_is_hinted_at() {
    let Some(binary) = binary() else { return };
    let process = Process::start(&binary, None);
    let endpoints = vec![format!("http://127.0.0.1:{}", process.port)];
    let (one, other) =
        (Etcd::new(&EtcdOptions::new(endpoints.clone(), "rs0")), Etcd::new(&EtcdOptions::new(endpoints, "rs0")));
    let (one, other) = (one.unwrap(), other.unwrap());
    assert!(!one.changed(None));
    let Replaced::Done(first) = other.replace(None, &contract::agreement(1)).unwrap() else { panic!("nothing before") };
    wait_for("the hint of the first agreement", || one.changed(None));
    assert!(!one.changed(Some(first)));
    other.replace(Some(first), &contract::agreement(2)).unwrap();
    wait_for("the hint of the second", || one.changed(Some(first)));
}
