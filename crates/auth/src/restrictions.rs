//! `authenticationRestrictions`: from which addresses a user may connect, and to which of the server's.

use std::net::IpAddr;

use arbor_bson::{ArrayBuf, Doc, DocBuf, ValueRef};
use arbor_protocol::Error;

use crate::Result;

/// Conditions of a user or a role, of which one has to hold; without any, all addresses are permitted.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Restrictions(Vec<Restriction>);

/// One condition: both lists permit it; None: any address.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Restriction {
    client: Option<Vec<Range>>,
    server: Option<Vec<Range>>,
}

/// A range of addresses in CIDR notation.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Range {
    text: String,
    address: IpAddr,
    bits: u8,
}

impl Restrictions {
    pub const FIELD: &'static str = "authenticationRestrictions";

    pub fn read(value: ValueRef<'_>) -> Result<Restrictions> {
        let ValueRef::Array(values) = value else {
            return Err(Error::type_mismatch("'authenticationRestrictions' field must be an array"));
        };
        let restriction = |value| match value {
            ValueRef::Document(doc) => Restriction::read(doc),
            _ => Err(Error::type_mismatch("Each of 'authenticationRestrictions' must be an object")),
        };
        values.iter().map(restriction).collect::<Result<_>>().map(Restrictions)
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns true if a connection may belong to the user; `server`: the server's address of the connection.
    pub fn permit(&self, client: IpAddr, server: IpAddr) -> bool {
        let within = |ranges: &Option<Vec<Range>>, address: IpAddr| {
            ranges.as_ref().is_none_or(|ranges| ranges.iter().any(|range| range.contains(address)))
        };
        self.0.is_empty() || self.0.iter().any(|each| within(&each.client, client) && within(&each.server, server))
    }

    pub fn to_array(&self) -> ArrayBuf {
        let mut array = ArrayBuf::new();
        for restriction in &self.0 {
            let mut doc = DocBuf::new();
            for (name, ranges) in [("clientSource", &restriction.client), ("serverAddress", &restriction.server)] {
                if let Some(ranges) = ranges {
                    doc.append(name, &ranges.iter().map(|range| range.text.as_str()).collect::<ArrayBuf>());
                }
            }
            array.push(&doc);
        }
        array
    }
}

impl Restriction {
    fn read(doc: Doc<'_>) -> Result<Restriction> {
        let mut restriction = Restriction { client: None, server: None };
        for (name, value) in doc {
            let ranges = Some(ranges(name, value)?);
            match name {
                "clientSource" => restriction.client = ranges,
                "serverAddress" => restriction.server = ranges,
                _ => return Err(Error::bad_value(format!("Unrecognized authentication restriction '{name}'"))),
            }
        }
        Ok(restriction)
    }
}

/// Reads one address or an array of them.
fn ranges(name: &str, value: ValueRef<'_>) -> Result<Vec<Range>> {
    let range = |value| match value {
        ValueRef::String(text) => Range::read(text),
        _ => Err(Error::type_mismatch(format!("'{name}' must be a string or an array of strings"))),
    };
    match value {
        ValueRef::Array(values) => values.iter().map(range).collect(),
        value => Ok(vec![range(value)?]),
    }
}

impl Range {
    fn read(text: &str) -> Result<Range> {
        let bad = || Error::bad_value(format!("Invalid IP address or CIDR range '{text}'"));
        let (address, bits) = text.split_once('/').map_or((text, None), |(address, bits)| (address, Some(bits)));
        let address: IpAddr = address.parse().map_err(|_| bad())?;
        let most = if address.is_ipv4() { 32 } else { 128 };
        let bits = match bits {
            Some(bits) => bits.parse().ok().filter(|bits| *bits <= most).ok_or_else(bad)?,
            None => most,
        };
        Ok(Range { text: text.to_owned(), address, bits })
    }

    fn contains(&self, address: IpAddr) -> bool {
        match (self.address, address.to_canonical()) {
            (IpAddr::V4(own), IpAddr::V4(other)) => {
                let mask = u32::MAX.checked_shl(32 - u32::from(self.bits)).unwrap_or(0);
                own.to_bits() & mask == other.to_bits() & mask
            }
            (IpAddr::V6(own), IpAddr::V6(other)) => {
                let mask = u128::MAX.checked_shl(128 - u32::from(self.bits)).unwrap_or(0);
                own.to_bits() & mask == other.to_bits() & mask
            }
            _ => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(client: &str, server: Option<&str>) -> Restrictions {
        let mut doc = DocBuf::new().with("clientSource", &[client].into_iter().collect::<ArrayBuf>());
        if let Some(server) = server {
            doc.append("serverAddress", server);
        }
        let mut array = ArrayBuf::new();
        array.push(&doc);
        Restrictions::read((&array).into()).unwrap()
    }

    #[test]
    fn ranges_are_respected() {
        let server = "10.0.0.1";
        for (range, address, expect) in [
            ("127.0.0.1", "127.0.0.1", true),
            ("127.0.0.1", "127.0.0.2", false),
            ("127.0.0.0/8", "127.9.9.9", true),
            ("0.0.0.0/0", "8.8.8.8", true),
            ("192.168.4.0/22", "192.168.7.255", true),
            ("192.168.4.0/22", "192.168.8.0", false),
            ("::1", "::1", true),
            ("fe80::/10", "febf::1", true),
            ("fe80::/10", "fec0::1", false),
            ("::/0", "127.0.0.1", false),
            ("127.0.0.1", "::ffff:127.0.0.1", true),
        ] {
            let permitted = read(range, None).permit(address.parse().unwrap(), server.parse().unwrap());
            assert_eq!(permitted, expect, "{address} in {range}");
        }
        let both = read("127.0.0.1", Some("10.0.0.1"));
        let client = "127.0.0.1".parse().unwrap();
        assert!(both.permit(client, "10.0.0.1".parse().unwrap()) && !both.permit(client, "10.0.0.2".parse().unwrap()));
        assert!(Restrictions::default().permit(client, client));
    }

    #[test]
    fn bad_ranges_are_refused() {
        for bad in ["", "localhost", "127.0.0.1/33", "127.0.0.1/x", "::1/129", "1.2.3"] {
            assert!(Range::read(bad).is_err(), "{bad}");
        }
        let unknown = DocBuf::new().with("clientSources", "127.0.0.1");
        assert!(Restriction::read(unknown.as_doc()).is_err());
        let read_back = read("127.0.0.0/8", Some("::1"));
        assert_eq!(Restrictions::read((&read_back.to_array()).into()).unwrap(), read_back);
    }
}
