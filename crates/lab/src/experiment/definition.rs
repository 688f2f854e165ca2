//! An experiment as its YAML file says it (docs/laboratory.md has the keys). A key that is unknown, missing or of the
//! wrong sort is named with its line.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use serde_json::{Map, Value};

use super::own;
use super::parameters::{Parameters, PhasePlan, merged};
use super::section::{Section, parse};
use super::threshold::Threshold;
use crate::Result;
use crate::results::EventKind;
use crate::run::{Ramp, Scripted};
use crate::target::Driver;
use crate::workload::own::{Definition, Own};
use crate::workload::{Mode, Workload, build};

/// The workload of an experiment that runs the engines alone (`arbor lab kv`).
pub const KV: &str = "kv";

#[derive(Clone, Debug)]
pub struct Experiment {
    pub name: String,
    /// One line for `arbor lab list`.
    pub about: String,
    pub founding_text: Option<String>,
    /// Purpose and audience, for `arbor lab describe`.
    pub purpose: String,
    /// Result that a repetition should show.
    pub expected: String,
    pub workload: String,
    pub mode: Mode,
    /// Read everything once before the steps.
    pub scan: bool,
    /// Also runs on MySQL and MariaDB.
    pub mysql: bool,
    /// After each step the server is killed (-9) and the time to its first reply measured.
    pub recovery: bool,
    /// Requires a sharded cluster.
    pub sharded: bool,
    /// Flags of Arbor by engine.
    pub flags: BTreeMap<String, Vec<String>>,
    /// Settings of the founding text, for `--settings text`.
    pub text_settings: Option<TextSettings>,
    small: Size,
    full: Size,
    /// Documents and statements of the file itself.
    own: Option<Arc<Definition>>,
    /// The file.
    pub text: String,
}

/// Settings of servers as a founding text has them, as far as engines here have them too.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TextSettings {
    /// Flags of Arbor by engine.
    pub flags: BTreeMap<String, Vec<String>>,
    /// Writes have a history: the server is the one member of a set.
    pub oplog: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scale {
    /// Minutes on two cores.
    Small,
    /// The sizes of the founding text.
    Full,
}

impl Scale {
    pub fn name(self) -> &'static str {
        if self == Scale::Small { "small" } else { "full" }
    }
}

/// Parameters of one scale.
#[derive(Clone, Debug, Default)]
pub struct Size {
    /// Parameters set by the file; systems come from the command line.
    pub parameters: Parameters,
    /// Estimates for `describe` and for the check before a load.
    pub disk_mb: u64,
    pub load_s: f64,
}

impl Experiment {
    /// Returns a new workload at its beginning. Errors: settings that do not fit, in words for people.
    pub fn build(&self, mode: Mode, settings: &Map<String, Value>) -> std::result::Result<Box<dyn Workload>, String> {
        workload_of(&self.workload, self.own.as_ref(), mode, settings)
    }

    pub fn size(&self, scale: Scale) -> &Size {
        match scale {
            Scale::Small => &self.small,
            Scale::Full => &self.full,
        }
    }
}

/// Reads an experiment; `file` is what messages call it.
pub fn read(file: &str, text: &str) -> Result<Experiment> {
    let document = parse(file, text)?;
    let top = Section::of(file, &document)?;
    let keys = [
        "name",
        "about",
        "founding_text",
        "purpose",
        "expected",
        "workload",
        "mode",
        "echo",
        "scan",
        "mysql",
        "recovery",
        "sharded",
        "flags",
        "text_settings",
        "small",
        "full",
    ];
    top.only(&[&keys[..], &own::KEYS].concat())?;
    let workload = top.required("workload")?.to_owned();
    let name = top.required("name")?.to_owned();
    if name.is_empty() || !name.chars().all(|char| char.is_alphanumeric() || "-_.".contains(char)) {
        return Err(top.wrong("name", "expected letters, digits, '-', '_' and '.': the name is also a directory name"));
    }
    let mode = match top.text("mode")? {
        None | Some("compat") => Mode::Compat,
        Some("fixed") => Mode::Fixed,
        Some(_) => return Err(top.wrong("mode", "expected compat or fixed")),
    };
    let own = own::read(&top, &workload)?;
    let size = |name| size(&top, name, &workload, mode, own.as_ref());
    Ok(Experiment {
        name,
        about: top.required("about")?.to_owned(),
        founding_text: top.text("founding_text")?.map(str::to_owned),
        purpose: top.text("purpose")?.unwrap_or_default().trim().to_owned(),
        expected: top.text("expected")?.unwrap_or_default().trim().to_owned(),
        mode,
        scan: top.flag("scan")?,
        mysql: top.flag("mysql")?,
        recovery: top.flag("recovery")?,
        sharded: top.flag("sharded")?,
        flags: flags(&top)?,
        text_settings: text_settings(&top)?,
        small: size("small")?,
        full: size("full")?,
        own: own.clone(),
        workload,
        text: text.to_owned(),
    })
}

