//! `manifest.json`: what a backup consists of. Its last member is the CRC-32C of all the bytes before that member.

use std::fmt;

use arbor_base::{Position, TreeId};
use arbor_txn::TreeOptions;
use arbor_txn::fetch::{Begun, TreeFacts};
use serde::{Deserialize, Serialize};

use super::cipher::{is_encrypted, no_key};
use super::files::Files;
use super::{Result, damaged};

pub(super) const MANIFEST: &str = "manifest.json";

/// Raised when older releases cannot restore a backup any more.
pub(super) const FORMAT: u32 = 1;

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Manifest {
    pub format: u32,
    /// Id of the set that was backed up, or of the directory of a server alone.
    pub deployment: String,
    /// Name of the set.
    pub set: Option<String>,
    /// The server that was read.
    pub host: String,
    /// Its release.
    pub version: String,
    /// RFC 3339.
    pub begun: String,
    pub ended: String,
    /// All commits up to here are in the backup.
    pub position: u64,
    /// Epoch of the record at that position.
    pub epoch: u64,
    /// Time of that record: seconds in the upper 32 bits, a counter in the lower ones; 0 where no history is kept.
    pub time: u64,
    /// Engine of the trees that the server keeps for itself.
    pub home: String,
    pub files: Vec<TreeFile>,
    pub collections: Vec<Listed>,
}

/// The rows of one tree.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct TreeFile {
    pub name: String,
    pub tree: u64,
    /// With the engine.
    pub settings: Vec<(String, String)>,
    pub rows: u64,
    /// CRC-32C of the rows.
    pub rows_checksum: String,
    /// Size of the file, and the CRC-32C of its bytes.
    pub bytes: u64,
    pub checksum: String,
}

/// A collection or view; for people and tools.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Listed {
    pub ns: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub uuid: Option<String>,
    /// `None`: it is a view.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub engine: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub indexes: Option<i32>,
}

/// A CRC-32C as it is written.
pub(super) fn shown(checksum: u32) -> String {
    format!("{checksum:08x}")
}

const CHECKSUM: &str = ",\n  \"checksum\": \"";

/// Returns the text of a JSON object whose last member is its checksum.
pub(super) fn seal(object: &impl Serialize) -> String {
    let text = serde_json::to_string_pretty(object).unwrap_or_default();
    let body = text.strip_suffix("\n}").unwrap_or_default();
    assert!(!body.is_empty(), "it is a JSON object of several lines");
    format!("{body}{CHECKSUM}{}\"\n}}\n", shown(crc32c::crc32c(body.as_bytes())))
}

/// Errors: the reason why the text is not one that [`seal`] returned.
pub(super) fn unseal<T: for<'de> Deserialize<'de>>(text: &str) -> std::result::Result<T, String> {
    let (body, checksum) = text.rsplit_once(CHECKSUM).ok_or("it is damaged: it has no checksum")?;
    if checksum != format!("{}\"\n}}\n", shown(crc32c::crc32c(body.as_bytes()))) {
        return Err("it is damaged: its checksum does not match".to_owned());
    }
    serde_json::from_str(text).map_err(|error| format!("it is damaged: {error}"))
}

/// Reads what has a field `format`. Errors: also that it is of a newer release, whatever else is in it.
pub(super) fn unseal_of<T: for<'de> Deserialize<'de>>(text: &str, newest: u32) -> std::result::Result<T, String> {
    let value: serde_json::Value = serde_json::from_str(text).map_err(|error| format!("it is damaged: {error}"))?;
    let format = value.get("format").and_then(serde_json::Value::as_u64);
    if let Some(format) = format.filter(|format| *format > u64::from(newest)) {
        return Err(format!("its format is {format}; this release reads up to {newest}. Use a newer release"));
    }
    unseal(text)
}

impl Manifest {
    /// The text of the file.
    fn encode(&self) -> String {
        seal(self)
    }

    /// Errors: the reason why the text is no manifest of this release.
    fn decode(text: &str) -> std::result::Result<Manifest, String> {
        unseal_of(text, FORMAT)
    }

    /// Reads that of a backup. `None`: it has none.
    pub(super) fn read(files: &dyn Files, backup: &str) -> Result<Option<Manifest>> {
        let name = format!("{backup}/{MANIFEST}");
        let Some(bytes) = files.read(&name)? else { return Ok(None) };
        let path = files.path(&name);
        if is_encrypted(&bytes) {
            return Err(no_key(&path));
        }
        let text = std::str::from_utf8(&bytes).map_err(|_| damaged(&path, "it is damaged: it is no text"))?;
        Manifest::decode(text).map(Some).map_err(|reason| damaged(path, reason))
    }

