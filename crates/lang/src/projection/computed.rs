//! Fields that are computed: the expressions of projections, and `$addFields`.

use arbor_bson::{Array, ArrayBuf, Doc, DocBuf, ValueRef};

use crate::expression::Environment;
use crate::path::Component;
use crate::{Expression, Filter, Input, Result};

/// Fields to set, by name, in the order they were written.
#[derive(Clone, Debug, Default)]
pub struct Computed(Vec<(Box<str>, Field)>);

#[derive(Clone, Debug)]
enum Field {
    Value(Source),
    Inside(Computed),
}

/// Where the value of a field comes from.
#[derive(Clone, Debug)]
pub enum Source {
    Expression(Expression),
    /// The first element of this field's array that matches.
    ElemMatch(Filter),
}

impl Computed {
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Sets what is at a path. Requires that no other path collides with it.
    pub fn set(&mut self, path: &[Component], source: Source) {
        let Some((first, rest)) = path.split_first() else { return };
        if rest.is_empty() {
            self.0.push((first.name.clone(), Field::Value(source)));
            return;
        }
        let known = self.0.iter().position(|(known, _)| *known == first.name);
        let at = known.unwrap_or_else(|| {
            self.0.push((first.name.clone(), Field::Inside(Computed::default())));
            self.0.len() - 1
        });
        if let Some((_, Field::Inside(inner))) = self.0.get_mut(at) {
            inner.set(rest, source);
        }
    }

    /// `doc` with the fields set. Expressions see `root`. A field whose value is missing is removed.
    pub fn apply(&self, doc: Doc, root: Input) -> Result<DocBuf> {
        let mut out = DocBuf::new();
        let mut done = vec![false; self.0.len()];
        for (name, value) in doc {
            match self.0.iter().position(|(known, _)| **known == *name) {
                None => drop(out.append(name, value)),
                Some(at) => {
                    if let (Some((_, field)), Some(done)) = (self.0.get(at), done.get_mut(at)) {
                        *done = true;
                        field.append(&mut out, name, Some(value), root)?;
                    }
                }
            }
        }
        for ((name, field), _) in self.0.iter().zip(&done).filter(|(_, done)| !**done) {
            field.append(&mut out, name, None, root)?;
        }
        Ok(out)
    }

    /// A value in the place of a document: documents get the fields, arrays element by element, all else is replaced.
    fn apply_to(&self, value: Option<ValueRef>, root: Input) -> Result<arbor_bson::Value> {
        Ok(match value {
            Some(ValueRef::Document(doc)) => self.apply(doc, root)?.into(),
            Some(ValueRef::Array(array)) => self.apply_to_elements(array, root)?.into(),
            _ => self.apply(Doc::empty(), root)?.into(),
        })
    }

    fn apply_to_elements(&self, array: Array, root: Input) -> Result<ArrayBuf> {
        let mut out = ArrayBuf::new();
        for element in array.iter() {
            out.push(&self.apply_to(Some(element), root)?);
        }
        Ok(out)
    }
}

impl Field {
    fn append(&self, out: &mut DocBuf, name: &str, old: Option<ValueRef>, root: Input) -> Result<()> {
        match self {
            Field::Inside(inner) => drop(out.append(name, &inner.apply_to(old, root)?)),
            Field::Value(Source::Expression(expression)) => {
                if let Some(value) = expression.eval_in(&Environment::new(root))?.get() {
                    out.append(name, value);
                }
            }
            Field::Value(Source::ElemMatch(filter)) => {
                if let Some(element) = filter.first_match(root.doc.get(name))? {
                    out.append(name, &[element].into_iter().collect::<ArrayBuf>());
                }
            }
        }
        Ok(())
    }
}
