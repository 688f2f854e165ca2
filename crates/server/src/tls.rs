//! TLS of connections, by rustls: versions 1.2 and 1.3, and nothing older.
//!
//! Certificates are read at the start and again by [`Tls::reload`]; connections that are open keep what they began with. A client that
//! shows a certificate must show one of the authority in the CA file; whether it must show one is an option. With a file of revoked
//! certificates, each certificate of the chain is checked, and one whose issuer has no list there is refused.

use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use arbor_auth::decrypted_key;
use parking_lot::{Mutex, RwLock};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, CertificateRevocationListDer, PrivateKeyDer, PrivatePkcs8KeyDer};
use rustls::server::WebPkiClientVerifier;
use rustls::version::{TLS12, TLS13};
use rustls::{RootCertStore, ServerConfig, ServerConnection, SupportedProtocolVersion};
use tokio::net::TcpStream;

use crate::TlsFacts;
use crate::frame::FrameBuffer;

/// Files and rules, as the options name them.
#[derive(Clone)]
pub struct TlsOptions {
    /// Certificate, the chain above it, and its key, in PEM.
    pub certificate_key_file: PathBuf,
    /// Decrypts the key.
    pub key_password: Option<String>,
    /// Authorities of clients' certificates, in PEM.
    pub ca_file: PathBuf,
    /// Lists of revoked certificates, in PEM.
    pub crl_file: Option<PathBuf>,
    /// Clients need not show a certificate.
    pub certificate_optional: bool,
    /// Connections without TLS are closed.
    pub required: bool,
    pub versions: TlsVersions,
}

/// Versions that are spoken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TlsVersions {
    Both,
    Only12,
    Only13,
}

impl TlsVersions {
    fn list(self) -> Vec<&'static SupportedProtocolVersion> {
        match self {
            TlsVersions::Both => vec![&TLS13, &TLS12],
            TlsVersions::Only12 => vec![&TLS12],
            TlsVersions::Only13 => vec![&TLS13],
        }
    }
}

pub struct Tls {
    options: TlsOptions,
    loaded: RwLock<Loaded>,
}

/// Contents of the files.
struct Loaded {
    config: Arc<ServerConfig>,
    /// The server's own certificate in DER.
    certificate: Arc<[u8]>,
}

impl Tls {
    pub fn open(options: TlsOptions) -> Result<Tls, String> {
        let loaded = RwLock::new(read(&options)?);
        Ok(Tls { options, loaded })
    }

    /// Reads the files again, for connections that begin from now on. On an error everything stays as it was.
    pub fn reload(&self) -> Result<(), String> {
        let loaded = read(&self.options)?;
        *self.loaded.write() = loaded;
        Ok(())
    }

    /// Returns the server's own certificate in DER.
    pub fn certificate(&self) -> Arc<[u8]> {
        self.loaded.read().certificate.clone()
    }

    pub fn is_required(&self) -> bool {
        self.options.required
    }

    /// Returns the state of a new connection.
    pub fn connection(&self) -> Result<ServerConnection, rustls::Error> {
        ServerConnection::new(self.loaded.read().config.clone())
    }

    pub(crate) fn begin(&self) -> Result<Secure, rustls::Error> {
        Ok(Secure { connection: Mutex::new(self.connection()?) })
    }
}

fn about(path: &Path, error: &dyn std::fmt::Display) -> String {
    format!("{}: {error}", path.display())
}

fn read(options: &TlsOptions) -> Result<Loaded, String> {
    let (bytes, chain) = certificates(&options.certificate_key_file)?;
    let wrong = |error: &dyn std::fmt::Display| about(&options.certificate_key_file, error);
    let key = key_of(&bytes, options.key_password.as_deref()).map_err(|error| wrong(&error))?;
    let mut roots = RootCertStore::empty();
    for authority in certificates(&options.ca_file)?.1 {
        roots.add(authority).map_err(|error| about(&options.ca_file, &error))?;
    }
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let mut verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider.clone());
    if let Some(path) = &options.crl_file {
        verifier = verifier.with_crls(revocations(path)?).enforce_revocation_expiration();
    }
    let verifier = if options.certificate_optional { verifier.allow_unauthenticated() } else { verifier };
    let verifier = verifier.build().map_err(|error| about(&options.ca_file, &error))?;
    let config = ServerConfig::builder_with_provider(provider).with_protocol_versions(&options.versions.list());
    let config = config.map_err(|error| error.to_string())?.with_client_cert_verifier(verifier);
    let certificate = chain.first().map(|own| Arc::from(&**own)).ok_or_else(|| wrong(&"it holds no certificate"))?;
    let config = Arc::new(config.with_single_cert(chain, key).map_err(|error| wrong(&error))?);
    Ok(Loaded { config, certificate })
}

