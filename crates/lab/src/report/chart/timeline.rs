//! Events with a length as bars: chunk moves, switches of engine, checkpoints, recoveries, stalls.

use super::{Axis, Chart, ChartGroup, Series, Shape};
use crate::results::{Event, EventKind, Phase, Run, StepRecord};

pub(crate) fn timeline(run: &Run) -> Option<ChartGroup> {
    let systems: Vec<(&str, &StepRecord)> = run
        .record
        .systems
        .iter()
        .filter_map(|system| {
            let first = system.steps.iter().find(|step| step.phase == Phase::Run).or(system.steps.first())?;
            Some((system.name.as_str(), first))
        })
        .collect();
    let names: Vec<String> = systems.iter().map(|(name, _)| (*name).to_owned()).collect();
    let mut chart = Chart::new(
        Shape::Timeline,
        "",
        Axis::of("seconds since the system's first step"),
        Axis::categories("", &names),
    );
    let timed = |event: &&Event| !matches!(event.kind, EventKind::Phase | EventKind::Note);
    for (row, (system, first)) in systems.iter().enumerate() {
        let events: Vec<&Event> = run.events.iter().filter(timed).filter(|event| event.system == *system).collect();
        let mut series = Series::of(system, []);
        for event in events {
            let begin = event.t_s - first.begin_s;
            let end = event.end_s.map_or(begin, |end| end - first.begin_s);
            series.points.push(vec![Some(begin), Some(end), Some(row as f64)]);
            let place = run.place(event).map_or(String::new(), |place| format!(" ({place})"));
            series.texts.push(format!("{}: {}{place}", event.kind.name().replace('_', " "), event.text));
        }
        chart.series.push(series);
    }
    ChartGroup::of("timeline", "Time line of events", "", "", vec![chart])
}
