//! The user's own documents and statements in an experiment's file: `database`, `bindings`, `collections`, `statements`.

use std::sync::Arc;

use arbor_bson::Value;
use saphyr::{MarkedYaml, Scalar, YamlData};

use super::section::Section;
use crate::Result;
use crate::workload::own::{Binding, Definition, NAME, OwnCollection, OwnStatement, Skew, Template, lasting};
use crate::workload::{Index, Kind};

/// Keys of a file with statements of its own.
pub(super) const KEYS: [&str; 4] = ["database", "bindings", "collections", "statements"];
/// Bindings that every file has: the document that is loaded, the time.
const ROW: &str = "row";
const NOW: &str = "now";
const EXPONENT: f64 = 0.99;

/// Reads the definition; `None`: the workload is another one. Errors: what is missing or wrong, with its line.
pub(super) fn read(top: &Section<'_>, workload: &str) -> Result<Option<Arc<Definition>>> {
    if workload != NAME {
        return match KEYS.iter().find(|key| top.get(key).is_some()) {
            Some(key) => Err(top.wrong(key, &format!("is a key of the workload {NAME}"))),
            None => Ok(None),
        };
    }
    let names = collections_of(top)?;
    let mut bindings = vec![(ROW, Binding::Loaded), (NOW, Binding::Now)];
    if let Some(section) = top.section("bindings")? {
        for (name, node) in section.nodes()? {
            if bindings.iter().any(|(known, _)| *known == name) {
                return Err(section.wrong(name, "there is such a binding already"));
            }
            bindings.push((name, binding(&section.within(node)?, &names)?));
        }
    }
    let known: Vec<&str> = bindings.iter().map(|(name, _)| *name).collect();
    let bindings: Vec<Binding> = bindings.into_iter().map(|(_, binding)| binding).collect();
    let reader = Reader { names: &known, bindings: &bindings };
    let mut collections = Vec::new();
    if let Some(section) = top.section("collections")? {
        for (name, node) in section.nodes()? {
            collections.push(reader.collection(name, &section.within(node)?)?);
        }
    }
    let statements = top.sections("statements")?;
    let statements = statements.iter().map(|section| reader.statement(section)).collect::<Result<Vec<_>>>()?;
    if collections.is_empty() || statements.is_empty() {
        return Err(top.wrong("statements", "expected at least one statement, and one collection"));
    }
    let mut kinds = vec![Kind::OPERATION];
    for (n, statement) in statements.iter().enumerate() {
        if kinds.contains(&statement.kind) {
            return Err(top
                .wrong("statements", &format!("the name {:?} (statement {}) is taken", statement.kind.name(), n + 1)));
        }
        kinds.push(statement.kind);
    }
    let database = lasting(top.text("database")?.unwrap_or("labstatements"));
    let kinds: &'static [Kind] = Box::leak(kinds.into_boxed_slice());
    Ok(Some(Arc::new(Definition { database, bindings, collections, statements, kinds })))
}

fn collections_of<'a>(top: &Section<'a>) -> Result<Vec<&'a str>> {
    let Some(section) = top.section("collections")? else { return Ok(Vec::new()) };
    Ok(section.nodes()?.into_iter().map(|(name, _)| name).collect())
}

/// One of `int`, `double`, `text`, `choice`, `row`, `new`.
fn binding(section: &Section<'_>, collections: &[&str]) -> Result<Binding> {
    section.only(&["int", "double", "text", "choice", "weights", "row", "new", "distribution", "exponent"])?;
    let collection = |key: &str| {
        let name = section.required(key)?;
        let at = collections.iter().position(|known| *known == name);
        at.ok_or_else(|| section.wrong(key, &format!("there is no collection {name:?} in this file")))
    };
    let range = |key: &str| match section.numbers::<i64>(key)?.as_slice() {
        [first, last] if first <= last => Ok((*first, *last)),
        _ => Err(section.wrong(key, "expected two numbers, the first not above the last")),
    };
    let binding = match () {
        () if section.get("int").is_some() => {
            let (first, last) = range("int")?;
            Binding::Int { first, last, skew: skew(section)? }
        }
        () if section.get("double").is_some() => match section.floats("double")?.as_slice() {
            [from, below] if from < below => Binding::Double { from: *from, below: *below },
            _ => return Err(section.wrong("double", "expected two numbers that grow")),
        },
        () if section.get("text").is_some() => {
            let (first, last) = range("text")?;
            if first < 0 || last > 1 << 20 {
                return Err(section.wrong("text", "expected lengths from 0 to a million letters"));
            }
            Binding::Text { first: first as u64, last: last as u64 }
        }
        () if section.get("choice").is_some() => choice(section)?,
        () if section.get("row").is_some() => Binding::Row { collection: collection("row")?, skew: skew(section)? },
        () if section.get("new").is_some() => Binding::New { collection: collection("new")? },
        () => return Err(section.wrong("int", "expected int, double, text, choice, row or new")),
    };
    let is_skewed = matches!(binding, Binding::Int { .. } | Binding::Row { .. });
    match ["distribution", "exponent"].iter().find(|key| section.get(key).is_some() && !is_skewed) {
        Some(key) => Err(section.wrong(key, "only int and row have a distribution")),
        None => Ok(binding),
    }
}

fn skew(section: &Section<'_>) -> Result<Skew> {
    let exponent = section.quantity("exponent")?.unwrap_or(EXPONENT);
    if exponent <= 0.0 || exponent >= 1.0 {
        return Err(section.wrong("exponent", "expected a number between 0 and 1"));
    }
    match section.text("distribution")? {
        None | Some("uniform") => Ok(Skew::Uniform),
        Some("zipf") => Ok(Skew::Zipf(exponent)),
        Some("latest") if section.get("row").is_some() => Ok(Skew::Latest(exponent)),
        Some(_) => Err(section.wrong("distribution", "expected uniform, zipf, or latest of rows")),
    }
}

