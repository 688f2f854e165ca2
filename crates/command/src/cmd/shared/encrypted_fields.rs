//! `encryptedFields` of `create`: the schema of queryable encryption is checked as MongoDB checks it, then the option is refused,
//! because nothing here would keep plain values out of the fields that it names.

use arbor_bson::{Code, Doc, Type, ValueRef};
use arbor_lang::number;
use arbor_protocol::arguments::{Field, type_name};

use crate::{Error, Result};

const FIELD: &str = "create.encryptedFields.fields";
const QUERY: &str = "create.encryptedFields.fields.queries";

/// The two query types that a field may have at once.
const PAIR: [&str; 2] = ["prefixPreview", "suffixPreview"];

const TYPES: [Type; 21] = [
    Type::Double,
    Type::String,
    Type::Document,
    Type::Array,
    Type::Binary,
    Type::Undefined,
    Type::ObjectId,
    Type::Bool,
    Type::DateTime,
    Type::Null,
    Type::Regex,
    Type::DbPointer,
    Type::JavaScript,
    Type::Symbol,
    Type::JavaScriptWithScope,
    Type::Int32,
    Type::Timestamp,
    Type::Int64,
    Type::Decimal128,
    Type::MaxKey,
    Type::MinKey,
];

/// Types of which no value is encrypted.
const NEVER: [&str; 4] = ["minKey", "maxKey", "null", "undefined"];

/// Types of values that are not compared by `equality`.
const NOT_EQUAL: [&str; 4] = ["double", "decimal", "object", "array"];

/// Refuses the option: with the code of what is wrong with it, else as not supported.
///
/// # Errors
/// Always.
pub(crate) fn refuse(field: Field<'_>, value: ValueRef<'_>, is_capped: bool) -> Result<()> {
    let mut fields = None;
    for (name, value) in field.document(value)?.iter() {
        let own = Field::new("create.encryptedFields", name);
        match name {
            "escCollection" | "ecocCollection" => drop(own.string(value)?),
            "strEncodeVersion" => drop(whole(own, value, 0)?),
            "fields" => fields = Some(own.documents(value)?),
            _ => return Err(own.unknown().into()),
        }
    }
    let fields = fields.ok_or_else(|| Field::new("create.encryptedFields", "fields").missing())?;
    let mut paths = Vec::with_capacity(fields.len());
    for field in fields {
        paths.push(check_field(field)?);
    }
    paths.sort_unstable();
    if let Some(twice) = paths.windows(2).find(|two| two[0] == two[1]) {
        return error(6_338_402, format!("Duplicate path in the encrypted fields: {}", twice[0]));
    }
    if is_capped {
        return error(6_367_301, "Encrypted fields cannot be used with capped collections");
    }
    Err(Error::not_supported(&format!("queryable encryption ({field})")))
}

fn error<T>(code: i32, text: impl Into<String>) -> Result<T> {
    Err(Error::new(Code(code), text.into()))
}

/// Checks one encrypted field and returns its path.
fn check_field(spec: Doc<'_>) -> Result<&str> {
    let (mut path, mut key_id, mut bson_type, mut queries) = (None, false, None, Vec::new());
    for (name, value) in spec.iter() {
        let field = Field::new(FIELD, name);
        match name {
            "keyId" => {
                if !matches!(value, ValueRef::Binary { subtype: 4, bytes } if bytes.len() == 16) {
                    return Err(field.wrong_type(value, "UUID").into());
                }
                key_id = true;
            }
            "path" => path = Some(field.string(value)?),
            "bsonType" => bson_type = Some(field.string(value)?),
            "strEncodeVersion" => drop(whole(field, value, 0)?),
            "queries" => {
                queries = match value {
                    ValueRef::Document(query) => vec![query],
                    ValueRef::Array(_) => field.documents(value)?,
                    other => return Err(field.wrong_types(other, "[array, object']").into()),
                };
                if queries.is_empty() {
                    return error(9_783_412, "The queries of an encrypted field must name at least one query type");
                }
            }
            _ => return Err(field.unknown().into()),
        }
    }
    let path = path.ok_or_else(|| Field::new(FIELD, "path").missing())?;
    if !key_id {
        return Err(Field::new(FIELD, "keyId").missing().into());
    }
    let mut kinds = Vec::with_capacity(queries.len());
    for query in queries {
        kinds.push(Query::read(query)?);
    }
    if path.is_empty() || path.split('.').any(str::is_empty) {
        return error(6_316_402, "The path of an encrypted field cannot be empty");
    }
    if path.split('.').next() == Some("_id") {
        return error(6_316_403, "The path of an encrypted field cannot be '_id' or below it");
    }
    if let Some(name) = bson_type {
        if !TYPES.iter().any(|ty| type_name(*ty) == name) {
            return Err(Error::bad_value(format!("Unknown type name alias: {name}")));
        }
        if NEVER.contains(&name) {
            return error(6_338_406, format!("Type '{name}' cannot be encrypted"));
        }
    }
    if kinds.len() > 2 {
        return error(9_783_413, "An encrypted field can have at most two query types");
    }
    if let [first, second] = kinds.as_slice()
        && (first.kind == second.kind || !PAIR.contains(&first.kind) || !PAIR.contains(&second.kind))
    {
        let text = format!("Query types '{}' and '{}' cannot be used together", first.kind, second.kind);
        return error(9_783_414, text);
    }
    for query in &kinds {
        query.check(bson_type)?;
    }
    Ok(path)
}

