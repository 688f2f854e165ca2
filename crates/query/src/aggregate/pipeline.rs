//! A parsed pipeline: the query at its begin and the stages above it.

use std::collections::VecDeque;

use arbor_bson::{Array, ArrayBuf, Doc, DocBuf, ValueRef};
use arbor_lang::stage::{GeoNear, Map, Unwind};
use arbor_lang::{Constants, Context, Filter, Stage};
use arbor_store::Collection;

use super::optimise::optimise;
use super::pushdown::{both, push_down};
use super::scores::{check_place, check_scores};
use super::sink::Sink;
use super::step::Step;
use super::surroundings::Surroundings;
use crate::elsewhere::{ElsewhereCollection, ElsewhereSource};
use crate::names::Names;
use crate::operator::{
    FacetRow, FilterRows, FlowRows, GraphLookupRows, GroupRows, Limit, LookupRows, MapRows, Operator, Sample, Skip,
    Sort, UnionRows, UnpackRows, UnwindRows,
};
use crate::plan::{self, ChosenIndex, Decider, Decision, Query, Slots, Solution};
use crate::query_shape::stage as stage_shape;
use crate::read::counting_operator;
use crate::stage_spec::only_field;
use crate::{AggregateSpec, Result, Scope, Settings};

/// Stages that are part of a query's shape in the plan cache.
const PLANNED: &[&str] = &[
    "$bucket",
    "$bucketAuto",
    "$count",
    "$densify",
    "$group",
    "$lookup",
    "$project",
    "$replaceRoot",
    "$replaceWith",
    "$setWindowFields",
    "$sort",
    "$sortByCount",
];

#[derive(Clone)]
pub(crate) struct Pipeline {
    pub query: Query,
    /// The stages as they run, without one that writes; of a pipeline inside another one, none.
    pub stages: ArrayBuf,
    /// Number of them that the query does.
    pub pushed: usize,
    /// Documents of a leading `$documents`, in the place of the query.
    pub documents: Option<Vec<DocBuf>>,
    /// Documents of other servers, in the place of the query.
    pub elsewhere: Option<ElsewhereSource>,
    /// Stage that writes the resulting documents.
    pub sink: Option<Sink>,
    steps: VecDeque<Step>,
}

impl Pipeline {
    /// For a pipeline that is to run. Errors: among others, a constant expression in it that fails.
    pub(crate) fn parse(scope: &Scope<'_>, spec: &AggregateSpec<'_>) -> Result<Pipeline> {
        let context = scope.context(&spec.namespace, spec.collation.as_ref(), spec.let_variables)?;
        let context = Context { constants: Constants::watched(), ..context };
        let pipeline = Pipeline::parse_in(scope, spec, &context)?;
        context.constants.check_pipeline()?;
        Ok(pipeline)
    }

    /// For a pipeline that is kept, as that of a view.
    pub(crate) fn parse_to_keep(scope: &Scope<'_>, spec: &AggregateSpec<'_>) -> Result<Pipeline> {
        let context = scope.context(&spec.namespace, spec.collation.as_ref(), spec.let_variables)?;
        Pipeline::parse_in(scope, spec, &context)
    }

    fn parse_in(scope: &Scope<'_>, spec: &AggregateSpec<'_>, context: &Context) -> Result<Pipeline> {
        let names = scope.names();
        let around = Surroundings::outermost(&names, spec, context);
        let (stages, sink) = Sink::split(spec.pipeline, around.db, context)?;
        let mut pipeline = Pipeline::parse_own_source(stages.as_array(), &around)?;
        pipeline.stages = stages;
        if let Some(stages) = optimise(pipeline.stages.as_array()) {
            // the client's own order was parsed for its errors
            pipeline = Pipeline::parse_own_source(stages.as_array(), &around)?;
            pipeline.stages = stages;
        }
        pipeline.sink = sink;
        pipeline.query.above = pipeline.planned_above();
        let hint = Query::parse(Doc::empty(), spec.hint, context)?.hint;
        pipeline.query.hint = hint.map(|hint| pipeline.over_buckets(hint));
        Ok(pipeline)
    }

    /// Returns the shapes of the stages that MongoDB plans together with the query below them.
    fn planned_above(&self) -> String {
        let stages = self.stages.as_array().iter().skip(self.pushed).filter_map(|stage| match stage {
            ValueRef::Document(stage) => Some(stage),
            _ => None,
        });
        let planned = stages.take_while(|stage| stage.first().is_some_and(|(name, _)| PLANNED.contains(&name)));
        planned.map(|planned| stage_shape(planned).as_doc().to_string()).collect()
    }

