//! `listIndexes`: ready indexes, then those that are being built.

use arbor_bson::{Code, DocBuf, ValueRef};
use arbor_store::IndexBuild;

use crate::call::Call;
use crate::cmd::shared::cursor_reply::{answer_documents, cursor_option};
use crate::{Error, Result};

pub(crate) fn run(call: &mut Call<'_>) -> Result<()> {
    let namespace = call.namespace()?;
    let (mut batch_size, mut with) = (None, BuildsWith::Nothing);
    for (name, value) in call.own_fields() {
        let field = call.field(name);
        match name {
            "cursor" => batch_size = cursor_option(field, value)?,
            "includeBuildUUIDs" if field.bool(value)? => with = with.and(BuildsWith::Uuid)?,
            "includeIndexBuildInfo" if field.bool(value)? => with = with.and(BuildsWith::Info)?,
            "includeBuildUUIDs" | "includeIndexBuildInfo" => {}
            _ => return Err(field.unknown().into()),
        }
    }
    if let Some(specs) = crate::cmd::shared::time_series::index_specs(call, &namespace)? {
        return answer_documents(call, namespace, specs, batch_size);
    }
    call.database().store.refuse_view(&namespace)?;
    let missing = || Error::new(Code::NAMESPACE_NOT_FOUND, format!("ns does not exist: {namespace}"));
    let collection = call.database().store.collection(&namespace).ok_or_else(missing)?;
    let mut listed: Vec<DocBuf> = collection.index_specs();
    if with == BuildsWith::Info {
        listed = listed.iter().map(|spec| DocBuf::new().with("spec", spec)).collect();
    }
    for build in call.database().store.index_builds(&collection) {
        listed.extend(build.specs.iter().map(|spec| with.shown(spec, &build)));
    }
    answer_documents(call, namespace, listed, batch_size)
}

/// Output format of indexes that are being built.
#[derive(Clone, Copy, PartialEq, Eq)]
enum BuildsWith {
    Nothing,
    Uuid,
    /// All indexes, ready ones too, have their specification in a field of their own.
    Info,
}

impl BuildsWith {
    fn and(self, other: BuildsWith) -> Result<BuildsWith> {
        match self {
            BuildsWith::Nothing => Ok(other),
            _ => Err(Error::new(
                Code::INVALID_OPTIONS,
                "The listIndexes command only supports one of includeBuildUUIDs and includeIndexBuildInfo",
            )),
        }
    }

    fn shown(self, spec: &DocBuf, build: &IndexBuild) -> DocBuf {
        let uuid = ValueRef::Binary { subtype: 4, bytes: build.uuid.as_bytes() };
        match self {
            BuildsWith::Nothing => spec.clone(),
            BuildsWith::Uuid => DocBuf::new().with("spec", spec).with("buildUUID", uuid),
            BuildsWith::Info => {
                DocBuf::new().with("spec", spec).with("indexBuildInfo", &DocBuf::new().with("buildUUID", uuid))
            }
        }
    }
}
