//! A real etcd for one test.

use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use arbor_etcd::{Etcd, EtcdOptions, TlsFiles, find_binary};
use arbor_protocol::log::Log;

/// Returns the binary; `None`: there is none, which was noted.
pub(crate) fn binary() -> Option<PathBuf> {
    let given = std::env::var_os("ARBOR_ETCD").map(PathBuf::from);
    let found = find_binary(given.as_deref());
    if let Err(error) = &found {
        eprintln!("NOTE: not tested: {error}");
    }
    found.ok()
}

pub(crate) fn free_port() -> u16 {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
}

pub(crate) fn log(directory: &Path) -> Arc<Log> {
    Arc::new(Log::to_file(&directory.join("arbor.log"), true).unwrap())
}

pub(crate) fn wait_for(what: &str, mut condition: impl FnMut() -> bool) {
    let until = Instant::now() + Duration::from_secs(60);
    while !condition() {
        assert!(Instant::now() < until, "{what}: not after a minute");
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// A process, killed when it is dropped.
pub(crate) struct Process {
    child: Child,
    pub(crate) port: u16,
    pub(crate) directory: tempfile::TempDir,
}

impl Process {
    pub(crate) fn start(binary: &Path, certificates: Option<&Certificates>) -> Process {
        let directory = tempfile::tempdir().unwrap();
        let (port, peer) = (free_port(), free_port());
        let scheme = if certificates.is_some() { "https" } else { "http" };
        let client_url = format!("{scheme}://127.0.0.1:{port}");
        let peer_url = format!("http://127.0.0.1:{peer}");
        let mut command = Command::new(binary);
        command.args(["--name=t", "--log-level=error", "--unsafe-no-fsync"]);
        command.arg(format!("--data-dir={}", directory.path().join("data").display()));
        command.arg(format!("--listen-client-urls={client_url}")).arg(format!("--advertise-client-urls={client_url}"));
        command.arg(format!("--listen-peer-urls={peer_url}"));
        command.arg(format!("--initial-advertise-peer-urls={peer_url}"));
        command.arg(format!("--initial-cluster=t={peer_url}"));
        if let Some(files) = certificates {
            command.arg(format!("--cert-file={}", files.server.display()));
            command.arg(format!("--key-file={}", files.server.display()));
            command.arg(format!("--trusted-ca-file={}", files.ca.display())).arg("--client-cert-auth=true");
        }
        let child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        let process = Process { child, port, directory };
        wait_for("etcd listens", || TcpStream::connect(("127.0.0.1", port)).is_ok());
        let tls = certificates.map_or_else(TlsFiles::default, Certificates::of_client);
        let etcd = Etcd::new(&EtcdOptions { tls, ..EtcdOptions::new(vec![client_url], "ready") }).unwrap();
        wait_for("etcd replies", || etcd.members().is_ok());
        process
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// An authority, and certificates of 127.0.0.1 by it.
pub(crate) struct Certificates {
    pub(crate) ca: PathBuf,
    pub(crate) server: PathBuf,
    pub(crate) client: PathBuf,
}

impl Certificates {
    pub(crate) fn write(directory: &Path) -> Certificates {
        use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, ExtendedKeyUsagePurpose, IsCa, KeyPair};
        let mut params = CertificateParams::new(vec![]).unwrap();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let authority = CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap();
        let file = |name: &str, content: String| {
            let path = directory.join(name);
            std::fs::write(&path, content).unwrap();
            path
        };
        let signed = |name: &str| {
            let mut params = CertificateParams::new(vec!["127.0.0.1".to_owned(), "localhost".to_owned()]).unwrap();
            params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth, ExtendedKeyUsagePurpose::ClientAuth];
            let key = KeyPair::generate().unwrap();
            let certificate = params.signed_by(&key, &authority).unwrap();
            file(name, certificate.pem() + &key.serialize_pem())
        };
        let (server, client) = (signed("server.pem"), signed("client.pem"));
        Certificates { ca: file("ca.pem", authority.pem()), server, client }
    }

    pub(crate) fn of_client(&self) -> TlsFiles {
        TlsFiles { ca: Some(self.ca.clone()), certificate_key: Some(self.client.clone()) }
    }
}
