//! Statements on views that the router resolves, as pipelines.

use arbor_base::memory::{self, Class};
use arbor_bson::{ArrayBuf, Code, Doc, DocBuf, ValueRef};
use arbor_command::{Answer, Error, Result, RoutedCursor};
use arbor_lang::Collation;
use arbor_query::BatchLimit;

use crate::catalog::View;
use crate::pipeline::RoutedPipeline;
use crate::read::{count_reply, unsigned};
use crate::rows::reserve;
use crate::{Request, fields};

impl Request<'_> {
    /// Returns the view that this request is on, if only the router can resolve it.
    pub(crate) fn view(&self) -> Result<Option<View>> {
        self.catalog().view_to_resolve(self.routed.db, self.collection()?, self.interrupt())
    }

    /// Returns the collation of a statement on a view. Errors: it names another one than the view has.
    pub(crate) fn collation_of_view(&self, name: &str, view: &View) -> Result<DocBuf> {
        let parse = |given: Doc<'_>| match given.is_empty() {
            true => Ok(Collation::simple()),
            false => Collation::parse(given),
        };
        let asked =
            fields::document(self.body(), "collation").filter(|asked| !asked.is_empty()).map(parse).transpose()?;
        if view.is_time_series {
            let given = fields::document(self.body(), "collation").filter(|given| !given.is_empty());
            return Ok(given.map_or_else(|| DocBuf::new().with("locale", "simple"), Doc::to_buf));
        }
        if asked.is_some_and(|asked| parse(view.collation.as_doc()).is_ok_and(|own| own != asked)) {
            let text = format!("Cannot override a view's default collation, {}.{name}", self.routed.db);
            return Err(Error::new(Code::OPTION_NOT_SUPPORTED_ON_VIEW, text));
        }
        Ok(match view.collation.as_doc().is_empty() {
            true => DocBuf::new().with("locale", "simple"),
            false => view.collation.clone(),
        })
    }

    /// Runs a statement on a view as a pipeline, and returns all of its documents.
    fn all_of_view(&self, view: &View, own: Vec<DocBuf>) -> Result<Vec<DocBuf>> {
        let stages = view.stages.as_array().iter().chain(own.iter().map(ValueRef::from)).collect();
        let over = RoutedPipeline {
            collation: Some(self.collation_of_view(self.collection()?, view)?),
            collection: view.on.clone(),
            stages,
            rewritten: true,
            ..RoutedPipeline::default()
        };
        let Answer::Cursor(RoutedCursor { mut cursor, .. }) = self.pipeline(&over)? else {
            return Err(Error::new(Code::INTERNAL_ERROR, "a view was not read here"));
        };
        let mut documents = Vec::new();
        let (mut memory, mut bytes) = (memory::process().reservation(Class::Statement), 0);
        loop {
            let batch = cursor.next_batch(BatchLimit::more(), self.interrupt())?;
            bytes += batch.docs.as_array().as_bytes().len();
            reserve(&mut memory, bytes)?;
            for value in batch.docs.as_array().iter() {
                if let ValueRef::Document(document) = value {
                    documents.push(document.to_buf());
                }
            }
            if batch.exhausted {
                return Ok(documents);
            }
        }
    }

    pub(crate) fn find_in_view(&self, view: &View) -> Result<Answer> {
        let body = self.body();
        for name in ["min", "max", "showRecordId", "returnKey", "tailable"] {
            if body.get(name).is_some_and(|_| fields::document(body, name).is_some() || fields::is_true(body, name)) {
                let text = format!("Option {name} not supported in aggregation.");
                return Err(Error::new(Code::INVALID_PIPELINE_OPERATOR, text));
            }
        }
        let mut stages = view.stages.clone();
        let given = |name| fields::document(body, name).filter(|given| !given.is_empty());
        for (field, stage) in [("filter", "$match"), ("sort", "$sort")] {
            if let Some(given) = given(field) {
                stages.push(&DocBuf::new().with(stage, given));
            }
        }
        for (field, stage) in [("skip", "$skip"), ("limit", "$limit")] {
            let number = unsigned(body, field)?;
            if number > 0 {
                stages.push(&DocBuf::new().with(stage, i64::try_from(number).unwrap_or(i64::MAX)));
            }
        }
        if let Some(projection) = given("projection") {
            stages.push(&DocBuf::new().with("$project", projection));
        }
        self.pipeline(&RoutedPipeline {
            collation: Some(self.collation_of_view(self.collection()?, view)?),
            collection: view.on.clone(),
            stages,
            batch_size: body.get("batchSize").map(|_| fields::int(body, "batchSize")),
            single_batch: fields::is_true(body, "singleBatch"),
            no_timeout: fields::is_true(body, "noCursorTimeout"),
            rewritten: true,
        })
    }

    pub(crate) fn count_in_view(&self, view: &View) -> Result<Answer> {
        let body = self.body();
        let filter = fields::document(body, "query").unwrap_or(Doc::empty());
        let mut own = vec![DocBuf::new().with("$match", filter)];
        for (stage, number) in
            [("$skip", unsigned(body, "skip")?), ("$limit", fields::int(body, "limit").unsigned_abs())]
        {
            if number > 0 {
                own.push(DocBuf::new().with(stage, i64::try_from(number).unwrap_or(i64::MAX)));
            }
        }
        own.push(DocBuf::new().with("$count", "count"));
        let found = self.all_of_view(view, own)?;
        let n = found.first().map_or(0, |found| fields::int(found.as_doc(), "count"));
        Ok(Answer::Reply(count_reply(n)))
    }

    pub(crate) fn distinct_in_view(&self, view: &View) -> Result<Answer> {
        let body = self.body();
        let key = fields::string(body, "key").unwrap_or_default();
        let filter = fields::document(body, "query").unwrap_or(Doc::empty());
        let mut own = vec![DocBuf::new().with("$match", filter)];
        let ends = key.match_indices('.').map(|(at, _)| at).chain([key.len()]);
        for path in ends.filter_map(|end| key.get(..end)) {
            let spec = DocBuf::new().with("path", format!("${path}").as_str()).with("preserveNullAndEmptyArrays", true);
            own.push(DocBuf::new().with("$unwind", &spec));
        }
        let exists = DocBuf::new().with(key, &DocBuf::new().with("$exists", true));
        own.push(DocBuf::new().with("$match", &exists));
        own.push(DocBuf::new().with("$group", &DocBuf::new().with("_id", format!("${key}").as_str())));
        own.push(DocBuf::new().with("$sort", &DocBuf::new().with("_id", 1i32)));
        let found = self.all_of_view(view, own)?;
        let values: ArrayBuf = found.iter().filter_map(|group| group.get("_id")).collect();
        if values.as_array().as_bytes().len() > arbor_bson::USER_SIZE_MAX {
            return Err(Error::new(Code(17217), "distinct too big, 16mb cap"));
        }
        Ok(Answer::Reply(DocBuf::new().with("values", &values)))
    }
}