    /// An index on measurements is one of the buckets that they come from.
    fn over_buckets(&self, hint: ChosenIndex) -> ChosenIndex {
        match (self.steps.front(), hint) {
            (Some(Step::Unpack(unpack, _)), ChosenIndex::Pattern(key)) => {
                ChosenIndex::Pattern(unpack.bucket_key(key.as_doc()).unwrap_or(key))
            }
            (_, hint) => hint,
        }
    }

    /// Over documents that are there already: every stage is an operator.
    pub(crate) fn parse_whole(scope: &Scope<'_>, spec: &AggregateSpec<'_>) -> Result<Pipeline> {
        Pipeline::parse_named(scope, spec, scope.names())
    }

    /// Like `parse_whole`, with other collections found by `names`.
    pub(crate) fn parse_named(scope: &Scope<'_>, spec: &AggregateSpec<'_>, names: Names) -> Result<Pipeline> {
        let context = scope.context(&spec.namespace, spec.collation.as_ref(), spec.let_variables)?;
        let around = Surroundings::outermost(&names, spec, &context);
        let (stages, sink) = Sink::split(spec.pipeline, around.db, &context)?;
        Ok(Pipeline { sink, ..Pipeline::parse_stages(stages.as_array(), &around)? })
    }

    /// Like `parse`, for its errors alone.
    pub(crate) fn check(scope: &Scope<'_>, spec: &AggregateSpec<'_>, names: &Names) -> Result<()> {
        let context = scope.context(&spec.namespace, spec.collation.as_ref(), spec.let_variables)?;
        let context = Context { constants: Constants::watched(), ..context };
        let around = Surroundings::outermost(names, spec, &context);
        let (stages, _) = Sink::split(spec.pipeline, around.db, &context)?;
        Pipeline::parse_own_source(stages.as_array(), &around)?;
        Ok(context.constants.check_pipeline()?)
    }

    /// Like `parse`, but for a pipeline inside another one.
    pub(crate) fn parse_stages(stages: Array<'_>, around: &Surroundings<'_>) -> Result<Pipeline> {
        let pipeline = Pipeline::of_steps(Step::parse_all(stages, around)?, around);
        check_place(&pipeline.steps, false)?;
        Ok(pipeline)
    }

    fn of_steps(steps: Vec<Step>, around: &Surroundings<'_>) -> Pipeline {
        let steps = steps.into();
        let query = Query::new(Filter::everything(&around.context.collation));
        Pipeline { query, stages: ArrayBuf::new(), pushed: 0, documents: None, elsewhere: None, sink: None, steps }
    }

    /// A pipeline inside another one, whose documents pass `filter` first; before that, the stages of a view if it is
    /// one that is read.
    pub(crate) fn parse_inner(
        view: Array<'_>,
        filter: Filter,
        stages: Array<'_>,
        around: &Surroundings<'_>,
    ) -> Result<Pipeline> {
        if !view.is_empty() {
            let mut pipeline = Pipeline::parse_own_source(view, around)?.filtered(filter);
            let steps = Step::parse_all(stages, &around.above(view.len())?)?;
            check_place(&steps, false)?;
            pipeline.steps.extend(steps);
            push_down(&mut pipeline.steps, &mut pipeline.query);
            return Ok(pipeline);
        }
        let mut pipeline = Pipeline::parse_own_source(stages, around)?;
        match pipeline.documents {
            Some(_) => pipeline.steps.push_front(Step::Pure(Stage::Match(filter))),
            None => pipeline.query.filter = both(&filter, &pipeline.query.filter),
        }
        Ok(pipeline)
    }

    /// Like `parse_inner` over a collection of other servers. The filter comes with its text for them, as far as it has one.
    pub(crate) fn parse_elsewhere(
        collection: &ElsewhereCollection,
        view: Array<'_>,
        (filter, sent): (Filter, Option<DocBuf>),
        stages: Array<'_>,
        around: &Surroundings<'_>,
    ) -> Result<Pipeline> {
        if let Some(("$documents", _)) = stages.get(0).and_then(only_field) {
            return Pipeline::parse_inner(view, filter, stages, around);
        }
        if let Some((first, distance)) = search_of(stages, around.context)?.filter(|_| view.is_empty()) {
            let is_text = distance.is_none();
            let rest: ArrayBuf = stages.iter().skip(1).collect();
            let source = collection.search(first, sent, is_text, around.context)?;
            let mut steps = Vec::new();
            if let Some(distance) = distance {
                // the nearest ones of each server come first
                let sort = DocBuf::new().with("$sort", &DocBuf::new().with(distance, 1i32));
                steps.extend(Step::parse_all(std::iter::once(&sort).collect::<ArrayBuf>().as_array(), around)?);
            }
            if !filter.matches_everything() {
                steps.push(Step::Pure(Stage::Match(filter)));
            }
            steps.extend(Step::parse_all(rest.as_array(), around)?);
            check_place(&steps, false)?;
            check_scores(rest.as_array(), is_text)?;
            return Ok(Pipeline { elsewhere: Some(source), ..Pipeline::of_steps(steps, around) });
        }
        // E1: before the stages of a view, only those can be sent
        let source = match view.is_empty() {
            true => collection.source(sent, stages, around.context),
            false => collection.source(None, view, around.context),
        };
        let mut steps = Step::parse_all(view, around)?;
        if !filter.matches_everything() {
            steps.push(Step::Pure(Stage::Match(filter)));
        }
        steps.extend(Step::parse_all(stages, &around.above(view.len())?)?);
        let pipeline = Pipeline::of_steps(steps, around);
        check_place(&pipeline.steps, false)?;
        check_scores(stages, false)?;
        Ok(Pipeline { elsewhere: Some(source), ..pipeline })
    }

