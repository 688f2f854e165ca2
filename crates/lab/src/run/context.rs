//! The system and step that are running, the run's clock, and the observer of events.

use std::time::Instant;

use super::{Interrupt, Watch};
use crate::results::{Event, EventKind};

pub struct Context<'a> {
    /// The system's name, a row of the tables.
    pub system: &'a str,
    /// The step's, unique within the system.
    pub step: &'a str,
    /// Begin of the run's clock.
    pub began: Instant,
    pub interrupt: &'a Interrupt,
    pub watch: &'a mut dyn Watch,
}

impl Context<'_> {
    /// Seconds on the run's clock.
    pub fn seconds(&self, at: Instant) -> f64 {
        at.saturating_duration_since(self.began).as_secs_f64()
    }

    pub fn now(&self) -> f64 {
        self.seconds(Instant::now())
    }

    /// Something that happens now.
    pub fn report(&mut self, kind: EventKind, text: &str) {
        let (t_s, system, text) = (self.now(), self.system.to_owned(), text.to_owned());
        self.watch.event(&Event { t_s, end_s: None, system, kind, text });
    }

    /// Something that began at `t_s` and is over.
    pub fn report_span(&mut self, kind: EventKind, (t_s, end_s): (f64, f64), text: &str) {
        let (system, text) = (self.system.to_owned(), text.to_owned());
        self.watch.event(&Event { t_s, end_s: Some(end_s), system, kind, text });
    }
}
