//! Hashes of the two mechanisms (RFC 5802, RFC 7677). With SHA-1, MongoDB puts the MD5 of `user:mongo:password` in hexadecimal
//! in the password's place.

use hmac::{Hmac, KeyInit, Mac};
use md5::Md5;
use sha1::Sha1;
use sha2::{Digest, Sha256};
use zeroize::Zeroizing;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mechanism {
    ScramSha1,
    ScramSha256,
}

impl Mechanism {
    pub const ALL: [Mechanism; 2] = [Mechanism::ScramSha1, Mechanism::ScramSha256];

    pub fn name(self) -> &'static str {
        match self {
            Mechanism::ScramSha1 => "SCRAM-SHA-1",
            Mechanism::ScramSha256 => "SCRAM-SHA-256",
        }
    }

    pub fn by_name(name: &str) -> Option<Mechanism> {
        Mechanism::ALL.into_iter().find(|each| each.name() == name)
    }

    /// Iterations of new credentials, as MongoDB has them.
    pub fn rounds(self) -> u32 {
        match self {
            Mechanism::ScramSha1 => 10_000,
            Mechanism::ScramSha256 => 15_000,
        }
    }

    /// Returns the secret that replaces the user's password in the conversation. Errors: characters that SASLprep forbids.
    pub fn secret(self, user: &str, password: &str) -> Result<Zeroizing<Vec<u8>>, String> {
        match self {
            Mechanism::ScramSha1 => {
                let text = Zeroizing::new(format!("{user}:mongo:{password}"));
                Ok(Zeroizing::new(hexadecimal(&Md5::digest(text.as_bytes())).into_bytes()))
            }
            Mechanism::ScramSha256 => stringprep::saslprep(password)
                .map(|password| Zeroizing::new(password.as_bytes().to_vec()))
                .map_err(|_| "the password holds characters that SASLprep forbids".to_owned()),
        }
    }

    /// Bytes of a salt: as many as MongoDB's have, a block of the hash less four.
    pub fn salt_bytes(self) -> usize {
        self.hash_bytes() - 4
    }

    /// Bytes of a hash.
    pub fn hash_bytes(self) -> usize {
        match self {
            Mechanism::ScramSha1 => 20,
            Mechanism::ScramSha256 => 32,
        }
    }

    pub fn hash(self, bytes: &[u8]) -> Vec<u8> {
        match self {
            Mechanism::ScramSha1 => Sha1::digest(bytes).to_vec(),
            Mechanism::ScramSha256 => Sha256::digest(bytes).to_vec(),
        }
    }

    pub fn hmac(self, key: &[u8], bytes: &[u8]) -> Vec<u8> {
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

    pub fn salted(self, secret: &[u8], salt: &[u8], rounds: u32) -> Zeroizing<Vec<u8>> {
        Zeroizing::new(match self {
            Mechanism::ScramSha1 => pbkdf2::pbkdf2_hmac_array::<Sha1, 20>(secret, salt, rounds).to_vec(),
            Mechanism::ScramSha256 => pbkdf2::pbkdf2_hmac_array::<Sha256, 32>(secret, salt, rounds).to_vec(),
        })
    }
}

fn hexadecimal(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn passwords_are_prepared() {
        let secret = |mechanism: Mechanism, password| mechanism.secret("user", password).map(|secret| secret.to_vec());
        assert_eq!(secret(Mechanism::ScramSha1, "pencil").unwrap(), b"1c33006ec1ffd90f9cadcbcc0e118200");
        // A soft hyphen goes, a Roman numeral becomes letters (RFC 4013, section 3).
        assert_eq!(secret(Mechanism::ScramSha256, "I\u{ad}X").unwrap(), b"IX");
        assert_eq!(secret(Mechanism::ScramSha256, "\u{2168}").unwrap(), b"IX");
        assert!(secret(Mechanism::ScramSha256, "\u{7}").is_err());
    }

    #[test]
    fn names_are_found() {
        for mechanism in Mechanism::ALL {
            assert_eq!(Mechanism::by_name(mechanism.name()), Some(mechanism));
            assert_eq!(mechanism.hash(b"").len(), mechanism.hash_bytes());
            assert_eq!(mechanism.hmac(b"", b"").len(), mechanism.hash_bytes());
            assert_eq!(mechanism.salted(b"a", b"b", 1).len(), mechanism.hash_bytes());
        }
        assert_eq!(Mechanism::by_name("scram-sha-1"), None);
    }
}
