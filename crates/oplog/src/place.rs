//! The collection that a note is about: its namespace, UUID and shard key, of the moment.
//!
//! `[flags: 1 if a UUID follows, 2 if a shard key does] [UUID, 16 bytes] [shard key, BSON] [namespace, UTF-8]`

use arbor_base::Fields;
use arbor_bson::Doc;
use uuid::Uuid;

use crate::bytes::{Decoded, Malformed, take_doc};

const HAS_UUID: u8 = 1;
const HAS_SHARD_KEY: u8 = 2;

#[derive(Clone, Debug)]
pub struct Place<'a> {
    /// `db.collection`, or `db.$cmd`.
    pub namespace: &'a str,
    pub uuid: Option<Uuid>,
    /// The key by which the collection is sharded, if this server knows that it is.
    pub shard_key: Option<Doc<'a>>,
}

impl<'a> Place<'a> {
    pub fn encode(&self) -> Vec<u8> {
        let shard_key = self.shard_key.map_or(&[][..], |key| key.as_bytes());
        let mut out = Vec::with_capacity(17 + shard_key.len() + self.namespace.len());
        let flag = |is_there: bool, flag: u8| if is_there { flag } else { 0 };
        out.push(flag(self.uuid.is_some(), HAS_UUID) | flag(self.shard_key.is_some(), HAS_SHARD_KEY));
        out.extend(self.uuid.iter().flat_map(|uuid| uuid.as_bytes()));
        out.extend(shard_key);
        out.extend(self.namespace.as_bytes());
        out
    }

    pub fn decode(bytes: &'a [u8]) -> Decoded<Place<'a>> {
        let mut rest = Fields::new(bytes);
        let flags = rest.u8().ok_or(Malformed::SHORT)?;
        if flags & !(HAS_UUID | HAS_SHARD_KEY) != 0 {
            return Err(Malformed("unknown flags of a place"));
        }
        let uuid = match flags & HAS_UUID {
            0 => None,
            _ => Some(Uuid::from_bytes(rest.array().ok_or(Malformed::SHORT)?)),
        };
        let shard_key = match flags & HAS_SHARD_KEY {
            0 => None,
            _ => Some(take_doc(&mut rest)?),
        };
        let namespace = str::from_utf8(rest.rest()).map_err(|_| Malformed("a namespace is not UTF-8"))?;
        Ok(Place { namespace, uuid, shard_key })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_encoded_is_decoded() {
        let key = arbor_notation::doc("{a: 1, b: 'hashed'}");
        for uuid in [None, Some(Uuid::from_u128(7))] {
            for shard_key in [None, Some(key.as_doc())] {
                let place = Place { namespace: "db.c", uuid, shard_key };
                let bytes = place.encode();
                let decoded = Place::decode(&bytes).unwrap();
                assert_eq!((decoded.namespace, decoded.uuid), (place.namespace, place.uuid));
                assert_eq!(decoded.shard_key.map(|key| key.as_bytes()), shard_key.map(|key| key.as_bytes()));
            }
        }
        let refused = |bytes: &[u8]| Place::decode(bytes).unwrap_err().0;
        assert_eq!(refused(&[]), "it ends too early");
        assert_eq!(refused(&[1, 2, 3]), "it ends too early");
        assert_eq!(refused(&[4]), "unknown flags of a place");
        assert_eq!(refused(&[2, 5]), "it ends too early");
        assert_eq!(refused(&[0, 0xff]), "a namespace is not UTF-8");
    }
}
