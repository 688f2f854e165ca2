//! The server's half of SCRAM (RFC 5802, RFC 7677), as MongoDB speaks it: no channel binding.
//!
//! | message      | from   | text                                     |
//! |--------------|--------|------------------------------------------|
//! | client-first | client | `n,,n=USER,r=NONCE`                      |
//! | server-first | server | `r=NONCE+MORE,s=SALT,i=ROUNDS`           |
//! | client-final | client | `c=biws,r=NONCE+MORE,p=PROOF`            |
//! | server-final | server | `v=SIGNATURE`                            |
//!
//! Rules:
//! - S1: an unknown user, and one without credentials of this mechanism, gets a salt that is the same each time, derived
//!   from a secret of the server, and fails at its proof as a wrong password does.
//! - S2: proofs are compared in constant time.
//! - S3: each message is accepted once, and in this order; a conversation that failed stays failed.

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use subtle::ConstantTimeEq;

use crate::{Mechanism, Stored};

/// Longest message of a client that is looked at.
const MESSAGE_BYTES_MAX: usize = 4096;

/// A client's first message, decoded.
#[derive(Debug, PartialEq, Eq)]
pub struct ClientFirst {
    pub user: String,
    /// The header before the message, which the last message repeats.
    header: String,
    /// The message without its header.
    bare: String,
    nonce: String,
}

/// A message that is no SCRAM, or that asks for what this server does not have.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Malformed(pub String);

fn malformed<T>(text: &str) -> Result<T, Malformed> {
    Err(Malformed(text.to_owned()))
}

impl ClientFirst {
    pub fn read(message: &[u8]) -> Result<ClientFirst, Malformed> {
        let message = text(message)?;
        let mut parts = message.splitn(3, ',');
        let (Some(flag), Some(identity), Some(bare)) = (parts.next(), parts.next(), parts.next()) else {
            return malformed("Incorrect number of arguments for first SCRAM client message");
        };
        match flag {
            "n" | "y" => {}
            _ if flag.starts_with("p=") => return malformed("Server does not support channel binding"),
            _ => return malformed("Incorrect SCRAM client message prefix"),
        }
        let mut fields = bare.split(',');
        let (Some(user), Some(nonce)) = (fields.next(), fields.next()) else {
            return malformed("Incorrect number of arguments for first SCRAM client message");
        };
        if user.starts_with("m=") {
            return malformed("SCRAM mandatory extensions are not supported");
        }
        let Some(user) = user.strip_prefix("n=").and_then(unescaped).filter(|user| !user.is_empty()) else {
            return malformed("Invalid SCRAM user name");
        };
        let Some(nonce) = nonce.strip_prefix("r=").filter(|nonce| is_nonce(nonce)) else {
            return malformed("Invalid SCRAM client nonce");
        };
        if !identity.is_empty() {
            let same = identity.strip_prefix("a=").and_then(unescaped).is_some_and(|identity| identity == user);
            if !same {
                return malformed("SCRAM user name does not match the authorization identity");
            }
        }
        let header = format!("{flag},{identity},");
        Ok(ClientFirst { user, header, bare: bare.to_owned(), nonce: nonce.to_owned() })
    }
}

/// A conversation after its first message.
#[derive(Debug)]
pub struct Conversation {
    mechanism: Mechanism,
    first: ClientFirst,
    /// The client's nonce and ours.
    nonce: String,
    server_first: String,
    /// Verifiers of which one has to match: with the same salt and rounds. Never empty.
    stored: Vec<Stored>,
    /// No user has this password (rule S1).
    fake: bool,
    done: bool,
}

/// The proof is wrong, or the user unknown: the same for both.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WrongProof;

impl Conversation {
    /// Begins a conversation; `stored` is empty for an unknown user. Several verifiers are those of several secrets of one user, which
    /// have the same salt and rounds.
    pub fn begin(mechanism: Mechanism, first: ClientFirst, stored: &[Stored], fakes: &Fakes<'_>) -> Conversation {
        let more = BASE64_STANDARD.encode(rand::random::<[u8; 24]>());
        Conversation::with_nonce(mechanism, first, stored, fakes, &more)
    }

