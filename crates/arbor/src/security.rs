//! Rules of the start: who can reach a server without access control, and the key that members of a cluster share.

use std::net::SocketAddr;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::Path;
use std::sync::Arc;

use arbor_bson::DocBuf;
use arbor_command::{Accounts, ClusterAuth, Keys};
use arbor_member::Credentials;
use arbor_protocol::log::{Log, events};
use arbor_server::{Listeners, Tls, TlsOptions, TlsVersions, UnixSocket};

use crate::config::{Settings, TlsMode};
use crate::failure::{BAD_OPTIONS, CANNOT_LISTEN, Failure};

/// Characters of a key, without white space.
const KEY_CHARACTERS: std::ops::RangeInclusive<usize> = 6..=1024;

/// Returns the accounts of this server, with the keys of its key file.
pub(crate) fn accounts(settings: &Settings) -> Result<Accounts, Failure> {
    let refused = |reason: &str| Failure::new(BAD_OPTIONS, reason.to_owned());
    let cluster = settings.cluster_auth;
    if cluster.accepts_certificates() && settings.tls.mode == TlsMode::Disabled {
        return Err(refused("security.clusterAuthMode: certificates need TLS (net.tls.mode)"));
    }
    if settings.transition_to_auth && settings.key_file.is_none() && cluster != ClusterAuth::X509 {
        return Err(refused(
            "security.transitionToAuth: members need a key file or certificates (clusterAuthMode x509)",
        ));
    }
    let keys = settings.key_file.as_deref().map(keys).transpose().map_err(|reason| refused(&reason))?;
    let mut accounts = Accounts::new(settings.has_access_control(), keys, cluster);
    accounts.member = settings.tls.member.clone();
    Ok(accounts)
}

/// Reads the keys of a key file. Errors: others than its owner may read the file; it holds no key.
pub(crate) fn keys(path: &Path) -> Result<Keys, String> {
    let keys = read_keys(path).and_then(|texts| Keys::of(&texts));
    keys.map_err(|reason| format!("security.keyFile {}: {reason}", path.display()))
}

/// Returns what this server shows to other members of its set, or a router to those of the cluster. Errors: a file of it cannot be read.
pub(crate) fn credentials(settings: &Settings) -> Result<Credentials, String> {
    let app_name = match (&settings.config_db, &settings.replica_set) {
        (Some(_), _) => "arbor route",
        (None, Some(_)) => "arbor member",
        (None, None) => return Ok(Credentials::default()),
    };
    let tls = &settings.tls;
    let encrypts = matches!(tls.mode, TlsMode::Preferred | TlsMode::Required);
    let (certificate_key_file, key_password) = match &tls.cluster_file {
        Some(file) if encrypts => {
            check_secret(file).map_err(|reason| format!("tlsClusterFile {}: {reason}", file.display()))?;
            (Some(file), &tls.cluster_password)
        }
        _ => (tls.certificate_key_file.as_ref(), &tls.key_password),
    };
    let options = arbor_client::TlsOptions {
        ca_file: tls.ca_file.clone(),
        certificate_key_file: certificate_key_file.cloned(),
        key_password: key_password.clone(),
        trust: if tls.any_name { arbor_client::Trust::AnyName } else { arbor_client::Trust::Full },
    };
    let by_certificate = settings.cluster_auth.sends_certificate() && encrypts;
    let keys = match settings.key_file.as_deref().filter(|_| !by_certificate) {
        Some(path) => read_keys(path)?,
        None => Vec::new(),
    };
    let options = arbor_client::Options {
        app_name: app_name.to_owned(),
        by_certificate,
        tls: encrypts.then(|| arbor_client::Tls::new(options)).transpose()?,
        ..arbor_client::Options::default()
    };
    Ok(Credentials { options, keys, or_none: settings.transition_to_auth })
}

/// Returns TLS as the options want it. None: it is disabled. Errors: a file is missing or wrong. Without a CA file no certificate of a
/// client could be verified, so TLS does not start without one.
pub(crate) fn tls(settings: &Settings) -> Result<Option<Arc<Tls>>, Failure> {
    let tls = &settings.tls;
    if tls.mode == TlsMode::Disabled {
        return Ok(None);
    }
    let refused = |reason: String| Failure::new(BAD_OPTIONS, format!("TLS: {reason}"));
    let missing = |option: &str| refused(format!("{option} is missing, without which TLS does not start"));
    let certificate_key_file = tls.certificate_key_file.clone().ok_or_else(|| missing("tlsCertificateKeyFile"))?;
    let own_ca_file = tls.ca_file.clone().ok_or_else(|| missing("tlsCAFile"))?;
    let ca_file = tls.cluster_ca_file.clone().unwrap_or(own_ca_file);
    check_secret(&certificate_key_file)
        .map_err(|reason| refused(format!("tlsCertificateKeyFile {}: {reason}", certificate_key_file.display())))?;
    let options = TlsOptions {
        certificate_key_file,
        key_password: tls.key_password.clone(),
        ca_file,
        crl_file: tls.crl_file.clone(),
        versions: match (tls.without_1_2, tls.without_1_3) {
            (true, _) => TlsVersions::Only13,
            (_, true) => TlsVersions::Only12,
            _ => TlsVersions::Both,
        },
        certificate_optional: tls.certificate_optional,
        required: tls.mode == TlsMode::Required,
    };
    Ok(Some(Arc::new(Tls::open(options).map_err(refused)?)))
}