fn flags(top: &Section<'_>) -> Result<BTreeMap<String, Vec<String>>> {
    let Some(flags) = top.section("flags")? else { return Ok(BTreeMap::new()) };
    flags.entries()?.into_iter().map(|(engine, _)| Ok((engine.clone(), flags.texts(&engine)?))).collect()
}

fn text_settings(top: &Section<'_>) -> Result<Option<TextSettings>> {
    let Some(section) = top.section("text_settings")? else { return Ok(None) };
    section.only(&["flags", "oplog"])?;
    Ok(Some(TextSettings { flags: flags(&section)?, oplog: section.flag("oplog")? }))
}

/// Returns a new workload, of the file's own statements or by its name. Errors: in words for people.
fn workload_of(
    name: &str,
    own: Option<&Arc<Definition>>,
    mode: Mode,
    settings: &Map<String, Value>,
) -> std::result::Result<Box<dyn Workload>, String> {
    match own {
        Some(own) => Ok(Box::new(Own::new(own, settings)?)),
        None => build(name, mode, settings),
    }
}

fn size(top: &Section<'_>, name: &str, workload: &str, mode: Mode, own: Option<&Arc<Definition>>) -> Result<Size> {
    let size = top.section(name)?.ok_or_else(|| top.wrong(name, "is missing"))?;
    size.only(&[
        "settings",
        "clients",
        "warm",
        "steady",
        "seconds",
        "interval",
        "repeats",
        "rounds",
        "cache_mb",
        "memory",
        "syncdelay",
        "rate",
        "ramp",
        "thresholds",
        "search_p99_ms",
        "poisson",
        "loaders",
        "phases",
        "script",
        "disk_mb",
        "load_s",
        "arguments",
    ])?;
    let settings = size.section("settings")?;
    let parameters = Parameters {
        drivers: vec![Driver::Lean],
        mode: mode.name().to_owned(),
        seed: 1,
        echo: top.flag("echo")?,
        settings: settings.map_or_else(|| Ok(Map::new()), |settings| settings.map())?,
        clients: size.numbers("clients")?,
        warm_s: size.quantity("warm")?.unwrap_or(0.0),
        steady_s: size.quantity("steady")?,
        seconds: size.quantity("seconds")?.unwrap_or(0.0),
        interval_s: size.quantity("interval")?.unwrap_or(1.0),
        repeats: size.number("repeats")?.unwrap_or(1),
        rounds: size.number("rounds")?.unwrap_or(1),
        cache_mb: size.numbers("cache_mb")?,
        memory: size.quantity("memory")?,
        syncdelay: size.quantities("syncdelay")?,
        rate: size.quantity("rate")?,
        ramp: ramp(&size)?,
        thresholds: thresholds(&size)?,
        search_p99_ms: size.quantity("search_p99_ms")?,
        poisson: size.flag("poisson")?,
        loaders: size.number("loaders")?.unwrap_or(8),
        phases: phases(&size)?,
        script: script(&size)?,
        arguments: size.texts("arguments")?,
        ..Parameters::default()
    };
    if parameters.clients.iter().any(|clients| !(1..=10_000).contains(clients)) {
        return Err(size.wrong("clients", "expected numbers from 1 to 10000"));
    }
    if !parameters.clients.is_empty() && parameters.seconds <= 0.0 {
        return Err(size.wrong("seconds", "must be above 0"));
    }
    if workload != KV {
        // Whatever the workload refuses is refused here, with its line.
        let refused = |text: String| settings.unwrap_or(size).wrong_within(&text);
        workload_of(workload, own, mode, &parameters.settings).map_err(refused)?;
        for phase in &parameters.phases {
            workload_of(workload, own, mode, &merged(&parameters.settings, &phase.settings)).map_err(refused)?;
        }
    }
    let (disk_mb, load_s) = (size.number("disk_mb")?.unwrap_or(0), size.quantity("load_s")?.unwrap_or(0.0));
    Ok(Size { parameters, disk_mb, load_s })
}

