//! Settings as nested documents: `getCmdLineOpts` and the log show them so.

use arbor_bson::DocBuf;

use super::value::ParsedValue;

/// `[("net.port", 1), ("net.ipv6", true)]` to `{ net: { port: 1, ipv6: true } }`.
pub(crate) fn nested(given: &[(String, ParsedValue)]) -> DocBuf {
    let pairs: Vec<(&str, &ParsedValue)> = given.iter().map(|(path, value)| (path.as_str(), value)).collect();
    nest(&pairs)
}

fn nest(pairs: &[(&str, &ParsedValue)]) -> DocBuf {
    let mut doc = DocBuf::new();
    let mut done: Vec<&str> = Vec::new();
    for (path, value) in pairs {
        let head = path.split('.').next().unwrap_or(path);
        if head == *path {
            append(&mut doc, path, value);
        } else if !done.contains(&head) {
            done.push(head);
            let inner: Vec<(&str, &ParsedValue)> = pairs
                .iter()
                .filter_map(|(path, value)| Some((path.strip_prefix(head)?.strip_prefix('.')?, *value)))
                .collect();
            doc.append(head, &nest(&inner));
        }
    }
    doc
}

fn append(doc: &mut DocBuf, name: &str, value: &ParsedValue) {
    match value {
        ParsedValue::Bool(value) => doc.append(name, *value),
        ParsedValue::Int(value) => match i32::try_from(*value) {
            Ok(value) => doc.append(name, value),
            Err(_) => doc.append(name, *value),
        },
        ParsedValue::Real(value) => doc.append(name, *value),
        ParsedValue::Text(value) => doc.append(name, value),
    };
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dotted_names_become_documents() {
        let given = [
            ("net.port".to_owned(), ParsedValue::Int(1)),
            ("storage.journal.enabled".to_owned(), ParsedValue::Bool(true)),
            ("net.bindIp".to_owned(), ParsedValue::Text("::1".to_owned())),
            ("cacheSize".to_owned(), ParsedValue::Int(1 << 40)),
        ];
        let shown = arbor_bson::display::shell_doc(nested(&given).as_doc()).to_string();
        let expect =
            "{ net: { port: 1, bindIp: \"::1\" }, storage: { journal: { enabled: true } }, cacheSize: 1099511627776 }";
        assert_eq!(shown, expect);
    }
}
