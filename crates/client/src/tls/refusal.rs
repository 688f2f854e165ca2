//! Why there is no connection, in words that name the option to turn.

use std::path::Path;

use rustls::pki_types::UnixTime;
use rustls::{AlertDescription, CertificateError, Error, OtherError};

use super::TlsOptions;
use crate::ClientError;

const NO_TLS: &str = "the server does not answer in TLS; it may be without TLS, which tls=true asks for";

/// The server hung up in the handshake.
pub(super) fn hung_up(error: std::io::Error) -> ClientError {
    use std::io::ErrorKind::{BrokenPipe, ConnectionAborted, ConnectionReset, UnexpectedEof};
    match error.kind() {
        BrokenPipe | ConnectionAborted | ConnectionReset | UnexpectedEof => {
            ClientError::Tls(format!("{NO_TLS} (it closed the connection)"))
        }
        _ => ClientError::Io(error),
    }
}

/// An error of reading in the handshake.
pub(super) fn in_handshake(error: ClientError) -> ClientError {
    match error {
        ClientError::Io(error) => hung_up(error),
        other => other,
    }
}

/// Converts an error that `rustls` detected or received from the server.
pub(super) fn of_handshake(error: &Error, options: &TlsOptions) -> ClientError {
    ClientError::Tls(match error {
        Error::InvalidCertificate(why) => certificate(why, options),
        Error::AlertReceived(alert) => by_server(*alert, options.certificate_key_file.as_deref()),
        Error::InvalidMessage(_) => NO_TLS.to_owned(),
        Error::PeerIncompatible(why) => format!("the server speaks another TLS than 1.2 or 1.3 as we do: {why:?}"),
        other => other.to_string(),
    })
}

fn certificate(why: &CertificateError, options: &TlsOptions) -> String {
    use CertificateError as E;
    match why {
        E::UnknownIssuer => {
            let (authorities, other) = match &options.ca_file {
                Some(path) => (format!("of {}", path.display()), "another tlsCAFile"),
                None => ("of this system".to_owned(), "tlsCAFile"),
            };
            format!(
                "the server's certificate is not trusted: no authority {authorities} signed it ({other} names more, \
                 tlsAllowInvalidCertificates=true trusts any)"
            )
        }
        E::ExpiredContext { time, not_after } => {
            format!("the server's certificate expired {} ago", distance(*not_after, *time))
        }
        E::Expired => "the server's certificate expired".to_owned(),
        E::NotValidYetContext { time, not_before } => {
            format!("the server's certificate is valid in {} only; is the clock right?", distance(*time, *not_before))
        }
        E::NotValidYet => "the server's certificate is not valid yet".to_owned(),
        E::NotValidForNameContext { expected, presented } => {
            let names = if presented.is_empty() { "no host at all".to_owned() } else { presented.join(", ") };
            format!(
                "the server's certificate is not for {:?}: it names {names} (tlsAllowInvalidHostnames=true takes any name)",
                expected.to_str()
            )
        }
        E::Other(OtherError(why)) if format!("{why:?}") == "CaUsedAsEndEntity" => {
            "the server's certificate is an authority's (CA:TRUE), which none of a server's may be \
             (tlsAllowInvalidCertificates=true trusts it)"
                .to_owned()
        }
        other => format!("the server's certificate is not good: {other}"),
    }
}

/// Roughly.
fn distance(from: UnixTime, to: UnixTime) -> String {
    let seconds = to.as_secs().saturating_sub(from.as_secs());
    match seconds {
        0..7200 => format!("{} minutes", seconds / 60),
        7200..172_800 => format!("{} hours", seconds / 3600),
        _ => format!("{} days", seconds / 86_400),
    }
}

/// Returns the text of a server's alert. Servers send the same alert for many reasons; the usual one is the client's certificate.
fn by_server(alert: AlertDescription, own: Option<&Path>) -> String {
    use AlertDescription as A;
    match (alert, own) {
        (A::ProtocolVersion, _) => "the server speaks another TLS than 1.2 or 1.3 as we do".to_owned(),
        (A::UnrecognisedName, _) => "the server does not know the host's name".to_owned(),
        (A::CertificateRequired | A::NoCertificate, None) => {
            "the server refuses clients without a certificate (tlsCertificateKeyFile names it)".to_owned()
        }
        (A::HandshakeFailure | A::BadCertificate | A::AccessDenied, None) => {
            format!("the server refuses us ({alert:?}); it may want a certificate (tlsCertificateKeyFile names it)")
        }
        (_, Some(path)) => format!("the server refuses us ({alert:?}) with the certificate of {}", path.display()),
        (_, None) => format!("the server refuses us ({alert:?})"),
    }
}
