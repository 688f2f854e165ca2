//! Values stored in place of a password: for each mechanism the keys that verify it (RFC 5802, section 3), as the
//! documents of `admin.system.users` have them.

use arbor_bson::{Doc, DocBuf, ValueRef};
use arbor_protocol::Error;
use base64::Engine;
use base64::prelude::BASE64_STANDARD;

use crate::{Mechanism, Result};

/// Verifier of one password by one mechanism.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stored {
    pub rounds: u32,
    pub salt: Vec<u8>,
    pub stored_key: Vec<u8>,
    pub server_key: Vec<u8>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Credentials {
    pub sha1: Option<Stored>,
    pub sha256: Option<Stored>,
    /// The user is in a certificate.
    pub external: bool,
}

impl Stored {
    /// Returns the verifier of a secret ([`Mechanism::secret`]), with a random salt.
    pub fn of(mechanism: Mechanism, secret: &[u8], rounds: u32) -> Stored {
        let random: [u8; 32] = rand::random();
        let salt = random.get(..mechanism.salt_bytes()).unwrap_or_default();
        Stored::with_salt(mechanism, secret, rounds, salt)
    }

    pub fn with_salt(mechanism: Mechanism, secret: &[u8], rounds: u32, salt: &[u8]) -> Stored {
        let salted = mechanism.salted(secret, salt, rounds);
        Stored {
            rounds,
            salt: salt.to_vec(),
            stored_key: mechanism.hash(&mechanism.hmac(&salted, b"Client Key")),
            server_key: mechanism.hmac(&salted, b"Server Key"),
        }
    }

    fn to_doc(&self) -> DocBuf {
        DocBuf::new()
            .with("iterationCount", self.rounds as i32)
            .with("salt", &BASE64_STANDARD.encode(&self.salt))
            .with("storedKey", &BASE64_STANDARD.encode(&self.stored_key))
            .with("serverKey", &BASE64_STANDARD.encode(&self.server_key))
    }

    fn read(mechanism: Mechanism, doc: Doc<'_>) -> Option<Stored> {
        let bytes = |name| match doc.get(name) {
            Some(ValueRef::String(text)) => BASE64_STANDARD.decode(text).ok(),
            _ => None,
        };
        let rounds = match doc.get("iterationCount") {
            Some(ValueRef::Int32(rounds)) => u32::try_from(rounds).ok()?,
            Some(ValueRef::Int64(rounds)) => u32::try_from(rounds).ok()?,
            Some(ValueRef::Double(rounds)) if rounds >= 1.0 => rounds as u32,
            _ => return None,
        };
        let of_hash = |key: &Vec<u8>| key.len() == mechanism.hash_bytes();
        Some(Stored {
            rounds,
            salt: bytes("salt")?,
            stored_key: bytes("storedKey").filter(of_hash)?,
            server_key: bytes("serverKey").filter(of_hash)?,
        })
    }
}

impl Credentials {
    pub fn get(&self, mechanism: Mechanism) -> Option<&Stored> {
        match mechanism {
            Mechanism::ScramSha1 => self.sha1.as_ref(),
            Mechanism::ScramSha256 => self.sha256.as_ref(),
        }
    }

    pub fn set(&mut self, mechanism: Mechanism, stored: Stored) {
        match mechanism {
            Mechanism::ScramSha1 => self.sha1 = Some(stored),
            Mechanism::ScramSha256 => self.sha256 = Some(stored),
        }
    }

    /// Returns the names of the mechanisms by which the user may log in.
    pub fn mechanisms(&self) -> Vec<&'static str> {
        let scram = Mechanism::ALL.into_iter().filter(|each| self.get(*each).is_some()).map(Mechanism::name);
        scram.chain(self.external.then_some("external")).collect()
    }

    /// Returns the field `credentials` of a user's document.
    pub fn to_doc(&self) -> DocBuf {
        let mut doc = DocBuf::new();
        for mechanism in Mechanism::ALL {
            if let Some(stored) = self.get(mechanism) {
                doc.append(mechanism.name(), &stored.to_doc());
            }
        }
        if self.external {
            doc.append("external", true);
        }
        doc
    }

    /// Errors: a mechanism's fields are not what SCRAM needs.
    pub fn read(doc: Doc<'_>) -> Result<Credentials> {
        let mut credentials = Credentials::default();
        for (name, value) in doc {
            match (Mechanism::by_name(name), value) {
                (Some(mechanism), ValueRef::Document(fields)) => {
                    let bad = || Error::bad_value(format!("the credentials of {name} are incomplete"));
                    credentials.set(mechanism, Stored::read(mechanism, fields).ok_or_else(bad)?);
                }
                (None, ValueRef::Bool(external)) if name == "external" => credentials.external = external,
                _ => {}
            }
        }
        Ok(credentials)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn documents_are_read_back() {
        let mut credentials = Credentials::default();
        for mechanism in Mechanism::ALL {
            credentials.set(mechanism, Stored::of(mechanism, b"secret", 10));
        }
        assert_eq!(credentials.sha1.as_ref().unwrap().salt.len(), 16);
        assert_eq!(credentials.sha256.as_ref().unwrap().salt.len(), 28);
        let doc = credentials.to_doc();
        assert_eq!(Credentials::read(doc.as_doc()).unwrap(), credentials);
        assert_eq!(credentials.mechanisms(), ["SCRAM-SHA-1", "SCRAM-SHA-256"]);
        let cut = DocBuf::new().with("SCRAM-SHA-1", &DocBuf::new().with("salt", "AAAA"));
        assert!(Credentials::read(cut.as_doc()).is_err());
        let external = Credentials { external: true, ..Credentials::default() };
        assert_eq!(Credentials::read(external.to_doc().as_doc()).unwrap(), external);
    }
}
