//! The streams of the load and of one client (spec/workloads.md 8.3, 8.5).

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use super::choice::Choice;
use super::keys::{KeyCounter, write_key};
use super::operation::{Field, Record, YcsbOperation};
use super::settings::Plan;
use crate::workload::{Client, Execute, Kind, Operation, Random, Unit};

/// Names of fields and bytes for their values, used again from operation to operation.
struct Fields {
    names: Vec<String>,
    values: Vec<Vec<u8>>,
    bytes: usize,
}

impl Fields {
    fn new(plan: &Plan) -> Fields {
        let names: Vec<String> = (0..plan.fieldcount).map(|number| format!("field{number}")).collect();
        Fields { values: vec![Vec::new(); names.len()], names, bytes: plan.fieldlength as usize }
    }

    fn fill(&mut self, random: &mut Random) {
        for value in &mut self.values {
            fill_value(self.bytes, random, value);
        }
    }

    fn all(&self) -> Vec<Field<'_>> {
        self.names.iter().zip(&self.values).map(|(name, value)| (name.as_str(), value.as_slice())).collect()
    }

    /// One field of all, with a new value.
    fn one(&mut self, random: &mut Random) -> Field<'_> {
        let at = random.below(self.names.len() as u64) as usize;
        fill_value(self.bytes, random, &mut self.values[at]);
        (&self.names[at], &self.values[at])
    }
}

/// Six bytes from each 32 random bits, each 32 plus five or six of the bits or, for every third, the bits of 95.
fn fill_value(bytes: usize, random: &mut Random, value: &mut Vec<u8>) {
    value.clear();
    while value.len() < bytes {
        let bits = random.bits() as u32;
        let six = [bits & 31, bits >> 5 & 63, bits >> 10 & 95, bits >> 15 & 31, bits >> 20 & 63, bits >> 25 & 95];
        value.extend(six.iter().take(bytes - value.len()).map(|bits| *bits as u8 + 32));
    }
}

/// One thread of the load; threads take batches of key numbers from one counter.
pub(super) struct Loader {
    plan: Plan,
    next: Arc<AtomicU64>,
    keys: Vec<String>,
    fields: Vec<Fields>,
}

impl Loader {
    pub(super) fn new(plan: Plan, next: Arc<AtomicU64>) -> Loader {
        Loader { plan, next, keys: Vec::new(), fields: Vec::new() }
    }
}

impl Client for Loader {
    fn unit(&mut self, execute: &mut Execute<'_>) -> Unit {
        let (batch, end) = (u64::from(self.plan.batch), self.plan.records_loaded());
        let first = self.next.fetch_add(batch, Ordering::Relaxed);
        let count = end.saturating_sub(first).min(batch) as usize;
        if count == 0 {
            return Unit::Finished;
        }
        self.keys.resize_with(count, String::new);
        self.fields.resize_with(count, || Fields::new(&self.plan));
        for (number, (key, fields)) in (first..).zip(self.keys.iter_mut().zip(&mut self.fields)) {
            write_key(&self.plan, number, key);
            // A record's content depends on its number only.
            fields.fill(&mut Random::new(number));
        }
        let fields: Vec<Vec<Field<'_>>> = self.fields.iter().map(Fields::all).collect();
        let records: Vec<Record<'_>> =
            self.keys.iter().zip(&fields).map(|(key, fields)| Record { key, fields }).collect();
        let operation = match records.as_slice() {
            [record] if self.plan.upsert => YcsbOperation::LoadByReplacing(*record),
            records => YcsbOperation::Load(records),
        };
        execute(&Operation::Ycsb(operation)).map_or(Unit::Abandoned, |_| Unit::Complete(&[]))
    }
}

/// One client of a run.
pub(super) struct Stream {
    plan: Plan,
    choice: Choice,
    keys: Arc<KeyCounter>,
    random: Random,
    key: String,
    fields: Fields,
}

/// The operation alone, and one that is a read and an update.
const SINGLE: Unit = Unit::Complete(&[Kind::OPERATION]);
const MODIFIED: Unit = Unit::Complete(&[Kind::OPERATION, YcsbOperation::READ_MODIFY_WRITE]);

