//! The collection that a note is about: its namespace and UUID, of the moment.
//!
//! `[flags: 1 if a UUID follows] [UUID, 16 bytes] [namespace, UTF-8]`

use arbor_base::Fields;
use uuid::Uuid;

use crate::bytes::{Decoded, Malformed};

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Place<'a> {
    /// `db.collection`, or `db.$cmd`.
    pub namespace: &'a str,
    pub uuid: Option<Uuid>,
}

impl<'a> Place<'a> {
    pub fn encode(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(17 + self.namespace.len());
        out.push(u8::from(self.uuid.is_some()));
        out.extend(self.uuid.iter().flat_map(|uuid| uuid.as_bytes()));
        out.extend(self.namespace.as_bytes());
        out
    }

    pub fn decode(bytes: &'a [u8]) -> Decoded<Place<'a>> {
        let mut rest = Fields::new(bytes);
        let uuid = match rest.u8().ok_or(Malformed::SHORT)? {
            0 => None,
            1 => Some(Uuid::from_bytes(rest.array().ok_or(Malformed::SHORT)?)),
            _ => return Err(Malformed("unknown flags of a place")),
        };
        let namespace = str::from_utf8(rest.rest()).map_err(|_| Malformed("a namespace is not UTF-8"))?;
        Ok(Place { namespace, uuid })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_encoded_is_decoded() {
        for uuid in [None, Some(Uuid::from_u128(7))] {
            let place = Place { namespace: "db.c", uuid };
            assert_eq!(Place::decode(&place.encode()), Ok(place));
        }
        assert_eq!(Place::decode(&[]), Err(Malformed("it ends too early")));
        assert_eq!(Place::decode(&[1, 2, 3]), Err(Malformed("it ends too early")));
        assert_eq!(Place::decode(&[0, 0xff]), Err(Malformed("a namespace is not UTF-8")));
    }
}
