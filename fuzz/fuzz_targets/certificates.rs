//! Any bytes: no certificate, or one whose subject is written and read back. Any text: no subject, or one that is written the same again.
#![no_main]

use arbor_auth::{Subject, decrypted_key};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    if let Ok(subject) = Subject::of_certificate(bytes) {
        let names = subject.names();
        assert!(names.contains(&subject.name()) && names[0].is_ascii());
        assert!(!subject.is_of_cluster(&subject) || !names[0].is_empty());
    }
    if let Ok(text) = std::str::from_utf8(bytes) {
        if let Some(subject) = Subject::parse(text) {
            let written = subject.name();
            let again = Subject::parse(&written).map(|again| again.name());
            // an unknown attribute is written as its value in DER, which is not read
            assert!(again.is_none_or(|again| again == written || written.contains('#')), "{written}");
        }
        let _ = decrypted_key(bytes, None);
    }
});
