//! Field paths as MongoDB allows them in aggregation, projections and sort patterns.

use crate::{Error, Path, Result};

/// The path, if it is one that can name a field.
pub fn parse(dotted: &str) -> Result<Path> {
    if dotted.is_empty() {
        return Err(Error::location(40352, "FieldPath cannot be constructed with empty string"));
    }
    if dotted.ends_with('.') {
        return Err(Error::location(40353, "FieldPath must not end with a '.'."));
    }
    let path = Path::of_input(dotted)?;
    path.components().iter().try_for_each(|component| check_name(&component.name))?;
    Ok(path)
}

/// Refuses a name that no field of a path may have.
pub fn check_name(name: &str) -> Result<()> {
    if name.is_empty() {
        return Err(Error::location(15998, "FieldPath field names may not be empty strings."));
    }
    // the names of a DBRef's fields
    if name.starts_with('$') && !matches!(name, "$ref" | "$id" | "$db") {
        let message = "FieldPath field names may not start with '$'. Consider using $getField or $setField.";
        return Err(Error::location(16410, message));
    }
    if name.contains('\0') {
        return Err(Error::location(16411, "FieldPath field names may not contain '\\0'."));
    }
    Ok(())
}
