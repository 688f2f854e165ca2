//! The bytes of the key: `{ format: 1, set, agreement, checksum }`, a document. The checksum is CRC-32C of the document without it:
//! an edit of the key by hand is an error, not another agreement.

use arbor_bson::{Doc, DocBuf, ValueRef};
use arbor_repl::Agreement;

const FORMAT: i32 = 1;

pub(crate) fn encode(set: &str, agreement: &Agreement) -> Vec<u8> {
    let doc = DocBuf::new().with("format", FORMAT).with("set", set).with("agreement", &agreement.to_doc());
    let checksum = i64::from(crc32c::crc32c(doc.as_bytes()));
    doc.with("checksum", checksum).as_bytes().to_vec()
}

/// Returns the agreement. Errors: what is there instead, in words.
pub(crate) fn decode(set: &str, bytes: &[u8]) -> Result<Agreement, String> {
    let foreign = || "holds something that is not a replica set's agreement".to_owned();
    let doc = Doc::parse(bytes).map_err(|_| foreign())?;
    match doc.get("format") {
        Some(ValueRef::Int32(FORMAT)) => {}
        Some(ValueRef::Int32(format)) if format > FORMAT => return Err("was written by a newer release".to_owned()),
        _ => return Err(foreign()),
    }
    let Some(ValueRef::Document(agreement)) = doc.get("agreement") else { return Err(foreign()) };
    let agreement = Agreement::from_doc(agreement).ok_or_else(foreign)?;
    match doc.get("set") {
        Some(ValueRef::String(other)) if other != set => return Err(format!("belongs to the replica set '{other}'")),
        Some(ValueRef::String(_)) => {}
        _ => return Err(foreign()),
    }
    match encode(set, &agreement) == bytes {
        true => Ok(agreement),
        false => Err("is damaged: restore a backup of etcd".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use arbor_repl::coordinator::contract;

    use super::*;

    #[test]
    fn what_is_written_is_read_again() {
        let agreement = contract::agreement(7);
        assert_eq!(decode("rs", &encode("rs", &agreement)), Ok(agreement.clone()));
        let foreign = decode("rs", &encode("other", &agreement)).unwrap_err();
        assert_eq!(foreign, "belongs to the replica set 'other'");
        let newer = DocBuf::new().with("format", 2i32);
        assert_eq!(decode("rs", newer.as_bytes()).unwrap_err(), "was written by a newer release");
    }

    #[test]
    fn no_damage_is_taken_for_an_agreement() {
        let whole = encode("rs", &contract::agreement(7));
        for cut in 0..whole.len() {
            assert!(decode("rs", &whole[..cut]).is_err(), "cut at {cut}");
        }
        for at in 0..whole.len() {
            for flip in [0x01, 0x20, 0x80] {
                let mut bytes = whole.clone();
                bytes[at] ^= flip;
                assert!(decode("rs", &bytes).is_err(), "flipped at {at}");
            }
        }
    }
}
