//! A conversation of SCRAM with any first and any last message: refused, and never a login without the proof.
#![no_main]

use arbor_auth::scram::{ClientFirst, Conversation, Fakes};
use arbor_auth::{Mechanism, Stored};
use libfuzzer_sys::fuzz_target;

const FAKES: Fakes<'static> = Fakes { secret: &[7; 32], db: "admin", rounds: 4096 };

fuzz_target!(|messages: (&[u8], &str, bool, bool)| {
    let (first, last, sha1, known) = messages;
    let mechanism = if sha1 { Mechanism::ScramSha1 } else { Mechanism::ScramSha256 };
    let Ok(first) = ClientFirst::read(first) else { return };
    assert!(!first.user.is_empty());
    let stored = known.then(|| Stored {
        rounds: 4096,
        salt: vec![5; mechanism.salt_bytes()],
        stored_key: vec![6; mechanism.hash_bytes()],
        server_key: vec![7; mechanism.hash_bytes()],
    });
    let mut server = Conversation::begin(mechanism, first, stored.as_slice(), &FAKES);
    // with the nonce that only the server knows, the checks behind it are reached
    let nonce = server.server_first().split(',').next().unwrap_or_default().to_owned();
    let last = last.replace("NONCE", nonce.trim_start_matches("r="));
    assert!(!matches!(server.finish(last.as_bytes()), Ok(Ok(_))), "the password is not known");
    assert!(server.finish(last.as_bytes()).is_err(), "a conversation ends once");
});
