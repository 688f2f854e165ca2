//! Certificates and keys in PEM, as `tlsCAFile` and `tlsCertificateKeyFile` name them.

use std::path::Path;

use arbor_auth::decrypted_key;
use rustls::RootCertStore;
use rustls::pki_types::pem::{self, PemObject};
use rustls::pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer};

const CA_FILE: &str = "tlsCAFile";
const CERTIFICATE_KEY_FILE: &str = "tlsCertificateKeyFile";

pub(super) fn authorities(path: &Path) -> Result<RootCertStore, String> {
    let wrong = |what: &dyn std::fmt::Display| format!("{CA_FILE} {}: {what}", path.display());
    let bytes = std::fs::read(path).map_err(|error| wrong(&error))?;
    let mut roots = RootCertStore::empty();
    for certificate in certificates(&bytes).map_err(|what| wrong(&what))? {
        roots.add(certificate).map_err(|error| wrong(&format!("a certificate in it is broken: {error}")))?;
    }
    Ok(roots)
}

/// The certificate with those it is signed by, and its key.
pub(super) fn certificate_and_key(
    path: &Path,
    password: Option<&str>,
) -> Result<(Vec<CertificateDer<'static>>, PrivateKeyDer<'static>), String> {
    let wrong = |what: &dyn std::fmt::Display| format!("{CERTIFICATE_KEY_FILE} {}: {what}", path.display());
    let bytes = std::fs::read(path).map_err(|error| wrong(&error))?;
    let chain = certificates(&bytes).map_err(|what| wrong(&what))?;
    if let Some(key) = decrypted_key(&bytes, password).map_err(|what| wrong(&what))? {
        return Ok((chain, PrivatePkcs8KeyDer::from(key.to_vec()).into()));
    }
    let key = PrivateKeyDer::from_pem_slice(&bytes).map_err(|error| match error {
        pem::Error::NoItemsFound => wrong(&"it holds no private key; certificate and key must be in one file, in PEM"),
        error => wrong(&error),
    })?;
    Ok((chain, key))
}

/// Returns the text of `rustls`'s error for a certificate with its key.
pub(super) fn wrong_key(path: &Path, error: &rustls::Error) -> String {
    let what = match error {
        rustls::Error::InconsistentKeys(_) => "its key is not the key of its certificate".to_owned(),
        error => error.to_string(),
    };
    format!("{CERTIFICATE_KEY_FILE} {}: {what}", path.display())
}

fn certificates(bytes: &[u8]) -> Result<Vec<CertificateDer<'static>>, String> {
    let found: Vec<_> = CertificateDer::pem_slice_iter(bytes).collect::<Result<_, _>>().map_err(|e| e.to_string())?;
    if found.is_empty() { Err("it holds no certificate in PEM".to_owned()) } else { Ok(found) }
}
