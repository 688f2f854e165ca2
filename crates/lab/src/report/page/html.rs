//! Small pieces of HTML. All text goes through `escaped`.

use crate::results::{Row, Table};

pub(crate) fn escaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\'' => out.push_str("&#39;"),
            c => out.push(c),
        }
    }
    out
}

/// Returns JSON that can be embedded in a script element: nothing in it closes the element.
pub(super) fn in_script(json: &str) -> String {
    json.replace('<', "\\u003c")
}

/// A table that scrolls sideways by itself where it is wider than the page.
pub(super) fn table(table: &Table) -> String {
    let column = |column: &String| format!("<th scope=\"col\">{}</th>", escaped(column));
    let head: String = table.columns.iter().map(column).collect();
    let rows: String = table.rows.iter().map(|row| table_row(row, table.columns.len())).collect();
    let title = escaped(&table.title);
    let corner = match table.legend.as_str() {
        "" => "<td></td>".to_owned(),
        legend => format!("<th scope=\"col\">{}</th>", escaped(legend)),
    };
    format!(
        "<div class=\"scroll\" role=\"group\" tabindex=\"0\" aria-label=\"{title}\"><table><caption>{title}</caption>\
         <thead><tr>{corner}{head}</tr></thead><tbody>{rows}</tbody></table></div>\n"
    )
}

fn table_row(row: &Row, columns: usize) -> String {
    let cell = |column| row.cells.get(column).map_or("", String::as_str);
    let cells: String = (0..columns).map(|column| format!("<td>{}</td>", escaped(cell(column)))).collect();
    let (class, mark) = if row.published { (" class=\"published\"", " <small>published</small>") } else { ("", "") };
    format!("<tr{class}><th scope=\"row\">{}{mark}</th>{cells}</tr>", escaped(&row.name))
}

/// Returns a table of texts whose first column links to pages: address, name, cells.
pub(crate) fn linked_table<const N: usize>(
    caption: &str,
    head: [&str; N],
    rows: impl Iterator<Item = (String, String, [String; 5])>,
) -> String {
    let head: String = head.map(|name| format!("<th scope=\"col\">{}</th>", escaped(name))).concat();
    let row = |(link, name, cells): (String, String, [String; 5])| {
        let cells = cells.map(|cell| format!("<td>{}</td>", escaped(&cell))).concat();
        format!("<tr><th scope=\"row\"><a href=\"{}\">{}</a></th>{cells}</tr>", escaped(&link), escaped(&name))
    };
    let caption = escaped(caption);
    format!(
        "<div class=\"scroll\" role=\"group\" tabindex=\"0\" aria-label=\"{caption}\"><table class=\"texts\"><caption>{caption}</caption>\
         <thead><tr>{head}</tr></thead><tbody>{}</tbody></table></div>\n",
        rows.map(row).collect::<String>()
    )
}

/// Terms and their explanations.
pub(super) fn facts<'a>(facts: impl IntoIterator<Item = (&'a str, &'a str)>) -> String {
    let one = |(name, value): (&str, &str)| format!("<dt>{}</dt><dd>{}</dd>", escaped(name), escaped(value));
    format!("<dl class=\"facts\">{}</dl>\n", facts.into_iter().map(one).collect::<String>())
}

pub(super) fn list(items: &[String]) -> String {
    let items: String = items.iter().map(|item| format!("<li>{}</li>", escaped(item))).collect();
    format!("<ul>{items}</ul>\n")
}

/// Returns preformatted text, collapsed.
pub(super) fn folded(summary: &str, text: &str) -> String {
    let (summary, text) = (escaped(summary), escaped(text));
    format!("<details><summary>{summary}</summary><pre tabindex=\"0\">{text}</pre></details>\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_from_a_run_becomes_markup() {
        assert_eq!(escaped("<b a=\"1\">&'"), "&lt;b a=&quot;1&quot;&gt;&amp;&#39;");
        assert_eq!(in_script("{\"a\":\"</script><!--\"}"), "{\"a\":\"\\u003c/script>\\u003c!--\"}");
        let mut evil = Table::new("<t>", "<l>", ["<c>".to_owned()]);
        evil.row(["<x>".to_owned()], "<n>");
        let html = table(&evil);
        for tag in ["<t>", "<l>", "<c>", "<x>", "<n>"] {
            assert!(!html.contains(tag), "{html}");
        }
    }
}