/// Reads the certificates of a file; returns the file as well.
fn certificates(path: &Path) -> Result<(Vec<u8>, Vec<CertificateDer<'static>>), String> {
    let bytes = std::fs::read(path).map_err(|error| about(path, &error))?;
    let found: Vec<_> =
        CertificateDer::pem_slice_iter(&bytes).collect::<Result<_, _>>().map_err(|error| about(path, &error))?;
    match found.is_empty() {
        true => Err(about(path, &"it holds no certificate in PEM")),
        false => Ok((bytes, found)),
    }
}

fn revocations(path: &Path) -> Result<Vec<CertificateRevocationListDer<'static>>, String> {
    let bytes = std::fs::read(path).map_err(|error| about(path, &error))?;
    let lists: Vec<_> = CertificateRevocationListDer::pem_slice_iter(&bytes)
        .collect::<Result<_, _>>()
        .map_err(|error| about(path, &error))?;
    match lists.is_empty() {
        true => Err(about(path, &"it holds no list of revoked certificates in PEM")),
        false => Ok(lists),
    }
}

fn key_of(pem: &[u8], password: Option<&str>) -> Result<PrivateKeyDer<'static>, String> {
    if let Some(key) = decrypted_key(pem, password)? {
        return Ok(PrivatePkcs8KeyDer::from(key.to_vec()).into());
    }
    PrivateKeyDer::from_pem_slice(pem)
        .map_err(|_| "it holds no private key; certificate and key are in one file".to_owned())
}

/// The TLS state of one connection. No lock is held while the connection waits.
pub(crate) struct Secure {
    connection: Mutex<ServerConnection>,
}

/// Outcome of [`Secure::take`].
pub(crate) enum Decrypted {
    Some,
    /// Nothing is there: the socket has to be read first.
    Nothing,
    Closed,
}

impl Secure {
    pub(crate) fn is_handshaking(&self) -> bool {
        self.connection.lock().is_handshaking()
    }

    /// Returns the facts of the handshake. Requires that it has ended.
    pub(crate) fn facts(&self) -> TlsFacts {
        let connection = self.connection.lock();
        assert!(!connection.is_handshaking(), "certificates are verified when the handshake has ended");
        TlsFacts {
            server_name: connection.server_name().map(str::to_owned),
            certificate: connection.peer_certificates().and_then(|chain| chain.first()).map(|own| own.to_vec()),
        }
    }

    /// Moves decrypted bytes into the buffer.
    pub(crate) fn take(&self, input: &mut FrameBuffer) -> Decrypted {
        match input.receive_from(&mut self.connection.lock().reader()) {
            Ok(0) => Decrypted::Closed,
            Ok(_) => Decrypted::Some,
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => Decrypted::Nothing,
            Err(_) => Decrypted::Closed,
        }
    }

    /// Reads once from the socket; 0: the peer closed. Errors: "would block"; what arrived is no TLS.
    pub(crate) fn read_from(&self, socket: &TcpStream) -> io::Result<usize> {
        let mut connection = self.connection.lock();
        let bytes = connection.read_tls(&mut Socket(socket))?;
        connection.process_new_packets().map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error))?;
        Ok(bytes)
    }

    /// Encrypts bytes, which are sent by [`Secure::write_to`].
    pub(crate) fn encrypt(&self, bytes: &[u8]) -> io::Result<()> {
        self.connection.lock().writer().write_all(bytes)
    }

    /// Writes once to the socket; None: nothing is left.
    pub(crate) fn write_to(&self, socket: &TcpStream) -> Option<io::Result<usize>> {
        let mut connection = self.connection.lock();
        connection.wants_write().then(|| connection.write_tls(&mut Socket(socket)))
    }

    /// Reports the end to the peer, if that takes no wait.
    pub(crate) fn close(&self, socket: &TcpStream) {
        self.connection.lock().send_close_notify();
        while let Some(Ok(1..)) = self.write_to(socket) {}
    }
}

/// A socket that never waits.
struct Socket<'s>(&'s TcpStream);

impl Read for Socket<'_> {
    fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        self.0.try_read(bytes)
    }
}

impl Write for Socket<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.try_write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
