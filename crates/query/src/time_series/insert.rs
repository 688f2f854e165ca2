//! Inserting measurements.
//!
//! A measurement belongs to one window of time and one owner; of the buckets of these the last one takes it, until it is
//! full. Nothing is remembered between statements: the bucket is found by its `_id` (B1), in the transaction that writes
//! it, so two concurrent writes into one bucket conflict, and the later one runs again.

use std::borrow::Cow;
use std::collections::{HashMap, HashSet};

use arbor_bson::{Doc, DocBuf, ValueRef, identical};
use arbor_lang::time_series::{Bucket, bucket_id};
use arbor_store::{Collection, RecordCursor, UpdateKind, id_key};
use arbor_txn::Transaction;

use super::TimeSeries;
use crate::write::prepare;
use crate::{Error, Executed, InsertOutcome, InsertSpec, Interrupt, Result, Scope, WriteError};

/// Buckets and bytes of measurements that one transaction takes: at most 256 buckets of 125 KiB are read and written.
const GROUP_BUCKETS_MAX: usize = 256;
const GROUP_BYTES_MAX: usize = 8 << 20;
/// A number that no bucket has.
const BEHIND_ALL: u32 = 0xff_ffff;

pub(crate) fn insert(
    scope: &Scope<'_>,
    series: &TimeSeries,
    spec: &InsertSpec<'_>,
    interrupt: &Interrupt,
) -> Result<InsertOutcome> {
    let missing = || Error::Store(arbor_store::Error::NamespaceNotFound(spec.namespace.clone()));
    super::refuse_in_transaction(scope, "insert into", &spec.namespace)?;
    let held = scope.store.hold(&series.buckets.namespace).ok_or_else(missing)?;
    let mut outcome = InsertOutcome::default();
    let mut measurements = Vec::with_capacity(spec.documents.len());
    let known = scope.executed_among(spec.documents.len())?;
    outcome.inserted = known.len() as u64;
    for (index, doc) in spec.documents.iter().enumerate() {
        if known.binary_search(&index).is_ok() {
            continue;
        }
        match Measurement::of(*doc, series) {
            Ok(measurement) => measurements.push((index, measurement)),
            Err(error) => {
                outcome.errors.push(WriteError { index, error });
                if spec.ordered {
                    break;
                }
            }
        }
    }
    let mut rest = measurements.as_slice();
    while let Some((group, behind)) = rest.split_at_checked(group_of(rest)).filter(|(group, _)| !group.is_empty()) {
        rest = behind;
        let write = |txn: &mut Transaction| {
            Packer::new(series, &held).pack(txn, group)?;
            scope.record_each(txn, group.iter().map(|(index, _)| *index), || Executed::Inserted)
        };
        let written = interrupt.check().and_then(|()| scope.write(write));
        match written {
            Ok(_) => outcome.inserted += group.len() as u64,
            Err(error) => {
                // nothing of the group was written
                outcome.errors.push(WriteError { index: group.first().map_or(0, |(index, _)| *index), error });
                break;
            }
        }
    }
    outcome.errors.sort_by_key(|error| error.index);
    scope.make_durable(spec.durability)?;
    Ok(outcome)
}

