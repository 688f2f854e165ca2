//! `$changeStreamSplitLargeEvent`: an event that is too large becomes fragments, each with some of its fields.

use arbor_bson::{DocBuf, USER_SIZE_MAX, ValueRef};
use arbor_lang::Code;

use super::token::Token;
use crate::{Error, Result};

/// Space of each fragment in addition to its fields.
const FRAME_BYTES: usize = 512;

/// The event itself when it fits; else its fragments, small fields first.
pub(super) fn split(token: Token, event: DocBuf) -> Result<Vec<(Token, DocBuf)>> {
    split_at(token, event, USER_SIZE_MAX)
}

fn split_at(token: Token, event: DocBuf, bytes_max: usize) -> Result<Vec<(Token, DocBuf)>> {
    if event.as_bytes().len() <= bytes_max {
        return Ok(vec![(token, event)]);
    }
    let sized = |(name, value): (&'_ str, ValueRef<'_>)| DocBuf::new().with(name, value).as_bytes().len();
    let mut fields: Vec<_> = event.as_doc().iter().filter(|(name, _)| *name != "_id").collect();
    fields.sort_by_key(|field| sized(*field));
    let mut groups: Vec<DocBuf> = Vec::new();
    for (name, value) in fields {
        let size = sized((name, value)) + FRAME_BYTES;
        if size > bytes_max {
            let message = format!("Splitting change event failed: the field '{name}' alone is too large");
            return Err(Error::new(Code::BSON_OBJECT_TOO_LARGE, message));
        }
        match groups.last_mut() {
            Some(group) if group.as_bytes().len() + size <= bytes_max => drop(group.append(name, value)),
            _ => groups.push(DocBuf::new().with(name, value)),
        }
    }
    let of = groups.len() as i32;
    let fragment = |(at, fields): (usize, DocBuf)| {
        let token = Token { fragment: at as u16 + 1, ..token };
        let number = DocBuf::new().with("fragment", at as i32 + 1).with("of", of);
        let head = DocBuf::new().with("_id", &token.to_doc()).with("splitEvent", &number);
        (token, head.as_doc().iter().chain(fields.as_doc()).collect())
    };
    Ok(groups.into_iter().enumerate().map(fragment).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn large_events_become_fragments() {
        let token = Token::of_event(5, 0, [0; 12]);
        let text = |size: usize| "x".repeat(size);
        let event = DocBuf::new()
            .with("_id", &token.to_doc())
            .with("before", text(900).as_str())
            .with("kind", "update")
            .with("after", text(800).as_str());
        let whole = split_at(token, event.clone(), 4000).unwrap();
        assert_eq!((whole.len(), whole[0].1.as_bytes()), (1, event.as_bytes()));
        let fragments = split_at(token, event.clone(), 1500).unwrap();
        let numbers: Vec<_> = fragments.iter().map(|(token, _)| token.fragment).collect();
        assert_eq!(numbers, [1, 2]);
        let names: Vec<Vec<&str>> =
            fragments.iter().map(|(_, doc)| doc.as_doc().iter().map(|(name, _)| name).collect()).collect();
        assert_eq!(names, [vec!["_id", "splitEvent", "kind", "after"], vec!["_id", "splitEvent", "before"]]);
        assert!(fragments.iter().all(|(_, doc)| doc.as_bytes().len() <= 1500));
        assert!(split_at(token, event, 1000).is_err());
    }
}
