//! `create`: a collection, or a view.

use arbor_bson::{Array, DocBuf, ValueRef};
use arbor_lang::{Code, Collation};
use arbor_store::{Created, Namespace, ViewDefinition};

use crate::call::Call;
use crate::cmd::ddl::partitions;
use crate::cmd::shared::capped::{self, Capped};
use crate::cmd::shared::cursor_reply::collation;
use crate::cmd::shared::validation::Validation;
use crate::cmd::shared::{clustered, encrypted_fields, id_index, images, time_series};
use crate::{Error, Result};

pub(crate) fn run(call: &mut Call<'_>) -> Result<()> {
    let namespace = call.namespace()?;
    if call.optional("viewOn").is_some() {
        return create_view(call, namespace);
    }
    if namespace.is_buckets() {
        return Err(crate::error_map::invalid_namespace(namespace.as_str()));
    }
    let (mut options, mut validation) = (DocBuf::new(), Validation::default());
    let mut capped = Capped::default();
    let mut partitioned = false;
    let (mut clustered_index, mut id_index, mut encrypted) = (None, None, None);
    for (name, value) in call.own_fields() {
        let field = call.field(name);
        match name {
            "capped" => capped.capped = field.bool(value)?,
            "size" => capped.size = Some(capped::size(field, value)?),
            "max" => capped.max = Some(field.integer(value)?),
            "timeseries" => {
                refuse_encrypted(call, "time-series collection")?;
                refuse_in_transaction(call, "time-series collection", &namespace)?;
                return time_series::create(call, &namespace, field.document(value)?);
            }
            "partitioned" => partitioned = field.bool(value)?,
            "clusteredIndex" => clustered_index = Some((field, value)),
            "pipeline" => {
                let text = "'pipeline' requires 'viewOn' to also be specified";
                return Err(Error::new(Code::INVALID_OPTIONS, text));
            }
            "validator" | "validationLevel" | "validationAction" => validation.read(field, value)?,
            "encryptedFields" => encrypted = Some((field, value)),
            "expireAfterSeconds" => drop(options.append(name, clustered::seconds(field, value)?)),
            images::NAME => {
                if let Some(images) = images::read(&namespace, field, value)? {
                    options.append(name, &images);
                }
            }
            "collation" => {
                if let Some(collation) = collation(field, value)?.filter(|own| !own.is_simple()) {
                    options.append(name, &collation.to_doc());
                }
            }
            "storageEngine" | "indexOptionDefaults" => {
                let given = field.document(value)?;
                if !given.is_empty() {
                    options.append(name, given);
                }
            }
            // TokuMX took the settings of its trees at the top level of the options.
            "compression" | "pageSize" | "readPageSize" | "fanout" => drop(options.append(name, value)),
            "flags" => drop(field.integer(value)?),
            "autoIndexId" | "temp" => drop(field.bool(value)?),
            "idIndex" => id_index = Some(field.document(value)?),
            "writeConcern" => {}
            _ => return Err(field.unknown().into()),
        }
    }
    if let Some((field, value)) = encrypted {
        return encrypted_fields::refuse(field, value, capped.capped);
    }
    if let Some((field, value)) = clustered_index {
        if capped.capped {
            let text = "A capped collection cannot be created with a clusteredIndex";
            return Err(Error::new(Code(6_049_200), text));
        }
        if capped.max.is_some() {
            return Err(Error::new(Code(6_049_204), "The 'max' option is not supported on a clustered collection"));
        }
        options.append("clusteredIndex", &clustered::read(&namespace, field, value)?);
    }
    if let Some(spec) = id_index {
        id_index::check(spec, options.get("collation"))?;
    }
    if partitioned {
        partitions::refuse_unfit(call, &namespace)?;
        if capped.capped || options.get("clusteredIndex").is_some() {
            let text = "A partitioned collection can be neither capped nor have a clusteredIndex";
            return Err(Error::new(Code::INVALID_OPTIONS, text));
        }
        options.append("partitioned", true);
    }
    check_together(call, &options)?;
    capped.append_to(&mut options)?;
    validation.check(&namespace)?;
    validation.append_to(&mut options);
    let created = match call.scope().transaction() {
        Some(open) => open.create_collection(&namespace, &options),
        None => call.database().store.create_collection(&namespace, &options),
    };
    match created {
        Ok(Created::Before) if call.scope().transaction().is_some() => {
            Err(arbor_store::Error::NamespaceExists(namespace).into())
        }
        Ok(Created::Now | Created::Before) => Ok(()),
        Err(arbor_store::Error::NamespaceIsView(_)) => {
            let text = format!("Cannot create collection {namespace} - view already exists.");
            Err(Error::new(Code::NAMESPACE_EXISTS, text))
        }
        Err(error) => Err(error.into()),
    }
}