/// One way to ask for an encrypted field.
struct Query<'a> {
    kind: &'a str,
    min: Option<ValueRef<'a>>,
    max: Option<ValueRef<'a>>,
    trim_factor: Option<i64>,
    shortest: Option<i64>,
    longest: Option<i64>,
    case_sensitive: bool,
    diacritic_sensitive: bool,
}

impl<'a> Query<'a> {
    fn read(spec: Doc<'a>) -> Result<Query<'a>> {
        let mut query = Query {
            kind: "",
            min: None,
            max: None,
            trim_factor: None,
            shortest: None,
            longest: None,
            case_sensitive: false,
            diacritic_sensitive: false,
        };
        for (name, value) in spec.iter() {
            let field = Field::new(QUERY, name);
            match name {
                "queryType" => {
                    let known = ["equality", "range", "substringPreview", PAIR[0], PAIR[1]];
                    query.kind = field.one_of(value, &known)?;
                }
                "contention" | "precision" => drop(whole(field, value, 0)?),
                "sparsity" => drop(whole(field, value, 1)?),
                "trimFactor" => query.trim_factor = Some(whole(field, value, 0)?),
                "min" => query.min = Some(value),
                "max" => query.max = Some(value),
                "strMaxLength" => drop(whole(field, value, 1)?),
                "strMinQueryLength" => query.shortest = Some(whole(field, value, 1)?),
                "strMaxQueryLength" => query.longest = Some(whole(field, value, 1)?),
                "caseSensitive" => query.case_sensitive = field.strict_bool(value).map(|_| true)?,
                "diacriticSensitive" => query.diacritic_sensitive = field.strict_bool(value).map(|_| true)?,
                _ => return Err(field.unknown().into()),
            }
        }
        if query.kind.is_empty() {
            return Err(Field::new(QUERY, "queryType").missing().into());
        }
        Ok(query)
    }

    /// Checks what the query says against the type of the field's values.
    fn check(&self, bson_type: Option<&str>) -> Result<()> {
        match self.kind {
            "equality" => match bson_type {
                Some(name) if NOT_EQUAL.contains(&name) => {
                    error(6_338_406, format!("Type '{name}' is not supported by equality queries"))
                }
                _ => Ok(()),
            },
            "range" => self.check_range(bson_type),
            _ => self.check_text(bson_type),
        }
    }

    fn check_range(&self, bson_type: Option<&str>) -> Result<()> {
        let bits = match bson_type {
            Some("int") => 32,
            Some("long" | "date" | "double") => 64,
            Some("decimal") => 128,
            other => {
                let name = other.unwrap_or("missing");
                return error(6_775_201, format!("Type '{name}' is not supported by range queries"));
            }
        };
        for bound in [self.min, self.max].into_iter().flatten() {
            if Some(type_name(bound.ty())) != bson_type {
                return error(7_018_200, "The type of min and max must be the bsonType of the encrypted field");
            }
        }
        if let (Some(min), Some(max)) = (self.min, self.max)
            && arbor_bson::compare(min, max) != std::cmp::Ordering::Less
        {
            return error(6_720_005, "The min of a range must be below its max");
        }
        match self.trim_factor {
            Some(factor) if factor >= bits => {
                error(8_574_000, format!("trimFactor must be below the {bits} bits of the type, found {factor}"))
            }
            _ => Ok(()),
        }
    }

    fn check_text(&self, bson_type: Option<&str>) -> Result<()> {
        let kind = self.kind;
        if bson_type != Some("string") {
            return error(9_783_400, format!("Query type '{kind}' requires the bsonType 'string'"));
        }
        let missing = |code, name: &str| error(code, format!("{name} is required by query type '{kind}'"));
        let Some(shortest) = self.shortest else { return missing(9_783_402, "strMinQueryLength") };
        let Some(longest) = self.longest else { return missing(9_783_403, "strMaxQueryLength") };
        if !self.case_sensitive {
            return missing(9_783_404, "caseSensitive");
        }
        if !self.diacritic_sensitive {
            return missing(9_783_405, "diacriticSensitive");
        }
        if shortest > longest {
            return error(9_783_406, "strMinQueryLength cannot be above strMaxQueryLength");
        }
        Ok(())
    }
}

/// Reads a whole number that is at least `least`.
fn whole(field: Field<'_>, value: ValueRef<'_>, least: i64) -> Result<i64> {
    field.integer(value)?;
    let Some(number) = number::exact_i64(value) else {
        return error(Code::FAILED_TO_PARSE.0, format!("Expected an integer in '{field}'"));
    };
    if number < least {
        return Err(field.out_of_bounds(&format!(">= {least}"), number).into());
    }
    Ok(number)
}