fn ramp(size: &Section<'_>) -> Result<Option<Ramp>> {
    if size.get("ramp").is_none() {
        return Ok(None);
    }
    Ramp::parse(&size.texts("ramp")?).map(Some).map_err(|what| size.wrong("ramp", &what))
}

fn thresholds(size: &Section<'_>) -> Result<Vec<String>> {
    let texts = size.texts("thresholds")?;
    texts
        .iter()
        .try_for_each(|text| Threshold::parse(text).map(drop))
        .map_err(|what| size.wrong("thresholds", &what))?;
    Ok(texts)
}

fn phases(size: &Section<'_>) -> Result<Vec<PhasePlan>> {
    let phase = |section: Section<'_>| {
        section.only(&["name", "settings", "reload"])?;
        let settings = section.section("settings")?.map_or_else(|| Ok(Map::new()), |settings| settings.map())?;
        Ok(PhasePlan { name: section.required("name")?.to_owned(), settings, reload: section.flag("reload")? })
    };
    size.sections("phases")?.into_iter().map(phase).collect()
}

fn script(size: &Section<'_>) -> Result<Vec<Scripted>> {
    let scripted = |section: Section<'_>| {
        section.only(&["at", "kind", "text", "database", "command"])?;
        let kind = section.required("kind")?;
        let kind: EventKind = serde_json::from_value(Value::String(kind.to_owned()))
            .map_err(|_| section.wrong("kind", "expected checkpoint, move_chunk, engine_switch or note"))?;
        let command = section.section("command")?.ok_or_else(|| section.wrong("command", "is missing"))?.entries()?;
        Ok(Scripted {
            at: Duration::from_secs_f64(section.quantity("at")?.unwrap_or(0.0)),
            kind,
            text: section.text("text")?.unwrap_or(kind.name()).to_owned(),
            command,
            database: section.text("database")?.unwrap_or("admin").to_owned(),
        })
    };
    size.sections("script")?.into_iter().map(scripted).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const GOOD: &str = "name: a\nabout: b\nworkload: pointquery\nsmall:\n  settings: {tables: 2}\n  clients: [1, 4]\n  seconds: 3\nfull: {}\n";

    #[test]
    fn what_is_not_said_has_a_default() {
        let experiment = read("x.yaml", GOOD).unwrap();
        let small = &experiment.size(Scale::Small).parameters;
        assert_eq!((small.repeats, small.rounds, small.loaders, small.interval_s), (1, 1, 8, 1.0));
        assert_eq!((small.clients.as_slice(), experiment.mode, small.echo), (&[1, 4][..], Mode::Compat, false));
    }

    #[test]
    fn what_is_wrong_is_named_with_its_line() {
        for (from, to, expect) in [
            ("about: b", "colour: b", "x.yaml:2: unknown key \"colour\""),
            ("about: b\n", "", "x.yaml:1: about: is missing"),
            ("pointquery", "frob", "unknown workload \"frob\""),
            ("tables: 2", "tabels: 2", "x.yaml:5: workload pointquery: unknown field `tabels`"),
            ("[1, 4]", "[1, a]", "x.yaml:6: clients: expected a list of integers"),
            ("[1, 4]", "[0]", "x.yaml:6: clients: expected numbers from 1"),
            ("seconds: 3", "seconds: -3", "x.yaml:7: seconds: expected a number of at least 0"),
            ("seconds: 3", "seconds: 1e300", "x.yaml:7: seconds: expected a number of at least 0"),
            ("name: a", "name: ../a", "x.yaml:1: name: expected letters"),
            ("  seconds: 3\n", "", "seconds: must be above 0"),
            ("full: {}", "full: 1", "x.yaml:8: expected a mapping"),
            ("full: {}", "full: {phases: [{name: a, settings: {frob: 1}}]}", "unknown field `frob`"),
            ("full: {}", "full: {script: [{at: 1, kind: frob}]}", "x.yaml:8: kind: expected checkpoint, move_chunk"),
            ("name: a", "name: a\ntext_settings: {colour: 1}", "x.yaml:2: unknown key \"colour\""),
            ("seconds: 3", "seconds: 3\n  ramp: [\"5@0\", \"9\"]", "x.yaml:8: ramp: expected RATE@SECONDS"),
            ("seconds: 3", "seconds: 3\n  thresholds: [\"p98<1\"]", "x.yaml:8: thresholds: expected METRIC"),
            ("name: a", "name: [a", "x.yaml:"),
            ("name: a", "- a", "x.yaml:"),
        ] {
            let text = GOOD.replace(from, to);
            let error = read("x.yaml", &text).unwrap_err().to_string();
            assert!(error.contains(expect), "{from} -> {to}: {error}");
        }
    }

    const OWN: &str = "name: a\nabout: b\nworkload: statements\nbindings:\n  n: {int: [1, 5]}\n  id: {new: c}\ncollections:\n  c:\n    documents: 10\n    \
                       document: {_id: \"{row}\", n: \"{n}\"}\nstatements:\n  - {name: s, command: {find: c, filter: {n: \"{n}\"}}}\nsmall: {}\nfull: {}\n";

    #[test]
    fn what_is_wrong_in_own_statements_is_named_with_its_line() {
        read("x.yaml", OWN).unwrap();
        for (from, to, expect) in [
            ("workload: statements", "workload: pointquery", "x.yaml:5: bindings: is a key of the workload statements"),
            ("{int: [1, 5]}", "{int: [5, 1]}", "x.yaml:5: int: expected two numbers"),
            ("{int: [1, 5]}", "{frob: 1}", "x.yaml:5: unknown key \"frob\""),
            (
                "{int: [1, 5]}",
                "{choice: [a, b], weights: [1]}",
                "x.yaml:5: choice: expected values, and as many weights",
            ),
            ("{int: [1, 5]}", "{int: [1, 5], distribution: latest}", "x.yaml:5: distribution: expected uniform"),
            ("{int: [1, 5]}", "{text: [1, 5], exponent: 0.5}", "x.yaml:5: exponent: only int and row have"),
            ("{new: c}", "{new: d}", "x.yaml:6: new: there is no collection \"d\""),
            ("  id:", "  row:", "there is such a binding already"),
            ("n: \"{n}\"}\nstat", "n: \"{m}\"}\nstat", "x.yaml:10: document: \"{m}\": unknown binding \"m\""),
            (
                "n: \"{n}\"}\nstat",
                "n: \"{id}\"}\nstat",
                "x.yaml:10: document: binding \"id\": new rows are for statements",
            ),
            (
                "filter: {n: \"{n}\"}",
                "filter: {n: \"{row}\"}",
                "x.yaml:12: command: binding \"row\": a statement loads no row",
            ),
            ("name: s,", "name: operation,", "the name \"operation\" (statement 1) is taken"),
            ("small: {}", "small: {settings: {d: 1}}", "x.yaml:13: workload statements: unknown setting `d`"),
        ] {
            assert!(OWN.contains(from), "{from}");
            let error = read("x.yaml", &OWN.replacen(from, to, 1)).unwrap_err().to_string();
            assert!(error.contains(expect), "{from} -> {to}: {error}");
        }
    }

    #[test]
    fn a_script_keeps_the_order_of_its_command() {
        let script =
            "full:\n  script:\n    - {at: 600, kind: move_chunk, command: {moveChunk: a.b, find: {x: 1}, to: s2}}\n";
        let experiment = read("x.yaml", &GOOD.replace("full: {}\n", script)).unwrap();
        let [scripted] = experiment.size(Scale::Full).parameters.script.as_slice() else { panic!() };
        let names: Vec<&str> = scripted.command.iter().map(|(name, _)| name.as_str()).collect();
        assert_eq!((names.as_slice(), scripted.kind), (&["moveChunk", "find", "to"][..], EventKind::MoveChunk));
        assert_eq!((scripted.at.as_secs(), scripted.text.as_str()), (600, "move_chunk"));
    }
}