/// Checks options that require, or exclude, a clustered collection.
fn check_together(call: &Call<'_>, options: &DocBuf) -> Result<()> {
    let invalid = |text: &str| Err(Error::new(Code::INVALID_OPTIONS, text));
    let clustered = options.get("clusteredIndex").is_some();
    if options.get("expireAfterSeconds").is_some() && !clustered {
        return invalid(
            "'expireAfterSeconds' is only supported on time-series collections or when the clusteredIndex option is specified",
        );
    }
    if clustered && call.optional("idIndex").is_some() {
        return invalid("The 'clusteredIndex' option is not supported with the 'idIndex' option");
    }
    if clustered && matches!(call.body.get("autoIndexId"), Some(ValueRef::Bool(true))) {
        return invalid("The 'clusteredIndex' option does not support {autoIndexId: true}");
    }
    Ok(())
}

fn refuse_in_transaction(call: &Call<'_>, what: &str, namespace: &Namespace) -> Result<()> {
    match call.scope().transaction() {
        Some(_) => {
            let text = format!("Cannot create a {what} in a multi-document transaction: {namespace}");
            Err(Error::new(Code::OPERATION_NOT_SUPPORTED_IN_TRANSACTION, text))
        }
        None => Ok(()),
    }
}

/// Refuses `encryptedFields` of what is no plain collection.
fn refuse_encrypted(call: &Call<'_>, what: &str) -> Result<()> {
    match call.optional("encryptedFields") {
        Some(_) => Err(Error::new(Code(6_346_401), format!("Encrypted fields cannot be used with a {what}"))),
        None => Ok(()),
    }
}

fn create_view(call: &mut Call<'_>, namespace: Namespace) -> Result<()> {
    refuse_encrypted(call, "view")?;
    refuse_in_transaction(call, "view", &namespace)?;
    let (mut view_on, mut pipeline, mut own_collation) = (None, Array::empty(), Collation::simple());
    for (name, value) in call.own_fields() {
        let field = call.field(name);
        match name {
            "viewOn" => view_on = Some(view_source(call, field.string(value)?)?),
            "pipeline" => pipeline = field.array(value)?,
            "collation" => own_collation = collation(field, value)?.unwrap_or_default(),
            "writeConcern" => {}
            "capped" | "autoIndexId" | "temp" if !field.bool(value)? => {}
            "clusteredIndex" => {
                return Err(Error::new(Code(6_026_500), "The 'clusteredIndex' option is not supported with views"));
            }
            "capped"
            | "timeseries"
            | "validator"
            | "validationLevel"
            | "validationAction"
            | "expireAfterSeconds"
            | "changeStreamPreAndPostImages"
            | "storageEngine"
            | "indexOptionDefaults"
            | "compression"
            | "pageSize"
            | "readPageSize"
            | "fanout"
            | "size"
            | "max"
            | "flags"
            | "autoIndexId"
            | "temp"
            | "partitioned"
            | "idIndex" => {
                let text = format!("option not supported on a view: {name}");
                return Err(Error::new(Code::INVALID_OPTIONS, text));
            }
            _ => return Err(field.unknown().into()),
        }
    }
    if namespace.is_system() {
        let text =
            format!("View name cannot start with 'system.', which is reserved for system namespaces: {namespace}");
        return Err(Error::new(Code::INVALID_NAMESPACE, text));
    }
    let view_on = view_on.ok_or_else(|| call.field("viewOn").missing())?;
    let view = ViewDefinition { namespace, view_on, pipeline: pipeline.to_buf(), collation: own_collation };
    arbor_query::check_view(&call.scope(), &view)?;
    call.database().store.create_view(view)?;
    Ok(())
}

/// The collection or view that a view reads.
pub(crate) fn view_source(call: &Call<'_>, name: &str) -> Result<Namespace> {
    if name.is_empty() {
        return Err(Error::bad_value("'viewOn' cannot be empty"));
    }
    if name.starts_with('$') {
        return Err(crate::error_map::invalid_namespace(&format!("{}.{name}", call.db)));
    }
    Ok(Namespace::new(call.db, name)?)
}
