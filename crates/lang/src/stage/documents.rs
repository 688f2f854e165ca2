//! `$documents`: the documents of an array that the command brings along.
//!
//! ```text
//! [{$documents: [{a: 1}, {a: {$add: [1, 1]}}]}] => [{a: 1}, {a: 2}]
//! [{$documents: {$map: {input: [1, 2], in: {n: '$$this'}}}}, {$match: {n: 2}}] => [{n: 2}]
//! [{$documents: 1}] => error 5858203: an array is expected in $documents
//! [{$documents: [1]}] => error 40228: 'replacement document' must evaluate to an object, but resulting value was: 1. Type of resulting value: 'int'. Input document: { _tempDocumentsField: 1 }
//! ```

use arbor_bson::{Doc, DocBuf, Value, ValueRef};

use crate::{Context, Error, Expression, Result, text};

pub fn parse(spec: ValueRef, context: &Context) -> Result<Vec<DocBuf>> {
    let value = Expression::parse(spec, context)?.eval(Doc::empty())?;
    let Some(Value::Array(array)) = value else {
        return Err(Error::location(5858203, "an array is expected in $documents"));
    };
    array.as_array().iter().map(own_document).collect()
}

/// MongoDB unwinds the array into a field of its own and makes that field the root, which the text shows.
fn own_document(value: ValueRef) -> Result<DocBuf> {
    match value {
        ValueRef::Document(doc) => Ok(doc.to_buf()),
        other => {
            let (shown, found) = (text::shell(other), text::type_name(Some(other)));
            let message = format!(
                "'replacement document' must evaluate to an object, but resulting value was: {shown}. Type of resulting \
                 value: '{found}'. Input document: {{ _tempDocumentsField: {shown} }}"
            );
            Err(Error::location(40228, message))
        }
    }
}
