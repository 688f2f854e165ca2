//! Fields that are computed: the expressions of projections, and `$addFields`.

use arbor_bson::{Array, ArrayBuf, DEPTH_MAX, Doc, DocBuf, ValueRef};

use crate::by_name::ByName;
use crate::expression::Environment;
use crate::path::Component;
use crate::stop::tick;
use crate::{Expression, Filter, Input, Result, depth};

/// Fields to set, by name, in the order they were written.
#[derive(Clone, Debug, Default)]
pub struct Computed(ByName<Field>);

#[derive(Clone, Debug)]
enum Field {
    Value(Source),
    Inside(Computed),
}

/// Source of the value of a field.
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
        let Some((last, parents)) = path.split_last() else { return };
        let mut fields = self;
        for component in parents {
            match fields.0.get_or_add(&component.name, || Field::Inside(Computed::default())) {
                Field::Inside(inner) => fields = inner,
                Field::Value(_) => unreachable!("paths that collide were refused"),
            }
        }
        fields.0.add(&last.name, Field::Value(source));
    }

    /// `doc` with the fields set. Expressions see `root`. A field whose value is missing is removed.
    pub fn apply(&self, doc: Doc, root: Input) -> Result<DocBuf> {
        depth::checked(self.document(doc, root, DEPTH_MAX)?)
    }

    /// `levels`: how many more the document may have.
    fn document(&self, doc: Doc, root: Input, levels: usize) -> Result<DocBuf> {
        let levels = depth::below(levels)?;
        let mut out = DocBuf::new();
        let mut done = vec![false; self.0.len()];
        for (name, value) in doc {
            tick()?;
            match self.0.entry(name) {
                None => drop(out.append(name, value)),
                Some((at, field)) => {
                    if let Some(done) = done.get_mut(at) {
                        *done = true;
                    }
                    field.append(&mut out, name, Some(value), root, levels)?;
                }
            }
        }
        for ((name, field), _) in self.0.iter().zip(&done).filter(|(_, done)| !**done) {
            field.append(&mut out, name, None, root, levels)?;
        }
        Ok(out)
    }

    /// A value in the place of a document: documents get the fields, arrays element by element, all else is replaced.
    fn apply_to(&self, value: Option<ValueRef>, root: Input, levels: usize) -> Result<arbor_bson::Value> {
        Ok(match value {
            Some(ValueRef::Document(doc)) => self.document(doc, root, levels)?.into(),
            Some(ValueRef::Array(array)) => self.apply_to_elements(array, root, levels)?.into(),
            _ => self.document(Doc::empty(), root, levels)?.into(),
        })
    }

    fn apply_to_elements(&self, array: Array, root: Input, levels: usize) -> Result<ArrayBuf> {
        let levels = depth::below(levels)?;
        let mut out = ArrayBuf::new();
        for element in array.iter() {
            out.push(&self.apply_to(Some(element), root, levels)?);
        }
        Ok(out)
    }
}

impl Field {
    fn append(&self, out: &mut DocBuf, name: &str, old: Option<ValueRef>, root: Input, levels: usize) -> Result<()> {
        tick()?;
        match self {
            Field::Inside(inner) => drop(out.append(name, &inner.apply_to(old, root, levels)?)),
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