fn choice(section: &Section<'_>) -> Result<Binding> {
    let values = section.list("choice")?.iter().map(|node| match template(node, &[]) {
        Ok(Template::Fixed(value)) => Ok(value),
        _ => Err(section.wrong("choice", "expected a list of values without bindings")),
    });
    let values = values.collect::<Result<Vec<Value>>>()?;
    let weights = match section.get("weights") {
        Some(_) => section.quantities("weights")?,
        None => vec![1.0; values.len()],
    };
    let mut sum = 0.0;
    let sums: Vec<f64> = weights
        .iter()
        .map(|weight| {
            sum += weight;
            sum
        })
        .collect();
    if values.is_empty() || values.len() != sums.len() || sum <= 0.0 {
        return Err(section.wrong("choice", "expected values, and as many weights, not all 0"));
    }
    Ok(Binding::Choice { values, sums })
}

/// Reads templates.
struct Reader<'a> {
    names: &'a [&'a str],
    bindings: &'a [Binding],
}

impl Reader<'_> {
    fn collection(&self, name: &str, section: &Section<'_>) -> Result<OwnCollection> {
        section.only(&["documents", "document", "indexes"])?;
        let document = self.template(section, "document")?;
        self.refuse(
            section,
            "document",
            &document,
            |binding| matches!(binding, Binding::New { .. }),
            "new rows are for statements",
        )?;
        let indexes = section.list("indexes")?.iter().map(|node| {
            let fields: Option<Vec<&'static str>> = match &node.data {
                YamlData::Sequence(fields) => fields.iter().map(|field| field.data.as_str().map(lasting)).collect(),
                _ => None,
            };
            let fields = fields.filter(|fields| !fields.is_empty());
            fields.map(|fields| Index::on(&fields)).ok_or_else(|| section.wrong("indexes", "expected lists of fields"))
        });
        Ok(OwnCollection {
            name: name.to_owned(),
            documents: section.number("documents")?.unwrap_or(0),
            document,
            indexes: indexes.collect::<Result<_>>()?,
        })
    }

    fn statement(&self, section: &Section<'_>) -> Result<OwnStatement> {
        section.only(&["name", "weight", "command"])?;
        let command = self.template(section, "command")?;
        self.refuse(
            section,
            "command",
            &command,
            |binding| matches!(binding, Binding::Loaded),
            "a statement loads no row",
        )?;
        let weight = section.quantity("weight")?.unwrap_or(1.0);
        if weight <= 0.0 {
            return Err(section.wrong("weight", "must be above 0"));
        }
        let name = section.required("name")?;
        if name.is_empty() || !name.chars().all(|char| char.is_alphanumeric() || "_-".contains(char)) {
            return Err(section.wrong("name", "expected letters, digits, '_' and '-'"));
        }
        Ok(OwnStatement { kind: Kind::new(lasting(name)), weight, command })
    }

    /// Errors: it is missing, or is no document.
    fn template(&self, section: &Section<'_>, key: &str) -> Result<Template> {
        let node = section.get(key).ok_or_else(|| section.wrong(key, "is missing"))?;
        match template(node, self.names).map_err(|what| section.wrong(key, &what))? {
            document @ Template::Document(_) => Ok(document),
            _ => Err(section.wrong(key, "expected a document")),
        }
    }

    fn refuse(
        &self,
        section: &Section<'_>,
        key: &str,
        template: &Template,
        is_wrong: impl Fn(&Binding) -> bool,
        what: &str,
    ) -> Result<()> {
        let mut wrong = None;
        template.for_each_hole(&mut |at| {
            if self.bindings.get(at).is_some_and(&is_wrong) {
                wrong = wrong.or(Some(at));
            }
        });
        match wrong.and_then(|at| self.names.get(at)) {
            Some(name) => Err(section.wrong(key, &format!("binding {name:?}: {what}"))),
            None => Ok(()),
        }
    }
}

/// Reads a node as a template.
fn template(node: &MarkedYaml<'_>, names: &[&str]) -> std::result::Result<Template, String> {
    Ok(match &node.data {
        YamlData::Value(Scalar::Null) => Template::Fixed(Value::Null),
        YamlData::Value(Scalar::Boolean(flag)) => Template::Fixed(Value::Bool(*flag)),
        YamlData::Value(Scalar::Integer(number)) => {
            Template::Fixed(i32::try_from(*number).map_or(Value::Int64(*number), Value::Int32))
        }
        YamlData::Value(Scalar::FloatingPoint(number)) => Template::Fixed(Value::Double(number.into_inner())),
        YamlData::Value(Scalar::String(text)) => Template::of_text(text, names)?,
        YamlData::Sequence(items) => {
            Template::Array(items.iter().map(|item| template(item, names)).collect::<std::result::Result<_, _>>()?)
        }
        YamlData::Mapping(fields) => {
            let field = |(key, value): (&MarkedYaml<'_>, &MarkedYaml<'_>)| {
                let key = key.data.as_str().ok_or_else(|| "a field's name must be a string".to_owned())?;
                Ok::<_, String>((key.to_owned(), template(value, names)?))
            };
            Template::Document(fields.iter().map(field).collect::<std::result::Result<_, _>>()?)
        }
        _ => return Err("tags and aliases are not supported".to_owned()),
    })
}
