//! `findAndModify`.

use arbor_base::memory::values;
use arbor_bson::{Doc, DocBuf, ValueRef, Writer};
use arbor_query::{Change, FindAndModifySpec, REPLY_COPIES};

use crate::call::Call;
use crate::cmd::shared::cursor_reply::{REPLY_OVERHEAD, collation};
use crate::{Error, Result};

/// Sent by routers, which write the document where its shard key belongs.
const TENTATIVE: &str = "$_arborTentative";

pub(crate) fn run(call: &mut Call<'_>) -> Result<()> {
    let spec = parse(call)?;
    let removes = matches!(spec.change, Change::Remove);
    let outcome = arbor_query::find_and_modify(&call.scope(), &spec, &call.interrupt)?;
    let mut last = DocBuf::new().with("n", outcome.n as i32);
    if spec.tentative {
        last.append("updatedExisting", outcome.updated_existing);
    } else if removes {
        call.server.metrics.documents.deleted.add(outcome.n);
    } else {
        call.server.metrics.documents.updated.add(outcome.n);
        last.append("updatedExisting", outcome.updated_existing);
    }
    if let Some(id) = &outcome.upserted {
        last.append("upserted", id);
    }
    let value_bytes = outcome.value.as_ref().map_or(0, |value| value.as_bytes().len());
    let mut reply = Writer::with_capacity(value_bytes + REPLY_OVERHEAD);
    reply.append("lastErrorObject", (&last).into());
    reply.append("value", outcome.value.as_ref().map_or(ValueRef::Null, ValueRef::from));
    call.reply = reply.finish();
    call.reply_memory = values::take();
    call.reply_memory.iter_mut().for_each(|memory| memory.shrink_to(REPLY_COPIES * value_bytes));
    Ok(())
}

/// Reads the command; `explain` uses it as well.
pub(crate) fn parse<'c>(call: &Call<'c>) -> Result<FindAndModifySpec<'c>> {
    let mut spec = FindAndModifySpec {
        namespace: call.namespace()?,
        query: Doc::empty(),
        sort: None,
        change: Change::Remove,
        fields: None,
        hint: None,
        collation: None,
        let_variables: None,
        durability: call.generic.write_concern.durability(),
        bypass_validation: false,
        tentative: false,
    };
    let mut modification = Modification::default();
    for (name, value) in call.own_fields() {
        let field = call.field(name);
        match name {
            "query" => spec.query = field.document(value)?,
            "sort" => spec.sort = Some(field.document(value)?).filter(|doc| !doc.is_empty()),
            "fields" => spec.fields = Some(field.document(value)?).filter(|doc| !doc.is_empty()),
            "hint" => spec.hint = crate::cmd::shared::hint::read(field, value)?,
            "let" => spec.let_variables = Some(field.document(value)?),
            "remove" => modification.remove = field.bool(value)?,
            "update" => modification.update = Some(value),
            "new" => modification.new = field.bool(value)?,
            "upsert" => modification.upsert = field.bool(value)?,
            "arrayFilters" => modification.array_filters = field.documents(value)?,
            "collation" => spec.collation = collation(field, value)?,
            "bypassDocumentValidation" => spec.bypass_validation = field.bool(value)?,
            TENTATIVE => spec.tentative = field.bool(value)?,
            "sampleId" => {}
            _ => return Err(field.unknown().into()),
        }
    }
    spec.change = modification.change()?;
    Ok(spec)
}

/// The fields that say what is to be done; not every mix of them makes sense.
#[derive(Default)]
struct Modification<'c> {
    remove: bool,
    update: Option<ValueRef<'c>>,
    new: bool,
    upsert: bool,
    array_filters: Vec<Doc<'c>>,
}

impl<'c> Modification<'c> {
    fn change(self) -> Result<Change<'c>> {
        let refused = |text: &str| Err(Error::failed_to_parse(text));
        match self.update {
            Some(_) if self.remove => refused("Cannot specify both an update and remove=true"),
            None if !self.remove => refused("Either an update or remove=true must be specified"),
            None if self.upsert => refused("Cannot specify both upsert=true and remove=true"),
            None if self.new => {
                refused("Cannot specify both new=true and remove=true; 'remove' always returns the deleted document")
            }
            None => Ok(Change::Remove),
            Some(update) => {
                let Modification { upsert, new: return_new, array_filters, .. } = self;
                Ok(Change::Update { update, upsert, return_new, array_filters })
            }
        }
    }
}