/// Returns how many of the first ones go into one transaction: as many as stay within bounds on bytes and on buckets, since each bucket is
/// written whole.
fn group_of(measurements: &[(usize, Measurement<'_>)]) -> usize {
    let (mut buckets, mut bytes) = (HashSet::new(), 0);
    let fits = |(_, measurement): &&(usize, Measurement<'_>)| {
        buckets.insert((measurement.window, measurement.owner.clone()));
        bytes += measurement.doc.len();
        buckets.len() <= GROUP_BUCKETS_MAX && bytes <= GROUP_BYTES_MAX
    };
    measurements.iter().take_while(fits).count().max(1).min(measurements.len())
}

struct Measurement<'d> {
    doc: Cow<'d, [u8]>,
    window: i64,
    /// The owner in BSON, so that 1 and 1.0 are two; empty: there is none.
    owner: Vec<u8>,
}

impl<'d> Measurement<'d> {
    fn of(doc: Doc<'d>, series: &TimeSeries) -> Result<Measurement<'d>> {
        let options = &series.options;
        let Some(ValueRef::DateTime(time)) = doc.get(&options.time_field) else {
            let field = &options.time_field;
            return Err(Error::bad_value(format!(
                "'{field}' must be present and contain a valid BSON UTC datetime value"
            )));
        };
        let owner = options.meta_field.as_deref().and_then(|field| doc.get(field));
        let owner = owner.map(|owner| DocBuf::new().with("", owner).into_bytes()).unwrap_or_default();
        Ok(Measurement { doc: prepare(doc)?, window: options.window_of(time), owner })
    }

    fn doc(&self) -> Doc<'_> {
        Doc::trusted(&self.doc)
    }
}

/// Fills buckets in one transaction.
struct Packer<'p> {
    series: &'p TimeSeries,
    buckets: &'p Collection,
    open: HashMap<(i64, &'p [u8]), Open>,
    /// The numbers given so far, by the first bytes of the ids.
    numbers: HashMap<[u8; 9], u32>,
}

struct Open {
    bucket: Bucket,
    /// As it is stored. None: it is new.
    stored: Option<DocBuf>,
}

impl<'p> Packer<'p> {
    fn new(series: &'p TimeSeries, buckets: &'p Collection) -> Packer<'p> {
        Packer { series, buckets, open: HashMap::new(), numbers: HashMap::new() }
    }

    fn pack(mut self, txn: &mut Transaction, measurements: &'p [(usize, Measurement<'p>)]) -> Result<()> {
        for (_, measurement) in measurements {
            let key = (measurement.window, measurement.owner.as_slice());
            let mut open = match self.open.remove(&key) {
                Some(open) => open,
                None => self.last_bucket(txn, measurement)?,
            };
            if !open.bucket.has_room_for(measurement.doc()) {
                self.write(txn, &open)?;
                open = self.next_bucket(measurement)?;
            }
            open.bucket.push(measurement.doc(), &self.series.options);
            self.open.insert(key, open);
        }
        self.open.values().try_for_each(|open| self.write(txn, open))
    }

    fn write(&self, txn: &mut Transaction, open: &Open) -> Result<()> {
        let new = open.bucket.to_doc(&self.series.options);
        match &open.stored {
            Some(stored) => arbor_store::update(txn, self.buckets, stored.as_doc(), new.as_doc(), UpdateKind::Update)?,
            None => arbor_store::insert(txn, self.buckets, new.as_doc())?,
        }
        Ok(())
    }

    /// The last bucket of the measurement's window and owner, or the first one if there is none yet.
    fn last_bucket(&mut self, txn: &Transaction, measurement: &Measurement<'_>) -> Result<Open> {
        let owner = self.owner(measurement);
        let first = bucket_id(measurement.window, owner, 0);
        let first_key = id_key(ValueRef::ObjectId(first));
        let behind = id_key(ValueRef::ObjectId(bucket_id(measurement.window, owner, BEHIND_ALL)));
        let mut cursor = RecordCursor::new(txn, self.buckets)?;
        let mut found = cursor.seek_before(&behind)?;
        let mut last = None;
        while found && cursor.id_key() >= first_key.as_slice() {
            let doc = cursor.doc();
            if let Some(ValueRef::ObjectId(id)) = doc.get("_id") {
                last = last.max(Some(u32::from_be_bytes([0, id.0[9], id.0[10], id.0[11]])));
            }
            let same_owner = match (doc.get("meta"), owner) {
                (None, None) => true,
                (Some(a), Some(b)) => identical(a, b),
                _ => false,
            };
            if same_owner && let Some(bucket) = Bucket::read(doc, &self.series.options) {
                self.note_number(first.0, last);
                return Ok(Open { bucket, stored: Some(doc.to_buf()) });
            }
            found = cursor.prev()?;
        }
        self.note_number(first.0, last);
        self.next_bucket(measurement)
    }

    fn owner<'m>(&self, measurement: &'m Measurement<'_>) -> Option<ValueRef<'m>> {
        let field = self.series.options.meta_field.as_deref()?;
        measurement.doc().get(field)
    }

    fn note_number(&mut self, id: [u8; 12], last: Option<u32>) {
        let next = last.map_or(0, |last| last + 1);
        let known = self.numbers.entry(head(id)).or_insert(next);
        *known = next.max(*known);
    }

    fn next_bucket(&mut self, measurement: &Measurement<'_>) -> Result<Open> {
        let owner = self.owner(measurement);
        let number = self.numbers.entry(head(bucket_id(measurement.window, owner, 0).0)).or_default();
        if *number >= BEHIND_ALL {
            return Err(Error::internal("a window of time has too many buckets"));
        }
        let id = bucket_id(measurement.window, owner, *number);
        *number += 1;
        Ok(Open { bucket: Bucket::new(id, measurement.window, owner), stored: None })
    }
}

fn head(id: [u8; 12]) -> [u8; 9] {
    let mut head = [0; 9];
    head.copy_from_slice(&id[..9]);
    head
}
