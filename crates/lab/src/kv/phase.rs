//! The phases, in the order in which they run.

use std::fmt;
use std::str::FromStr;

use super::KvOptions;

/// State of the caches at the beginning of a read phase.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Scan {
    Loaded,
    Idle,
    Cold,
}

/// See the table of the module above.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Phase {
    LoadSeq,
    LoadRand,
    Scan(Scan),
    ScanFull,
    Get(usize),
    GetMissing,
    Overwrite,
    ReadModifyWrite,
    Increment,
    Mixed(usize),
    GetCold(usize),
    DeleteRange,
    SpaceBack,
    Checkpoint,
    Reopen,
    /// The load that kill -9 ends, and what follows it in a new process; shown as one phase.
    KillLoad,
    KillReopen,
}

const MIXED_THREADS: usize = 4;

impl Phase {
    /// Returns all phases of a run.
    pub fn all(options: &KvOptions) -> Vec<Phase> {
        let mut phases = vec![Phase::LoadSeq, Phase::LoadRand, Phase::Scan(Scan::Loaded), Phase::Scan(Scan::Idle)];
        phases.push(Phase::ScanFull);
        phases.extend(options.threads.iter().map(|threads| Phase::Get(*threads)));
        phases.extend([Phase::GetMissing, Phase::Overwrite, Phase::ReadModifyWrite, Phase::Increment]);
        phases.extend([Phase::Mixed(MIXED_THREADS), Phase::GetCold(1), Phase::GetCold(4), Phase::Scan(Scan::Cold)]);
        phases.extend([Phase::DeleteRange, Phase::SpaceBack, Phase::Checkpoint, Phase::Reopen, Phase::KillReopen]);
        phases
    }

    /// Returns the phases that `only` names, with or without the number of threads, and the load that they need.
    pub fn chosen(options: &KvOptions, only: &[String]) -> Result<Vec<Phase>, String> {
        let all = Phase::all(options);
        if let Some(unknown) = only.iter().find(|name| !all.iter().any(|phase| phase.is_named(name))) {
            let known = all.iter().map(Phase::to_string).collect::<Vec<_>>().join(", ");
            return Err(format!("unknown phase {unknown:?}; known are {known}"));
        }
        let mut chosen = all;
        if !only.is_empty() {
            chosen.retain(|phase| only.iter().any(|name| phase.is_named(name)));
        }
        let needs = |phase: &Phase| !matches!(phase, Phase::LoadSeq | Phase::LoadRand | Phase::KillReopen);
        if let (false, Some(at)) = (chosen.contains(&Phase::LoadRand), chosen.iter().position(needs)) {
            chosen.insert(at, Phase::LoadRand);
        }
        Ok(chosen)
    }

    fn is_named(&self, name: &str) -> bool {
        let own = self.to_string();
        own == name || own.rsplit_once("-x").is_some_and(|(stem, _)| stem == name)
    }

    /// Returns true if its time is more informative than its rate.
    pub fn by_time(&self) -> bool {
        use Phase::{Checkpoint, DeleteRange, KillReopen, Reopen, SpaceBack};
        matches!(self, DeleteRange | SpaceBack | Checkpoint | Reopen | KillReopen)
    }
}

impl fmt::Display for Phase {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Phase::LoadSeq => f.write_str("load-seq"),
            Phase::LoadRand => f.write_str("load-rand"),
            Phase::Scan(Scan::Loaded) => f.write_str("scan-100-loaded"),
            Phase::Scan(Scan::Idle) => f.write_str("scan-100-idle"),
            Phase::Scan(Scan::Cold) => f.write_str("scan-100-cold"),
            Phase::ScanFull => f.write_str("scan-full"),
            Phase::Get(threads) => write!(f, "get-x{threads}"),
            Phase::GetMissing => f.write_str("get-missing"),
            Phase::Overwrite => f.write_str("overwrite"),
            Phase::ReadModifyWrite => f.write_str("rmw"),
            Phase::Increment => f.write_str("increment"),
            Phase::Mixed(threads) => write!(f, "mixed-x{threads}"),
            Phase::GetCold(threads) => write!(f, "get-cold-x{threads}"),
            Phase::DeleteRange => f.write_str("delete-range"),
            Phase::SpaceBack => f.write_str("space-back"),
            Phase::Checkpoint => f.write_str("checkpoint"),
            Phase::Reopen => f.write_str("reopen"),
            Phase::KillLoad => f.write_str("kill-load"),
            Phase::KillReopen => f.write_str("reopen-kill"),
        }
    }
}

impl FromStr for Phase {
    type Err = String;

    fn from_str(text: &str) -> Result<Phase, String> {
        let threads = |stem: &str| text.strip_prefix(stem).and_then(|number| number.parse().ok());
        if let Some(n) = threads("get-x") {
            return Ok(Phase::Get(n));
        }
        if let Some(n) = threads("get-cold-x") {
            return Ok(Phase::GetCold(n));
        }
        if let Some(n) = threads("mixed-x") {
            return Ok(Phase::Mixed(n));
        }
        let mut plain = Phase::all(&KvOptions::default());
        plain.push(Phase::KillLoad);
        plain.into_iter().find(|phase| phase.to_string() == text).ok_or_else(|| format!("{text:?} is no phase"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chosen(only: &str) -> Result<String, String> {
        let only: Vec<String> = only.split_whitespace().map(str::to_owned).collect();
        let phases = Phase::chosen(&KvOptions::default(), &only)?;
        Ok(phases.iter().map(Phase::to_string).collect::<Vec<_>>().join(" "))
    }

    #[test]
    fn names_are_read_back() {
        for phase in Phase::all(&KvOptions::default()).into_iter().chain([Phase::KillLoad, Phase::Get(40)]) {
            assert_eq!(phase.to_string().parse(), Ok(phase));
        }
        assert!("get".parse::<Phase>().is_err());
    }

    #[test]
    fn a_choice_brings_the_load_that_it_needs() {
        assert_eq!(chosen("get").unwrap(), "load-rand get-x1 get-x2 get-x4");
        assert_eq!(chosen("load-seq reopen-kill").unwrap(), "load-seq reopen-kill");
        assert_eq!(chosen("load-seq get-cold-x4").unwrap(), "load-seq load-rand get-cold-x4");
        assert!(chosen("frob").unwrap_err().contains("known are load-seq, load-rand"));
        assert!(chosen("").unwrap().ends_with("reopen reopen-kill"));
    }
}
