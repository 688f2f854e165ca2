//! Connection strings, as far as a client of one connection needs them.

use std::time::Duration;

use arbor_wire::Compressor;

use crate::{ClientError, Credential, Mechanism, Options, Tls, TlsOptions, Trust};

/// `mongodb://[user:password@]host[:port][/database][?authSource=..&authMechanism=..&compressors=..&appName=..`
/// `&socketTimeoutMS=..&checksum=true&tls=true&tlsCAFile=..&tlsCertificateKeyFile=..&tlsAllowInvalidCertificates=..`
/// `&tlsAllowInvalidHostnames=..&tlsInsecure=..]`, or `host[:port]`.
#[derive(Clone, Debug)]
pub struct Uri {
    /// `host:port` of the first host.
    pub address: String,
    /// `host:port` of all hosts.
    pub addresses: Vec<String>,
    pub database: Option<String>,
    options: Options,
}

const PORT: &str = "27017";
/// Authentication database if neither `authSource` nor a database is given.
const AUTH_SOURCE: &str = "admin";

impl Uri {
    /// Reads the files that the options of TLS name.
    pub fn parse(text: &str) -> Result<Uri, ClientError> {
        // What is wrong is named without the text when that holds a password.
        let shown = if text.contains('@') { String::new() } else { format!(" in {text:?}") };
        let wrong = |what: &str| ClientError::Uri(format!("{what}{shown}"));
        if text.starts_with("mongodb+srv://") {
            return Err(wrong("mongodb+srv is not supported"));
        }
        let rest = text.strip_prefix("mongodb://").unwrap_or(text);
        let (rest, text_of_query) = rest.split_once('?').unwrap_or((rest, ""));
        let (hosts, database) = rest.split_once('/').unwrap_or((rest, ""));
        let (user, hosts) = hosts.rsplit_once('@').map_or((None, hosts), |(user, hosts)| (Some(user), hosts));
        let addresses: Vec<String> = hosts.split(',').filter(|host| !host.is_empty()).map(with_port).collect();
        let address = addresses.first().cloned().ok_or_else(|| wrong("no host"))?;
        let mut query = Query::default();
        for (name, value) in text_of_query.split('&').filter_map(|pair| pair.split_once('=')) {
            let value = decoded(value).map_err(|what| wrong(&what))?;
            query.set(name, &value).map_err(|what| wrong(&what))?;
        }
        let database = (!database.is_empty()).then(|| decoded(database)).transpose().map_err(|what| wrong(&what))?;
        let Query { mut options, login, secrecy } = query;
        options.credential = login.credential(user, database.as_deref()).map_err(|what| wrong(&what))?;
        options.tls = secrecy.tls().map_err(|what| wrong(&what))?;
        if options.by_certificate && (options.tls.is_none() || options.credential.is_some()) {
            return Err(wrong("MONGODB-X509 needs tls=true with a certificate, and no user with a password"));
        }
        Ok(Uri { address, addresses, database, options })
    }

    pub fn options(&self) -> Options {
        self.options.clone()
    }
}

fn with_port(host: &str) -> String {
    let has_port = host.rsplit_once(':').is_some_and(|(before, _)| !before.contains(':') || before.ends_with(']'));
    if has_port { host.to_owned() } else { format!("{host}:{PORT}") }
}

/// Query string after the `?`.
#[derive(Default)]
struct Query {
    options: Options,
    login: Login,
    secrecy: Secrecy,
}

/// Authentication options of the query string.
#[derive(Default)]
struct Login {
    source: Option<String>,
    mechanism: Option<Mechanism>,
}

impl Login {
    fn credential(self, user: Option<&str>, database: Option<&str>) -> Result<Option<Credential>, String> {
        let Some(user) = user else { return Ok(None) };
        let (user, password) = user.split_once(':').ok_or("a user without a password")?;
        if user.is_empty() || password.contains([':', '@', '/']) {
            return Err("no user, or a password whose : / @ % are not percent-encoded".to_owned());
        }
        let source = self.source.as_deref().or(database).unwrap_or(AUTH_SOURCE).to_owned();
        let (user, password) = (decoded(user)?, decoded(password)?);
        Ok(Some(Credential { user, password, source, mechanism: self.mechanism }))
    }
}

/// TLS options of the query string.
#[derive(Default)]
struct Secrecy {
    /// The first option but `tls` itself, as it was written.
    first: Option<String>,
    enabled: Option<bool>,
    insecure: Option<bool>,
    any_certificate: Option<bool>,
    any_name: Option<bool>,
    options: TlsOptions,
}