    fn with_nonce(
        mechanism: Mechanism,
        first: ClientFirst,
        stored: &[Stored],
        fakes: &Fakes<'_>,
        more: &str,
    ) -> Conversation {
        let shown = stored.first().cloned().unwrap_or_else(|| fakes.stored(mechanism, &first.user));
        let alike = |other: &Stored| other.salt == shown.salt && other.rounds == shown.rounds;
        assert!(stored.iter().all(alike), "one salt is sent for all verifiers");
        let nonce = format!("{}{more}", first.nonce);
        let salt = BASE64_STANDARD.encode(&shown.salt);
        let server_first = format!("r={nonce},s={salt},i={}", shown.rounds);
        let fake = stored.is_empty();
        let stored = if fake { vec![shown] } else { stored.to_vec() };
        Conversation { mechanism, first, nonce, server_first, stored, fake, done: false }
    }

    pub fn user(&self) -> &str {
        &self.first.user
    }

    pub fn server_first(&self) -> &str {
        &self.server_first
    }

    /// Requires client-final; returns server-final. Errors: the message is malformed, or (inner) the proof is wrong.
    pub fn finish(&mut self, message: &[u8]) -> Result<Result<String, WrongProof>, Malformed> {
        if std::mem::replace(&mut self.done, true) {
            return malformed("SCRAM conversation has ended");
        }
        let message = text(message)?;
        let Some((without_proof, proof)) = message.rsplit_once(",p=") else {
            return malformed("Missing SCRAM client proof");
        };
        let mut fields = without_proof.split(',');
        let (binding, nonce) = (fields.next().unwrap_or_default(), fields.next().unwrap_or_default());
        let header = binding.strip_prefix("c=").and_then(|binding| BASE64_STANDARD.decode(binding).ok());
        if header.is_none_or(|header| header != self.first.header.as_bytes()) {
            return malformed("Incorrect SCRAM channel binding data");
        }
        if nonce.strip_prefix("r=").is_none_or(|nonce| nonce != self.nonce) {
            return malformed("Incorrect SCRAM client|server nonce");
        }
        let Some(proof) = BASE64_STANDARD.decode(proof).ok().filter(|proof| proof.len() == self.mechanism.hash_bytes())
        else {
            return malformed("Incorrect SCRAM client proof");
        };
        let signed = format!("{},{},{without_proof}", self.first.bare, self.server_first);
        // all of them, whichever matches
        let answers: Vec<Option<String>> = self.stored.iter().map(|one| self.verified(one, &proof, &signed)).collect();
        match answers.into_iter().flatten().next() {
            Some(answer) if !self.fake => Ok(Ok(answer)),
            _ => Ok(Err(WrongProof)),
        }
    }

    /// Returns server-final if the proof is one of this verifier's secret.
    fn verified(&self, stored: &Stored, proof: &[u8], signed: &str) -> Option<String> {
        let signature = self.mechanism.hmac(&stored.stored_key, signed.as_bytes());
        let client_key: Vec<u8> = proof.iter().zip(&signature).map(|(proof, signature)| proof ^ signature).collect();
        let same = self.mechanism.hash(&client_key).ct_eq(&stored.stored_key);
        let answer = self.mechanism.hmac(&stored.server_key, signed.as_bytes());
        bool::from(same).then(|| format!("v={}", BASE64_STANDARD.encode(answer)))
    }
}

/// Salts of users that do not exist (rule S1).
pub struct Fakes<'a> {
    /// Random bytes that the server keeps to itself.
    pub secret: &'a [u8; 32],
    pub db: &'a str,
    pub rounds: u32,
}

impl Fakes<'_> {
    fn stored(&self, mechanism: Mechanism, user: &str) -> Stored {
        let name = format!("{}\0{user}@{}", mechanism.name(), self.db);
        let mut salt = Mechanism::ScramSha256.hmac(self.secret, name.as_bytes());
        salt.truncate(mechanism.salt_bytes());
        let key = mechanism.hmac(self.secret, name.as_bytes());
        Stored { rounds: self.rounds, salt, stored_key: mechanism.hash(&key), server_key: key }
    }
}

fn text(message: &[u8]) -> Result<&str, Malformed> {
    match std::str::from_utf8(message) {
        Ok(text) if text.len() <= MESSAGE_BYTES_MAX => Ok(text),
        Ok(_) => malformed("SCRAM message is too long"),
        Err(_) => malformed("SCRAM message is not valid UTF-8"),
    }
}