    /// Adds a `$match` after all stages.
    pub(crate) fn filtered(mut self, filter: Filter) -> Pipeline {
        if !filter.matches_everything() {
            self.steps.push_back(Step::Pure(Stage::Match(filter)));
            push_down(&mut self.steps, &mut self.query);
        }
        self
    }

    /// With a query or a `$documents` in front.
    fn parse_own_source(stages: Array<'_>, around: &Surroundings<'_>) -> Result<Pipeline> {
        if let Some(("$documents", spec)) = stages.get(0).and_then(only_field)
            && around.inside != Some("$facet")
        {
            let rest: ArrayBuf = stages.iter().skip(1).collect();
            let documents = arbor_lang::stage::documents::parse(spec, around.context)?;
            let pipeline = Pipeline::parse_stages(rest.as_array(), around)?;
            return Ok(Pipeline { documents: Some(documents), ..pipeline });
        }
        if let Some(("$geoNear", spec)) = stages.get(0).and_then(only_field)
            && around.inside != Some("$facet")
        {
            let rest: ArrayBuf = stages.iter().skip(1).collect();
            let near = GeoNear::parse(spec, around.context)?;
            let mut pipeline = Pipeline::parse_stages(rest.as_array(), around)?;
            pipeline.query.filter = near.filter;
            pipeline.steps.push_front(Step::Pure(Stage::Map(Map::near_fields(near.fields))));
            return Ok(pipeline);
        }
        let mut pipeline = Pipeline::of_steps(Step::parse_all(stages, around)?, around);
        check_place(&pipeline.steps, true)?;
        let searched =
            matches!(pipeline.steps.front(), Some(Step::Pure(Stage::Match(first))) if first.text().is_some());
        pipeline.query.scored = check_scores(stages, searched)?;
        pipeline.pushed = push_down(&mut pipeline.steps, &mut pipeline.query);
        Ok(pipeline)
    }

    /// The query does all of it.
    pub(crate) fn is_query(&self) -> bool {
        self.steps.is_empty() && self.documents.is_none() && self.sink.is_none()
    }

    /// Notes the plan that [`Pipeline::source`] runs.
    pub(crate) fn note_use(&self, collection: &Collection, winner: &Solution) {
        match self.only_counts() {
            true => plan::note_count(collection, winner),
            false => plan::note_use(collection, winner),
        }
    }

    /// The rows of the query. When the first stage above only counts documents, they are not read.
    pub(crate) fn source(&self, settings: &Settings, mut decision: Decision, slots: &mut Slots) -> Box<dyn Operator> {
        match self.only_counts() {
            true => counting_operator(settings, &decision.winner, &self.query, slots),
            false if decision.winner.covered.is_some() => {
                plan::decided(&mut decision, &self.query_of_fields(), settings, slots)
            }
            false => plan::decided(&mut decision, &self.query, settings, slots),
        }
    }

    /// The query, asked only for the fields that the first stage above it reads: an index may hold them all. What is not
    /// covered is not projected, which would cost more than it saves.
    pub(crate) fn query_of_fields(&self) -> Query {
        let mut query = self.query.clone();
        let Some(Step::Pure(Stage::Group(group))) = self.steps.front() else { return query };
        let Some(fields) = group.fields_read().filter(|fields| !fields.is_empty()) else { return query };
        let mut shown: DocBuf = fields.iter().map(|field| (field.as_str(), 1i32)).collect();
        if !fields.iter().any(|field| field == "_id") {
            shown.append("_id", 0i32);
        }
        // fields of a pipeline may have names that no projection takes; then there is none
        let _ = query.show(Some(shown.as_doc()), &Context::new(0));
        query
    }

