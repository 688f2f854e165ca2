//! The client's half of SCRAM (RFC 5802, RFC 7677), as MongoDB speaks it: no channel binding, and with SHA-1 the MD5 of
//! `user:mongo:password` in hexadecimal in the password's place.
//!
//! | message      | from   | text                                     |
//! |--------------|--------|------------------------------------------|
//! | client-first | client | `n,,n=USER,r=NONCE`                      |
//! | server-first | server | `r=NONCE+MORE,s=SALT,i=ROUNDS`           |
//! | client-final | client | `c=biws,r=NONCE+MORE,p=PROOF`            |
//! | server-final | server | `v=SIGNATURE`                            |

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use hmac::{Hmac, KeyInit, Mac};
use md5::Md5;
use sha1::Sha1;
use sha2::{Digest, Sha256};

/// Fewer would let a false server ask for a proof that is cheap to guess the password from (RFC 5802, 5.1).
const ROUNDS_MIN: u32 = 4096;
/// More would keep the client busy for minutes.
const ROUNDS_MAX: u32 = 10_000_000;
/// `n,,` in base64: no channel binding.
const NO_BINDING: &str = "biws";

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mechanism {
    ScramSha1,
    ScramSha256,
}

impl Mechanism {
    pub fn name(self) -> &'static str {
        match self {
            Mechanism::ScramSha1 => "SCRAM-SHA-1",
            Mechanism::ScramSha256 => "SCRAM-SHA-256",
        }
    }

    pub fn by_name(name: &str) -> Option<Mechanism> {
        [Mechanism::ScramSha1, Mechanism::ScramSha256].into_iter().find(|each| each.name() == name)
    }

    /// Returns the secret that replaces the user's password in the conversation.
    fn secret(self, user: &str, password: &str) -> Result<Vec<u8>, String> {
        match self {
            Mechanism::ScramSha1 => Ok(hexadecimal(&Md5::digest(format!("{user}:mongo:{password}"))).into_bytes()),
            Mechanism::ScramSha256 => stringprep::saslprep(password)
                .map(|password| password.as_bytes().to_vec())
                .map_err(|_| "the password holds characters that SASLprep forbids".to_owned()),
        }
    }

    fn hash(self, bytes: &[u8]) -> Vec<u8> {
        match self {
            Mechanism::ScramSha1 => Sha1::digest(bytes).to_vec(),
            Mechanism::ScramSha256 => Sha256::digest(bytes).to_vec(),
        }
    }

    fn hmac(self, key: &[u8], bytes: &[u8]) -> Vec<u8> {
        const ANY: &str = "HMAC takes keys of any length";
        match self {
            Mechanism::ScramSha1 => {
                Hmac::<Sha1>::new_from_slice(key).expect(ANY).chain_update(bytes).finalize().into_bytes().to_vec()
            }
            Mechanism::ScramSha256 => {
                Hmac::<Sha256>::new_from_slice(key).expect(ANY).chain_update(bytes).finalize().into_bytes().to_vec()
            }
        }
    }

    fn salted(self, secret: &[u8], salt: &[u8], rounds: u32) -> Vec<u8> {
        match self {
            Mechanism::ScramSha1 => pbkdf2::pbkdf2_hmac_array::<Sha1, 20>(secret, salt, rounds).to_vec(),
            Mechanism::ScramSha256 => pbkdf2::pbkdf2_hmac_array::<Sha256, 32>(secret, salt, rounds).to_vec(),
        }
    }
}

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
        Ok(Scram::with_secret(mechanism, user, mechanism.secret(user, password)?, nonce))
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

fn hexadecimal(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The conversations of RFC 5802 (section 5) and RFC 7677 (section 3): user `user`, password `pencil`.
    #[test]
    fn the_conversations_of_the_rfcs() {
        let check = |mechanism, nonce: &str, server_first: &str, client_final: &str, server_final: &str| {
            let mut scram = Scram::with_secret(mechanism, "user", b"pencil".to_vec(), nonce.to_owned());
            assert_eq!(scram.client_first(), format!("n,,n=user,r={nonce}"));
            assert!(scram.verify(server_final).is_err(), "before the proof");
            assert_eq!(scram.client_final(server_first).unwrap(), client_final);
            scram.verify(server_final).unwrap();
            assert!(scram.verify("v=AAAA").is_err() && scram.verify("e=other-error").is_err());
        };
        check(
            Mechanism::ScramSha1,
            "fyko+d2lbbFgONRv9qkxdawL",
            "r=fyko+d2lbbFgONRv9qkxdawL3rfcNHYJY1ZVvWVs7j,s=QSXCR+Q6sek8bf92,i=4096",
            "c=biws,r=fyko+d2lbbFgONRv9qkxdawL3rfcNHYJY1ZVvWVs7j,p=v0X8v3Bz2T0CJGbJQyF0X+HI4Ts=",
            "v=rmF9pqV8S7suAoZWja4dJRkFsKQ=",
        );
        check(
            Mechanism::ScramSha256,
            "rOprNGfwEbeRWgbNEkqO",
            "r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096",
            "c=biws,r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ=",
            "v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4=",
        );
    }

    #[test]
    fn passwords_are_prepared() {
        let secret = |mechanism: Mechanism, password| mechanism.secret("user", password);
        assert_eq!(secret(Mechanism::ScramSha1, "pencil").unwrap(), b"1c33006ec1ffd90f9cadcbcc0e118200");
        // A soft hyphen goes, a Roman numeral becomes letters (RFC 4013, section 3).
        assert_eq!(secret(Mechanism::ScramSha256, "I\u{ad}X").unwrap(), b"IX");
        assert_eq!(secret(Mechanism::ScramSha256, "\u{2168}").unwrap(), b"IX");
        assert!(secret(Mechanism::ScramSha256, "\u{7}").is_err());
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