fn is_nonce(nonce: &str) -> bool {
    !nonce.is_empty() && nonce.bytes().all(|byte| byte.is_ascii_graphic())
}

/// Undoes `=2C` and `=3D`; None: another escape, or one that is missing.
fn unescaped(name: &str) -> Option<String> {
    let mut parts = name.split('=');
    let mut text = parts.next()?.to_owned();
    for part in parts {
        match (part.strip_prefix("2C"), part.strip_prefix("3D")) {
            (Some(rest), _) => text = text + "," + rest,
            (_, Some(rest)) => text = text + "=" + rest,
            (None, None) => return None,
        }
    }
    Some(text)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const FAKES: Fakes<'static> = Fakes { secret: &[7; 32], db: "admin", rounds: 4096 };

    /// The conversations of RFC 5802 (section 5) and RFC 7677 (section 3): user `user`, password `pencil`.
    #[test]
    fn the_conversations_of_the_rfcs() {
        let check =
            |mechanism, nonce: &str, more: &str, salt: &str, server_first: &str, client_final: &str, end: &str| {
                let salt = BASE64_STANDARD.decode(salt).unwrap();
                let stored = Stored::with_salt(mechanism, b"pencil", 4096, &salt);
                let first = ClientFirst::read(format!("n,,n=user,r={nonce}").as_bytes()).unwrap();
                assert_eq!(first.user, "user");
                let mut server =
                    Conversation::with_nonce(mechanism, first, std::slice::from_ref(&stored), &FAKES, more);
                assert_eq!(server.server_first(), server_first);
                assert_eq!(server.finish(client_final.as_bytes()).unwrap().unwrap(), end);
                assert!(server.finish(client_final.as_bytes()).is_err(), "twice");
            };
        check(
            Mechanism::ScramSha1,
            "fyko+d2lbbFgONRv9qkxdawL",
            "3rfcNHYJY1ZVvWVs7j",
            "QSXCR+Q6sek8bf92",
            "r=fyko+d2lbbFgONRv9qkxdawL3rfcNHYJY1ZVvWVs7j,s=QSXCR+Q6sek8bf92,i=4096",
            "c=biws,r=fyko+d2lbbFgONRv9qkxdawL3rfcNHYJY1ZVvWVs7j,p=v0X8v3Bz2T0CJGbJQyF0X+HI4Ts=",
            "v=rmF9pqV8S7suAoZWja4dJRkFsKQ=",
        );
        check(
            Mechanism::ScramSha256,
            "rOprNGfwEbeRWgbNEkqO",
            "%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0",
            "W22ZaJ0SNY7soEsUEjb6gQ==",
            "r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096",
            "c=biws,r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ=",
            "v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4=",
        );
    }

    fn client_final(mechanism: Mechanism, password: &[u8], stored: &Stored, server: &Conversation) -> String {
        let salted = mechanism.salted(password, &stored.salt, stored.rounds);
        let key = mechanism.hmac(&salted, b"Client Key");
        let bare = format!("c=biws,r={}", server.nonce);
        let signed = format!("{},{},{bare}", server.first.bare, server.server_first);
        let signature = mechanism.hmac(&mechanism.hash(&key), signed.as_bytes());
        let proof: Vec<u8> = key.iter().zip(signature).map(|(key, signature)| key ^ signature).collect();
        format!("{bare},p={}", BASE64_STANDARD.encode(proof))
    }

    #[test]
    fn unknown_users_and_wrong_passwords_fail_alike() {
        for mechanism in Mechanism::ALL {
            let stored = Stored::of(mechanism, b"right", 4096);
            let begin = |user: &str, stored: &[Stored]| {
                let first = ClientFirst::read(format!("n,,n={user},r=abc").as_bytes()).unwrap();
                Conversation::begin(mechanism, first, stored, &FAKES)
            };
            let salt = |server: &Conversation| server.server_first().split(',').nth(1).unwrap().to_owned();
            let mut right = begin("u", std::slice::from_ref(&stored));
            let message = client_final(mechanism, b"right", &stored, &right);
            assert!(right.finish(message.as_bytes()).unwrap().is_ok());
            let mut wrong = begin("u", std::slice::from_ref(&stored));
            let message = client_final(mechanism, b"wrong", &stored, &wrong);
            assert_eq!(wrong.finish(message.as_bytes()).unwrap(), Err(WrongProof));
            let (mut unknown, again, other) = (begin("absent", &[]), begin("absent", &[]), begin("missing", &[]));
            assert_eq!(salt(&unknown), salt(&again), "the same each time");
            assert_ne!(salt(&unknown), salt(&other));
            assert_eq!(salt(&unknown).len(), salt(&right).len());
            let message = client_final(mechanism, b"right", &unknown.stored[0].clone(), &unknown);
            assert_eq!(unknown.finish(message.as_bytes()).unwrap(), Err(WrongProof));
        }
    }

    #[test]
    fn one_of_several_secrets_is_enough() {
        let (mechanism, salt) = (Mechanism::ScramSha256, [5; 28]);
        let both = [b"old", b"new"].map(|secret| Stored::with_salt(mechanism, secret, 4096, &salt));
        for (secret, expect) in [(b"old", true), (b"new", true), (b"bad", false)] {
            let first = ClientFirst::read(b"n,,n=u,r=abc").unwrap();
            let mut server = Conversation::begin(mechanism, first, &both, &FAKES);
            let message = client_final(mechanism, secret, &both[0], &server);
            assert_eq!(server.finish(message.as_bytes()).unwrap().is_ok(), expect);
        }
    }

    #[test]
    fn malformed_messages_are_refused() {
        for bad in [
            "",
            "n",
            "n,,",
            "n,,n=u",
            "n,,r=abc,n=u",
            "p=tls-unique,,n=u,r=abc",
            "x,,n=u,r=abc",
            "n,,n=u=41,r=abc",
            "n,,n=,r=abc",
            "n,,n=u,r=",
            "n,,n=u,r=a b",
            "n,a=other,n=u,r=abc",
            "n,,m=ext,n=u,r=abc",
            "n,,n=u=,r=abc",
        ] {
            assert!(ClientFirst::read(bad.as_bytes()).is_err(), "{bad}");
        }
        assert!(ClientFirst::read(b"n,,n=\xff,r=abc").is_err());
        assert!(ClientFirst::read(format!("n,,n=u,r={}", "a".repeat(5000)).as_bytes()).is_err());
        assert_eq!(ClientFirst::read(b"n,,n=a=3Db=2Cc,r=abc").unwrap().user, "a=b,c");
        assert_eq!(ClientFirst::read(b"n,a=u,n=u,r=abc").unwrap().user, "u");
        let stored = Stored::of(Mechanism::ScramSha256, b"x", 4096);
        for bad in
            ["", "c=biws", "c=biws,r=NONCE", "c=AAAA,r=NONCE,p=AAAA", "c=biws,r=abc,p=AAAA", "c=biws,r=NONCE,p=AAAA"]
        {
            let first = ClientFirst::read(b"n,,n=u,r=abc").unwrap();
            let mut server = Conversation::begin(Mechanism::ScramSha256, first, std::slice::from_ref(&stored), &FAKES);
            let message = bad.replace("NONCE", &server.nonce);
            assert!(server.finish(message.as_bytes()).is_err(), "{bad}");
            assert!(server.finish(b"c=biws").is_err(), "stays failed");
        }
    }

    proptest! {
        #[test]
        fn any_bytes_are_answered(first in proptest::collection::vec(any::<u8>(), 0..64), last in "[a-z=,]{0,40}") {
            let _ = ClientFirst::read(&first);
            let text = format!("n,,n=u,{last}");
            if let Ok(first) = ClientFirst::read(text.as_bytes()) {
                let mut server = Conversation::begin(Mechanism::ScramSha1, first, &[], &FAKES);
                prop_assert!(!matches!(server.finish(last.as_bytes()), Ok(Ok(_))));
            }
        }

        #[test]
        fn names_survive_their_escapes(user in "[a-z=,]{1,20}") {
            let escaped = user.replace('=', "=3D").replace(',', "=2C");
            let first = ClientFirst::read(format!("n,,n={escaped},r=abc").as_bytes()).unwrap();
            prop_assert_eq!(first.user, user);
        }
    }
}
