//! The target and its sessions.

use std::path::Path;

use arbor_client::{Credential, Mechanism, TlsOptions, Trust};
use mongodb::options::{AuthMechanism, ClientOptions, Credential as Login, Tls, TlsOptions as Secrecy};
use mongodb::sync::Client;
use serde_json::Value;

use super::sysbench::Sysbench;
use super::ycsb::Ycsb;
use crate::target::mongodb::MongoDb;
use crate::target::{Driver, Failure, Session, Sizes, Statistics, Target};
use crate::workload::ycsb::YcsbOperation;
use crate::workload::{Answer, Collection, Found, Operation};
use crate::{Error, Result};

/// One connection for each client thread, as the lean client has; the driver's own limit is ten for all.
const POOL: u32 = 4096;
/// Connections it opens at the same time; its own limit is two, which makes a thousand clients wait for minutes.
const CONNECTING: u32 = 16;

pub(super) type Done<T> = std::result::Result<T, Failure>;

#[derive(Debug)]
pub(super) struct Official {
    name: String,
    lean: MongoDb,
    client: Client,
}

impl Official {
    pub(super) fn new(lean: MongoDb) -> Result<Official> {
        let name = Driver::Official.named(lean.name().trim_end_matches(".official"));
        let failed = |error: mongodb::error::Error| Error::Server { server: name.clone(), reason: error.to_string() };
        let uri = format!("mongodb://{}/?directConnection=true&appName=arbor+lab", lean.address());
        let mut options = ClientOptions::parse(&uri).run().map_err(failed)?;
        options.max_pool_size = Some(POOL);
        options.max_connecting = Some(CONNECTING);
        options.credential = lean.credential().map(login);
        options.tls = lean.tls().map(secrecy).transpose()?;
        let client = Client::with_options(options).map_err(failed)?;
        Ok(Official { name, lean, client })
    }
}

impl Target for Official {
    fn name(&self) -> &str {
        &self.name
    }

    fn connect(&self) -> Result<Box<dyn Session>> {
        Ok(Box::new(OfficialSession {
            lean: self.lean.connect()?,
            sysbench: Sysbench::new(&self.client),
            ycsb: Ycsb::new(&self.client),
        }))
    }

    fn process(&self) -> Option<u32> {
        self.lean.process()
    }

    fn directory(&self) -> Option<&Path> {
        self.lean.directory()
    }

    fn about(&self) -> Result<Value> {
        let mut about = self.lean.about()?;
        about["driver"] = "the crate mongodb, blocking API".into();
        Ok(about)
    }

    fn statistics(&self) -> Option<Box<dyn Statistics>> {
        self.lean.statistics()
    }
}

fn login(credential: &Credential) -> Login {
    let Credential { user, password, source, mechanism } = credential.clone();
    let mechanism = mechanism.map(|mechanism| match mechanism {
        Mechanism::ScramSha1 => AuthMechanism::ScramSha1,
        Mechanism::ScramSha256 => AuthMechanism::ScramSha256,
    });
    let login = Login::builder().username(user).password(password).source(source);
    login.mechanism(mechanism).build()
}

/// Returns TLS options. With rustls the driver cannot skip host names only, and has a compiled-in list of authorities
/// instead of the system's.
fn secrecy(options: &TlsOptions) -> Result<Tls> {
    if options.trust == Trust::AnyName {
        let missing = "the official driver has no tlsAllowInvalidHostnames; tlsAllowInvalidCertificates it has";
        return Err(Error::Usage(missing.to_owned()));
    }
    let mut secrecy = Secrecy::default();
    secrecy.ca_file_path = options.ca_file.clone();
    secrecy.cert_key_file_path = options.certificate_key_file.clone();
    secrecy.allow_invalid_certificates = (options.trust == Trust::Anything).then_some(true);
    Ok(Tls::Enabled(secrecy))
}

struct OfficialSession {
    lean: Box<dyn Session>,
    sysbench: Sysbench,
    ycsb: Ycsb,
}

impl From<mongodb::error::Error> for Failure {
    fn from(error: mongodb::error::Error) -> Failure {
        use mongodb::error::{ErrorKind, WriteFailure};
        let code = match error.kind.as_ref() {
            ErrorKind::Command(command) => command.code.to_string(),
            ErrorKind::Write(WriteFailure::WriteError(write)) => write.code.to_string(),
            ErrorKind::Io(error) => format!("io: {}", error.kind()),
            _ => "driver".to_owned(),
        };
        // The driver connects again by itself.
        Failure { code, message: error.to_string(), broken: false }
    }
}

impl Session for OfficialSession {
    fn execute(&mut self, operation: &Operation<'_>) -> Done<Answer> {
        match operation {
            Operation::Sysbench(statement) => self.sysbench.execute(statement).map(Answer::rows),
            Operation::Ycsb(YcsbOperation::Load(_) | YcsbOperation::LoadByReplacing(_)) => self.lean.execute(operation),
            Operation::Ycsb(operation) => self.ycsb.execute(operation).map(Answer::rows),
            _ => Err(Failure::unsupported("the official driver's session")),
        }
    }

    fn create(&mut self, collection: &Collection) -> Done<()> {
        self.lean.create(collection)
    }

    fn create_late_indexes(&mut self, collection: &Collection) -> Done<()> {
        self.lean.create_late_indexes(collection)
    }

    fn remove(&mut self, collection: &Collection) -> Done<()> {
        self.lean.remove(collection)
    }

    fn find(&mut self, collection: &Collection) -> Done<Found> {
        self.lean.find(collection)
    }

    fn scan(&mut self, collection: &Collection) -> Done<u64> {
        self.lean.scan(collection)
    }

    fn sizes(&mut self, database: &str) -> Done<Sizes> {
        self.lean.sizes(database)
    }
}
