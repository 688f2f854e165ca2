//! What an expression is evaluated in: the document and the variables bound around it.

use arbor_bson::{Doc, ValueRef};

use crate::{Input, MetaKind, Metadata};

/// The document and the variables in scope, innermost first.
#[derive(Clone, Copy)]
pub struct Environment<'a> {
    pub root: Doc<'a>,
    metadata: Option<&'a Metadata>,
    frame: Option<&'a Frame<'a>>,
}

/// One bound variable.
pub struct Frame<'a> {
    value: Option<ValueRef<'a>>,
    outer: Option<&'a Frame<'a>>,
}

impl<'a> Environment<'a> {
    pub fn new(input: impl Into<Input<'a>>) -> Environment<'a> {
        let Input { doc, metadata } = input.into();
        Environment { root: doc, metadata, frame: None }
    }

    /// What is known about the document.
    pub fn meta(&self, kind: MetaKind) -> Option<ValueRef<'a>> {
        self.metadata?.get(kind)
    }

    /// The variable bound that many frames outwards.
    pub fn variable(&self, frame: usize) -> Option<ValueRef<'a>> {
        let mut found = self.frame;
        for _ in 0..frame {
            found = found?.outer;
        }
        found?.value
    }

    /// A frame that binds one more variable; enter it with [`Environment::within`].
    pub fn bind(&self, value: Option<ValueRef<'a>>) -> Frame<'a> {
        Frame { value, outer: self.frame }
    }

    pub fn within<'b>(&self, frame: &'b Frame<'b>) -> Environment<'b>
    where
        'a: 'b,
    {
        Environment { frame: Some(frame), ..*self }
    }
}
