//! The console: a page of the server itself, its data, and its button.
//!
//! The page has no data and needs no network but this port. Data requires the token, if there is one. Without one, the host that a request
//! names has to be an address: a foreign page could have a name of its own lead here, and read what is not its own. The button requires a
//! header that foreign pages cannot send.

use std::net::IpAddr;

use arbor_bson::extjson;

use crate::Source;
use crate::http::{Options, Reply, header, without_token};

const PAGE: &str = include_str!("../assets/console.html");
const STYLE: &str = include_str!("../assets/console.css");
const SCRIPT: &str = include_str!("../assets/console.js");

pub(crate) fn page() -> String {
    PAGE.replace("/*STYLE*/", STYLE).replace("/*SCRIPT*/", SCRIPT)
}

/// Returns `console.json`; `?collections=1` asks for sizes of collections.
pub(crate) fn document(head: &str, target: &str, options: &Options, source: &dyn Source) -> Reply {
    if let Some(refusal) = refusal(head, options) {
        return refusal;
    }
    match source.console(shows_statements(options), parameter(target, "collections") == Some("1")) {
        Ok(doc) => Reply {
            status: "200 OK",
            content: "application/json",
            body: extjson::doc(doc.as_doc(), extjson::Form::Relaxed).to_string(),
        },
        Err(reason) => Reply::text("503 Service Unavailable", reason),
    }
}

/// Ends the operation that the target names.
pub(crate) fn kill(head: &str, target: &str, options: &Options, source: &dyn Source) -> Reply {
    if let Some(refusal) = refusal(head, options) {
        return refusal;
    }
    if header(head, "x-arbor-console").is_none() {
        return Reply::text("403 Forbidden", "the header X-Arbor-Console is missing");
    }
    if !shows_statements(options) {
        return Reply::text(
            "403 Forbidden",
            "with access control, operations are ended with the token of --httpTokenFile",
        );
    }
    let Some(operation) = parameter(target, "op").and_then(|op| op.parse().ok()) else {
        return Reply::text("400 Bad Request", "op is to be the number of an operation");
    };
    match source.kill(operation) {
        Ok(()) => Reply::text("200 OK", "attempting to kill op"),
        Err(reason) => Reply::text("503 Service Unavailable", reason),
    }
}

/// Without a token there is no way to know who asks.
fn shows_statements(options: &Options) -> bool {
    options.token_file.is_some() || !options.has_access_control
}

fn refusal(head: &str, options: &Options) -> Option<Reply> {
    if options.token_file.is_some() {
        return without_token(head, options);
    }
    let host = header(head, "host").unwrap_or_default();
    let name = host.rsplit_once(':').map_or(host, |(name, port)| if port.ends_with(']') { host } else { name });
    let name = name.trim_start_matches('[').trim_end_matches(']');
    let is_own = name == "localhost" || name.parse::<IpAddr>().is_ok();
    (!is_own).then(|| {
        Reply::text("403 Forbidden", "without --httpTokenFile, this port is reached by an address, not by a name")
    })
}

fn parameter<'t>(target: &'t str, name: &str) -> Option<&'t str> {
    let (_, parameters) = target.split_once('?')?;
    parameters.split('&').filter_map(|pair| pair.split_once('=')).find(|(of, _)| *of == name).map(|(_, value)| value)
}