impl Stream {
    pub(super) fn new(plan: Plan, choice: Choice, keys: Arc<KeyCounter>, seed: u64) -> Stream {
        let (random, fields) = (Random::new(seed), Fields::new(&plan));
        Stream { plan, choice, keys, random, key: String::new(), fields }
    }

    /// Which of the five operations is next.
    fn choose(&mut self) -> usize {
        let proportions = self.plan.proportions();
        let mut draw = self.random.unit() * proportions.iter().sum::<f64>();
        let last = proportions.iter().rposition(|part| *part > 0.0).unwrap_or(0);
        for (at, part) in proportions.iter().enumerate().take(last) {
            if draw < *part {
                return at;
            }
            draw -= part;
        }
        last
    }

    fn existing_key(&mut self) {
        let number = self.choice.next(&mut self.random);
        write_key(&self.plan, number, &mut self.key);
    }

    fn read(&mut self, execute: &mut Execute<'_>) -> bool {
        let names = &self.fields.names;
        let field = (!self.plan.readallfields).then(|| self.random.below(names.len() as u64) as usize);
        let field = field.and_then(|at| names.get(at)).map(String::as_str);
        execute(&Operation::Ycsb(YcsbOperation::Read { key: &self.key, field })).is_some()
    }

    fn update(&mut self, execute: &mut Execute<'_>) -> bool {
        let key = &self.key;
        let mut send =
            |fields: &[Field<'_>]| execute(&Operation::Ycsb(YcsbOperation::Update { key, fields })).is_some();
        if self.plan.writeallfields {
            self.fields.fill(&mut self.random);
            send(&self.fields.all())
        } else {
            send(&[self.fields.one(&mut self.random)])
        }
    }

    fn insert(&mut self, execute: &mut Execute<'_>) -> bool {
        let number = self.keys.take();
        write_key(&self.plan, number, &mut self.key);
        self.fields.fill(&mut self.random);
        let record = Record { key: &self.key, fields: &self.fields.all() };
        let done = execute(&Operation::Ycsb(YcsbOperation::Insert(record))).is_some();
        self.keys.acknowledge(number);
        done
    }

    fn scan(&mut self, execute: &mut Execute<'_>) -> bool {
        self.existing_key();
        let limit = self.random.up_to(self.plan.maxscanlength);
        execute(&Operation::Ycsb(YcsbOperation::Scan { key: &self.key, limit })).is_some()
    }
}

impl Client for Stream {
    fn unit(&mut self, execute: &mut Execute<'_>) -> Unit {
        let operation = self.choose();
        if matches!(operation, 0 | 1 | 4) {
            self.existing_key();
        }
        let (done, unit) = match operation {
            0 => (self.read(execute), SINGLE),
            1 => (self.update(execute), SINGLE),
            2 => (self.insert(execute), SINGLE),
            3 => (self.scan(execute), SINGLE),
            _ => (self.read(execute) && self.update(execute), MODIFIED),
        };
        if done { unit } else { Unit::Abandoned }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use serde_json::json;

    use super::super::{Letter, Settings, Ycsb};
    use super::*;
    use crate::workload::{Answer, Mode, Place, Workload};

    fn ycsb(settings: serde_json::Value, mode: Mode) -> Ycsb {
        Ycsb::new(mode, &serde_json::from_value::<Settings>(settings).unwrap()).unwrap()
    }

    #[test]
    fn proportions_are_those_of_the_stock_files() {
        for (letter, expect) in [
            ("a", &[("read", 0.5), ("update", 0.5)][..]),
            ("b", &[("read", 0.95), ("update", 0.05)]),
            ("c", &[("read", 1.0)]),
            ("d", &[("read", 0.95), ("insert", 0.05)]),
            ("e", &[("scan", 0.95), ("insert", 0.05)]),
            // The reads and updates of read-modify-writes count as such too.
            ("f", &[("read", 1.0), ("update", 0.5)]),
        ] {
            let workload = ycsb(json!({"workload": letter}), Mode::Compat);
            let (mut client, mut counts, mut whole) =
                (workload.client(Place { number: 0, of: 1 }, 1), BTreeMap::new(), 0);
            for _ in 0..40_000 {
                let unit = client.unit(&mut |operation| {
                    *counts.entry(operation.kind().name()).or_insert(0u32) += 1;
                    Some(Answer::rows(1))
                });
                whole += u32::from(unit == MODIFIED);
            }
            for (name, share) in expect {
                let found = f64::from(counts[name]) / 40_000.0;
                assert!((found - share).abs() < 0.01, "{letter}: {name} {found}, not {share}");
            }
            assert_eq!(counts.len(), expect.len(), "{letter}: {counts:?}");
            assert_eq!(whole > 0, letter == "f");
        }
        assert_eq!(ycsb(json!({}), Mode::Compat).plan.workload, Letter::A);
    }

    #[test]
    fn values_are_printable_and_varied() {
        let (mut value, mut random) = (Vec::new(), Random::new(1));
        // Six bytes share the bits of one number; each has a spread of its own.
        let mut counts = [[0u32; 256]; 6];
        for _ in 0..4000 {
            fill_value(100, &mut random, &mut value);
            assert!(value.len() == 100 && value.iter().all(|byte| (32..128).contains(byte)));
            value.iter().enumerate().for_each(|(at, byte)| counts[at % 6][usize::from(*byte)] += 1);
        }
        let bits = counts.map(|counts| {
            let all = f64::from(counts.iter().sum::<u32>());
            let shares = counts.iter().filter(|count| **count > 0).map(|count| f64::from(*count) / all);
            shares.map(|share| -share * share.log2()).sum::<f64>()
        });
        let mean = bits.iter().sum::<f64>() / 6.0;
        assert!((5.6..5.7).contains(&mean), "{bits:?}");
    }

    #[test]
    fn the_load_brings_every_key_once() {
        for (settings, mode, sizes, keys) in [
            (json!({"records": 25, "batch": 10}), Mode::Fixed, vec![10, 10, 5], 25),
            (json!({"records": 25, "batch": 10}), Mode::Compat, vec![10, 10], 20),
            (json!({"records": 3}), Mode::Compat, vec![1, 1, 1], 3),
        ] {
            let (mut seen, mut batches) = (std::collections::BTreeSet::new(), Vec::new());
            for mut loader in ycsb(settings, mode).loaders(2) {
                while loader.unit(&mut |operation| {
                    let records = match operation {
                        Operation::Ycsb(YcsbOperation::Load(records)) => records.to_vec(),
                        Operation::Ycsb(YcsbOperation::LoadByReplacing(record)) => vec![*record],
                        other => panic!("{other:?}"),
                    };
                    batches.push(records.len());
                    for record in records {
                        assert!(seen.insert(record.key.to_owned()) && record.fields.len() == 10);
                    }
                    Some(Answer::rows(1))
                }) != Unit::Finished
                {}
            }
            assert_eq!((batches, seen.len()), (sizes, keys));
            assert!(seen.contains("user6284781860667377211"));
        }
    }

    #[test]
    fn inserted_keys_are_new_and_are_read_later() {
        let workload = ycsb(json!({"workload": "d", "records": 1000}), Mode::Compat);
        workload.resume(&[crate::workload::Found { documents: 1500, last_id: None }]);
        let (mut client, mut inserted, mut read) = (workload.client(Place { number: 0, of: 1 }, 1), Vec::new(), 0);
        for _ in 0..5000 {
            client.unit(&mut |operation| {
                match operation {
                    Operation::Ycsb(YcsbOperation::Insert(record)) => inserted.push(record.key.to_owned()),
                    Operation::Ycsb(YcsbOperation::Read { key, .. }) => {
                        read += usize::from(inserted.iter().any(|own| own == key))
                    }
                    other => panic!("{other:?}"),
                }
                Some(Answer::rows(1))
            });
        }
        assert_eq!(inserted[0], format!("user{}", super::super::fnv(1500)));
        assert!(read > 1500, "{read} reads of inserted records");
    }
}