impl Secrecy {
    /// `name` in small letters.
    fn set(&mut self, name: &str, written: &str, value: &str) -> Result<(), String> {
        let switch = || match value {
            "true" => Ok(Some(true)),
            "false" => Ok(Some(false)),
            _ => Err(format!("{written} is true or false, not {value:?}")),
        };
        if matches!(name, "tls" | "ssl") {
            let enabled = switch()?;
            if self.enabled.is_some() && self.enabled != enabled {
                return Err("tls and ssl are the same option and have two values".to_owned());
            }
            self.enabled = enabled;
            return Ok(());
        }
        match name {
            "tlscafile" => self.options.ca_file = Some(value.into()),
            "tlscertificatekeyfile" => self.options.certificate_key_file = Some(value.into()),
            "tlscertificatekeyfilepassword" => self.options.key_password = Some(value.to_owned()),
            "tlsallowinvalidcertificates" => self.any_certificate = switch()?,
            "tlsallowinvalidhostnames" => self.any_name = switch()?,
            "tlsinsecure" => self.insecure = switch()?,
            // Revocation is never checked.
            "tlsdisableocspendpointcheck" | "tlsdisablecertificaterevocationcheck" => {}
            _ => return Err(format!("{written} is not supported")),
        }
        self.first.get_or_insert_with(|| written.to_owned());
        Ok(())
    }

    fn tls(mut self) -> Result<Option<Tls>, String> {
        if self.enabled != Some(true) {
            return self.first.map_or(Ok(None), |first| Err(format!("{first} is of no use without tls=true")));
        }
        if self.insecure.is_some() && (self.any_certificate.is_some() || self.any_name.is_some()) {
            return Err("tlsInsecure means both tlsAllowInvalid options and cannot be combined with them".to_owned());
        }
        let yes = |switch: Option<bool>| switch == Some(true);
        // Drivers let a certificate that any may have made have any name too.
        self.options.trust = match () {
            () if yes(self.insecure) || yes(self.any_certificate) => Trust::Anything,
            () if yes(self.any_name) => Trust::AnyName,
            () => Trust::Full,
        };
        Tls::new(self.options).map(Some)
    }
}

impl Query {
    /// Sets an option. Driver options without a meaning for one connection are ignored; unknown TLS options are errors, since
    /// their user relies on them.
    fn set(&mut self, written: &str, value: &str) -> Result<(), String> {
        let options = &mut self.options;
        match written.to_ascii_lowercase().as_str() {
            "authsource" => self.login.source = Some(value.to_owned()),
            "authmechanism" if value == "MONGODB-X509" => options.by_certificate = true,
            "authmechanism" => {
                let unknown = || {
                    format!("authMechanism {value:?} is not supported; SCRAM-SHA-1, SCRAM-SHA-256 and MONGODB-X509 are")
                };
                self.login.mechanism = Some(Mechanism::by_name(value).ok_or_else(unknown)?);
            }
            "compressors" => {
                let first = value.split(',').next().unwrap_or_default();
                options.compressor =
                    Some(Compressor::by_name(first).ok_or_else(|| format!("unknown compressor {first:?}"))?);
            }
            "appname" => options.app_name = value.to_owned(),
            "checksum" => options.checksum = value == "true",
            "sockettimeoutms" => {
                let milliseconds = value.parse().map_err(|_| format!("socketTimeoutMS is no number: {value:?}"))?;
                options.timeout = (milliseconds > 0).then(|| Duration::from_millis(milliseconds));
            }
            name if name == "ssl" || name.starts_with("tls") => self.secrecy.set(name, written, value)?,
            _ => {}
        }
        Ok(())
    }
}

