//! Any bytes: refused, or a document that is read, printed, compared and encoded without a panic, and whose elements,
//! appended one by one, are the same bytes again.
#![no_main]

use arbor_bson::{Doc, DocBuf, compare_docs, display, extjson, keystring};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let Ok(doc) = Doc::parse(bytes) else { return };
    let again: DocBuf = doc.iter().collect();
    assert!(compare_docs(doc, again.as_doc()).is_eq());
    assert_eq!(again.as_bytes().len(), bytes.len(), "no element is lost");
    let _ = display::shell_doc(doc).to_string();
    let _ = extjson::doc(doc, extjson::Form::Canonical).to_string();
    for (_, value) in doc.iter() {
        let key = keystring::key_of(value);
        assert_eq!(keystring::component_len(&key.bytes, false), Ok(key.bytes.len()));
        let back = keystring::decode(&key.bytes, &key.type_bits, &[false]).expect("a key is decoded");
        assert!(back.iter().all(|back| back.as_ref().compare(value).is_eq()));
    }
});
