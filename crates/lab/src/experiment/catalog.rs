//! The experiments that are built in, and how they are listed and described.

use super::definition::{Experiment, KV, Scale, read};
use super::plan::Plan;
use crate::target::managed::Setup;
use crate::{Error, Result};

/// File names are the experiments' names.
macro_rules! built_in {
    ($($name:literal),* $(,)?) => {
        [$(($name, include_str!(concat!("../../experiments/", $name, ".yaml")))),*]
    };
}

const BUILT_IN: [(&str, &str); 14] = built_in![
    "000-linkbench-cached",
    "000-linkbench-disk",
    "001-point-queries",
    "001-point-queries-large",
    "002-readonly-cache-ladder",
    "002-readwrite-checkpoints",
    "002-readwrite-ladder",
    "002-recovery",
    "003-chunk-moves",
    "004-ycsb",
    "iibench",
    "kv",
    "load",
    "sysbench",
];

/// Former names of experiments, from before they had numbers.
const FORMER: [(&str, &str); 1] = [("pointquery", "001-point-queries")];

/// The experiments that are built in and whose workloads are.
pub fn built_in() -> Result<Vec<Experiment>> {
    BUILT_IN.iter().map(|(name, text)| read(&format!("{name}.yaml"), text)).collect()
}

/// A built-in experiment by its name, or the one in a YAML file.
pub fn find(name: &str) -> Result<Experiment> {
    if name.ends_with(".yaml") || name.ends_with(".yml") {
        return read(name, &std::fs::read_to_string(name).map_err(Error::file(name))?);
    }
    let name_now = FORMER.iter().find(|(former, _)| *former == name).map_or(name, |(_, now)| now);
    match BUILT_IN.iter().find(|(each, _)| *each == name_now) {
        Some((name, text)) => read(&format!("{name}.yaml"), text),
        None => {
            let names = BUILT_IN.map(|(name, _)| name).join(", ");
            Err(Error::Usage(format!("unknown experiment {name:?}; known are {names}, query, and files *.yaml")))
        }
    }
}

/// A line per experiment.
pub fn list() -> Result<String> {
    let mut text = String::new();
    for experiment in built_in()? {
        text += &format!("{:28} {}\n", experiment.name, experiment.about);
    }
    text += "query                        shapes of queries over one data set: time, plan, share of planning, engine\n";
    Ok(text)
}

/// Everything one wants to know before one runs it.
///
/// `name`: what the experiment was asked for by, a built-in name or a file.
pub fn describe(experiment: &Experiment, name: &str, setup: &Setup) -> String {
    let mut text = format!("{}\n{}\n", experiment.name, experiment.about);
    if let Some(number) = &experiment.founding_text {
        text += &format!("founding text {number}\n");
    }
    for (title, paragraph) in [("Purpose", &experiment.purpose), ("Expected", &experiment.expected)] {
        if !paragraph.is_empty() {
            text += &format!("\n{title}\n{}\n", indented(paragraph));
        }
    }
    if let Some(settings) = &experiment.text_settings {
        text += "\nWith --settings text\n";
        if settings.oplog {
            text += "  each server is the one member of a set\n";
        }
        for (engine, flags) in &settings.flags {
            text += &format!("  {engine}: {}\n", flags.join(" "));
        }
    }
    text += "\nScales (for one engine)\n";
    for scale in [Scale::Small, Scale::Full] {
        text += &format!("  {:6} {}\n", scale.name(), of_scale(experiment, scale, setup));
    }
    let systems = match (experiment.sharded, experiment.mysql) {
        (true, _) => "a cluster of Arbor by --engine, any mongos by --target mongodb://host:port",
        (_, true) => {
            "Arbor by --engine, MongoDB by --target, MariaDB by --engine innodb (-handler), myrocks, mysql:// by --target"
        }
        _ if experiment.workload == KV => "Arbor's engines by --engine",
        _ => "Arbor by --engine, any MongoDB by --target",
    };
    text += &format!("\nRuns on: {systems}\n\n  arbor lab run {name} --scale small --engine ftree\n");
    text
}

fn indented(paragraph: &str) -> String {
    paragraph.lines().map(|line| format!("  {line}")).collect::<Vec<_>>().join("\n")
}

fn of_scale(experiment: &Experiment, scale: Scale, setup: &Setup) -> String {
    let mut plan = Plan::of(experiment.clone(), scale, setup.clone());
    plan.parameters.engines = vec!["ftree".to_owned()];
    let (estimate, parameters) = (plan.estimate(), &plan.parameters);
    let minutes = (estimate.total.as_secs() / 60).max(1);
    let time = if minutes >= 120 { format!("{} h", minutes.div_ceil(60)) } else { format!("{minutes} min") };
    let mut text = format!("about {time}, {} MB of disk", estimate.disk_bytes >> 20);
    if !parameters.clients.is_empty() {
        text += &format!("; clients {}", joined(&parameters.clients));
    }
    if !parameters.cache_mb.is_empty() {
        text += &format!("; cache {} MB", joined(&parameters.cache_mb));
    }
    if let Some(times) = parameters.memory {
        text += &format!(", memory {times} times that");
    }
    if !parameters.syncdelay.is_empty() {
        text += &format!("; checkpoints every {} s", joined(&parameters.syncdelay));
    }
    for (name, value) in &parameters.settings {
        text += &format!("; {name} {value}");
    }
    text
}

fn joined<T: ToString>(values: &[T]) -> String {
    values.iter().map(T::to_string).collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn setup() -> Setup {
        let (binary, root) = ("/nonexistent".into(), std::env::temp_dir());
        Setup { binary, root, arguments: Vec::new(), keep: false, disk: Default::default(), mysql: Vec::new() }
    }

    #[test]
    fn every_experiment_is_read_named_as_its_file_and_described() {
        let experiments = built_in().unwrap();
        for (experiment, (name, _)) in experiments.iter().zip(BUILT_IN) {
            assert_eq!(experiment.name, name);
            let text = describe(experiment, name, &setup());
            assert!(text.contains("Purpose") && text.contains("Expected") && text.contains("small"), "{text}");
            let numbered = name.get(..3).filter(|number| number.starts_with('0'));
            assert_eq!(experiment.founding_text.as_deref(), numbered, "{name}");
        }
    }

    #[test]
    fn small_ones_take_minutes_and_little_disk() {
        for experiment in built_in().unwrap() {
            let mut plan = Plan::of(experiment, Scale::Small, setup());
            plan.parameters.engines = vec!["ftree".to_owned()];
            let estimate = plan.estimate();
            let name = &plan.experiment.name;
            assert!(estimate.total.as_secs() <= 15 * 60, "{name}: {estimate:?}");
            assert!(estimate.disk_bytes <= 4 << 30, "{name}: {estimate:?}");
        }
    }

    #[test]
    fn the_former_name_still_works() {
        assert_eq!(find("pointquery").unwrap().name, "001-point-queries");
        assert!(find("frob").unwrap_err().to_string().contains("004-ycsb"));
    }
}
