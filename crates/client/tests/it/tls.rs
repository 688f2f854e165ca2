//! The client over TLS against a server of a few lines, with certificates made for the test.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::PathBuf;
use std::sync::Arc;

use arbor_bson::{ArrayBuf, DocBuf, ValueRef};
use arbor_client::{Client, ClientError};
use arbor_wire::{Command, Limits, Scratch, decode, frame_length};
use rcgen::{BasicConstraints, Certificate, CertificateParams, CertifiedIssuer, DnType, IsCa, KeyPair, date_time_ymd};
use rustls::pki_types::PrivateKeyDer;
use rustls::server::WebPkiClientVerifier;
use rustls::version::{TLS12, TLS13};
use rustls::{RootCertStore, ServerConfig, ServerConnection, SupportedProtocolVersion};
use tempfile::TempDir;

type Authority = CertifiedIssuer<'static, KeyPair>;

fn authority(name: &str) -> Authority {
    let mut params = CertificateParams::default();
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    params.distinguished_name.push(DnType::CommonName, name);
    CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap()
}

struct Identity {
    certificate: Certificate,
    key: KeyPair,
}

impl Identity {
    /// For `name` from the beginning of one year to that of another.
    fn new(name: &str, (from, to): (i32, i32), authority: &Authority) -> Identity {
        let mut params = CertificateParams::new(vec![name.to_owned()]).unwrap();
        (params.not_before, params.not_after) = (date_time_ymd(from, 1, 1), date_time_ymd(to, 1, 1));
        let key = KeyPair::generate().unwrap();
        Identity { certificate: params.signed_by(&key, authority).unwrap(), key }
    }

    fn pem(&self) -> String {
        self.certificate.pem() + &self.key.serialize_pem()
    }
}

const NOW: (i32, i32) = (2020, 4000);
const HOST: &str = "127.0.0.1";

/// Two authorities, of which the servers' certificates are by the first, and files.
struct World {
    ours: Authority,
    foreign: Authority,
    directory: TempDir,
}

impl World {
    fn new() -> World {
        let (ours, foreign) = (authority("ours"), authority("foreign"));
        let world = World { ours, foreign, directory: tempfile::tempdir().unwrap() };
        world.file("ours.pem", &world.ours.pem());
        world.file("foreign.pem", &world.foreign.pem());
        world
    }

    fn file(&self, name: &str, text: &str) {
        std::fs::write(self.path(name), text).unwrap();
    }

    fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    /// `@FILE` in `options` is a file of the directory.
    fn connect(&self, port: u16, options: &str) -> Result<Client, ClientError> {
        let options = options.replace('@', &format!("{}/", self.directory.path().display()));
        Client::connect(&format!("mongodb://{HOST}:{port}/?socketTimeoutMS=20000{options}"))
    }

    fn accepted(&self, port: u16, options: &str) {
        exercise(self.connect(port, options).unwrap_or_else(|error| panic!("{options}: {error}")));
    }

    /// Every one of `expect` is said.
    fn refused(&self, port: u16, options: &str, expect: &[&str]) {
        let error = match self.connect(port, options) {
            Err(error) => error.to_string(),
            Ok(_) => panic!("{options}: let in"),
        };
        assert!(expect.iter().all(|part| error.contains(part)), "{options}: {error}");
    }

    /// A server without fault.
    fn usual(&self) -> Manners<'static> {
        Manners::with(Identity::new(HOST, NOW, &self.ours))
    }
}

/// Behaviour of a test server.
struct Manners<'a> {
    identity: Identity,
    /// Authority that must have signed the certificates of its clients.
    clients: Option<&'a Authority>,
    version: &'static SupportedProtocolVersion,
}

impl Manners<'_> {
    fn with(identity: Identity) -> Manners<'static> {
        Manners { identity, clients: None, version: &TLS13 }
    }

    fn config(&self) -> ServerConfig {
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let config = ServerConfig::builder_with_provider(provider.clone()).with_protocol_versions(&[self.version]);
        let config = match self.clients {
            None => config.unwrap().with_no_client_auth(),
            Some(authority) => {
                let mut roots = RootCertStore::empty();
                roots.add(authority.der().clone()).unwrap();
                let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider).build().unwrap();
                config.unwrap().with_client_cert_verifier(verifier)
            }
        };
        let Identity { certificate, key } = &self.identity;
        config
            .with_single_cert(vec![certificate.der().clone()], PrivateKeyDer::try_from(key.serialize_der()).unwrap())
            .unwrap()
    }

    /// Serves for as long as the test runs; gives the port.
    fn serve(self) -> u16 {
        let config = Arc::new(self.config());
        accept(move |mut socket| {
            let mut connection = ServerConnection::new(config.clone()).unwrap();
            answer_all(&mut rustls::Stream::new(&mut connection, &mut socket));
        })
    }
}

fn accept(mut each: impl FnMut(TcpStream) + Send + 'static) -> u16 {
    let listener = TcpListener::bind((HOST, 0)).unwrap();
    let port = listener.local_addr().unwrap().port();
    std::thread::spawn(move || listener.incoming().for_each(|socket| each(socket.unwrap())));
    port
}

