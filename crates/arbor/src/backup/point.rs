//! A point of the past: which backup and which part of the archived log make it up.

use arbor_txn::fetch::LogBlockHead;

use super::log_files::LogFiles;
use super::manifest::Manifest;
use super::target::{Backup, Condition, Target};
use super::{Error, Result, shown_time};

/// The state that is asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Asked {
    /// The last one that there is.
    Newest,
    /// That of the backup of this name.
    Backup(String),
    /// All commits up to the position.
    Position(u64),
    /// All commits up to the time.
    Time(u64),
}

/// The end of what is replayed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Until {
    /// Nothing is.
    Backup,
    Position(u64),
    Time(u64),
}

impl Until {
    /// Returns true if a record is behind the point.
    pub(super) fn is_before(self, position: u64, time: u64) -> bool {
        match self {
            Until::Backup => true,
            Until::Position(last) => position > last,
            Until::Time(last) => time > last,
        }
    }
}

#[derive(Debug)]
pub(super) struct Point {
    pub backup: Backup,
    pub manifest: Manifest,
    pub until: Until,
}

/// Positions that are missing in an archive, the first and the last.
type Gap = (u64, u64);

/// The part of an archive behind a backup, up to the first gap.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Coverage {
    last: u64,
    time: u64,
    gap: Option<Gap>,
}

fn coverage(heads: &[LogBlockHead], manifest: &Manifest) -> Coverage {
    let mut covered = Coverage { last: manifest.position, time: manifest.time, gap: None };
    for head in heads.iter().filter(|head| head.last().0 >= manifest.position) {
        if head.first.0 > covered.last + 1 {
            covered.gap = Some((covered.last + 1, head.first.0 - 1));
            break;
        }
        covered.last = covered.last.max(head.last().0);
        covered.time = covered.time.max(head.time);
    }
    covered
}

/// A time that no commit of the backup is after.
fn time_of(manifest: &Manifest) -> u64 {
    let ended = manifest.ended.parse::<jiff::Timestamp>().map_or(0, |ended| ended.as_second().max(0) as u64);
    if manifest.time > 0 { manifest.time } else { (ended + 1) << 32 }
}

/// Finds what the point is made of. Errors: it is not in the archive; the range that is, and the gap, are named.
pub(super) fn find(from: &Target, asked: &Asked) -> Result<Point> {
    let heads = LogFiles::of(from).heads()?;
    match asked {
        Asked::Backup(name) => {
            let (backup, manifest) = from.find(Some(name))?;
            Ok(Point { backup, manifest, until: Until::Backup })
        }
        Asked::Newest => {
            let (backup, manifest) = from.find(None)?;
            let covered = coverage(&heads, &manifest);
            let until = if covered.last > manifest.position { Until::Position(covered.last) } else { Until::Backup };
            match covered.gap {
                Some(gap) => Err(gap_error(from, gap, "the newest state")),
                None => Ok(Point { backup, manifest, until }),
            }
        }
        Asked::Position(position) => {
            let text = format!("position {position}");
            let (point, covered) =
                base(from, &heads, &text, Until::Position(*position), |own| own.position <= *position)?;
            check(from, &heads, &text, covered, covered.last >= *position)?;
            Ok(point)
        }
        Asked::Time(time) => {
            let text = shown_time(*time);
            let (point, covered) = base(from, &heads, &text, Until::Time(*time), |own| time_of(own) <= *time)?;
            check(from, &heads, &text, covered, covered.time >= *time)?;
            Ok(point)
        }
    }
}

/// The newest backup that is not behind the point.
fn base(
    from: &Target,
    heads: &[LogBlockHead],
    text: &str,
    until: Until,
    is_before: impl Fn(&Manifest) -> bool,
) -> Result<(Point, Coverage)> {
    for backup in from.backups()?.into_iter().rev() {
        match backup.read()? {
            Condition::Whole(manifest) if is_before(&manifest) => {
                let covered = coverage(heads, &manifest);
                return Ok((Point { backup, manifest: *manifest, until }, covered));
            }
            // It may be the right one.
            Condition::Damaged(error) => return Err(error),
            Condition::Whole(_) | Condition::Unfinished => {}
        }
    }
    Err(outside(from, heads, text)?)
}

fn check(from: &Target, heads: &[LogBlockHead], text: &str, covered: Coverage, is_there: bool) -> Result<()> {
    match (is_there, covered.gap) {
        (true, _) => Ok(()),
        (false, Some(gap)) => Err(gap_error(from, gap, text)),
        (false, None) => Err(outside(from, heads, text)?),
    }
}

fn gap_error(from: &Target, (first, last): Gap, text: &str) -> Error {
    Error::Refused(format!(
        "{from} cannot restore {text}: the archived log has a gap, positions {first} to {last} are missing"
    ))
}

