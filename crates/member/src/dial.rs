//! Connections to other members: the same proof and the same encryption for all of them.

use std::sync::Arc;
use std::time::Duration;

use arbor_client::{Client, ClientError, Options};
use arc_swap::ArcSwap;

/// Proofs that a member shows to others.
#[derive(Clone, Debug, Default)]
pub struct Credentials {
    /// With the encryption, and the login by certificate.
    pub options: Options,
    /// Keys of the set; the first that another member accepts is right. Without any the options decide.
    pub keys: Vec<String>,
    /// A member that accepts no login is reached without one: access control is being turned on (`transitionToAuth`).
    pub or_none: bool,
}

/// Connects to other members. Copies share the credentials.
#[derive(Clone, Debug)]
pub struct Dialer(Arc<ArcSwap<Credentials>>);

impl Dialer {
    pub fn new(credentials: Credentials) -> Dialer {
        Dialer(Arc::new(ArcSwap::from_pointee(credentials)))
    }

    /// Replaces the credentials of all later connections.
    pub fn replace(&self, credentials: Credentials) {
        self.0.store(Arc::new(credentials));
    }

    /// Connects; the timeout is that of the connect, of each read and of each write.
    pub fn connect(&self, host: &str, timeout: Duration) -> Result<Client, ClientError> {
        let Credentials { options, keys, or_none } = &**self.0.load();
        let options = Options { timeout: Some(timeout), ..options.clone() };
        match Client::connect_as_member(host, options.clone(), keys) {
            Err(ClientError::Authentication { .. }) if *or_none => {
                Client::connect_with(host, Options { by_certificate: false, ..options })
            }
            outcome => outcome,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn copies_share_what_is_replaced() {
        let dialer = Dialer::new(Credentials::default());
        let copy = dialer.clone();
        dialer.replace(Credentials { keys: vec!["secret".to_owned()], ..Credentials::default() });
        assert_eq!(copy.0.load().keys, ["secret"]);
    }
}