fn answer_all(stream: &mut (impl Read + Write)) {
    let (mut buffer, mut scratch, mut part) = (Vec::new(), Scratch::default(), [0; 5000]);
    while let Ok(n @ 1..) = stream.read(&mut part) {
        buffer.extend_from_slice(&part[..n]);
        while let Ok(Some(length)) = frame_length(&buffer) {
            if length > buffer.len() {
                break;
            }
            let command = decode(&buffer[..length], &mut scratch, Limits::default()).unwrap().into_command().unwrap();
            let mut out = Vec::new();
            command.reply_to.encode(1, answer(&command).as_doc(), &mut out);
            drop(command);
            if stream.write_all(&out).is_err() {
                return;
            }
            buffer.drain(..length);
        }
    }
}

const DOCUMENTS: i32 = 100;

/// `find` answers with 100 KB, which is several records of TLS.
fn answer(command: &Command<'_>) -> DocBuf {
    match command.name() {
        "hello" => match command.body.as_doc().get("compression") {
            Some(ValueRef::Array(names)) => DocBuf::new().with("compression", names).with("ok", 1.0),
            _ => DocBuf::new().with("ok", 1.0),
        },
        "find" => {
            let docs: Vec<DocBuf> =
                (0..DOCUMENTS).map(|n| DocBuf::new().with("_id", n).with("x", "y".repeat(1000).as_str())).collect();
            let docs: ArrayBuf = docs.iter().collect();
            let cursor = DocBuf::new().with("firstBatch", &docs).with("id", 0i64).with("ns", "d.c");
            DocBuf::new().with("cursor", &cursor).with("ok", 1.0)
        }
        _ => DocBuf::new()
            .with("n", command.sequences.first().map_or(0, |documents| documents.len() as i32))
            .with("ok", 1),
    }
}

fn exercise(mut client: Client) {
    let find = DocBuf::new().with("find", "c").with("$db", "d");
    for _ in 0..3 {
        assert_eq!(client.find_raw(find.as_bytes(), |_| {}).unwrap() as i32, DOCUMENTS);
    }
    // 2 MB in one message.
    let large: Vec<DocBuf> = (0..200).map(|n| DocBuf::new().with("x", n.to_string().repeat(10_000).as_str())).collect();
    let insert = DocBuf::new().with("insert", "c");
    assert_eq!(client.command_with("d", &insert, &[("documents", &large)]).unwrap().number("n"), Some(200.0));
}

const OURS: &str = "&tls=true&tlsCAFile=@ours.pem";
const FOREIGN: &str = "&tls=true&tlsCAFile=@foreign.pem";

#[test]
fn a_certificate_by_an_authority_for_the_host_is_trusted() {
    let world = World::new();
    for version in [&TLS13, &TLS12] {
        let port = Manners { version, ..world.usual() }.serve();
        world.accepted(port, OURS);
        world.accepted(port, "&ssl=true&tlsCAFile=@ours.pem&tlsAllowInvalidCertificates=false");
        world.accepted(port, &format!("{OURS}&compressors=snappy"));
        // Connections that share a `Tls` resume sessions of the first.
        let uri = format!("mongodb://{HOST}:{port}/?tls=true&tlsCAFile={}", world.path("ours.pem").display());
        let uri = arbor_client::Uri::parse(&uri).unwrap();
        for _ in 0..3 {
            exercise(Client::connect_with(&uri.address, uri.options()).unwrap());
        }
    }
    let port = Manners::with(Identity::new("localhost", NOW, &world.ours)).serve();
    let uri = format!("localhost:{port}/?tls=true&tlsCAFile={}", world.path("ours.pem").display());
    exercise(Client::connect(&uri).unwrap());
}

#[test]
fn an_untrusted_certificate_is_reported_with_the_reason() {
    let world = World::new();
    let check = |identity: Identity, options: &str, expect: &[&str]| {
        world.refused(Manners::with(identity).serve(), options, expect);
    };
    let ours = &world.ours;
    let authority = ["not trusted: no authority of ", "foreign.pem signed it", "tlsAllowInvalidCertificates=true"];
    check(Identity::new(HOST, NOW, ours), FOREIGN, &authority);
    check(Identity::new(HOST, NOW, ours), "&tls=true", &["tlsCAFile", "of this system"]);
    check(Identity::new(HOST, (2000, 2001), ours), OURS, &["the server's certificate expired ", " days ago"]);
    check(Identity::new(HOST, (3000, 3001), ours), OURS, &["valid in ", " days only; is the clock right?"]);
    let other = ["not for \"127.0.0.1\"", "other.example", "tlsAllowInvalidHostnames=true"];
    check(Identity::new("other.example", NOW, ours), OURS, &other);
    check(Identity::new("other.example", NOW, ours), &format!("{FOREIGN}&tlsAllowInvalidHostnames=true"), &authority);
    check(Identity::new(HOST, (2000, 2001), ours), &format!("{OURS}&tlsAllowInvalidHostnames=true"), &["expired"]);
}

