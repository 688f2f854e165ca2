//! An experiment as its YAML file says it. The founding experiments are built in; a path to another file works too.
//!
//! ```yaml
//! name: pointquery
//! about: one line for `arbor lab list`
//! workload: pointquery          # or sysbench, or load
//! echo: true                    # measure the bare TCP echo as well
//! batch: 1000                   # documents per insert while loading
//! mix: { points: 10, ... }      # sysbench: statements per transaction
//! small: { tables: 8, docs: 125000, clients: [1, 2, 4], warm: 1, seconds: 5 }
//! full: { ... }
//! ```

use std::time::Duration;

use saphyr::{LoadableYamlNode, Yaml};

use crate::workload::Shape;
use crate::workload::sysbench::Mix;
use crate::{Error, Result};

const BUILT_IN: [&str; 3] = [
    include_str!("../../experiments/pointquery.yaml"),
    include_str!("../../experiments/sysbench.yaml"),
    include_str!("../../experiments/load.yaml"),
];

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scale {
    /// Minutes on a laptop.
    Small,
    /// The sizes of the founding text, or as near as one machine gets.
    Full,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Work {
    PointQuery,
    Sysbench,
    /// Nothing beyond the load.
    Load,
}

#[derive(Clone, Debug)]
pub struct Experiment {
    pub name: String,
    pub about: String,
    pub work: Work,
    pub echo: bool,
    pub batch: usize,
    pub mix: Mix,
    small: Size,
    full: Size,
}

#[derive(Clone, Debug)]
pub struct Size {
    pub shape: Shape,
    pub clients: Vec<usize>,
    pub warm: Duration,
    pub measured: Duration,
}

impl Experiment {
    pub fn size(&self, scale: Scale) -> &Size {
        match scale {
            Scale::Small => &self.small,
            Scale::Full => &self.full,
        }
    }
}

/// The experiments that are built in.
pub fn built_in() -> Result<Vec<Experiment>> {
    BUILT_IN.iter().map(|text| read(text)).collect()
}

/// A built-in experiment by its name, or the one in a YAML file.
pub fn find(name: &str) -> Result<Experiment> {
    if name.ends_with(".yaml") || name.ends_with(".yml") {
        return read(&std::fs::read_to_string(name).map_err(Error::file(name))?);
    }
    let experiments = built_in()?;
    let names: Vec<&str> = experiments.iter().map(|experiment| experiment.name.as_str()).collect();
    let unknown = format!("there is no experiment {name:?}; there are {}, and files *.yaml", names.join(", "));
    experiments.into_iter().find(|experiment| experiment.name == name).ok_or(Error::Usage(unknown))
}

fn read(text: &str) -> Result<Experiment> {
    let documents = Yaml::load_from_str(text).map_err(|error| Error::Usage(format!("experiment: {error}")))?;
    let [document] = documents.as_slice() else {
        return Err(Error::Usage("an experiment is one YAML document".to_owned()));
    };
    let top = Section { path: "experiment", node: document };
    top.only(&["name", "about", "workload", "echo", "batch", "mix", "small", "full"])?;
    let work = match top.text("workload")? {
        "pointquery" => Work::PointQuery,
        "sysbench" => Work::Sysbench,
        "load" => Work::Load,
        other => return Err(Error::Usage(format!("experiment: there is no workload {other:?}"))),
    };
    Ok(Experiment {
        name: top.text("name")?.to_owned(),
        about: top.text("about")?.to_owned(),
        work,
        echo: top.get("echo").and_then(Yaml::as_bool).unwrap_or(false),
        batch: top.number("batch", 1000)?,
        mix: mix(&top)?,
        small: size(&top, "small")?,
        full: size(&top, "full")?,
    })
}

fn mix(top: &Section<'_>) -> Result<Mix> {
    let default = Mix::default();
    let Some(node) = top.get("mix") else { return Ok(default) };
    let mix = Section { path: "mix", node };
    mix.only(&[
        "points",
        "ranges",
        "sums",
        "orders",
        "distincts",
        "index_updates",
        "non_index_updates",
        "inserts",
        "range_size",
    ])?;
    Ok(Mix {
        points: mix.number("points", default.points)?,
        ranges: mix.number("ranges", default.ranges)?,
        sums: mix.number("sums", default.sums)?,
        orders: mix.number("orders", default.orders)?,
        distincts: mix.number("distincts", default.distincts)?,
        index_updates: mix.number("index_updates", default.index_updates)?,
        non_index_updates: mix.number("non_index_updates", default.non_index_updates)?,
        inserts: mix.number("inserts", default.inserts)?,
        range_size: mix.number("range_size", default.range_size)?,
    })
}

fn size(top: &Section<'_>, name: &'static str) -> Result<Size> {
    let node = top.get(name).ok_or_else(|| top.wrong(name, "is missing"))?;
    let size = Section { path: name, node };
    size.only(&["tables", "docs", "clients", "warm", "seconds"])?;
    let clients = size.get("clients").and_then(Yaml::as_sequence).map_or(&[][..], Vec::as_slice);
    let clients = clients.iter().map(|node| node.as_integer().and_then(|n| usize::try_from(n).ok()));
    Ok(Size {
        shape: Shape { tables: size.number("tables", 1)?, rows: size.number("docs", 1000)? },
        clients: clients.collect::<Option<_>>().ok_or_else(|| size.wrong("clients", "is no list of numbers"))?,
        warm: Duration::from_secs(size.number("warm", 0)?),
        measured: Duration::from_secs(size.number("seconds", 0)?),
    })
}

/// A mapping whose keys are known.
struct Section<'a> {
    path: &'static str,
    node: &'a Yaml<'a>,
}