    /// Makes the directory a backup (B1). Requires that all files are durable.
    pub(super) fn write(&self, files: &dyn Files, backup: &str) -> Result<()> {
        let text = self.encode();
        assert_eq!(Manifest::decode(&text).as_ref(), Ok(self), "the manifest reads as it was written");
        files.write(&format!("{backup}/{MANIFEST}"), text.as_bytes())
    }

    /// The state as a peer describes it.
    pub(super) fn state(&self) -> Begun {
        let facts = |file: &TreeFile| TreeFacts {
            tree: TreeId(file.tree),
            options: TreeOptions { settings: file.settings.clone() },
            rows: file.rows,
        };
        let trees = self.files.iter().map(facts).collect();
        Begun { snapshot: 0, position: Position(self.position), epoch: self.epoch, time: self.time, trees }
    }

    pub(super) fn bytes(&self) -> u64 {
        self.files.iter().map(|file| file.bytes).sum()
    }
}

/// One line of `arbor backup list`.
impl fmt::Display for Manifest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (seconds, counter) = (self.time >> 32, self.time & 0xffff_ffff);
        let of = self.set.as_ref().map_or(String::new(), |set| format!(" of {set}"));
        write!(
            f,
            "{}{of} ({}): position {}, time ({seconds}, {counter}), {} collections, {} trees, {} bytes",
            self.host,
            self.version,
            self.position,
            self.collections.iter().filter(|listed| listed.engine.is_some()).count(),
            self.files.len(),
            self.bytes()
        )
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    pub(in super::super) fn example() -> Manifest {
        let file = |tree: u64| TreeFile {
            name: format!("tree-{tree}.rows"),
            tree,
            settings: vec![("engine".to_owned(), "lmdb".to_owned())],
            rows: 3,
            rows_checksum: shown(7),
            bytes: 100,
            checksum: shown(u32::MAX),
        };
        let listed = |ns: &str, engine: Option<&str>| Listed {
            ns: ns.to_owned(),
            uuid: None,
            engine: engine.map(str::to_owned),
            indexes: engine.map(|_| 2),
        };
        Manifest {
            format: FORMAT,
            deployment: "d".to_owned(),
            set: Some("rs0".to_owned()),
            host: "a \"host\":1".to_owned(),
            version: "0.1.0".to_owned(),
            begun: "2026-11-24T00:00:00Z".to_owned(),
            ended: "2026-11-24T00:00:01Z".to_owned(),
            position: 41,
            epoch: 2,
            time: u64::MAX - 1,
            home: "ftree".to_owned(),
            files: vec![file(1), file(300)],
            collections: vec![listed("db.c", Some("lmdb")), listed("db.v", None)],
        }
    }

    #[test]
    fn a_manifest_comes_back_and_every_damage_is_found() {
        let manifest = example();
        let text = manifest.encode();
        assert_eq!(Manifest::decode(&text), Ok(manifest));
        assert!(serde_json::from_str::<serde_json::Value>(&text).is_ok());
        for end in 0..text.len() {
            assert!(Manifest::decode(&text[..end]).is_err(), "cut at {end}");
        }
        for at in 0..text.len() {
            let mut bytes = text.clone().into_bytes();
            bytes[at] ^= 1;
            if let Ok(flipped) = std::str::from_utf8(&bytes) {
                assert!(Manifest::decode(flipped).is_err(), "flipped at {at}");
            }
        }
    }

    #[test]
    fn a_newer_format_is_named_as_one() {
        let newer = Manifest { format: FORMAT + 1, ..example() }.encode();
        let reason = Manifest::decode(&newer).unwrap_err();
        assert!(reason.contains("its format is 2") && reason.contains("newer release"), "{reason}");
    }

    #[test]
    fn another_deployment_is_refused_and_the_same_is_not() {
        let dir = tempfile::tempdir().unwrap();
        let target = super::super::Target::directory(dir.path());
        let backup = target.begin("d").unwrap();
        example().write(&*target.files, &backup.name).unwrap();
        assert_eq!(Manifest::read(&*target.files, &backup.name).unwrap(), Some(example()));
        target.begin("d").unwrap();
        let refused = target.begin("e").err().map(|error| error.to_string()).unwrap_or_default();
        assert!(refused.contains("another deployment") && refused.contains("id d)"), "{refused}");
        assert_eq!(target.find(None).unwrap().0.name, backup.name, "the unfinished one is passed over");
    }

    #[test]
    fn the_state_is_that_of_the_manifest() {
        let state = example().state();
        assert_eq!((state.position, state.epoch, state.time), (Position(41), 2, u64::MAX - 1));
        assert_eq!(state.trees[1].tree, TreeId(300));
        assert_eq!(state.trees[1].options.engine(), Some("lmdb"));
    }
}
