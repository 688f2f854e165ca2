//! A configuration file of either form.

use std::path::Path;

use super::{RawSetting, Refused, old_form, table, yaml};

pub(super) fn read(path: &Path) -> Result<Vec<RawSetting>, Refused> {
    let name = path.display();
    let text =
        std::fs::read_to_string(path).map_err(|error| Refused(format!("Error opening config file {name}: {error}")))?;
    read_text(&text).map_err(|Refused(reason)| Refused(format!("Error parsing config file {name}: {reason}")))
}

pub(super) fn read_text(text: &str) -> Result<Vec<RawSetting>, Refused> {
    let old = old_form::is_old_form(text);
    let pairs = if old { old_form::read(text)? } else { yaml::read(text)? };
    let mut all: Vec<RawSetting> = Vec::new();
    for (key, value) in pairs {
        let given = if old { old_key(&key, value)? } else { yaml_key(&key, value)? };
        if all.iter().any(|other| std::ptr::eq(other.row, given.row) && other.parameter == given.parameter) {
            return Err(Refused(format!("{key} is given more than once")));
        }
        all.push(given);
    }
    Ok(all)
}

fn old_key(key: &str, value: String) -> Result<RawSetting, Refused> {
    let written = key.to_owned();
    let row = table::by_flag(key).ok_or_else(|| unknown(key))?;
    if !row.is_set_parameter() {
        return Ok(RawSetting { row, written, parameter: None, value });
    }
    let (name, value) = value
        .split_once('=')
        .ok_or_else(|| Refused("setParameter: expected 'setParameter = name=value'".to_owned()))?;
    Ok(RawSetting { row, written, parameter: Some(name.trim().to_owned()), value: value.trim().to_owned() })
}

fn yaml_key(key: &str, value: String) -> Result<RawSetting, Refused> {
    let written = key.to_owned();
    if let Some(name) = key.strip_prefix("setParameter.") {
        let row = table::by_flag("setParameter").ok_or_else(|| unknown(key))?;
        return Ok(RawSetting { row, written, parameter: Some(name.to_owned()), value });
    }
    let row = table::by_yaml(key).ok_or_else(|| unknown(key))?;
    Ok(RawSetting { row, written, parameter: None, value })
}

fn unknown(key: &str) -> Refused {
    Refused(format!("Unrecognized option: {key}"))
}
