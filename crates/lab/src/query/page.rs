//! The page of a run of query shapes.

use super::table::{Measured, table};
use crate::report::{Axis, Chart, ChartGroup, Part, Series, Shape, Sheet, decade_below};

/// Returns the page of a run: times of all shapes on all systems, as ratios to the last system too, then a table for each.
pub(super) fn page(all: &[Measured], facts: Vec<(&'static str, String)>, warnings: Vec<String>) -> String {
    let first = all.iter().max_by_key(|measured| measured.shapes.len());
    let names: Vec<String> =
        first.iter().flat_map(|measured| measured.shapes.iter().map(|(shape, _)| shape.name.clone())).collect();
    let seconds = |measured: &Measured, name: &str| {
        let (_, statistics) = measured.shapes.iter().find(|(shape, _)| shape.name == name)?;
        (statistics.failure.is_none() && statistics.seconds > 0.0).then_some(statistics.seconds)
    };
    let mut parts = Vec::new();
    let times = all.iter().flat_map(|measured| names.iter().filter_map(|name| seconds(measured, name)));
    let least = times.min_by(f64::total_cmp).unwrap_or(1e-3) * 1e3;
    let start = Some(decade_below(least));
    let chart = |axis: Axis, value: &dyn Fn(&Measured, &str) -> Option<f64>| {
        let mut chart = Chart::new(Shape::Bars, "", Axis::categories("", &names), axis);
        for measured in all {
            let points = names.iter().enumerate().filter_map(|(n, name)| Some((n as f64, value(measured, name)?)));
            chart.series.push(Series::of(&measured.system, points));
        }
        chart
    };
    let axis = Axis { start, ..Axis::log("milliseconds") };
    let millis = chart(axis, &|measured, name| seconds(measured, name).map(|seconds| seconds * 1e3));
    let title = "Median time of each shape";
    parts.extend(
        ChartGroup::of("shapes", title, "One client, one shape after the other.", "", vec![millis]).map(Part::Chart),
    );
    if let Some((peer, _)) = all.split_last().filter(|(_, others)| !others.is_empty()) {
        let axis = Axis { start: Some(1.0), ..Axis::log(&format!("times as fast as {}", peer.system)) };
        let ratios = chart(axis, &|measured, name| {
            (measured.system != peer.system).then_some(())?;
            Some(seconds(peer, name)? / seconds(measured, name)?)
        });
        let title = format!("Each shape as a ratio to {}", peer.system);
        let caption = "Bars up are faster, bars down are slower.";
        parts.extend(ChartGroup::of("ratios", &title, caption, "", vec![ratios]).map(Part::Chart));
    }
    for measured in all {
        parts.push(Part::Table(table(measured)));
        parts.push(Part::Notes(measured.notes.clone()));
    }
    let about = "Shapes of queries over one data set: time, plan, share of planning, engine".to_owned();
    let sheet = Sheet { title: "query".to_owned(), about, warnings, facts, parts };
    sheet.page(&all.iter().map(|measured| measured.system.as_str()).collect::<Vec<_>>())
}

#[cfg(test)]
mod tests {
    use super::super::measure::ShapeStatistics;
    use super::super::shape;
    use super::*;

    fn measured(system: &str, seconds: [f64; 2]) -> Measured {
        let shapes = shape::Shape::all(10_000).unwrap().into_iter().zip(seconds);
        let timed = |(shape, seconds)| (shape, ShapeStatistics { seconds, ..ShapeStatistics::default() });
        let shapes = shapes.map(timed).collect();
        Measured { system: system.to_owned(), documents: 10_000, load_seconds: None, notes: Vec::new(), shapes }
    }

    #[test]
    fn times_are_ratios_to_the_last_system() {
        let all = [measured("ftree", [0.004, 0.03]), measured("lmdb", [0.008, 0.01])];
        let page = page(&all, Vec::new(), vec!["a build for debugging".to_owned()]);
        for part in [
            "times as fast as lmdb",
            "[[0,2],[1,0.33333]]",
            "[[0,4],[1,30]]",
            "a build for debugging",
            "<caption>ftree: ",
        ] {
            assert!(page.contains(part), "{part}");
        }
        let alone = super::page(&all[..1], Vec::new(), Vec::new());
        assert!(alone.contains("milliseconds") && !alone.contains("times as fast as"));
    }
}
