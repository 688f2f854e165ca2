//! Joins `server` and `command`: frames on one side, requests on the other.

use std::path::Path;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use arbor_base::Prefetch;
use arbor_command::{Commands, Connection, Host, Keys};
use arbor_member::Dialer;
use arbor_protocol::transport::{After, NetworkStatistics, Peer, Place, Refusal};
use arbor_server::{Bell, Handler, Metrics, News, Session, Stop, Tls};
use arbor_txn::fetch::{self, Begun};

use crate::config::Settings;
use crate::security;

pub(crate) struct Front {
    pub commands: Arc<Commands>,
}

struct Client {
    commands: Arc<Commands>,
    connection: Connection,
}

impl Handler for Front {
    fn open(&self, peer: Peer) -> Box<dyn Session> {
        let connection = self.commands.open(peer);
        Box::new(Client { commands: self.commands.clone(), connection })
    }

    fn refused(&self, peer: &Peer, refusal: Refusal) {
        self.commands.refused(peer, refusal);
    }
}

impl Session for Client {
    fn place(&self, frame: &[u8]) -> Place {
        self.commands.place(&self.connection, frame)
    }

    fn prefetch(&mut self, frame: &[u8]) -> Prefetch {
        self.commands.prefetch(&mut self.connection, frame)
    }

    fn frame_bytes_max(&self) -> usize {
        self.commands.frame_bytes_max(&self.connection)
    }

    fn silence_max(&self) -> Option<Duration> {
        self.commands.silence_max(&self.connection)
    }

    fn handle(&mut self, frame: &[u8], reply: &mut Vec<u8>) -> After {
        self.commands.handle(&mut self.connection, frame, reply)
    }

    fn more(&mut self, reply: &mut Vec<u8>) -> After {
        self.commands.more(&mut self.connection, reply)
    }

    fn release_reply_memory(&mut self) {
        self.connection.reply_memory = None;
    }

    fn news(&mut self) -> Option<News> {
        self.connection.take_news()
    }

    fn place_of_more(&self) -> Place {
        self.commands.place_of_more(&self.connection)
    }

    fn too_large(&mut self, head: &[u8], bytes_max: u64, reply: &mut Vec<u8>) -> After {
        self.commands.too_large(&mut self.connection, head, bytes_max, reply)
    }

    fn panicked(&mut self, frame: &[u8], message: &str, reply: &mut Vec<u8>) {
        self.commands.panicked(&mut self.connection, frame, message, reply);
    }

    fn closed(&mut self, open: usize) {
        self.commands.close(&self.connection, open);
    }
}

/// Process functions that commands use.
pub(crate) struct Process {
    pub metrics: Arc<Metrics>,
    pub stop: Stop,
    pub bell: Bell,
    /// None: connections are in plain text.
    pub tls: Option<Arc<Tls>>,
    pub settings: Settings,
    /// Connections to other members.
    pub dialer: Dialer,
}

impl Host for Process {
    fn network(&self) -> NetworkStatistics {
        self.metrics.statistics()
    }

    fn rotate_certificates(&self) -> Result<(), String> {
        if let Some(tls) = &self.tls {
            tls.reload()?;
        }
        self.dialer.replace(security::credentials(&self.settings)?);
        Ok(())
    }

    fn keys(&self) -> Result<Option<Keys>, String> {
        self.settings.key_file.as_deref().map(security::keys).transpose()
    }

    fn certificate(&self) -> Option<Arc<[u8]>> {
        self.tls.as_ref().map(|tls| tls.certificate())
    }

    fn shut_down(&self) {
        self.stop.now();
    }

    fn make_directory(
        &self,
        peer: &dyn fetch::Peer,
        state: &Begun,
        home: &str,
        directory: &Path,
    ) -> Result<(), String> {
        crate::backup::copy::make(peer, state, home, directory)
    }

    fn append_to_directory(&self, directory: &Path, epoch: u64, payloads: &[&[u8]]) -> Result<(), String> {
        crate::backup::copy::append(directory, epoch, payloads)
    }

    fn has_left(&self, connection: u64) -> bool {
        self.stop.has_left(connection)
    }

    fn topology_changed(&self) {
        self.bell.ring();
    }

    fn allocator(&self) -> Vec<(&'static str, u64)> {
        crate::allocator::statistics()
    }
}

/// The commands, for the signal handler, which is installed before they exist.
pub(crate) type CommandsCell = Arc<OnceLock<Arc<Commands>>>;
