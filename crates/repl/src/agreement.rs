//! The value that the members of a set agree on: one document, changed only by compare-and-set (rule R1).
//!
//! | field | type | |
//! |---|---|---|
//! | `epoch` | int64 | MongoDB's term; each primary has its own |
//! | `primary` | int32 or null | the member that may lead the epoch |
//! | `by` | int32 or null | the member that wrote this agreement |
//! | `inSync` | `[{ id, store }]` | members that hold every acknowledged record; `store` is 16 bytes |
//! | `voters` | `[{ id, lead }]` | members with data and a vote, which may be in sync |
//! | `minInSync` | int32 | fewer in sync acknowledge nothing |
//! | `config` | document | opaque here |

use std::fmt;

use arbor_bson::{ArrayBuf, Doc, DocBuf, ValueRef};

/// A version of the agreement at its coordinator. Later ones are greater.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Version(pub u64);

/// The term of one primary. Epoch 0 is before all primaries.
#[derive(Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Epoch(pub u64);

impl Epoch {
    pub fn next(self) -> Epoch {
        Epoch(self.0 + 1)
    }
}

impl fmt::Debug for Epoch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "e{}", self.0)
    }
}

/// `_id` of a member in the set's configuration.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct MemberId(pub u32);

impl fmt::Debug for MemberId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "m{}", self.0)
    }
}

/// Identity of a data directory. A member with an empty or foreign directory is another member (rule R9).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct StoreId(pub [u8; 16]);

impl fmt::Debug for StoreId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:016x}", u128::from_be_bytes(self.0))
    }
}

/// A member with its data.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Identity {
    pub id: MemberId,
    pub store: StoreId,
}

/// A member with data and a vote.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Voter {
    pub id: MemberId,
    /// False for members of priority 0.
    pub may_lead: bool,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Agreement {
    pub epoch: Epoch,
    pub primary: Option<MemberId>,
    pub by: Option<MemberId>,
    /// Ascending. Empty in a set of one whose data has no identity yet.
    pub in_sync: Vec<Identity>,
    /// Ascending.
    pub voters: Vec<Voter>,
    pub min_in_sync: usize,
    /// The bytes of a valid document.
    pub config: Vec<u8>,
}

impl Agreement {
    /// Returns the first agreement of a set: `founder` has the data, all others join it.
    pub fn founding(founder: Identity, voters: Vec<Voter>, config: &DocBuf) -> Agreement {
        Agreement {
            epoch: Epoch(1),
            primary: Some(founder.id),
            by: Some(founder.id),
            in_sync: vec![founder],
            min_in_sync: majority_of(voters.len()),
            voters,
            config: config.as_bytes().to_vec(),
        }
    }

    /// Returns the agreement of a set of one member whose data has no identity yet: there is nothing to elect.
    pub fn of_one(epoch: Epoch, config: Doc<'_>) -> Agreement {
        let config = config.as_bytes().to_vec();
        Agreement { epoch, primary: None, by: None, in_sync: vec![], voters: vec![], min_in_sync: 0, config }
    }

    pub fn is_in_sync(&self, member: Identity) -> bool {
        self.in_sync.contains(&member)
    }

    pub fn voter(&self, id: MemberId) -> Option<&Voter> {
        self.voters.iter().find(|voter| voter.id == id)
    }

    /// Returns the in-sync set with a member, in the place of an entry with the same id.
    pub fn in_sync_with(&self, member: Identity) -> Vec<Identity> {
        let others = self.in_sync.iter().copied().filter(|other| other.id != member.id);
        let mut set: Vec<Identity> = others.chain([member]).collect();
        set.sort_unstable();
        set
    }

    pub fn to_doc(&self) -> DocBuf {
        let id = |member: Option<MemberId>| member.map_or(ValueRef::Null, |member| ValueRef::Int32(member.0 as i32));
        let in_sync: Vec<DocBuf> = self.in_sync.iter().map(identity_doc).collect();
        let voter = |voter: &Voter| DocBuf::new().with("id", voter.id.0 as i32).with("lead", voter.may_lead);
        let voters: Vec<DocBuf> = self.voters.iter().map(voter).collect();
        DocBuf::new()
            .with("epoch", self.epoch.0 as i64)
            .with("primary", id(self.primary))
            .with("by", id(self.by))
            .with("inSync", &in_sync.iter().collect::<ArrayBuf>())
            .with("voters", &voters.iter().collect::<ArrayBuf>())
            .with("minInSync", self.min_in_sync as i32)
            .with("config", Doc::trusted(&self.config))
    }

