//! Places for charts on a page, and their data.

use serde_json::{Map, Number, Value, json};

use super::html::{escaped, in_script};
use crate::report::chart::ChartGroup;

/// Chart groups of a page, in the order they were placed.
#[derive(Debug, Default)]
pub(super) struct ChartData {
    data: Map<String, Value>,
}

impl ChartData {
    /// Returns the HTML of a chart group; its data is kept for the page's end.
    pub(super) fn place(&mut self, group: &ChartGroup) -> String {
        let (id, title, caption) = (escaped(&group.id), escaped(&group.title), escaped(&group.caption));
        let chosen = if group.first_chosen { 0 } else { group.charts.len().saturating_sub(1) };
        let charts = serde_json::to_value(&group.charts).unwrap_or(Value::Null);
        self.data.insert(group.id.clone(), json!({ "chosen": chosen, "charts": rounded(charts) }));
        let (class, theirs) = match group.published {
            true => (" class=\"published\"", " <small>published, another machine</small>"),
            false => ("", ""),
        };
        format!(
            "<figure id=\"figure-{id}\"{class} data-figure=\"{id}\"><figcaption><h3>{title}{theirs}</h3><p>{caption}</p>\
             </figcaption>{}<div class=\"plot\"></div><noscript>The chart needs JavaScript; the tables do not.</noscript>\
             <details class=\"data\"><summary>This data as a table</summary><div class=\"scroll\" role=\"group\" \
             tabindex=\"0\" aria-label=\"{title}\"></div></details></figure>\n",
            choice(group, chosen)
        )
    }

    /// All data, ready for a script element.
    pub(super) fn json(&self, systems: &[&str]) -> String {
        in_script(&json!({ "systems": systems, "figures": self.data }).to_string())
    }
}

/// Returns the selector of a group of several charts.
fn choice(group: &ChartGroup, chosen: usize) -> String {
    if group.charts.len() < 2 {
        return String::new();
    }
    let option = |(n, label): (usize, &str)| {
        let selected = if n == chosen { " selected" } else { "" };
        format!("<option value=\"{n}\"{selected}>{}</option>", escaped(label))
    };
    let options: String = group.charts.iter().map(|chart| chart.label.as_str()).enumerate().map(option).collect();
    format!("<label>{} <select>{options}</select></label>", escaped(group.choose))
}

/// Five digits are more than a chart shows.
fn rounded(value: Value) -> Value {
    match value {
        Value::Number(number) => {
            let short = number.as_f64().and_then(|number| format!("{number:.4e}").parse::<f64>().ok());
            let whole = short.filter(|short| short.fract() == 0.0 && short.abs() < 1e15);
            let number = whole.map(|whole| Number::from(whole as i64)).or_else(|| Number::from_f64(short?));
            number.map_or(Value::Null, Value::Number)
        }
        Value::Array(list) => Value::Array(list.into_iter().map(rounded).collect()),
        Value::Object(map) => Value::Object(map.into_iter().map(|(key, value)| (key, rounded(value))).collect()),
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_short() {
        let value = json!([123_456.789, 0.000_123_456_7, 5.0, null, "x"]);
        assert_eq!(rounded(value).to_string(), "[123460,0.00012346,5,null,\"x\"]");
    }
}
