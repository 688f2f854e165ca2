//! The coordinator of a set of several members, as the settings name it: an etcd that runs elsewhere, one that the server runs by itself, or, for
//! tests, a file that the members on one machine share.

use std::io;
use std::net::IpAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use arbor_bson::{ArrayBuf, DocBuf};
use arbor_etcd::{Etcd, EtcdMember, EtcdOptions, Keeper, KeeperOptions, TlsFiles};
use arbor_member::{Coordinators, Place};
use arbor_protocol::log::{Log, events};
use arbor_repl::{Coordinator, SharedFile};
use arbor_server::Listeners;

use crate::config::Settings;
use crate::supervised;

/// Names a file that the members of a set on one machine share as their coordinator. For tests.
const FILE_VARIABLE: &str = "ARBOR_COORDINATOR_FILE";
const TIMEOUT: Duration = Duration::from_millis(1500);

/// Returns the coordinators of this server.
pub(crate) fn of(settings: &Settings, listeners: &Listeners, log: &Arc<Log>) -> Box<dyn Coordinators> {
    if let Some(path) = std::env::var_os(FILE_VARIABLE) {
        return Box::new(SharedFiles { path: path.into() });
    }
    let given = &settings.etcd;
    let tls = TlsFiles { ca: given.ca_file.clone(), certificate_key: given.certificate_key_file.clone() };
    let prefix = given.prefix.clone().unwrap_or_else(|| EtcdOptions::PREFIX.to_owned());
    if !given.endpoints.is_empty() {
        return Box::new(External { endpoints: given.endpoints.clone(), prefix, tls, log: log.clone() });
    }
    let listen = listeners.iter().filter_map(|listener| listener.local_addr().ok());
    let mut listen: Vec<IpAddr> = listen.map(|address| address.ip()).collect();
    listen.sort_unstable();
    listen.dedup();
    let options = KeeperOptions {
        binary: given.binary.clone(),
        launcher: supervised::launcher(),
        dbpath: settings.dbpath.clone(),
        listen,
        prefix,
        tls,
        allow_insecure: settings.allow_insecure,
    };
    Box::new(Managed { keeper: Keeper::new(options, log) })
}

struct External {
    endpoints: Vec<String>,
    prefix: String,
    tls: TlsFiles,
    log: Arc<Log>,
}

impl Coordinators for External {
    fn open(&self, place: &Place<'_>) -> io::Result<Arc<dyn Coordinator>> {
        let options = EtcdOptions {
            endpoints: self.endpoints.clone(),
            prefix: self.prefix.clone(),
            set: place.set.to_owned(),
            tls: self.tls.clone(),
            timeout: TIMEOUT,
        };
        let etcd = Etcd::new(&options)?;
        match etcd.health() {
            Ok(health) => health.warnings.iter().for_each(|text| {
                self.log.startup_warning(events::ETCD_OLD, DocBuf::new().with("reason", text.as_str()));
            }),
            // A member whose etcd is away for now works as long as the set does not change.
            Err(arbor_etcd::Error::Unreachable(_) | arbor_etcd::Error::Unknown(_)) if !place.founds => {}
            Err(error) => return Err(error.into()),
        }
        Ok(Arc::new(etcd))
    }

    fn describe(&self) -> DocBuf {
        let endpoints = self.endpoints.iter().map(String::as_str).collect::<ArrayBuf>();
        DocBuf::new().with("kind", "etcd").with("endpoints", &endpoints).with("prefix", self.prefix.as_str())
    }
}

struct Managed {
    keeper: Arc<Keeper>,
}

impl Coordinators for Managed {
    fn open(&self, place: &Place<'_>) -> io::Result<Arc<dyn Coordinator>> {
        let etcd = self.keeper.open(place.set, place.own, place.hosts, place.founds)?;
        Ok(etcd)
    }

    fn describe(&self) -> DocBuf {
        let mut doc = DocBuf::new().with("kind", "managed etcd");
        if let Some(pid) = self.keeper.pid() {
            doc.append("pid", i64::from(pid));
        }
        let members = self.keeper.members();
        for (field, learns) in [("voters", false), ("learners", true)] {
            let of_kind = members.iter().filter(|member| member.is_learner == learns);
            doc.append(field, &of_kind.map(EtcdMember::shown).collect::<ArrayBuf>());
        }
        doc
    }
}

impl Drop for Managed {
    fn drop(&mut self) {
        self.keeper.stop();
    }
}

struct SharedFiles {
    path: PathBuf,
}

impl Coordinators for SharedFiles {
    fn open(&self, _: &Place<'_>) -> io::Result<Arc<dyn Coordinator>> {
        Ok(Arc::new(SharedFile::new(self.path.clone())))
    }

    fn describe(&self) -> DocBuf {
        DocBuf::new().with("kind", "sharedFile").with("path", &*self.path.to_string_lossy())
    }
}
