//! Certificates: the subject that names a user, and private keys that are encrypted.
//!
//! A subject is written as RFC 2253 says and as `openssl x509 -subject -nameopt RFC2253` prints it, which is how administrators find
//! the names of users: the last part first, special characters behind a backslash, bytes beyond ASCII in hexadecimal.

use std::fmt::Write;

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use pkcs8::EncryptedPrivateKeyInfoRef;
use x509_parser::asn1_rs::Tag;
use x509_parser::prelude::{AttributeTypeAndValue, FromDer, X509Certificate};
use zeroize::Zeroizing;

/// Subject of a certificate.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Subject {
    /// In the order of the certificate; the attributes of one part belong together.
    parts: Vec<Vec<Attribute>>,
    /// Seconds since 1970.
    not_after: i64,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Attribute {
    /// Dotted.
    oid: String,
    value: Value,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Value {
    Text(String),
    /// Another type: the value in DER.
    Other(Vec<u8>),
}

/// Names of attributes, as OpenSSL writes them.
const NAMES: &[(&str, &str)] = &[
    ("2.5.4.3", "CN"),
    ("2.5.4.4", "SN"),
    ("2.5.4.5", "serialNumber"),
    ("2.5.4.6", "C"),
    ("2.5.4.7", "L"),
    ("2.5.4.8", "ST"),
    ("2.5.4.9", "street"),
    ("2.5.4.10", ORGANIZATION),
    ("2.5.4.11", ORGANIZATIONAL_UNIT),
    ("2.5.4.12", "title"),
    ("2.5.4.13", "description"),
    ("2.5.4.15", "businessCategory"),
    ("2.5.4.17", "postalCode"),
    ("2.5.4.20", "telephoneNumber"),
    ("2.5.4.41", "name"),
    ("2.5.4.42", "GN"),
    ("2.5.4.43", "initials"),
    ("2.5.4.44", "generationQualifier"),
    ("2.5.4.46", "dnQualifier"),
    ("2.5.4.65", "pseudonym"),
    ("2.5.4.72", "role"),
    ("2.5.4.97", "organizationIdentifier"),
    ("0.9.2342.19200300.100.1.1", "UID"),
    ("0.9.2342.19200300.100.1.25", DOMAIN_COMPONENT),
    ("1.2.840.113549.1.9.1", "emailAddress"),
    ("1.2.840.113549.1.9.2", "unstructuredName"),
    ("1.3.6.1.4.1.311.60.2.1.1", "jurisdictionL"),
    ("1.3.6.1.4.1.311.60.2.1.2", "jurisdictionST"),
    ("1.3.6.1.4.1.311.60.2.1.3", "jurisdictionC"),
];

const ORGANIZATION: &str = "O";
const ORGANIZATIONAL_UNIT: &str = "OU";
const DOMAIN_COMPONENT: &str = "DC";

impl Subject {
    /// Reads the subject of a certificate in DER. Errors: it is none.
    pub fn of_certificate(der: &[u8]) -> Result<Subject, String> {
        let (rest, certificate) = X509Certificate::from_der(der).map_err(|error| error.to_string())?;
        if !rest.is_empty() {
            return Err("bytes behind the certificate".to_owned());
        }
        let parts = certificate.subject().iter().map(|part| part.iter().map(Attribute::of).collect()).collect();
        Ok(Subject { parts, not_after: certificate.validity().not_after.timestamp() })
    }

    /// Reads a subject as [`Subject::name`] writes it. None: it is no such text.
    pub fn parse(text: &str) -> Option<Subject> {
        let mut parts = vec![Vec::new()];
        for (separator, attribute) in pieces(text)? {
            if separator == Some(',') {
                parts.push(Vec::new());
            }
            parts.last_mut()?.push(Attribute::parse(&attribute)?);
        }
        // a certificate has everything in the opposite order of the text, also the attributes of one part
        parts.reverse();
        parts.iter_mut().for_each(|part| part.reverse());
        Some(Subject { parts, not_after: i64::MAX })
    }

    /// Returns the name of the user.
    pub fn name(&self) -> String {
        self.written(true)
    }

    /// Returns the names under which a user may have been created: with bytes beyond ASCII in hexadecimal, or as they are.
    pub fn names(&self) -> Vec<String> {
        let mut names = vec![self.written(true), self.written(false)];
        names.dedup();
        names
    }

    /// Returns when the certificate expires, in seconds since 1970.
    pub fn not_after(&self) -> i64 {
        self.not_after
    }

    /// Returns true if both are certificates of members of one cluster: organizations, organizational units and domain components
    /// are the same, in any order, and there is at least one.
    pub fn is_of_cluster(&self, member: &Subject) -> bool {
        let own = self.of_organization();
        !own.is_empty() && own == member.of_organization()
    }

    /// Returns the attributes by which clusters differ.
    fn of_organization(&self) -> Vec<(&'static str, &str)> {
        const DISTINCTIVE: [&str; 3] = [ORGANIZATION, ORGANIZATIONAL_UNIT, DOMAIN_COMPONENT];
        let attributes = self.parts.iter().flatten();
        let mut found: Vec<_> = attributes
            .filter_map(|attribute| match (attribute.name(), &attribute.value) {
                (Some(name), Value::Text(text)) if DISTINCTIVE.contains(&name) => Some((name, text.as_str())),
                _ => None,
            })
            .collect();
        found.sort_unstable();
        found
    }

    fn written(&self, ascii: bool) -> String {
        let mut text = String::new();
        for part in self.parts.iter().rev() {
            if !text.is_empty() {
                text.push(',');
            }
            // OpenSSL reverses within a part too
            for (place, attribute) in part.iter().rev().enumerate() {
                if place > 0 {
                    text.push('+');
                }
                attribute.write(&mut text, ascii);
            }
        }
        text
    }
}

impl Attribute {
    fn of(attribute: &AttributeTypeAndValue<'_>) -> Attribute {
        let value = attribute.attr_value();
        let other = || {
            let mut der = vec![value.tag().0.min(0xff) as u8];
            append_length(value.data.len(), &mut der);
            der.extend_from_slice(value.data);
            Value::Other(der)
        };
        let value = match value.tag() {
            Tag::Utf8String | Tag::PrintableString | Tag::Ia5String | Tag::NumericString | Tag::VisibleString => {
                std::str::from_utf8(value.data).map_or_else(|_| other(), |text| Value::Text(text.to_owned()))
            }
            Tag::T61String => Value::Text(value.data.iter().map(|byte| char::from(*byte)).collect()),
            Tag::BmpString => {
                let (pairs, _) = value.data.as_chunks();
                let units: Vec<u16> = pairs.iter().map(|pair| u16::from_be_bytes(*pair)).collect();
                String::from_utf16(&units).map_or_else(|_| other(), Value::Text)
            }
            _ => other(),
        };
        Attribute { oid: attribute.attr_type().to_id_string(), value }
    }

    /// Reads `NAME=value`, of which the special characters are behind a backslash.
    fn parse(text: &str) -> Option<Attribute> {
        let (name, value) = text.split_once('=')?;
        let name = name.trim();
        let known = NAMES.iter().find(|(_, known)| known.eq_ignore_ascii_case(name)).map(|(oid, _)| *oid);
        let oid = known.or_else(|| name.starts_with(|first: char| first.is_ascii_digit()).then_some(name))?;
        let mut bytes = Vec::with_capacity(value.len());
        let mut rest = value.trim_start();
        while let Some(character) = rest.chars().next() {
            rest = rest.get(character.len_utf8()..)?;
            if character != '\\' {
                bytes.extend_from_slice(character.encode_utf8(&mut [0; 4]).as_bytes());
                continue;
            }
            // a sign would be read as a part of the number
            let digits = rest.get(..2).filter(|digits| digits.bytes().all(|digit| digit.is_ascii_hexdigit()));
            let digits = digits.and_then(|digits| u8::from_str_radix(digits, 16).ok());
            let next = rest.chars().next()?;
            bytes.push(digits.or_else(|| u8::try_from(next).ok())?);
            rest = rest.get(if digits.is_some() { 2 } else { next.len_utf8() }..)?;
        }
        Some(Attribute { oid: oid.to_owned(), value: Value::Text(String::from_utf8(bytes).ok()?) })
    }

    fn name(&self) -> Option<&'static str> {
        NAMES.iter().find(|(oid, _)| *oid == self.oid).map(|(_, name)| *name)
    }

    fn write(&self, text: &mut String, ascii: bool) {
        text.push_str(self.name().unwrap_or(&self.oid));
        text.push('=');
        match (&self.value, self.name()) {
            (Value::Text(value), Some(_)) => escape(value, ascii, text),
            (Value::Text(value), None) => {
                let mut der = vec![Tag::Utf8String.0 as u8];
                append_length(value.len(), &mut der);
                der.extend_from_slice(value.as_bytes());
                append_hexadecimal(&der, text);
            }
            (Value::Other(der), _) => append_hexadecimal(der, text),
        }
    }
}

