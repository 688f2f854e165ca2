//! The page over several runs: what `arbor lab run all` leaves, and `arbor lab report DIR...` of many directories.

use super::html::{escaped, table};
use super::shell::{Shell, shell};
use crate::report::founding::tables;
use crate::report::heading::{ending, remarks};
use crate::results::{Ending, Run};

/// A run and where its page is, as seen from the index.
#[derive(Debug)]
pub struct Entry<'a> {
    pub run: &'a Run,
    /// Relative: `001-point-queries-20261121T210000Z/report.html`.
    pub link: &'a str,
}

/// One page with a link, the ending and the first table of each run.
pub fn index(title: &str, entries: &[Entry<'_>]) -> String {
    let contents: String = entries.iter().map(one).collect();
    let rows: String = entries.iter().map(row).collect();
    let head: String = ["experiment", "systems", "scale", "started", "ending"]
        .map(|name| format!("<th scope=\"col\">{name}</th>"))
        .concat();
    let body = format!(
        "<header><h1>{}</h1></header>\n<main><div class=\"scroll\" role=\"group\" tabindex=\"0\" aria-label=\"Runs\">\
         <table class=\"texts\"><caption>Runs</caption><thead><tr>{head}</tr></thead><tbody>{rows}</tbody></table></div>\n\
         {contents}</main>\n",
        escaped(title)
    );
    shell(&Shell { title, body: &body, data: "null", script: "", live: false })
}

fn row(entry: &Entry<'_>) -> String {
    let record = &entry.run.record;
    let systems = record.systems.iter().map(|system| system.name.as_str()).collect::<Vec<_>>().join(", ");
    let cells = [systems.as_str(), &record.scale, &record.started, ending(record.ending)];
    let cells = cells.map(|cell| format!("<td>{}</td>", escaped(cell))).concat();
    let (link, name) = (escaped(entry.link), escaped(&record.experiment));
    format!("<tr><th scope=\"row\"><a href=\"{link}\">{name}</a></th>{cells}</tr>")
}

fn one(entry: &Entry<'_>) -> String {
    let record = &entry.run.record;
    let first = tables(entry.run).first().map(table).unwrap_or_default();
    let careful = match (record.ending, remarks(entry.run).len()) {
        (Ending::Complete, 0) => String::new(),
        (Ending::Complete, 1) => "<p>There is 1 remark on its page.</p>".to_owned(),
        (Ending::Complete, n) => format!("<p>There are {n} remarks on its page.</p>"),
        (other, _) => format!("<p class=\"warning\">{}</p>", escaped(ending(other))),
    };
    let (link, name) = (escaped(entry.link), escaped(&record.experiment));
    let about = escaped(&record.about);
    format!("<section><h2><a href=\"{link}\">{name}</a></h2><p>{about}</p>{careful}{first}</section>\n")
}