    /// Chooses the plan of the query, and notes the query.
    pub(crate) fn decide(&self, decider: &Decider<'_>, slots: &mut Slots) -> Result<Decision> {
        let (decision, mut query) = match self.only_counts() {
            true => {
                let planned = plan::plan(decider.view, decider.collection, &self.query)?;
                (Decision::untried(planned), self.query.clone())
            }
            false => {
                let query = self.query_of_fields();
                (decider.decide(&query, slots)?, query)
            }
        };
        if decision.winner.covered.is_none() {
            query.projection.clone_from(&self.query.projection);
        }
        plan::summary::note_query(query);
        Ok(decision)
    }

    fn only_counts(&self) -> bool {
        matches!(self.steps.front(), Some(Step::Pure(Stage::Group(group))) if !group.reads_documents())
    }

    /// Stages above the query.
    pub(crate) fn steps(&self) -> usize {
        self.steps.len()
    }

    /// The remaining stages as operators above the query's rows.
    pub(crate) fn above(mut self, source: Box<dyn Operator>, settings: &Settings) -> Box<dyn Operator> {
        let mut root = source;
        while let Some(step) = self.steps.pop_front() {
            root = match step {
                Step::Pure(stage) => self.pure(stage, root, settings),
                Step::Lookup(lookup) => {
                    let unwind = self.unwind_of(&lookup.into);
                    Box::new(LookupRows::new(root, *lookup, unwind, settings.clone()))
                }
                Step::UnionWith(inner) => Box::new(UnionRows::new(root, *inner, settings.clone())),
                Step::GraphLookup(lookup) => Box::new(GraphLookupRows::new(root, *lookup, settings.clone())),
                Step::Unpack(unpack, _) => Box::new(UnpackRows::new(root, unpack)),
                Step::Facet(facet) => Box::new(FacetRow::new(root, facet, settings.clone())),
            };
        }
        root
    }

    /// Takes an `$unwind` of this field that comes next.
    fn unwind_of(&mut self, field: &str) -> Option<Unwind> {
        let next = self.steps.pop_front_if(|step| match step {
            Step::Pure(Stage::Unwind(unwind)) => unwind.path.as_str() == field,
            _ => false,
        });
        match next {
            Some(Step::Pure(Stage::Unwind(unwind))) => Some(unwind),
            _ => None,
        }
    }

    fn pure(&self, stage: Stage, input: Box<dyn Operator>, settings: &Settings) -> Box<dyn Operator> {
        match stage {
            Stage::Match(filter) => Box::new(FilterRows::new(input, filter)),
            Stage::Map(map) => Box::new(MapRows::new(input, map)),
            Stage::Group(group) => Box::new(GroupRows::new(input, &group, settings.group_memory())),
            Stage::Sort(pattern) => {
                Box::new(Sort::new(input, pattern, sort_limit(&self.steps), settings.sort_memory()))
            }
            Stage::Arrange(arrange) => Box::new(Sort::arranged(input, arrange, settings.sort_memory())),
            Stage::Flow(stage) => Box::new(FlowRows::new(input, &*stage, settings.group_memory().allowance())),
            Stage::Limit(count) => Box::new(Limit::new(input, count)),
            Stage::Skip(count) => Box::new(Skip::new(input, count)),
            Stage::Unwind(unwind) => Box::new(UnwindRows::new(input, unwind)),
            Stage::Sample(size) => Box::new(Sample::new(input, size)),
        }
    }
}

/// Returns the number of rows that a sort has to keep for the `$skip`s and the `$limit` right after it.
fn sort_limit(behind: &VecDeque<Step>) -> Option<u64> {
    let mut skipped = 0u64;
    for step in behind {
        match step {
            Step::Pure(Stage::Skip(count)) => skipped = skipped.saturating_add(*count),
            Step::Pure(Stage::Limit(count)) => return Some(skipped.saturating_add(*count)),
            _ => return None,
        }
    }
    None
}

/// Returns the first stage if only the servers that have the documents can run it: `$geoNear`, with the field of the distance, or a `$match`
/// with `$text`.
fn search_of<'s>(stages: Array<'s>, context: &Context) -> Result<Option<(ValueRef<'s>, Option<&'s str>)>> {
    let Some(first) = stages.get(0) else { return Ok(None) };
    match only_field(first) {
        Some(("$geoNear", spec)) => {
            // refused here, or by the other servers
            GeoNear::parse(spec, context)?;
            match spec {
                ValueRef::Document(spec) => match spec.get("distanceField") {
                    Some(ValueRef::String(field)) => Ok(Some((first, Some(field)))),
                    _ => Ok(None),
                },
                _ => Ok(None),
            }
        }
        Some(("$match", ValueRef::Document(filter))) => {
            let is_search = Filter::parse(filter, context)?.text().is_some();
            Ok(is_search.then_some((first, None)))
        }
        _ => Ok(None),
    }
}