impl<'a> Section<'a> {
    fn wrong(&self, key: &str, what: &str) -> Error {
        Error::Usage(format!("{}: {key} {what}", self.path))
    }

    fn only(&self, known: &[&str]) -> Result<()> {
        let mapping = self.node.as_mapping().ok_or_else(|| self.wrong("this", "is no mapping"))?;
        let unknown = mapping.keys().find(|key| !key.as_str().is_some_and(|key| known.contains(&key)));
        unknown.map_or(Ok(()), |key| Err(self.wrong(key.as_str().unwrap_or("a key"), "is unknown")))
    }

    fn get(&self, key: &str) -> Option<&'a Yaml<'a>> {
        self.node.as_mapping_get(key)
    }

    fn text(&self, key: &str) -> Result<&'a str> {
        self.get(key).and_then(Yaml::as_str).ok_or_else(|| self.wrong(key, "is no text"))
    }

    fn number<T: TryFrom<i64>>(&self, key: &str, default: T) -> Result<T> {
        let Some(node) = self.get(key) else { return Ok(default) };
        node.as_integer()
            .and_then(|number| T::try_from(number).ok())
            .ok_or_else(|| self.wrong(key, "is no number it takes"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_founding_experiments_are_read() {
        let names: Vec<String> = built_in().unwrap().into_iter().map(|experiment| experiment.name).collect();
        assert_eq!(names, ["pointquery", "sysbench", "load"]);
        let point = find("pointquery").unwrap();
        assert_eq!(point.size(Scale::Small).clients, [1, 2, 4, 8, 16, 32, 40]);
        assert!(point.echo && point.size(Scale::Full).shape.rows == 1_000_000);
        let mix = find("sysbench").unwrap().mix;
        // 14 reads and 4 writes: a remove and an insert are two.
        assert_eq!(mix.points + mix.ranges + mix.sums + mix.orders + mix.distincts, 14);
        assert_eq!(mix.index_updates + mix.non_index_updates + 2 * mix.inserts, 4);
    }

    #[test]
    fn what_an_experiment_cannot_say() {
        let good = "{name: a, about: b, workload: load, small: {}, full: {}}";
        assert_eq!(read(good).unwrap().size(Scale::Small).shape.rows, 1000);
        for (from, to) in [
            ("load", "frob"),
            ("name: a", "name: 1"),
            ("small: {}", "small: 1"),
            ("small: {}, ", ""),
            ("small: {}", "small: {frob: 1}"),
            ("small: {}", "small: {clients: [a]}"),
            ("small: {}", "small: {docs: -1}"),
            ("small: {}", "small: {docs: 1.5}"),
            ("about: b", "colour: b, about: b"),
            ("{name", "[{name"),
        ] {
            assert!(matches!(read(&good.replace(from, to)), Err(Error::Usage(_))), "{from} -> {to}");
        }
    }
}
