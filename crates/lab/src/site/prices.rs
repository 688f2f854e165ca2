//! A user's table of instance types (docs/prices.yaml), and the price of a million operations.

use std::path::Path;

use saphyr::{LoadableYamlNode, Yaml};
use serde::Serialize;
use serde_json::{Value, json};

use crate::{Error, Result};

#[derive(Clone, Debug, PartialEq)]
pub struct Prices {
    pub currency: String,
    instances: Vec<Instance>,
}

/// An instance type and the machines that are one.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(super) struct Instance {
    pub name: String,
    pub per_hour: f64,
    #[serde(skip)]
    processor: Option<String>,
    #[serde(skip)]
    processors: Option<i64>,
    #[serde(skip)]
    host: Option<String>,
}

impl Prices {
    pub fn read(file: &Path) -> Result<Prices> {
        let text = std::fs::read_to_string(file).map_err(Error::file(file))?;
        parse(&text).map_err(|what| Error::Usage(format!("{}: {what}", file.display())))
    }

    /// Returns the instance types that a machine is.
    pub(super) fn fitting(&self, environment: &Value) -> Vec<&Instance> {
        let text = |name: &str| environment.get(name).and_then(Value::as_str);
        let fits = |instance: &&Instance| {
            let has = |given: &Option<String>, name: &str| {
                given.as_ref().is_none_or(|part| text(name).is_some_and(|text| text.contains(part.as_str())))
            };
            let count = environment.get("processors").and_then(Value::as_i64);
            has(&instance.processor, "processor")
                && has(&instance.host, "host")
                && instance.processors.is_none_or(|processors| count == Some(processors))
        };
        self.instances.iter().filter(fits).collect()
    }

    /// Returns the currency and the instance types that a machine is, for a report's parameters.
    pub(crate) fn of_machine(&self, environment: &Value) -> Value {
        json!({ "currency": self.currency, "instances": self.fitting(environment) })
    }
}

fn parse(text: &str) -> std::result::Result<Prices, String> {
    let loaded = Yaml::load_from_str(text).map_err(|error| error.to_string())?;
    let top = loaded.first().ok_or("there is no table")?;
    let known = |mapping: &Yaml<'_>, names: &[&str], place: &str| {
        let keys = mapping.as_mapping().into_iter().flatten().map(|(key, _)| key.as_str().unwrap_or("?").to_owned());
        match keys.into_iter().find(|key| !names.contains(&key.as_str())) {
            Some(key) => Err(format!("{place}: unknown key {key:?}; known are {}", names.join(", "))),
            None => Ok(()),
        }
    };
    known(top, &["currency", "instances"], "prices")?;
    let currency = top.as_mapping_get("currency").and_then(Yaml::as_str).unwrap_or("USD").to_owned();
    let mapping = top.as_mapping_get("instances").and_then(Yaml::as_mapping).ok_or("`instances` is missing")?;
    let mut instances = Vec::new();
    for (name, about) in mapping {
        let name = name.as_str().ok_or("an instance type without a name")?.to_owned();
        known(about, &["per_hour", "processor", "processors", "host"], &name)?;
        let field = |key: &str| about.as_mapping_get(key);
        let per_hour = field("per_hour");
        let per_hour = per_hour.and_then(|price| price.as_floating_point().or(price.as_integer().map(|n| n as f64)));
        let per_hour = per_hour.filter(|price| *price > 0.0 && price.is_finite());
        instances.push(Instance {
            per_hour: per_hour.ok_or_else(|| format!("{name}: `per_hour` must be a number above 0"))?,
            processor: field("processor").and_then(Yaml::as_str).map(str::to_owned),
            processors: field("processors").and_then(Yaml::as_integer),
            host: field("host").and_then(Yaml::as_str).map(str::to_owned),
            name,
        });
    }
    Ok(Prices { currency, instances })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_machine_is_those_instances_that_it_fits() {
        let text = "currency: EUR\ninstances:\n  small: {per_hour: 0.36, processors: 2, processor: EPYC}\n  any: {per_hour: 1}\n";
        let prices = parse(text).unwrap();
        let machine = |processors: u64| json!({ "processor": "AMD EPYC 7R13", "processors": processors });
        let names =
            |environment: &Value| prices.fitting(environment).iter().map(|one| one.name.clone()).collect::<Vec<_>>();
        assert_eq!((names(&machine(4)), names(&Value::Null)), (vec!["any".to_owned()], vec!["any".to_owned()]));
        let both = prices.of_machine(&machine(2));
        assert_eq!(
            both,
            json!({ "currency": "EUR", "instances": [{ "name": "small", "per_hour": 0.36 }, { "name": "any", "per_hour": 1.0 }] })
        );
    }

    #[test]
    fn wrong_tables_are_refused() {
        for (text, expect) in [
            ("currency: EUR\n", "`instances` is missing"),
            ("instances: {a: {per_hour: 0}}", "a: `per_hour` must be a number above 0"),
            ("instances: {a: {per_hour: 1, colour: red}}", "a: unknown key \"colour\""),
            ("frob: 1\ninstances: {}", "unknown key \"frob\""),
        ] {
            let error = parse(text).unwrap_err();
            assert!(error.contains(expect), "{text}: {error}");
        }
    }

    #[test]
    fn the_table_of_the_documents_is_read() {
        let root = std::path::PathBuf::from(std::env::var_os("CARGO_MANIFEST_DIR").unwrap());
        assert!(!Prices::read(&root.join("../../docs/prices.yaml")).unwrap().instances.is_empty());
    }
}