#[test]
fn an_authority_that_serves_itself_is_not_trusted() {
    let world = World::new();
    let mut params = CertificateParams::new(vec![HOST.to_owned()]).unwrap();
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let key = KeyPair::generate().unwrap();
    let certificate = params.self_signed(&key).unwrap();
    world.file("self.pem", &certificate.pem());
    let port = Manners::with(Identity { certificate, key }).serve();
    world.refused(port, "&tls=true&tlsCAFile=@self.pem", &["CA:TRUE", "tlsAllowInvalidCertificates=true"]);
    world.accepted(port, "&tls=true&tlsInsecure=true");
}

#[test]
fn a_user_may_trust_more() {
    let world = World::new();
    let name = "&tlsAllowInvalidHostnames=true";
    let certificate = "&tlsAllowInvalidCertificates=true";
    for version in [&TLS13, &TLS12] {
        let serve = |name, years| {
            let identity = Identity::new(name, years, &world.ours);
            Manners { version, ..Manners::with(identity) }.serve()
        };
        world.accepted(serve("other.example", NOW), &format!("{OURS}{name}"));
        world.accepted(serve("other.example", NOW), &format!("{FOREIGN}{name}{certificate}"));
        let expired = serve("other.example", (2000, 2001));
        world.accepted(expired, &format!("&tls=true{certificate}"));
        world.accepted(expired, "&tls=true&tlsInsecure=true");
    }
}

#[test]
fn a_server_that_wants_a_certificate_gets_one() {
    let world = World::new();
    world.file("client.pem", &Identity::new("client", NOW, &world.foreign).pem());
    world.file("stranger.pem", &Identity::new("client", NOW, &world.ours).pem());
    for version in [&TLS13, &TLS12] {
        let port = Manners { version, clients: Some(&world.foreign), ..world.usual() }.serve();
        world.accepted(port, &format!("{OURS}&tlsCertificateKeyFile=@client.pem"));
        world.accepted(port, "&tls=true&tlsInsecure=true&tlsCertificateKeyFile=@client.pem");
        world.refused(port, OURS, &["TLS: the server refuses clients without a certificate (tlsCertificateKeyFile"]);
        let stranger = format!("{OURS}&tlsCertificateKeyFile=@stranger.pem");
        world.refused(
            port,
            &stranger,
            &["TLS: the server refuses us (UnknownCA) with the certificate of ", "stranger.pem"],
        );
    }
}

#[test]
fn a_server_without_tls_is_found_out() {
    let world = World::new();
    let hangs_up = accept(|mut socket| {
        let _ = socket.read(&mut [0; 5000]);
    });
    let answers = accept(|mut socket| {
        let _ = socket.read(&mut [0; 5000]);
        let _ = socket.write_all(b"HTTP/1.0 400 Bad Request\r\n\r\n");
    });
    for port in [hangs_up, answers, accept(drop)] {
        world.refused(port, OURS, &["TLS: the server does not answer in TLS; it may be without TLS"]);
    }
    // And one with TLS does not talk to a client without.
    let error = world.connect(world.usual().serve(), "").unwrap_err();
    assert!(matches!(error, ClientError::Io(_)), "{error}");
}

#[test]
fn invalid_files_are_reported() {
    let world = World::new();
    let (pem, other) = (Identity::new("client", NOW, &world.ours).pem(), Identity::new("client", NOW, &world.ours).key);
    let certificate = pem.split("-----BEGIN PRIVATE").next().unwrap();
    let encrypted = other.serialize_pem().replace("PRIVATE", "ENCRYPTED PRIVATE");
    world.file("empty.pem", "");
    world.file("broken.pem", &world.ours.pem().replacen("M", "?", 1));
    world.file("cut.pem", &world.ours.pem()[..100]);
    world.file("words.pem", "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n");
    world.file("no-key.pem", certificate);
    world.file("wrong-key.pem", &(certificate.to_owned() + &other.serialize_pem()));
    world.file("encrypted.pem", &(certificate.to_owned() + &encrypted));
    let port = world.usual().serve();
    let authorities = |file: &str, expect: &str| {
        world.refused(port, &format!("&tls=true&tlsCAFile=@{file}"), &["tlsCAFile ", file, expect]);
    };
    authorities("missing.pem", "No such file");
    authorities("empty.pem", "it holds no certificate in PEM");
    authorities("broken.pem", "base64");
    authorities("cut.pem", "missing section end marker");
    authorities("words.pem", "a certificate in it is broken");
    let own = |file: &str, expect: &str| {
        let options = format!("{OURS}&tlsCertificateKeyFile=@{file}");
        world.refused(port, &options, &["tlsCertificateKeyFile ", file, expect]);
    };
    own("missing.pem", "No such file");
    own("empty.pem", "it holds no certificate in PEM");
    own("no-key.pem", "it holds no private key");
    own("wrong-key.pem", "its key is not the key of its certificate");
    own("encrypted.pem", "the key is encrypted");
}
