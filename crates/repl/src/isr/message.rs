//! Messages between members, and their form as BSON documents. Bytes from a network become a message or `None`, never a panic.

use arbor_base::Position;
use arbor_bson::{ArrayBuf, Doc, DocBuf, ValueRef};

use super::{Millis, Place};
use crate::agreement::{Epoch, MemberId, StoreId, member_id, store_id, unsigned};

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Envelope {
    pub from: MemberId,
    pub to: MemberId,
    pub message: Message,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Message {
    /// A follower requests the records after its last one, and reports what it has.
    Fetch(Fetch),
    /// The reply to a fetch.
    Records(Records),
    /// Reply to a fetch: the primary has another record there. `keep`: its last one of the greatest epoch up to the
    /// follower's.
    Diverged { epoch: Epoch, serial: u64, after: Place, keep: Place },
    /// Reply to a fetch: the log no longer has these records.
    TooOld { epoch: Epoch, serial: u64 },
    /// A follower requests the records after its last one from a member that does not lead.
    Relay { epoch: Epoch, serial: u64, after: Place },
    /// The reply to that: from the sender's own log, which need not be the primary's.
    Relayed(Records),
    /// "I lead this epoch."
    Lead { epoch: Epoch },
    /// Reply to a fetch: the receiver does not lead. The epoch is the highest that it has seen.
    NotPrimary { epoch: Epoch },
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Fetch {
    pub epoch: Epoch,
    pub store: StoreId,
    /// Repeated in the reply.
    pub serial: u64,
    /// The follower's last record.
    pub after: Place,
    /// On the follower's disk, up to here.
    pub durable: Position,
    /// The newest time of the primary's clock that the follower has seen: the promise was made after it. 0: no promise.
    pub promise: Millis,
    /// Loads that the follower has.
    pub loads: Vec<u64>,
    /// The follower gets its records from another member: the reply has none, and comes at once.
    pub chained: bool,
    /// The disk of the follower is full.
    pub full: bool,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Records {
    /// The primary's.
    pub epoch: Epoch,
    pub serial: u64,
    /// The record before the first one.
    pub after: Place,
    /// Epoch of these records.
    pub of: Epoch,
    pub payloads: Vec<Vec<u8>>,
    pub commit: Position,
    /// Time of the primary's clock.
    pub sent: Millis,
    /// Loads that members should get.
    pub loads: Vec<u64>,
}

impl Message {
    pub fn epoch(&self) -> Epoch {
        match self {
            Message::Fetch(Fetch { epoch, .. }) => *epoch,
            Message::Records(Records { epoch, .. }) | Message::Relayed(Records { epoch, .. }) => *epoch,
            Message::Diverged { epoch, .. } | Message::TooOld { epoch, .. } | Message::Relay { epoch, .. } => *epoch,
            Message::Lead { epoch } | Message::NotPrimary { epoch } => *epoch,
        }
    }
}

impl Message {
    /// Returns true if the sender waits for a reply.
    pub fn is_request(&self) -> bool {
        matches!(self, Message::Fetch(_) | Message::Relay { .. })
    }

    /// Returns false for what no member sends: records of an epoch after its own, or of one before the record that they
    /// follow.
    fn agrees_with_itself(&self) -> bool {
        match self {
            Message::Records(records) | Message::Relayed(records) if !records.payloads.is_empty() => {
                records.after.epoch <= records.of && records.of <= records.epoch
            }
            _ => true,
        }
    }
}

impl Envelope {
    pub fn encode(&self) -> Vec<u8> {
        let doc = DocBuf::new().with("from", self.from.0 as i32).with("to", self.to.0 as i32);
        let doc = doc.with("epoch", number(self.message.epoch().0));
        let doc = match &self.message {
            Message::Fetch(fetch) => encode_fetch(doc, fetch),
            Message::Records(records) => encode_records(doc.with("kind", "records"), records),
            Message::Relayed(records) => encode_records(doc.with("kind", "relayed"), records),
            Message::Relay { serial, after, .. } => {
                put_place(doc.with("kind", "relay").with("serial", number(*serial)), "after", *after)
            }
            Message::Diverged { serial, after, keep, .. } => {
                let doc = doc.with("kind", "diverged").with("serial", number(*serial));
                put_place(put_place(doc, "after", *after), "keep", *keep)
            }
            Message::TooOld { serial, .. } => doc.with("kind", "tooOld").with("serial", number(*serial)),
            Message::Lead { .. } => doc.with("kind", "lead"),
            Message::NotPrimary { .. } => doc.with("kind", "notPrimary"),
        };
        doc.into_bytes()
    }

    /// Returns the message; `None`: the bytes are none.
    pub fn decode(bytes: &[u8]) -> Option<Envelope> {
        let doc = Doc::parse(bytes).ok()?;
        let read = Fields(doc);
        let ValueRef::String(kind) = doc.get("kind")? else { return None };
        let epoch = Epoch(read.number("epoch")?);
        let message = match kind {
            "fetch" => Message::Fetch(Fetch {
                epoch,
                store: store_id(doc.get("store")?)?,
                serial: read.number("serial")?,
                after: read.place("after")?,
                durable: read.position("durable")?,
                promise: read.number("promise")?,
                loads: read.numbers("loads")?,
                chained: matches!(doc.get("chained"), Some(ValueRef::Bool(true))),
                full: matches!(doc.get("full"), Some(ValueRef::Bool(true))),
            }),
            "records" => Message::Records(read.records(epoch)?),
            "relayed" => Message::Relayed(read.records(epoch)?),
            "relay" => Message::Relay { epoch, serial: read.number("serial")?, after: read.place("after")? },
            "diverged" => {
                let (after, keep) = (read.place("after")?, read.place("keep")?);
                Message::Diverged { epoch, serial: read.number("serial")?, after, keep }
            }
            "tooOld" => Message::TooOld { epoch, serial: read.number("serial")? },
            "lead" => Message::Lead { epoch },
            "notPrimary" => Message::NotPrimary { epoch },
            _ => return None,
        };
        if !message.agrees_with_itself() {
            return None;
        }
        Some(Envelope { from: member_id(doc.get("from")?)?, to: member_id(doc.get("to")?)?, message })
    }
}

fn encode_fetch(doc: DocBuf, fetch: &Fetch) -> DocBuf {
    let doc = doc.with("kind", "fetch").with("serial", number(fetch.serial));
    let doc = doc.with("store", ValueRef::Binary { subtype: 4, bytes: &fetch.store.0 });
    let doc = put_place(doc, "after", fetch.after).with("durable", number(fetch.durable.0));
    let doc = doc.with("promise", number(fetch.promise)).with("loads", &numbers(&fetch.loads));
    // Members of releases without it never see the field: they do not chain.
    let doc = if fetch.chained { doc.with("chained", true) } else { doc };
    if fetch.full { doc.with("full", true) } else { doc }
}

fn encode_records(doc: DocBuf, records: &Records) -> DocBuf {
    let doc = doc.with("serial", number(records.serial));
    let doc = put_place(doc, "after", records.after).with("of", number(records.of.0));
    let mut joined = Vec::with_capacity(records.payloads.iter().map(|payload| payload.len() + 4).sum());
    for payload in &records.payloads {
        joined.extend_from_slice(&(payload.len() as u32).to_le_bytes());
        joined.extend_from_slice(payload);
    }
    doc.with("payloads", ValueRef::Binary { subtype: 0, bytes: &joined })
        .with("commit", number(records.commit.0))
        .with("sent", number(records.sent))
        .with("loads", &numbers(&records.loads))
}

fn number(number: u64) -> i64 {
    i64::try_from(number).expect("positions, epochs and times fit a signed number")
}

fn numbers(list: &[u64]) -> ArrayBuf {
    list.iter().map(|each| number(*each)).collect()
}

fn put_place(doc: DocBuf, name: &str, place: Place) -> DocBuf {
    let place = DocBuf::new().with("e", number(place.epoch.0)).with("p", number(place.position.0));
    doc.with(name, &place)
}

/// No number of a message is greater, so that what follows it can be counted and written.
const NUMBER_MAX: u64 = i64::MAX as u64 / 2;

struct Fields<'a>(Doc<'a>);

impl<'a> Fields<'a> {
    fn number(&self, name: &str) -> Option<u64> {
        unsigned(self.0.get(name)?).filter(|number| *number <= NUMBER_MAX)
    }

    fn position(&self, name: &str) -> Option<Position> {
        self.number(name).map(Position)
    }

    fn numbers(&self, name: &str) -> Option<Vec<u64>> {
        match self.0.get(name)? {
            ValueRef::Array(list) => list.iter().map(unsigned).collect(),
            _ => None,
        }
    }

    fn place(&self, name: &str) -> Option<Place> {
        match self.0.get(name)? {
            ValueRef::Document(doc) => {
                let read = Fields(doc);
                Some(Place { epoch: Epoch(read.number("e")?), position: read.position("p")? })
            }
            _ => None,
        }
    }

    fn records(&self, epoch: Epoch) -> Option<Records> {
        Some(Records {
            epoch,
            serial: self.number("serial")?,
            after: self.place("after")?,
            of: Epoch(self.number("of")?),
            payloads: self.payloads("payloads")?,
            commit: self.position("commit")?,
            sent: self.number("sent")?,
            loads: self.numbers("loads")?,
        })
    }

    fn payloads(&self, name: &str) -> Option<Vec<Vec<u8>>> {
        let ValueRef::Binary { subtype: 0, bytes: mut rest } = self.0.get(name)? else { return None };
        let mut payloads = Vec::new();
        while !rest.is_empty() {
            let (length, after) = rest.split_first_chunk::<4>()?;
            let (payload, after) = after.split_at_checked(u32::from_le_bytes(*length) as usize)?;
            payloads.push(payload.to_vec());
            rest = after;
        }
        Some(payloads)
    }
}

#[cfg(test)]
mod tests {
    use arbor_base::Random;

    use super::*;

    fn place(random: &mut Random) -> Place {
        Place { epoch: Epoch(random.below(9)), position: Position(random.next_u64() >> 2) }
    }

    fn message(random: &mut Random) -> Message {
        let (epoch, serial) = (Epoch(random.next_u64() >> 2), random.below(100));
        match random.below(8) {
            0 => Message::Fetch(Fetch {
                chained: random.one_in(2),
                full: random.one_in(2),
                epoch,
                store: StoreId([random.next_u64() as u8; 16]),
                serial,
                after: place(random),
                durable: Position(random.below(1_000)),
                promise: random.below(1_000),
                loads: (0..random.below(4)).collect(),
            }),
            kind @ (1 | 5) => {
                let records = Records {
                    epoch,
                    serial,
                    after: place(random),
                    of: Epoch(9),
                    payloads: (0..random.below(5)).map(|_| random.clone().bytes(random.below(40) as usize)).collect(),
                    commit: Position(random.below(1_000)),
                    sent: random.below(1_000),
                    loads: (0..random.below(4)).collect(),
                };
                if kind == 1 { Message::Records(records) } else { Message::Relayed(records) }
            }
            6 => Message::Relay { epoch, serial, after: place(random) },
            2 => Message::Diverged { epoch, serial, after: place(random), keep: place(random) },
            3 => Message::TooOld { epoch, serial },
            4 => Message::Lead { epoch },
            _ => Message::NotPrimary { epoch },
        }
    }

    fn envelope(random: &mut Random) -> Envelope {
        Envelope { from: MemberId(random.below(256) as u32), to: MemberId(7), message: message(random) }
    }

    #[test]
    fn what_is_written_is_read_again() {
        let mut random = Random::new(1);
        for _ in 0..2_000 {
            let envelope = envelope(&mut random);
            assert_eq!(Envelope::decode(&envelope.encode()), Some(envelope));
        }
    }

    #[test]
    fn contradictions_are_refused() {
        let place = Place { epoch: Epoch(4), position: Position(7) };
        let records = |epoch, of, payloads| {
            let (epoch, of) = (Epoch(epoch), Epoch(of));
            let (serial, commit, sent, loads) = (1, Position(3), 1, Vec::new());
            let message = Message::Records(Records { epoch, serial, after: place, of, payloads, commit, sent, loads });
            Envelope::decode(&Envelope { from: MemberId(1), to: MemberId(2), message }.encode())
        };
        assert!(records(5, 5, vec![vec![1]]).is_some() && records(5, 4, vec![vec![1]]).is_some());
        assert_eq!(records(5, 6, vec![vec![1]]), None, "of an epoch after the primary's");
        assert_eq!(records(5, 3, vec![vec![1]]), None, "of an epoch before the record that they follow");
        assert!(records(5, 0, Vec::new()).is_some(), "a beacon has no records");
        assert_eq!(records(NUMBER_MAX + 1, 5, Vec::new()), None, "no epoch could follow");
    }

    /// Damaged messages, cut ones and noise are refused, or are messages that can be written.
    #[test]
    fn damaged_bytes_never_panic() {
        let mut random = Random::new(2);
        let mut read = 0;
        for _ in 0..100_000 {
            let mut bytes = envelope(&mut random).encode();
            match random.below(4) {
                0 => bytes.truncate(random.below(bytes.len() as u64) as usize),
                1 => bytes = random.bytes(random.clone().below(80) as usize),
                _ => {
                    for _ in 0..=random.below(4) {
                        let at = random.below(bytes.len() as u64) as usize;
                        bytes[at] = random.next_u64() as u8;
                    }
                }
            }
            if let Some(envelope) = Envelope::decode(&bytes) {
                assert_eq!(Envelope::decode(&envelope.encode()), Some(envelope));
                read += 1;
            }
        }
        assert!(read > 0, "some damage hits a number and is not noticed here");
    }
}