/// Cuts a subject at its commas and plus signs; returns each piece with what precedes it. None: it ends in a backslash.
fn pieces(text: &str) -> Option<Vec<(Option<char>, String)>> {
    let mut pieces = vec![(None, String::new())];
    let mut characters = text.chars();
    while let Some(character) = characters.next() {
        match character {
            ',' | '+' => pieces.push((Some(character), String::new())),
            '\\' => pieces.last_mut()?.1.extend(['\\', characters.next()?]),
            _ => pieces.last_mut()?.1.push(character),
        }
    }
    Some(pieces)
}

/// Appends a length in DER.
fn append_length(length: usize, der: &mut Vec<u8>) {
    match u8::try_from(length) {
        Ok(short) if short < 0x80 => der.push(short),
        _ => {
            let bytes = length.to_be_bytes();
            let leading = bytes.iter().take_while(|byte| **byte == 0).count();
            let bytes = bytes.get(leading..).unwrap_or_default();
            der.push(0x80 | bytes.len() as u8);
            der.extend_from_slice(bytes);
        }
    }
}

fn append_hexadecimal(bytes: &[u8], text: &mut String) {
    text.push('#');
    bytes.iter().for_each(|byte| write!(text, "{byte:02X}").expect("a string takes all"));
}

/// Appends a value with its special characters behind a backslash (RFC 2253, section 2.4).
fn escape(value: &str, ascii: bool, text: &mut String) {
    let last = value.chars().count().saturating_sub(1);
    for (place, character) in value.chars().enumerate() {
        match character {
            ',' | '+' | '"' | '\\' | '<' | '>' | ';' => text.extend(['\\', character]),
            ' ' if place == 0 || place == last => text.push_str("\\ "),
            '#' if place == 0 => text.push_str("\\#"),
            _ if character.is_ascii_control() || ascii && !character.is_ascii() => {
                let mut bytes = [0; 4];
                for byte in character.encode_utf8(&mut bytes).bytes() {
                    write!(text, "\\{byte:02X}").expect("a string takes all");
                }
            }
            _ => text.push(character),
        }
    }
}