/// Percent-decoding.
fn decoded(text: &str) -> Result<String, String> {
    let (mut bytes, mut rest) = (Vec::with_capacity(text.len()), text);
    while let Some((before, after)) = rest.split_once('%') {
        let wrong = || "a % without two hexadecimal digits behind it".to_owned();
        let digits = after.get(..2).filter(|digits| digits.bytes().all(|digit| digit.is_ascii_hexdigit()));
        let byte = digits.and_then(|digits| u8::from_str_radix(digits, 16).ok()).ok_or_else(wrong)?;
        bytes.extend_from_slice(before.as_bytes());
        bytes.push(byte);
        rest = after.get(2..).unwrap_or_default();
    }
    bytes.extend_from_slice(rest.as_bytes());
    String::from_utf8(bytes).map_err(|_| "percent-encoded bytes that are not UTF-8".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses() {
        let check = |text: &str, address: &str| assert_eq!(Uri::parse(text).unwrap().address, address, "{text}");
        check("mongodb://h:1/db?x=y", "h:1");
        check("mongodb://h", "h:27017");
        check("127.0.0.1:5", "127.0.0.1:5");
        check("mongodb://[::1]:5/", "[::1]:5");
        check("mongodb://[::1]", "[::1]:27017");
        check("mongodb://a:1,b:2/?replicaSet=r", "a:1");
        assert_eq!(Uri::parse("mongodb://u:p@a:1,b/?replicaSet=r").unwrap().addresses, ["a:1", "b:27017"]);
    }

    #[test]
    fn options_are_read_and_bad_ones_refused() {
        let uri =
            Uri::parse("mongodb://h/d?compressors=zstd,snappy&appName=lab&checksum=true&socketTimeoutMS=5").unwrap();
        let options = uri.options();
        assert_eq!(options.compressor, Some(Compressor::Zstd));
        assert_eq!((options.app_name.as_str(), options.checksum), ("lab", true));
        assert_eq!(options.timeout, Some(Duration::from_millis(5)));
        assert_eq!(uri.database.as_deref(), Some("d"));
        for bad in ["mongodb://", "mongodb+srv://h", "mongodb://h/?compressors=lzma", "h/?tls=yes"] {
            assert!(Uri::parse(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn tls() {
        let check = |query: &str, expect: Option<Trust>| {
            let tls = Uri::parse(&format!("mongodb://h/?{query}")).unwrap().options().tls;
            assert_eq!(tls.map(|tls| tls.options().trust), expect, "{query}");
        };
        check("tls=false", None);
        check("ssl=false&tls=false", None);
        check("tls=true&tlsInsecure=true", Some(Trust::Anything));
        check("ssl=true&TLSAllowInvalidCertificates=true", Some(Trust::Anything));
        check(
            "ssl=true&tls=true&tlsAllowInvalidCertificates=true&tlsAllowInvalidHostnames=true",
            Some(Trust::Anything),
        );
        check("tlsDisableOCSPEndpointCheck=true&tls=true&tlsInsecure=true", Some(Trust::Anything));
        let refused = |query: &str, expect: &str| {
            let error = Uri::parse(&format!("mongodb://h/?{query}")).unwrap_err().to_string();
            assert!(error.contains(expect), "{query}: {error}");
        };
        refused("tls=1", "tls is true or false, not \"1\"");
        refused("tls=true&ssl=false", "two values");
        refused("tlsInsecure=true", "tlsInsecure is of no use without tls=true");
        refused("tls=false&tlsCAFile=f", "tlsCAFile is of no use without tls=true");
        refused("tls=true&tlsInsecure=true&tlsAllowInvalidHostnames=false", "cannot be combined with them");
        refused("tls=true&tlsCRLFile=f", "tlsCRLFile is not supported");
        refused("tlsCertificateKeyFilePassword=p", "tlsCertificateKeyFilePassword is of no use without tls=true");
        refused("authMechanism=MONGODB-X509", "MONGODB-X509 needs tls=true");
        refused("tls=true&tlsCAFile=/no/such%20file", "tlsCAFile /no/such file: No such file");
    }

    #[test]
    fn users() {
        let check = |text: &str, user: &str, password: &str, source: &str, mechanism: Option<Mechanism>| {
            let uri = Uri::parse(text).unwrap();
            let (user, password, source) = (user.to_owned(), password.to_owned(), source.to_owned());
            assert_eq!(uri.options().credential, Some(Credential { user, password, source, mechanism }), "{text}");
            assert_eq!(uri.address, "h:1");
        };
        check("mongodb://u:p@h:1", "u", "p", "admin", None);
        check("mongodb://u:p@h:1/shop", "u", "p", "shop", None);
        check("mongodb://u%40x:p%3a%2F%25@h:1/d?authSource=a", "u@x", "p:/%", "a", None);
        check("mongodb://u:@h:1/?authMechanism=SCRAM-SHA-1", "u", "", "admin", Some(Mechanism::ScramSha1));
        assert_eq!(Uri::parse("mongodb://h:1/?authSource=a").unwrap().options().credential, None);
        for bad in ["u@h", ":p@h", "u:p@x@h", "u:a:b@h", "u:p%4@h", "u:%ff@h", "u:p@h/?authMechanism=PLAIN"] {
            let error = Uri::parse(&format!("mongodb://{bad}")).unwrap_err().to_string();
            assert!(!error.contains("@h"), "{error}");
        }
        let shown = format!("{:?}", Uri::parse("mongodb://u:secret@h").unwrap());
        assert!(shown.contains("Credential") && !shown.contains("secret"), "{shown}");
    }
}
