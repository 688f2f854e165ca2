//! The client's half of SCRAM (RFC 5802, RFC 7677), as MongoDB speaks it: no channel binding. The hashes are
//! those of [`Mechanism`], which the server's half uses too.
//!
//! | message      | from   | text                                     |
//! |--------------|--------|------------------------------------------|
//! | client-first | client | `n,,n=USER,r=NONCE`                      |
//! | server-first | server | `r=NONCE+MORE,s=SALT,i=ROUNDS`           |
//! | client-final | client | `c=biws,r=NONCE+MORE,p=PROOF`            |
//! | server-final | server | `v=SIGNATURE`                            |

use arbor_auth::Mechanism;
use base64::Engine;
use base64::prelude::BASE64_STANDARD;

/// Fewer would let a false server ask for a proof that is cheap to guess the password from (RFC 5802, 5.1).
const ROUNDS_MIN: u32 = 4096;
/// More would keep the client busy for minutes.
const ROUNDS_MAX: u32 = 10_000_000;
/// `n,,` in base64: no channel binding.
const NO_BINDING: &str = "biws";

/// One conversation.
pub(crate) struct Scram {
    mechanism: Mechanism,
    secret: Vec<u8>,
    /// client-first without its `n,,`.
    first: String,
    nonce: String,
    /// Signature that the server must send to prove that it knows the password.
    signature: Vec<u8>,
}

impl Scram {
    pub(crate) fn new(mechanism: Mechanism, user: &str, password: &str) -> Result<Scram, String> {
        let nonce = BASE64_STANDARD.encode(rand::random::<[u8; 24]>());
        Ok(Scram::with_secret(mechanism, user, mechanism.secret(user, password)?.to_vec(), nonce))
    }

    fn with_secret(mechanism: Mechanism, user: &str, secret: Vec<u8>, nonce: String) -> Scram {
        let user = user.replace('=', "=3D").replace(',', "=2C");
        Scram { mechanism, secret, first: format!("n={user},r={nonce}"), nonce, signature: Vec::new() }
    }

    pub(crate) fn client_first(&self) -> String {
        format!("n,,{}", self.first)
    }

    /// Requires server-first; gives client-final.
    pub(crate) fn client_final(&mut self, server_first: &str) -> Result<String, String> {
        let nonce = attribute(server_first, "r").filter(|nonce| nonce.starts_with(&self.nonce));
        let nonce = nonce.ok_or("the server's nonce does not continue ours")?;
        let salt = attribute(server_first, "s").and_then(|salt| BASE64_STANDARD.decode(salt).ok());
        let salt = salt.ok_or("the server sent no salt")?;
        let rounds: u32 = attribute(server_first, "i").and_then(|rounds| rounds.parse().ok()).unwrap_or(0);
        if !(ROUNDS_MIN..=ROUNDS_MAX).contains(&rounds) {
            return Err(format!("the server asks for {rounds} rounds, not {ROUNDS_MIN} to {ROUNDS_MAX}"));
        }
        let salted = self.mechanism.salted(&self.secret, &salt, rounds);
        let client_key = self.mechanism.hmac(&salted, b"Client Key");
        let server_key = self.mechanism.hmac(&salted, b"Server Key");
        let bare = format!("c={NO_BINDING},r={nonce}");
        let message = format!("{},{server_first},{bare}", self.first);
        let proof = self.mechanism.hmac(&self.mechanism.hash(&client_key), message.as_bytes());
        let proof: Vec<u8> = client_key.iter().zip(&proof).map(|(key, signature)| key ^ signature).collect();
        self.signature = self.mechanism.hmac(&server_key, message.as_bytes());
        Ok(format!("{bare},p={}", BASE64_STANDARD.encode(proof)))
    }

    /// Requires [`Scram::client_final`]. A server that does not know the password cannot say this.
    pub(crate) fn verify(&self, server_final: &str) -> Result<(), String> {
        let said = attribute(server_final, "v").and_then(|signature| BASE64_STANDARD.decode(signature).ok());
        match said {
            Some(said) if !self.signature.is_empty() && said == self.signature => Ok(()),
            _ => Err("the server's signature is wrong: it does not know the password".to_owned()),
        }
    }
}

/// The value of `name=value` between commas.
fn attribute<'a>(message: &'a str, name: &str) -> Option<&'a str> {
    message.split(',').find_map(|part| part.strip_prefix(name)?.strip_prefix('='))
}

#[cfg(test)]
mod tests {
    use super::*;
    use arbor_auth::Stored;
    use arbor_auth::scram::{ClientFirst, Conversation, Fakes};

    /// Against the server's half, which is tested with the conversations of the RFCs.
    #[test]
    fn both_halves_agree() {
        let fakes = Fakes { secret: &[7; 32], db: "admin", rounds: 4096 };
        for mechanism in Mechanism::ALL {
            let stored = Stored::of(mechanism, b"pencil", 4096);
            let mut scram = Scram::with_secret(mechanism, "a=b,c", b"pencil".to_vec(), "abc".to_owned());
            let first = ClientFirst::read(scram.client_first().as_bytes()).unwrap();
            assert_eq!(first.user, "a=b,c");
            let mut server = Conversation::begin(mechanism, first, std::slice::from_ref(&stored), &fakes);
            let proof = scram.client_final(server.server_first()).unwrap();
            let end = server.finish(proof.as_bytes()).unwrap().unwrap();
            scram.verify(&end).unwrap();
            assert!(scram.verify("v=AAAA").is_err() && scram.verify("e=other-error").is_err());
            let early = Scram::with_secret(mechanism, "a=b,c", b"pencil".to_vec(), "abc".to_owned());
            assert!(early.verify(&end).is_err(), "before the proof");
        }
    }

    #[test]
    fn names_are_escaped_and_bad_servers_refused() {
        let scram = |user| Scram::with_secret(Mechanism::ScramSha256, user, b"p".to_vec(), "abc".to_owned());
        assert_eq!(scram("a=b,c").client_first(), "n,,n=a=3Db=2Cc,r=abc");
        for bad in ["", "r=other,s=QSXC,i=4096", "r=abcd,i=4096", "r=abcd,s=QSXC,i=1", "r=abcd,s=QSXC,i=4000000000"] {
            assert!(scram("u").client_final(bad).is_err(), "{bad}");
        }
    }
}