const BEGIN: &str = "-----BEGIN ENCRYPTED PRIVATE KEY-----";
const END: &str = "-----END ENCRYPTED PRIVATE KEY-----";

/// Decrypts the private key of a file in PEM and returns it in DER (PKCS#8). None: the file has no encrypted key. Errors: the key
/// cannot be decrypted with this password.
pub fn decrypted_key(pem: &[u8], password: Option<&str>) -> Result<Option<Zeroizing<Vec<u8>>>, String> {
    let text = String::from_utf8_lossy(pem);
    if text.contains("Proc-Type: 4,ENCRYPTED") {
        return Err("the key is encrypted in the old form; `openssl pkcs8 -topk8` writes PKCS#8".to_owned());
    }
    let Some(body) = text.split_once(BEGIN).and_then(|(_, rest)| rest.split_once(END)).map(|(body, _)| body) else {
        return Ok(None);
    };
    let Some(password) = password else {
        return Err("the key is encrypted, and there is no password for it (tlsCertificateKeyFilePassword)".to_owned());
    };
    let body: String = body.split_whitespace().collect();
    let der = BASE64_STANDARD.decode(body).map_err(|error| format!("the encrypted key is not base64: {error}"))?;
    let info =
        EncryptedPrivateKeyInfoRef::try_from(der.as_slice()).map_err(|error| format!("the encrypted key: {error}"))?;
    let key = info.decrypt(password).map_err(|_| "the password does not decrypt the key".to_owned())?;
    Ok(Some(Zeroizing::new(key.as_bytes().to_vec())))
}

#[cfg(test)]
mod tests {
    use super::*;
    use rcgen::{CertificateParams, DnType, DnValue, KeyPair};

    fn subject(attributes: &[(DnType, DnValue)]) -> Subject {
        let mut params = CertificateParams::default();
        params.distinguished_name = rcgen::DistinguishedName::new();
        for (name, value) in attributes {
            params.distinguished_name.push(name.clone(), value.clone());
        }
        let certificate = params.self_signed(&KeyPair::generate().unwrap()).unwrap();
        Subject::of_certificate(certificate.der()).unwrap()
    }

    fn utf8(text: &str) -> DnValue {
        DnValue::Utf8String(text.to_owned())
    }