/// Errors: others than its owner may read the file.
fn check_secret(path: &Path) -> Result<(), String> {
    let file = std::fs::metadata(path).map_err(|error| error.to_string())?;
    // a file of root may be readable for its group, as secrets of containers are
    let others = if file.uid() == 0 { 0o037 } else { 0o077 };
    match file.permissions().mode() & others {
        0 => Ok(()),
        _ => Err("permissions are too open: others than its owner can read it".to_owned()),
    }
}

/// Reads the keys of a file: one key, or several as a list in YAML.
fn read_keys(path: &Path) -> Result<Vec<String>, String> {
    check_secret(path)?;
    let text = std::fs::read_to_string(path).map_err(|error| error.to_string())?;
    let items: Vec<&str> =
        text.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with('#')).collect();
    // no key begins with the dash of a list
    if items.first().is_none_or(|first| !first.starts_with('-')) {
        return Ok(vec![checked_key(&text)?]);
    }
    let item = |item: &&str| {
        let key = item.strip_prefix('-').ok_or("a list has one key in each line")?;
        checked_key(key.trim().trim_matches(['"', '\'']))
    };
    items.iter().map(item).collect()
}

fn checked_key(text: &str) -> Result<String, String> {
    let key: String = text.chars().filter(|character| !character.is_whitespace()).collect();
    if !key.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '+' | '/' | '=')) {
        return Err("invalid character: a key has those of base64".to_owned());
    }
    match KEY_CHARACTERS.contains(&key.len()) {
        true => Ok(key),
        false => Err(format!("the key has {} characters, not 6 to 1024", key.len())),
    }
}

/// Refuses to let other machines reach a server that asks for no login, unless that is requested by name.
pub(crate) fn check_addresses(settings: &Settings, listeners: &Listeners, log: &Log) -> Result<(), Failure> {
    let bound = listeners.iter().filter_map(|listener| listener.local_addr().ok());
    let Some(open) = bound.into_iter().find(is_reachable).filter(|_| !settings.has_access_control()) else {
        return Ok(());
    };
    if settings.allow_insecure {
        log.startup_warning(events::OPEN_TO_ALL, DocBuf::new().with("address", &open.to_string()));
        return Ok(());
    }
    let text = format!(
        "refusing to listen on {open} without access control: everyone who reaches this address could read and change \
         all data. Start with --auth (docs/security.md), bind to 127.0.0.1, or give --allowInsecure"
    );
    Err(Failure::new(BAD_OPTIONS, text))
}

/// Listens on the Unix socket. Where that fails and the socket was not asked for, the log says so and the server starts.
pub(crate) fn unix_socket(settings: &Settings, port: u16, log: &Log) -> Result<Option<UnixSocket>, Failure> {
    let Some(path) = settings.unix_socket_path(port) else { return Ok(None) };
    match UnixSocket::listen(&path, settings.unix_socket.permissions) {
        Ok(socket) => Ok(Some(socket)),
        Err(error) if settings.unix_socket.given => Err(Failure::new(CANNOT_LISTEN, error.to_string())),
        Err(error) => {
            let attributes = DocBuf::new().with("setting", "net.unixDomainSocket").with("reason", &error.to_string());
            log.startup_warning(events::SETTING_NOT_APPLIED, attributes);
            Ok(None)
        }
    }
}

/// Returns true for addresses that other machines may reach.
fn is_reachable(address: &SocketAddr) -> bool {
    !address.ip().to_canonical().is_loopback()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    #[test]
    fn keys_are_read_by_their_owner_alone() {
        let directory = tempfile::tempdir().unwrap();
        let check = |text: &str, mode: u32| {
            let path = directory.path().join("key");
            let mut file = std::fs::File::create(&path).unwrap();
            file.write_all(text.as_bytes()).unwrap();
            std::fs::set_permissions(&path, std::fs::Permissions::from_mode(mode)).unwrap();
            read_keys(&path)
        };
        assert_eq!(check("abc def\nghi=\n", 0o600).unwrap(), ["abcdefghi="]);
        assert_eq!(check("abcdefgh", 0o400).unwrap(), ["abcdefgh"]);
        assert_eq!(check("- abcdefgh\n- 'ijklmnop'\n", 0o400).unwrap(), ["abcdefgh", "ijklmnop"]);
        assert!(check("- abcdefgh\nijklmnop\n", 0o400).is_err());
        for (text, mode) in [("abcdefgh", 0o644), ("abcdefgh", 0o602), ("abc", 0o600), ("abcdef!!", 0o600), ("", 0o600)]
        {
            assert!(check(text, mode).is_err(), "{text} {mode:o}");
        }
        assert!(check(&"a".repeat(1025), 0o600).is_err());
        assert!(read_keys(&directory.path().join("none")).is_err());
    }

    #[test]
    fn addresses_of_the_machine_itself_are_not_reachable() {
        for (address, expect) in [
            ("127.0.0.1:1", false),
            ("127.9.9.9:1", false),
            ("[::1]:1", false),
            ("[::ffff:127.0.0.1]:1", false),
            ("0.0.0.0:1", true),
            ("[::]:1", true),
            ("10.0.0.1:1", true),
        ] {
            assert_eq!(is_reachable(&address.parse().unwrap()), expect, "{address}");
        }
    }
}
