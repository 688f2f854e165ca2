//! Trust in more certificates than those the authorities signed for a host: for test systems, whose users ask for it.

use std::sync::Arc;

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::client::verify_server_cert_signed_by_trust_anchor;
use rustls::crypto::{WebPkiSupportedAlgorithms, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::server::ParsedCertificate;
use rustls::{DigitallySignedStruct, Error, RootCertStore, SignatureScheme};

#[derive(Debug)]
pub(super) enum Lenient {
    /// An authority has to have signed it, for whatever name.
    AnyName { roots: Arc<RootCertStore>, algorithms: WebPkiSupportedAlgorithms },
    /// Any certificate. A proof that the server holds its key would be worthless, so the signature is not verified
    /// either: verification would reject certificates that cannot be parsed.
    Anything { algorithms: WebPkiSupportedAlgorithms },
}

impl Lenient {
    fn algorithms(&self) -> &WebPkiSupportedAlgorithms {
        match self {
            Lenient::AnyName { algorithms, .. } | Lenient::Anything { algorithms } => algorithms,
        }
    }

    fn signature(
        &self,
        verify: impl FnOnce(&WebPkiSupportedAlgorithms) -> Result<HandshakeSignatureValid, Error>,
    ) -> Result<HandshakeSignatureValid, Error> {
        match self {
            Lenient::AnyName { algorithms, .. } => verify(algorithms),
            Lenient::Anything { .. } => Ok(HandshakeSignatureValid::assertion()),
        }
    }
}

impl ServerCertVerifier for Lenient {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        _server_name: &ServerName<'_>,
        _ocsp_response: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        if let Lenient::AnyName { roots, algorithms } = self {
            let certificate = ParsedCertificate::try_from(end_entity)?;
            verify_server_cert_signed_by_trust_anchor(&certificate, roots, intermediates, now, algorithms.all)?;
        }
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.signature(|algorithms| verify_tls12_signature(message, certificate, signature, algorithms))
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.signature(|algorithms| verify_tls13_signature(message, certificate, signature, algorithms))
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.algorithms().supported_schemes()
    }
}
