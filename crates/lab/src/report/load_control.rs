//! Tables of what was asked of the load: thresholds, the highest rate that keeps a bound, the price of a million operations.

use super::grid::label_of_step;
use super::repeats::{Repeats, last_steps, place_of};
use crate::experiment::judged;
use crate::results::{Form, Phase, Record, Run, StepRecord, Table};

/// Name of the setting by which the tries of a search differ; 0 is the closed loop.
pub(crate) const TRY: &str = "try";
/// Metric of a try: its rate.
pub(crate) const TRIED_RATE: &str = "tried_rate";
/// Metric of the last try of a search: the highest rate that kept the bound, 0 if none did.
pub(crate) const KEPT_RATE: &str = "kept_rate";

/// Parameter of a report that is drawn with prices.
pub(crate) const PRICES: &str = "prices";

/// Returns the price of a million operations at each system's last step, on the instance types that the machine is.
pub(super) fn prices(run: &Run) -> Option<Table> {
    let prices = run.record.parameters.get(PRICES)?;
    let instance = |instance: &serde_json::Value| {
        Some((instance.get("name")?.as_str()?.to_owned(), instance.get("per_hour")?.as_f64()?))
    };
    let instances: Vec<(String, f64)> = prices.get("instances")?.as_array()?.iter().filter_map(instance).collect();
    let last = last_steps(run);
    let currency = prices.get("currency").and_then(serde_json::Value::as_str).unwrap_or_default();
    let title = format!(
        "price of a million {}, {currency}, {}",
        super::founding::plural(&run.record.unit),
        place_of(run, &last)
    );
    let mut table = Table::new(&title, "", instances.iter().map(|(name, _)| name.clone()));
    for last in &last {
        let rate = last.spread(StepRecord::per_second).filter(|rate| rate.median > 0.0);
        let price = |(_, per_hour): &(String, f64)| {
            rate.map_or("-".to_owned(), |rate| format!("{:.4}", per_hour / 3600.0 / rate.median * 1e6))
        };
        table.row(instances.iter().map(price), &last.system.name);
    }
    (!table.rows.is_empty() && !instances.is_empty()).then(|| table.about("prices").form(Form::NameFirst))
}

/// Returns the verdict on each threshold.
pub(super) fn thresholds(record: &Record) -> Option<Table> {
    let columns = ["system", "worst", "where", "verdict"].map(str::to_owned);
    let mut table = Table::new("thresholds", "threshold", columns);
    for judged in judged(record) {
        let (worst, place) = match &judged.worst {
            Some((value, step)) => (super::founding::short(*value), label_of_step(step)),
            None => ("-".to_owned(), "not measured".to_owned()),
        };
        let verdict = if judged.is_kept { "kept" } else { "NOT kept" };
        table.row([judged.system, worst, place, verdict.to_owned()], &judged.threshold);
    }
    (!table.rows.is_empty()).then(|| table.about("thresholds").form(Form::Ruled))
}

/// Returns the result of each search: a row per system and place, with the closed loop's rate.
pub(super) fn kept_rates(record: &Record) -> Option<Table> {
    let bound = record.parameters.get("search_p99_ms")?.as_f64()?;
    let columns = ["rate", "of the closed loop", "tries"].map(str::to_owned);
    let title = format!("highest rate per second with p99 below {bound} ms, from when operations were due");
    let mut table = Table::new(&title, "", columns);
    for system in &record.systems {
        let steps: Vec<&StepRecord> =
            Repeats::of_phase(system, Phase::Run).into_iter().map(|repeats| repeats.median).collect();
        for last in steps.iter().filter(|step| step.metric(KEPT_RATE).is_some()) {
            let held = |step: &StepRecord| {
                let mut step = step.clone();
                step.settings.remove(TRY);
                (step.clients, step.settings)
            };
            let tries: Vec<&&StepRecord> = steps.iter().filter(|step| held(step) == held(last)).collect();
            let closed = tries.iter().find(|step| step.metric(TRIED_RATE).is_none()).and_then(|step| step.per_second());
            let kept = last.metric(KEPT_RATE).filter(|rate| *rate > 0.0);
            let share = kept.zip(closed).map(|(kept, closed)| format!("{:.2}", kept / closed));
            let mut place = (*last).clone();
            place.settings.remove(TRY);
            table.row(
                [
                    kept.map_or("none".to_owned(), super::founding::short),
                    share.unwrap_or_else(|| "-".to_owned()),
                    (tries.len() - 1).to_string(),
                ],
                &format!("{}, {}", system.name, label_of_step(&place)),
            );
        }
    }
    (!table.rows.is_empty()).then(|| table.about("kept").form(Form::NameFirst))
}
