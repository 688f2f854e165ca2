//! Printed and written results of a run.

use serde_json::{Value, json};

use super::measure::ShapeStatistics;
use super::shape::Shape;
use crate::report::Table;

/// All shapes on one server.
pub(super) struct Measured {
    pub system: String,
    pub documents: u64,
    pub load_seconds: Option<f64>,
    pub notes: Vec<String>,
    pub shapes: Vec<(Shape, ShapeStatistics)>,
}

pub(super) fn table(measured: &Measured) -> Table {
    let columns = ["ms", "cpu ms", "k docs/s", "runs", "plan%", "engine%", "exec%", "other%"].map(str::to_owned);
    let title = format!("{}: query shapes over {} documents", measured.system, measured.documents);
    let mut table = Table::new(&title, "shape, leaves of its plan", columns);
    for (shape, statistics) in &measured.shapes {
        if let Some(failure) = &statistics.failure {
            table.row(["-".to_owned()], &format!("{}: {failure}", shape.name));
            continue;
        }
        let share = |part: f64| format!("{part:.0}");
        let shares = statistics.shares.map_or_else(
            || vec![String::new(); 4],
            |shares| [shares.planning, shares.engine, shares.execution, shares.other].map(share).to_vec(),
        );
        let head = [
            format!("{:.3}", statistics.seconds * 1e3),
            statistics.cpu_seconds.map_or_else(String::new, |seconds| format!("{:.2}", seconds * 1e3)),
            format!("{:.1}", statistics.per_second() / 1e3),
            statistics.runs.to_string(),
        ];
        let mark = if statistics.scans { "  SCANS WHAT AN INDEX ANSWERS" } else { "" };
        table.row(head.into_iter().chain(shares), &format!("{}: {}{mark}", shape.name, shown(&statistics.plan)));
    }
    table
}

pub(super) fn text(measured: &Measured) -> String {
    let notes: String = measured.notes.iter().map(|note| format!("{note}\n")).collect();
    format!("{}{notes}", table(measured))
}

/// Plans may have many leaves.
fn shown(plan: &str) -> &str {
    plan.get(..60).unwrap_or(plan)
}

pub(super) fn csv(all: &[Measured]) -> String {
    let mut text = "system,documents,shape,seconds,cpu_seconds,documents_per_second,runs,returned,planning,engine,execution,other,\
                    scans,plan,failure\n"
        .to_owned();
    let quoted = |text: &str| format!("\"{}\"", text.replace('"', "\"\""));
    for measured in all {
        for (shape, statistics) in &measured.shapes {
            let shares = statistics.shares.map_or_else(
                || ",,,".to_owned(),
                |s| format!("{:.2},{:.2},{:.2},{:.2}", s.planning, s.engine, s.execution, s.other),
            );
            text.push_str(&format!(
                "{},{},{},{:.6},{},{:.1},{},{},{shares},{},{},{}\n",
                quoted(&measured.system),
                measured.documents,
                quoted(&shape.name),
                statistics.seconds,
                statistics.cpu_seconds.map_or_else(String::new, |seconds| format!("{seconds:.6}")),
                statistics.per_second(),
                statistics.runs,
                statistics.returned,
                statistics.scans,
                quoted(&statistics.plan),
                quoted(statistics.failure.as_deref().unwrap_or_default()),
            ));
        }
    }
    text
}

pub(super) fn manifest(all: &[Measured], environment: &Value) -> Value {
    let shape = |(shape, statistics): &(Shape, ShapeStatistics)| {
        json!({
            "name": shape.name,
            "seconds": statistics.seconds,
            "cpu_seconds": statistics.cpu_seconds,
            "documents_per_second": statistics.per_second(),
            "runs": statistics.runs,
            "returned": statistics.returned,
            "plan": statistics.plan,
            "scans": statistics.scans,
            "failure": statistics.failure,
            "shares": statistics.shares.map(|s| {
                json!({"planning": s.planning, "engine": s.engine, "execution": s.execution, "other": s.other})
            }),
        })
    };
    let system = |measured: &Measured| {
        json!({
            "system": measured.system,
            "documents": measured.documents,
            "load_seconds": measured.load_seconds,
            "notes": measured.notes,
            "shapes": measured.shapes.iter().map(shape).collect::<Vec<_>>(),
        })
    };
    json!({ "experiment": "query", "arbor": crate::build(), "environment": environment, "systems": all.iter().map(system).collect::<Vec<_>>() })
}
