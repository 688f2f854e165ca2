//! TLS: what a user says about it, and what `rustls` makes of that.
//!
//! | module | what |
//! |---|---|
//! | `channel` | a socket with TLS |
//! | `files` | certificates and keys in PEM |
//! | `lenient` | trust in more than the authorities say |
//! | `refusal` | why there is no connection, in words that name the option to turn |

mod channel;
mod files;
mod lenient;
mod refusal;

use std::path::PathBuf;
use std::sync::Arc;

use rustls::crypto::CryptoProvider;
use rustls::{ClientConfig, RootCertStore};

pub(crate) use self::channel::Channel;
use self::lenient::Lenient;

/// Which certificates of a server are good.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Trust {
    /// Those that an authority signed for the host of the connection string.
    #[default]
    Full,
    /// Those that an authority signed for any host.
    AnyName,
    /// All.
    Anything,
}

#[derive(Clone, Default, PartialEq, Eq)]
pub struct TlsOptions {
    /// Authorities in PEM; `None`: those of the system.
    pub ca_file: Option<PathBuf>,
    /// The client's own certificate and its key, both in PEM.
    pub certificate_key_file: Option<PathBuf>,
    /// Decrypts that key.
    pub key_password: Option<String>,
    pub trust: Trust,
}

/// Without the password.
impl std::fmt::Debug for TlsOptions {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let TlsOptions { ca_file, certificate_key_file, trust, .. } = self;
        let mut shown = f.debug_struct("TlsOptions");
        shown
            .field("ca_file", ca_file)
            .field("certificate_key_file", certificate_key_file)
            .field("trust", trust)
            .finish()
    }
}

/// Options with their files loaded. Connections that share one `Tls` may resume each other's TLS sessions.
#[derive(Clone)]
pub struct Tls {
    options: Arc<TlsOptions>,
    config: Arc<ClientConfig>,
}

/// Without what was read.
impl std::fmt::Debug for Tls {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.options.fmt(f)
    }
}

impl Tls {
    /// Reads the files. Errors name the option and the file.
    pub fn new(options: TlsOptions) -> Result<Tls, String> {
        let roots = Arc::new(authorities(&options)?);
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let config = ClientConfig::builder_with_provider(provider.clone()).with_safe_default_protocol_versions();
        let config = config.map_err(|error| error.to_string())?;
        let config = match lenient(options.trust, &provider, &roots) {
            None => config.with_root_certificates(roots),
            Some(lenient) => config.dangerous().with_custom_certificate_verifier(Arc::new(lenient)),
        };
        let config = match &options.certificate_key_file {
            None => config.with_no_client_auth(),
            Some(path) => {
                let (chain, key) = files::certificate_and_key(path, options.key_password.as_deref())?;
                config.with_client_auth_cert(chain, key).map_err(|error| files::wrong_key(path, &error))?
            }
        };
        Ok(Tls { options: Arc::new(options), config: Arc::new(config) })
    }

    pub fn options(&self) -> &TlsOptions {
        &self.options
    }
}

fn lenient(trust: Trust, provider: &CryptoProvider, roots: &Arc<RootCertStore>) -> Option<Lenient> {
    let algorithms = provider.signature_verification_algorithms;
    match trust {
        Trust::Full => None,
        Trust::AnyName => Some(Lenient::AnyName { roots: roots.clone(), algorithms }),
        Trust::Anything => Some(Lenient::Anything { algorithms }),
    }
}

fn authorities(options: &TlsOptions) -> Result<RootCertStore, String> {
    match (&options.ca_file, options.trust) {
        (Some(path), _) => files::authorities(path),
        (None, Trust::Anything) => Ok(RootCertStore::empty()),
        (None, _) => of_the_system(),
    }
}

/// Authorities the library cannot read are passed over, as everywhere: systems carry odd ones.
fn of_the_system() -> Result<RootCertStore, String> {
    let mut roots = RootCertStore::empty();
    let found = rustls_native_certs::load_native_certs();
    roots.add_parsable_certificates(found.certs);
    if roots.is_empty() {
        let why = found.errors.first().map(|error| format!(" ({error})")).unwrap_or_default();
        return Err(format!("this system names no authorities that TLS could trust{why}; tlsCAFile does"));
    }
    Ok(roots)
}
