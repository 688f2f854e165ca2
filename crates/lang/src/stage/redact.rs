//! `$redact`: keeps, prunes or descends into each level of a document, as an expression says of that level.
//!
//! ```text
//! [{$redact: {$cond: [{$eq: ['$l', 1]}, '$$DESCEND', '$$PRUNE']}}] on [{l: 1, a: {l: 2}, b: {l: 1, x: 1}, c: [{l: 1}, {l: 2}, 5]}, {l: 2}] => [{l: 1, b: {l: 1, x: 1}, c: [{l: 1}, 5]}]
//! [{$redact: {$cond: ['$keep', '$$KEEP', '$$PRUNE']}}] on [{keep: true, a: {keep: false}}, {keep: false}] => [{keep: true, a: {keep: false}}]
//! [{$redact: {$cond: [{$eq: ['$$ROOT.x', '$$CURRENT.x']}, '$$DESCEND', '$$PRUNE']}}] on [{x: 1, a: {x: 1}, b: {x: 2}}] => [{x: 1, a: {x: 1}}]
//! [{$redact: '$$PRUNE'}] on [{a: 1}] => []
//! [{$redact: '$$DESCEND'}] on [{a: [[{b: 1}]]}] => [{a: [[{b: 1}]]}]
//! [{$redact: 1}] on [{a: 1}] => error 17053: $redact's expression should not return anything aside from the variables $$KEEP, $$DESCEND, and $$PRUNE, but returned 1
//! ```

use std::sync::Arc;

use arbor_bson::{Array, ArrayBuf, DEPTH_MAX, Doc, DocBuf, ValueRef};

use super::flow::{Flow, FlowStage};
use crate::expression::{Environment, Parser};
use crate::stop::tick;
use crate::{Context, Error, Expression, Result, depth, text};

#[derive(Clone, Debug)]
struct Redact {
    /// With `CURRENT` bound to the level that is looked at.
    verdict: Expression,
}

pub(super) fn parse(spec: ValueRef, context: &Context) -> Result<Arc<dyn FlowStage>> {
    let verdict = Parser::new(context).with_variable("CURRENT", spec)?;
    Ok(Arc::new(Redact { verdict }))
}

impl Redact {
    /// Returns the kept part of a document that is `levels` above the deepest allowed one; `None` when it is pruned.
    fn level(&self, root: Doc, doc: Doc, levels: usize) -> Result<Option<DocBuf>> {
        tick()?;
        let environment = Environment::new(root);
        let frame = environment.bind(Some(ValueRef::Document(doc)));
        let verdict = self.verdict.eval_in(&environment.within(&frame))?;
        match verdict.get() {
            Some(ValueRef::String("keep")) => Ok(Some(doc.to_buf())),
            Some(ValueRef::String("prune")) => Ok(None),
            Some(ValueRef::String("descend")) => self.fields(root, doc, levels).map(Some),
            _ => {
                let shown = verdict.get().map_or("missing".to_owned(), text::shell);
                let message = format!(
                    "$redact's expression should not return anything aside from the variables $$KEEP, $$DESCEND, and \
                     $$PRUNE, but returned {shown}"
                );
                Err(Error::location(17053, message))
            }
        }
    }

    fn fields(&self, root: Doc, doc: Doc, levels: usize) -> Result<DocBuf> {
        let levels = depth::below(levels)?;
        let mut kept = DocBuf::new();
        for (name, value) in doc {
            match value {
                ValueRef::Document(inner) => {
                    if let Some(inner) = self.level(root, inner, levels)? {
                        kept.append(name, &inner);
                    }
                }
                ValueRef::Array(array) => drop(kept.append(name, &self.elements(root, array, levels)?)),
                other => drop(kept.append(name, other)),
            }
        }
        Ok(kept)
    }

    fn elements(&self, root: Doc, array: Array, levels: usize) -> Result<ArrayBuf> {
        let levels = depth::below(levels)?;
        let mut kept = ArrayBuf::new();
        for value in array.iter() {
            match value {
                ValueRef::Document(inner) => {
                    if let Some(inner) = self.level(root, inner, levels)? {
                        kept.push(&inner);
                    }
                }
                ValueRef::Array(inner) => drop(kept.push(&self.elements(root, inner, levels)?)),
                other => drop(kept.push(other)),
            }
        }
        Ok(kept)
    }
}

impl FlowStage for Redact {
    fn name(&self) -> &'static str {
        "$redact"
    }

    fn start(&self) -> Box<dyn Flow> {
        Box::new(Redacting { redact: self.clone(), kept: None })
    }
}

struct Redacting {
    redact: Redact,
    kept: Option<DocBuf>,
}

impl Flow for Redacting {
    fn feed(&mut self, doc: DocBuf) -> Result<()> {
        self.kept = self.redact.level(doc.as_doc(), doc.as_doc(), DEPTH_MAX)?;
        Ok(())
    }

    fn end(&mut self) -> Result<()> {
        Ok(())
    }

    fn next(&mut self) -> Result<Option<DocBuf>> {
        Ok(self.kept.take())
    }

    fn size_bytes(&self) -> usize {
        0
    }

    fn too_large(&self, allowed_bytes: usize) -> Error {
        Error::bad_value(format!("$redact holds more than {allowed_bytes} bytes"))
    }
}