fn outside(from: &Target, heads: &[LogBlockHead], text: &str) -> Result<Error> {
    let ranges: Vec<String> = ranges(from, heads)?.iter().map(Range::to_string).collect();
    Ok(match ranges.is_empty() {
        true => Error::Refused(format!("{from} has no backup")),
        false => Error::Refused(format!("{from} cannot restore {text}: it has {}", ranges.join(", and "))),
    })
}

/// Points that can be restored, from a backup on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Range {
    pub first: u64,
    pub first_time: u64,
    pub last: u64,
    pub last_time: u64,
}

impl std::fmt::Display for Range {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let (first, last) = (shown_time(self.first_time), shown_time(self.last_time));
        write!(f, "{first} (position {}) to {last} (position {})", self.first, self.last)
    }
}

/// Ranges of points without gaps between them, the oldest first.
pub(super) fn ranges(from: &Target, heads: &[LogBlockHead]) -> Result<Vec<Range>> {
    let mut found: Vec<Range> = Vec::new();
    for backup in from.backups()? {
        let Condition::Whole(manifest) = backup.read()? else { continue };
        let covered = coverage(heads, &manifest);
        let (first, last) = (manifest.position, covered.last);
        let (first_time, last_time) = (time_of(&manifest), covered.time.max(time_of(&manifest)));
        match found.last_mut() {
            Some(before) if before.last >= first => {
                (before.last, before.last_time) = (before.last.max(last), before.last_time.max(last_time));
            }
            _ => found.push(Range { first, first_time, last, last_time }),
        }
    }
    Ok(found)
}

/// Reads `2026-11-30T12:00:00Z` (all commits before that second) or `SECONDS,COUNTER`, a cluster time.
pub(super) fn parse_time(text: &str) -> std::result::Result<u64, String> {
    if let Some((seconds, counter)) = text.split_once(',') {
        let (seconds, counter) = (seconds.trim().parse::<u32>(), counter.trim().parse::<u32>());
        if let (Ok(seconds), Ok(counter)) = (seconds, counter) {
            return Ok(u64::from(seconds) << 32 | u64::from(counter));
        }
    }
    let time: jiff::Timestamp =
        text.parse().map_err(|_| format!("'{text}' is no time such as 2026-11-30T12:00:00Z or 1796040000,1"))?;
    if time.subsec_nanosecond() != 0 {
        return Err(format!("'{text}': times are restored to the second"));
    }
    let seconds = u32::try_from(time.as_second()).map_err(|_| format!("'{text}' is out of range"))?;
    Ok(u64::from(seconds) << 32)
}

#[cfg(test)]
mod tests {
    use arbor_base::Position;

    use super::*;

    fn head(first: u64, count: u32, time: u64) -> LogBlockHead {
        LogBlockHead { has_loads: false, epoch: 1, first: Position(first), count, time }
    }

    #[test]
    fn coverage_ends_at_a_gap() {
        let manifest = super::super::manifest::tests::example();
        assert_eq!(manifest.position, 41);
        let manifest = Manifest { time: 5, ..manifest };
        let of = |heads: &[LogBlockHead]| coverage(heads, &manifest);
        assert_eq!(of(&[]), Coverage { last: 41, time: 5, gap: None });
        let own = [head(30, 5, 3), head(35, 10, 6), head(45, 1, 7), head(46, 0, 9)];
        assert_eq!(of(&own), Coverage { last: 45, time: 9, gap: None });
        assert_eq!(of(&[head(43, 2, 9)]), Coverage { last: 41, time: 5, gap: Some((42, 42)) });
        assert_eq!(of(&[head(42, 2, 9), head(50, 1, 10)]), Coverage { last: 43, time: 9, gap: Some((44, 49)) });
    }

    #[test]
    fn times() {
        assert_eq!(parse_time("1970-01-01T00:01:00Z"), Ok(60 << 32));
        assert_eq!(parse_time("1970-01-01T01:01:00+01:00"), Ok(60 << 32));
        assert_eq!(parse_time("60,7"), Ok(60 << 32 | 7));
        for text in ["", "yesterday", "60", "60,", "1970-01-01T00:01:00.5Z", "1960-01-01T00:00:00Z", "-1,2"] {
            assert!(parse_time(text).is_err(), "{text}");
        }
        assert_eq!(shown_time(60 << 32 | 7), "1970-01-01T00:01:00Z (60,7)");
    }

    #[test]
    fn what_is_behind_a_point() {
        assert!(Until::Backup.is_before(1, 1));
        assert!(!Until::Position(5).is_before(5, 9) && Until::Position(5).is_before(6, 1));
        assert!(!Until::Time(5).is_before(9, 5) && Until::Time(5).is_before(1, 6));
    }
}
