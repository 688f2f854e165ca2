//! Evaluation environment of an expression: the document and the variables bound around it.

use arbor_bson::{Doc, ValueRef};

use super::Evaluated;
use crate::{Input, MetaKind, Metadata};

/// The document and the variables in scope, innermost first.
#[derive(Clone, Copy)]
pub struct Environment<'a> {
    pub root: Doc<'a>,
    metadata: Option<&'a Metadata>,
    frame: Option<&'a Frame<'a>>,
}

/// Variables that are bound together.
pub struct Frame<'a> {
    bound: Bound<'a>,
    outer: Option<&'a Frame<'a>>,
}

enum Bound<'a> {
    One(Option<ValueRef<'a>>),
    Many(&'a [Evaluated<'a>]),
}

impl<'a> Bound<'a> {
    fn len(&self) -> usize {
        match self {
            Bound::One(_) => 1,
            Bound::Many(values) => values.len(),
        }
    }

    /// The value that many places before the last one.
    fn value_from_end(&self, places: usize) -> Option<ValueRef<'a>> {
        match self {
            Bound::One(value) => *value,
            Bound::Many(values) => values.iter().rev().nth(places)?.get(),
        }
    }
}

impl<'a> Environment<'a> {
    pub fn new(input: impl Into<Input<'a>>) -> Environment<'a> {
        let Input { doc, metadata } = input.into();
        Environment { root: doc, metadata, frame: None }
    }

    /// Returns the document's metadata of this kind.
    pub fn meta(&self, kind: MetaKind) -> Option<ValueRef<'a>> {
        self.metadata?.get(kind)
    }

    /// The variable bound that many variables outwards.
    pub fn variable(&self, outwards: usize) -> Option<ValueRef<'a>> {
        let mut left = outwards;
        let mut frame = self.frame?;
        while left >= frame.bound.len() {
            left -= frame.bound.len();
            frame = frame.outer?;
        }
        frame.bound.value_from_end(left)
    }

    /// A frame that binds one more variable; enter it with [`Environment::within`].
    pub fn bind(&self, value: Option<ValueRef<'a>>) -> Frame<'a> {
        Frame { bound: Bound::One(value), outer: self.frame }
    }

    /// A frame that binds variables in this order.
    pub fn bind_all<'b>(&self, values: &'b [Evaluated<'b>]) -> Frame<'b>
    where
        'a: 'b,
    {
        Frame { bound: Bound::Many(values), outer: self.frame }
    }

    pub fn within<'b>(&self, frame: &'b Frame<'b>) -> Environment<'b>
    where
        'a: 'b,
    {
        Environment { frame: Some(frame), ..*self }
    }
}
