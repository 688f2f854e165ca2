//! Log attributes without the values of clients (`redactClientLogData`).

use arbor_bson::{Array, ArrayBuf, Doc, DocBuf, ValueRef};

/// Shown in place of a value, as MongoDB does.
const REDACTED: &str = "###";

/// Attributes that hold documents of clients, or quote them.
const OF_CLIENTS: &[&str] = &["command", "originatingCommand", "errInfo", "errMsg", "error"];

/// Returns the attributes with the values of clients replaced; names of fields stay.
pub(super) fn attributes(attributes: Doc<'_>) -> DocBuf {
    let mut out = DocBuf::new();
    for (name, value) in attributes {
        match (OF_CLIENTS.contains(&name), value) {
            (true, value) => append(&mut out, name, value),
            (false, value) => _ = out.append(name, value),
        }
    }
    out
}

fn append(out: &mut DocBuf, name: &str, value: ValueRef<'_>) {
    match value {
        ValueRef::Document(inner) => _ = out.append(name, &document(inner)),
        ValueRef::Array(inner) => _ = out.append(name, &array(inner)),
        _ => _ = out.append(name, REDACTED),
    }
}

fn document(doc: Doc<'_>) -> DocBuf {
    let mut out = DocBuf::new();
    doc.iter().for_each(|(name, value)| append(&mut out, name, value));
    out
}

fn array(array: Array<'_>) -> ArrayBuf {
    let mut out = ArrayBuf::new();
    for value in array.iter() {
        match value {
            ValueRef::Document(inner) => out.push(&document(inner)),
            ValueRef::Array(inner) => out.push(&self::array(inner)),
            _ => out.push(REDACTED),
        };
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_of_clients_are_replaced() {
        let mut list = ArrayBuf::new();
        list.push(&DocBuf::new().with("secret", "x"));
        list.push("x");
        let command = DocBuf::new().with("find", "c").with("filter", &DocBuf::new().with("a", &list));
        let all =
            DocBuf::new().with("ns", "db.c").with("command", &command).with("errMsg", "x: secret").with("n", 1i32);
        let shown = format!("{:?}", attributes(all.as_doc()));
        assert!(shown.contains("secret") && shown.contains("db.c") && !shown.contains("\"x"), "{shown}");
        assert_eq!(shown.matches("###").count(), 4, "{shown}");
    }
}
