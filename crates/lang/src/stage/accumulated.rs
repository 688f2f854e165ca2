//! Fields that accumulators fill: of `$group` and of the stages like it.

use arbor_bson::{Array, ArrayBuf, Doc, DocBuf};

use crate::accumulator::{Accumulator, State};
use crate::stop::tick;
use crate::{Context, Error, Input, Result};

/// `{ field: { <accumulator>: <expression> }, ... }`, parsed.
#[derive(Clone, Debug, Default)]
pub(super) struct Fields(Vec<(Box<str>, Accumulator)>);

impl Fields {
    pub(super) fn parse(spec: Doc, context: &Context) -> Result<Fields> {
        let mut fields = Fields::default();
        spec.iter().try_for_each(|(name, value)| fields.push(name, value, context))?;
        Ok(fields)
    }

    pub(super) fn push(&mut self, name: &str, value: arbor_bson::ValueRef, context: &Context) -> Result<()> {
        tick()?;
        check_name(name)?;
        self.0.push((name.into(), Accumulator::parse(name, value, context)?));
        Ok(())
    }

    pub(super) fn as_slice(&self) -> &[(Box<str>, Accumulator)] {
        &self.0
    }

    pub(super) fn start(&self) -> FieldStates {
        FieldStates(self.0.iter().map(|(_, accumulator)| accumulator.start()).collect())
    }
}

fn check_name(name: &str) -> Result<()> {
    if name.contains('.') {
        return Err(Error::location(40235, format!("The field name '{name}' cannot contain '.'")));
    }
    if name.starts_with('$') {
        return Err(Error::location(40236, format!("The field name '{name}' cannot be an operator name")));
    }
    Ok(())
}

/// Accumulated states of one group; belongs to the [`Fields`] that started it.
#[derive(Debug)]
pub(super) struct FieldStates(Vec<Box<dyn State>>);

impl FieldStates {
    /// Feeds a document; returns the memory held after it and before it.
    pub(super) fn add<'d>(&mut self, fields: &Fields, input: impl Into<Input<'d>>) -> Result<(usize, usize)> {
        let input = input.into();
        let (mut before, mut after) = (0, 0);
        for ((_, accumulator), state) in fields.0.iter().zip(&mut self.0) {
            tick()?;
            before += state.size_bytes();
            accumulator.add(&mut **state, input)?;
            after += state.size_bytes();
        }
        Ok((after, before))
    }

    /// Returns the partial states that [`FieldStates::absorb`] of equal fields takes.
    pub(super) fn partials(&self) -> ArrayBuf {
        self.0.iter().map(|state| state.partial()).collect::<Vec<_>>().iter().collect()
    }

    pub(super) fn absorb(&mut self, partials: Array) -> Result<()> {
        self.0.iter_mut().zip(partials.iter()).try_for_each(|(state, partial)| state.absorb(partial))
    }

    pub(super) fn size_bytes(&self) -> usize {
        self.0.iter().map(|state| 16 + state.size_bytes()).sum()
    }

    /// Appends the results to the group's document.
    pub(super) fn finish(self, fields: &Fields, doc: &mut DocBuf) {
        for ((name, _), state) in fields.0.iter().zip(self.0) {
            doc.append(name, &state.finish());
        }
    }
}
