//! Joins `server` and `command`: frames on one side, requests on the other.

use std::sync::{Arc, OnceLock};

use arbor_command::{Commands, Connection, Host, NetworkFigures};
use arbor_server::{After, Bell, Handler, Metrics, News, Peer, Place, Session, Stop};

pub struct Front {
    pub commands: Arc<Commands>,
}

struct Client {
    commands: Arc<Commands>,
    connection: Connection,
}

impl Handler for Front {
    fn open(&self, peer: Peer) -> Box<dyn Session> {
        let of_command = arbor_command::Peer { connection: peer.connection, remote: peer.remote, local: peer.local };
        let connection = self.commands.open(of_command, peer.open);
        Box::new(Client { commands: self.commands.clone(), connection })
    }

    fn refused(&self, peer: Peer) {
        self.commands.refused(peer.remote, peer.open);
    }
}

impl Session for Client {
    fn place(&self, frame: &[u8]) -> Place {
        place(self.commands.place(&self.connection, frame))
    }

    fn handle(&mut self, frame: &[u8], reply: &mut Vec<u8>) -> After {
        after(self.commands.handle(&mut self.connection, frame, reply))
    }

    fn more(&mut self, reply: &mut Vec<u8>) -> After {
        after(self.commands.more(&mut self.connection, reply))
    }

    fn release_reply_memory(&mut self) {
        self.connection.reply_memory = None;
    }

    fn news(&mut self) -> Option<News> {
        let woken = self.connection.take_news()?;
        Some(Box::pin(woken))
    }

    fn place_of_more(&self) -> Place {
        place(self.commands.place_of_more(&self.connection))
    }

    fn panicked(&mut self, frame: &[u8], message: &str, reply: &mut Vec<u8>) {
        self.commands.panicked(&mut self.connection, frame, message, reply);
    }

    fn closed(&mut self, open: usize) {
        self.commands.close(&self.connection, open);
    }
}

fn place(place: arbor_command::Place) -> Place {
    match place {
        arbor_command::Place::Inline => Place::Inline,
        arbor_command::Place::Blocking => Place::Blocking,
    }
}

fn after(after: arbor_command::After) -> After {
    match after {
        arbor_command::After::Continue => After::Continue,
        arbor_command::After::More => After::More,
        arbor_command::After::Wait { until } => After::Wait { until },
        arbor_command::After::Close => After::Close,
    }
}

/// What commands ask of the process.
pub struct Process {
    pub metrics: Arc<Metrics>,
    pub stop: Stop,
    pub bell: Bell,
}

impl Host for Process {
    fn network(&self) -> NetworkFigures {
        let figures = self.metrics.figures();
        NetworkFigures {
            connections_open: figures.connections_open as u64,
            connections_created: figures.connections_created,
            connections_rejected: figures.connections_rejected,
            bytes_in: figures.bytes_in,
            bytes_out: figures.bytes_out,
            requests: figures.requests,
            requests_pooled: figures.requests_pooled,
        }
    }

    fn shut_down(&self) {
        self.stop.now();
    }

    fn topology_changed(&self) {
        self.bell.ring();
    }
}

/// The commands, for the signal handler that is there before them.
pub type Later = Arc<OnceLock<Arc<Commands>>>;
