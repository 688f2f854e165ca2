//! Logins by the certificate that a connection showed in its handshake of TLS (MONGODB-X509).
//!
//! The user is the certificate's subject, in the database `$external`. A certificate with the organization of the server's own one is
//! that of a member of the cluster, and logs in as `__system` where members use certificates; where they do not, its login fails.

use arbor_auth::{EXTERNAL, Subject, UserName};
use arbor_bson::DocBuf;
use arbor_protocol::transport::TlsFacts;

use super::attempts::Kind;
use super::login::unavailable;
use crate::{Commands, Connection, Error, Result};

/// Name of the mechanism.
pub(crate) const X509: &str = "MONGODB-X509";

impl Commands {
    /// Logs a connection in as its certificate says; returns the fields of the reply. `user`: the name that the client sent.
    pub(crate) fn log_in_by_certificate(
        &self,
        connection: &mut Connection,
        db: &str,
        user: Option<&str>,
    ) -> Result<DocBuf> {
        if !self.is_enabled(X509) {
            return Err(unavailable(X509));
        }
        let kind = Kind { speculative: connection.login.speculative, cluster: false };
        self.accounts.attempts.received(X509, kind);
        let given = user.map(|user| UserName::new(user, db));
        let refused = |reason: &str| self.login_failed(connection, given.as_ref(), X509, reason);
        if db != EXTERNAL {
            return Err(refused("X.509 authentication must always use the $external database."));
        }
        let facts = connection.peer.tls.clone();
        let Some(certificate) = facts.as_deref().and_then(|TlsFacts { certificate, .. }| certificate.as_deref()) else {
            return Err(refused("the connection has no certificate of its client"));
        };
        let subject = match Subject::of_certificate(certificate) {
            Ok(subject) if !subject.name().is_empty() => subject,
            Ok(_) => return Err(refused("the certificate has no subject")),
            Err(reason) => return Err(refused(&reason)),
        };
        if subject.not_after() * 1000 < arbor_protocol::log::now_ms() {
            return Err(refused("the certificate has expired since the connection began"));
        }
        let names = subject.names();
        if user.is_some_and(|user| !names.iter().any(|name| name == user)) {
            return Err(refused("There is no x.509 client certificate matching the user."));
        }
        let name = match self.is_of_member(&subject) {
            false => self.user_of_certificate(names)?,
            true if self.accounts.cluster.accepts_certificates() => UserName::system(),
            true if !self.parameters.bool("enforceUserClusterSeparation") => self.user_of_certificate(names)?,
            true => {
                return Err(refused(
                    "The provided certificate can only be used for cluster authentication, not client authentication. The current \
                     configuration does not allow x.509 cluster authentication, check the --clusterAuthMode flag",
                ));
            }
        };
        self.log_in(connection, &name, X509)?;
        Ok(DocBuf::new().with("dbname", EXTERNAL).with("user", &subject.name()))
    }

    /// Returns the name under which the user was created; the first, if there is none.
    fn user_of_certificate(&self, names: Vec<String>) -> Result<UserName> {
        let names: Vec<UserName> = names.into_iter().map(|name| UserName::new(name, EXTERNAL)).collect();
        for name in &names {
            if self.find_user(name)?.is_some() {
                return Ok(name.clone());
            }
        }
        Ok(names.into_iter().next().expect("a subject has a name"))
    }

    /// Returns true if the subject is that of a member of this server's cluster.
    pub(crate) fn is_of_member(&self, subject: &Subject) -> bool {
        if let Some(member) = &self.accounts.member {
            return member.is_of_cluster(subject);
        }
        let own = self.host.certificate().and_then(|certificate| Subject::of_certificate(&certificate).ok());
        own.is_some_and(|own| own.is_of_cluster(subject))
    }

    /// Refuses a user whose certificates would be taken for those of members.
    pub(crate) fn check_external_user(&self, name: &UserName) -> Result<()> {
        let separate = self.parameters.bool("enforceUserClusterSeparation");
        match Subject::parse(&name.user) {
            Some(subject) if separate && name.db == EXTERNAL && self.is_of_member(&subject) => {
                let text = "Cannot create an x.509 user with a subjectname that would be recognized as an internal \
                            cluster member";
                Err(Error::bad_value(text))
            }
            _ => Ok(()),
        }
    }
}
