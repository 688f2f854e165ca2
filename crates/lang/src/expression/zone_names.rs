//! Abbreviations of time zones in the texts of dates.
//!
//! An abbreviation is a fixed offset: `EST` is five hours behind UTC on every day of the year. One that several parts of the world use
//! for different offsets is not here.

/// Abbreviation and minutes ahead of UTC.
const NAMES: &[(&str, i64)] = &[
    ("utc", 0),
    ("gmt", 0),
    ("wet", 0),
    ("west", 60),
    ("bst", 60),
    ("cet", 60),
    ("cest", 120),
    ("eet", 120),
    ("eest", 180),
    ("msk", 180),
    ("msd", 240),
    ("wat", 60),
    ("cat", 120),
    ("sast", 120),
    ("eat", 180),
    ("pkt", 300),
    ("wib", 420),
    ("wita", 480),
    ("wit", 540),
    ("hkt", 480),
    ("awst", 480),
    ("awdt", 540),
    ("jst", 540),
    ("acst", 570),
    ("acdt", 630),
    ("aest", 600),
    ("aedt", 660),
    ("chst", 600),
    ("nzst", 720),
    ("nzdt", 780),
    ("nst", -210),
    ("ndt", -150),
    ("ast", -240),
    ("adt", -180),
    ("est", -300),
    ("edt", -240),
    ("cst", -360),
    ("cdt", -300),
    ("mst", -420),
    ("mdt", -360),
    ("pst", -480),
    ("pdt", -420),
    ("akst", -540),
    ("akdt", -480),
    ("hst", -600),
    ("hdt", -540),
    ("sst", -660),
];

/// The letters of zones from an hour ahead of UTC on, without `j`; then those behind, from an hour on.
const AHEAD: &str = "abcdefghiklm";
const BEHIND: &str = "nopqrstuvwxy";

/// Returns the minutes by which a zone is ahead of UTC. Requires its name in small letters.
pub(super) fn minutes_of(name: &str) -> Option<i64> {
    let hours = |letters: &str| (name.len() == 1).then(|| letters.find(name)).flatten().map(|at| at as i64 + 1);
    let letter = || match name {
        "z" => Some(0),
        _ => hours(AHEAD).or_else(|| hours(BEHIND).map(|hours| -hours)).map(|hours| hours * 60),
    };
    NAMES.iter().find(|(known, _)| *known == name).map(|(_, minutes)| *minutes).or_else(letter)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_letters() {
        for (name, minutes) in [
            ("utc", Some(0)),
            ("est", Some(-300)),
            ("nzdt", Some(780)),
            ("z", Some(0)),
            ("a", Some(60)),
            ("i", Some(540)),
            ("k", Some(600)),
            ("m", Some(720)),
            ("n", Some(-60)),
            ("y", Some(-720)),
            ("j", None),
            ("ab", None),
            ("", None),
            ("EST", None),
        ] {
            assert_eq!(minutes_of(name), minutes, "{name}");
        }
        let mut names: Vec<&str> = NAMES.iter().map(|(name, _)| *name).collect();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), NAMES.len());
    }
}