    /// Returns the agreement; `None`: this is none.
    pub fn from_doc(doc: Doc<'_>) -> Option<Agreement> {
        let member = |name| match doc.get(name)? {
            ValueRef::Null => Some(None),
            value => member_id(value).map(Some),
        };
        let ValueRef::Array(in_sync) = doc.get("inSync")? else { return None };
        let ValueRef::Array(voters) = doc.get("voters")? else { return None };
        let ValueRef::Document(config) = doc.get("config")? else { return None };
        let ValueRef::Int32(min_in_sync) = doc.get("minInSync")? else { return None };
        let voter = |value| match value {
            ValueRef::Document(doc) => match doc.get("lead")? {
                ValueRef::Bool(may_lead) => Some(Voter { id: member_id(doc.get("id")?)?, may_lead }),
                _ => None,
            },
            _ => None,
        };
        let agreement = Agreement {
            epoch: Epoch(unsigned(doc.get("epoch")?)?),
            primary: member("primary")?,
            by: member("by")?,
            in_sync: in_sync.iter().map(identity).collect::<Option<_>>()?,
            voters: voters.iter().map(voter).collect::<Option<_>>()?,
            min_in_sync: usize::try_from(min_in_sync).ok()?,
            config: config.as_bytes().to_vec(),
        };
        let ascending = agreement.in_sync.is_sorted_by(|a, b| a.id < b.id);
        (ascending && agreement.voters.is_sorted_by(|a, b| a.id < b.id)).then_some(agreement)
    }
}

/// Returns how many members must be in sync by default, so that a set of three survives one loss and never acknowledges on
/// a single copy (rule R3).
pub fn majority_of(voters: usize) -> usize {
    voters / 2 + 1
}

fn identity_doc(member: &Identity) -> DocBuf {
    let store = ValueRef::Binary { subtype: 4, bytes: &member.store.0 };
    DocBuf::new().with("id", member.id.0 as i32).with("store", store)
}

fn identity(value: ValueRef<'_>) -> Option<Identity> {
    let ValueRef::Document(doc) = value else { return None };
    Some(Identity { id: member_id(doc.get("id")?)?, store: store_id(doc.get("store")?)? })
}

pub(crate) fn store_id(value: ValueRef<'_>) -> Option<StoreId> {
    match value {
        ValueRef::Binary { subtype: 4, bytes } => Some(StoreId(bytes.try_into().ok()?)),
        _ => None,
    }
}

pub(crate) fn member_id(value: ValueRef<'_>) -> Option<MemberId> {
    match value {
        ValueRef::Int32(id) => Some(MemberId(u32::try_from(id).ok()?)),
        _ => None,
    }
}

pub(crate) fn unsigned(value: ValueRef<'_>) -> Option<u64> {
    match value {
        ValueRef::Int64(number) => u64::try_from(number).ok(),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use arbor_base::Random;

    use super::*;

    fn member(id: u32) -> Identity {
        Identity { id: MemberId(id), store: StoreId([id as u8; 16]) }
    }

    fn voters(count: u32) -> Vec<Voter> {
        (0..count).map(|id| Voter { id: MemberId(id), may_lead: id != 2 }).collect()
    }

    #[test]
    fn what_is_written_is_read_again() {
        let config = DocBuf::new().with("_id", "rs");
        let founding = Agreement::founding(member(1), voters(3), &config);
        assert_eq!((founding.min_in_sync, founding.is_in_sync(member(1))), (2, true));
        let grown = Agreement { in_sync: founding.in_sync_with(member(0)), primary: None, ..founding.clone() };
        assert_eq!(grown.in_sync, [member(0), member(1)]);
        for agreement in [founding, grown] {
            assert_eq!(Agreement::from_doc(agreement.to_doc().as_doc()), Some(agreement));
        }
    }

    #[test]
    fn a_member_that_lost_its_data_replaces_its_entry() {
        let agreement = Agreement::founding(member(1), voters(3), &DocBuf::new());
        let emptied = Identity { store: StoreId([9; 16]), ..member(1) };
        assert!(!agreement.is_in_sync(emptied));
        assert_eq!(agreement.in_sync_with(emptied), [emptied]);
    }

    #[test]
    fn damaged_bytes_never_panic() {
        let agreement = Agreement::founding(member(1), voters(3), &DocBuf::new().with("_id", "rs"));
        let whole = agreement.to_doc().into_bytes();
        let mut random = Random::new(17);
        for _ in 0..50_000 {
            let mut bytes = whole.clone();
            for _ in 0..=random.below(3) {
                let at = random.below(bytes.len() as u64) as usize;
                bytes[at] = random.next_u64() as u8;
            }
            if let Ok(doc) = Doc::parse(&bytes)
                && let Some(read) = Agreement::from_doc(doc)
            {
                assert_eq!(Agreement::from_doc(read.to_doc().as_doc()), Some(read));
            }
        }
    }
}
