//! Observer that publishes a run's progress on its live page.

use std::sync::Arc;
use std::time::Duration;

use super::{Estimate, Live, Moment, News};
use crate::results::{Event, StepRecord};
use crate::run::{Interval, Watch, points};

#[derive(Debug)]
pub struct Watcher {
    live: Arc<Live>,
    estimate: Estimate,
}

impl Watcher {
    pub fn new(live: Arc<Live>, estimate: Estimate) -> Watcher {
        Watcher { live, estimate }
    }
}

impl Watch for Watcher {
    fn planned(&mut self, steps: Duration) {
        self.estimate.planned(steps);
    }

    fn interval(&mut self, interval: &Interval) {
        self.estimate.interval(interval);
        let moment = Moment {
            system: &interval.system,
            step: &interval.step,
            clients: interval.clients,
            phase: interval.phase.name(),
            unit: interval.unit.name(),
            elapsed_s: interval.elapsed.as_secs_f64(),
            points: &points(interval),
        };
        self.live.publish(&News::Interval(&moment, &self.estimate));
    }

    fn event(&mut self, event: &Event) {
        self.estimate.event(event);
        self.live.publish(&News::Event(event));
    }

    fn step(&mut self, system: &str, step: &StepRecord) {
        self.estimate.step(system, step);
        self.live.publish(&News::Step { system, step });
    }
}
