//! Joins `server` and `command`: frames on one side, requests on the other.

use std::sync::{Arc, OnceLock};

use arbor_command::{Commands, Connection, Host};
use arbor_protocol::transport::{After, NetworkStatistics, Peer, Place};
use arbor_server::{Bell, Handler, Metrics, News, Session, Stop};

pub struct Front {
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

    fn refused(&self, peer: Peer) {
        self.commands.refused(peer.remote, peer.open);
    }
}

impl Session for Client {
    fn place(&self, frame: &[u8]) -> Place {
        self.commands.place(&self.connection, frame)
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
        let woken = self.connection.take_news()?;
        Some(Box::pin(woken))
    }

    fn place_of_more(&self) -> Place {
        self.commands.place_of_more(&self.connection)
    }

    fn panicked(&mut self, frame: &[u8], message: &str, reply: &mut Vec<u8>) {
        self.commands.panicked(&mut self.connection, frame, message, reply);
    }

    fn closed(&mut self, open: usize) {
        self.commands.close(&self.connection, open);
    }
}

/// Process functions that commands use.
pub struct Process {
    pub metrics: Arc<Metrics>,
    pub stop: Stop,
    pub bell: Bell,
}

impl Host for Process {
    fn network(&self) -> NetworkStatistics {
        self.metrics.statistics()
    }

    fn shut_down(&self) {
        self.stop.now();
    }

    fn topology_changed(&self) {
        self.bell.ring();
    }
}

/// The commands, for the signal handler, which is installed before they exist.
pub type CommandsCell = Arc<OnceLock<Arc<Commands>>>;