    /// As `openssl x509 -subject -nameopt RFC2253` prints them.
    #[test]
    fn subjects_are_written_as_openssl_writes_them() {
        use DnType::{CommonName, CountryName, OrganizationName, OrganizationalUnitName};
        let whole = subject(&[
            (CountryName, utf8("US")),
            (OrganizationName, utf8("Example, Inc.")),
            (OrganizationalUnitName, utf8("a+b")),
            (CommonName, utf8("client")),
        ]);
        assert_eq!(whole.name(), "CN=client,OU=a\\+b,O=Example\\, Inc.,C=US");
        assert_eq!(whole.names().len(), 1);
        assert_eq!(Subject::parse(&whole.name()).unwrap().name(), whole.name());
        for (value, expect) in [
            (" x ", "CN=\\ x\\ "),
            ("#x#", "CN=\\#x#"),
            ("a\"b\\c<d>e;f", "CN=a\\\"b\\\\c\\<d\\>e\\;f"),
            ("a\u{1}b", "CN=a\\01b"),
            ("Müller", "CN=M\\C3\\BCller"),
        ] {
            assert_eq!(subject(&[(CommonName, utf8(value))]).name(), expect);
            assert_eq!(Subject::parse(expect).unwrap().name(), expect, "is read back");
        }
        assert_eq!(subject(&[(CommonName, utf8("Müller"))]).names(), ["CN=M\\C3\\BCller", "CN=Müller"]);
        let mail = DnType::CustomDnType(vec![1, 2, 840, 113549, 1, 9, 1]);
        assert_eq!(subject(&[(mail, utf8("a@b"))]).name(), "emailAddress=a@b");
        let unknown = DnType::CustomDnType(vec![1, 2, 3, 4]);
        assert_eq!(subject(&[(unknown, utf8("abc"))]).name(), "1.2.3.4=#0C03616263");
    }

    #[test]
    fn subjects_that_are_read_are_written_the_same_again() {
        for text in ["CN=a", "CN=a,OU=b,O=c", "CN=a+OU=b,O=c", "OU=b+CN=a+UID=x,O=c+L=d", "CN=a\\,b+OU=\\=,O=c"] {
            let read = Subject::parse(text).unwrap().name();
            assert_eq!(Subject::parse(&read).unwrap().name(), read, "{text}");
        }
        assert_eq!(Subject::parse("CN=a+OU=b,O=c").unwrap().name(), "CN=a+OU=b,O=c");
    }

    #[test]
    fn members_have_the_same_organization() {
        use DnType::{CommonName, OrganizationName, OrganizationalUnitName};
        let of = |organization: &str, unit: &str, name: &str| {
            let all = [(OrganizationName, organization), (OrganizationalUnitName, unit), (CommonName, name)];
            let all: Vec<_> = all.into_iter().filter(|one| !one.1.is_empty()).map(|(t, v)| (t, utf8(v))).collect();
            subject(&all)
        };
        let own = of("o", "u", "one");
        for (other, expect) in [
            (of("o", "u", "two"), true),
            (of("o", "v", "two"), false),
            (of("o", "", "two"), false),
            (of("O", "u", "two"), false),
            (of("", "", "one"), false),
        ] {
            assert_eq!(own.is_of_cluster(&other), expect, "{}", other.name());
            assert_eq!(other.is_of_cluster(&own), expect);
        }
        assert!(!of("", "", "one").is_of_cluster(&of("", "", "one")), "nothing that could match");
        for (text, expect) in [
            ("CN=x,OU=u,O=o", true),
            ("OU=u+O=o,CN=y", true),
            ("cn=x,ou=u,o=o", true),
            ("CN=x,O=o", false),
            ("x", false),
        ] {
            assert_eq!(Subject::parse(text).is_some_and(|one| own.is_of_cluster(&one)), expect, "{text}");
        }
    }

    #[test]
    fn noise_is_no_certificate() {
        let mut params = CertificateParams::default();
        params.distinguished_name.push(DnType::CommonName, "x");
        let der = params.self_signed(&KeyPair::generate().unwrap()).unwrap().der().to_vec();
        for length in 0..der.len() {
            assert!(Subject::of_certificate(&der[..length]).is_err(), "{length}");
        }
        for place in 0..der.len() {
            let mut changed = der.clone();
            changed[place] ^= 0x55;
            // whatever comes out of it, it is read without a panic
            let _ = Subject::of_certificate(&changed).map(|subject| subject.name());
        }
        assert!(Subject::of_certificate(&[der, vec![0]].concat()).is_err());
    }

    /// `openssl genpkey -algorithm ed25519 -aes-256-cbc -pass pass:secret`
    const ENCRYPTED: &str = include_str!("../testdata/encrypted_key.pem");

    #[test]
    fn encrypted_keys_need_their_password() {
        let key = decrypted_key(ENCRYPTED.as_bytes(), Some("secret")).unwrap().unwrap();
        assert_eq!(key.len(), 48, "an Ed25519 key in PKCS#8");
        assert!(decrypted_key(ENCRYPTED.as_bytes(), Some("wrong")).is_err());
        assert!(decrypted_key(ENCRYPTED.as_bytes(), None).unwrap_err().contains("password"));
        assert!(decrypted_key(ENCRYPTED.replace('M', "!").as_bytes(), Some("secret")).is_err());
        assert_eq!(decrypted_key(b"-----BEGIN PRIVATE KEY-----", None).unwrap(), None);
        let old = b"-----BEGIN RSA PRIVATE KEY-----\nProc-Type: 4,ENCRYPTED\n";
        assert!(decrypted_key(old, Some("secret")).is_err());
    }
}
