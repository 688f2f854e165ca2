//! The client authenticates at a server of a few lines that knows one user, and that computes its half of SCRAM itself.

use std::io::{Read, Write};
use std::net::TcpListener;

use arbor_bson::{ArrayBuf, DocBuf, ValueRef};
use arbor_client::{Client, ClientError};
use arbor_wire::{Command, Limits, Scratch, decode, frame_length};
use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use hmac::{Hmac, KeyInit, Mac};
use sha2::{Digest, Sha256};

const USER: &str = "lab@home";
const PASSWORD: &str = "p:%/ss";
/// MD5 of `lab@home:mongo:p:%/ss`, by md5sum.
const MD5: &str = "17c1dd7a037f3e5d7ddd4c4a5a122cb9";
const SALT: &[u8] = b"0123456789abcdef";
const ROUNDS: u32 = 4096;
const AUTHENTICATION_FAILED: i32 = 18;

/// Behaviour of the test server.
#[derive(Clone, Copy, Default)]
struct Manners {
    /// Answers hello without the user's mechanisms, and knows SHA-1 alone.
    old: bool,
    /// Wants an empty message at the end.
    chatty: bool,
    /// Does not know the password and lets everybody in.
    false_server: bool,
}

#[derive(Default)]
struct Conversation {
    manners: Manners,
    sha1: bool,
    /// client-first without its `n,,`, a comma, server-first.
    said: String,
    over: bool,
    authenticated: bool,
}

fn hmac256(key: &[u8], bytes: &[u8]) -> Vec<u8> {
    Hmac::<Sha256>::new_from_slice(key).unwrap().chain_update(bytes).finalize().into_bytes().to_vec()
}

fn hmac1(key: &[u8], bytes: &[u8]) -> Vec<u8> {
    Hmac::<sha1::Sha1>::new_from_slice(key).unwrap().chain_update(bytes).finalize().into_bytes().to_vec()
}

/// A document with `ok: 1` to which the payload belongs.
fn said(payload: &str, done: bool) -> DocBuf {
    let payload = ValueRef::Binary { subtype: 0, bytes: payload.as_bytes() };
    DocBuf::new().with("conversationId", 7).with("done", done).with("payload", payload).with("ok", 1.0)
}

fn refusal(code: i32, message: &str) -> DocBuf {
    DocBuf::new().with("ok", 0.0).with("errmsg", message).with("code", code)
}

impl Conversation {
    fn answer(&mut self, command: &Command<'_>) -> DocBuf {
        let body = command.body.as_doc();
        let payload = match body.get("payload") {
            Some(ValueRef::Binary { bytes, .. }) => std::str::from_utf8(bytes).unwrap().to_owned(),
            _ => String::new(),
        };
        match command.name() {
            "hello" if self.manners.old => DocBuf::new().with("ok", 1.0),
            "hello" => {
                assert!(matches!(body.get("saslSupportedMechs"), Some(ValueRef::String("people.lab@home"))));
                let both: ArrayBuf = ["SCRAM-SHA-1", "SCRAM-SHA-256"].into_iter().collect();
                DocBuf::new().with("saslSupportedMechs", &both).with("ok", 1.0)
            }
            "saslStart" => {
                assert!(matches!(body.get("$db"), Some(ValueRef::String("people"))));
                self.sha1 = matches!(body.get("mechanism"), Some(ValueRef::String("SCRAM-SHA-1")));
                let first = payload.strip_prefix("n,,").unwrap();
                let (user, nonce) = first.strip_prefix("n=").unwrap().split_once(",r=").unwrap();
                assert_eq!(user, USER);
                let answer = format!("r={nonce}MORE,s={},i={ROUNDS}", BASE64_STANDARD.encode(SALT));
                self.said = format!("{first},{answer}");
                said(&answer, false)
            }
            "saslContinue" if self.over => {
                self.authenticated = true;
                said("", true)
            }
            "saslContinue" => self.judge(&payload),
            _ if self.authenticated => DocBuf::new().with("ok", 1.0),
            _ => refusal(13, "command ping requires authentication"),
        }
    }

    fn judge(&mut self, payload: &str) -> DocBuf {
        let (bare, proof) = payload.split_once(",p=").unwrap();
        let message = format!("{},{bare}", self.said);
        let (expected, signature) = if self.sha1 {
            let salted = pbkdf2::pbkdf2_hmac_array::<sha1::Sha1, 20>(MD5.as_bytes(), SALT, ROUNDS);
            let key = hmac1(&salted, b"Client Key");
            let mask = hmac1(&sha1::Sha1::digest(&key), message.as_bytes());
            (xor(&key, &mask), hmac1(&hmac1(&salted, b"Server Key"), message.as_bytes()))
        } else {
            let salted = pbkdf2::pbkdf2_hmac_array::<Sha256, 32>(PASSWORD.as_bytes(), SALT, ROUNDS);
            let key = hmac256(&salted, b"Client Key");
            let mask = hmac256(&Sha256::digest(&key), message.as_bytes());
            (xor(&key, &mask), hmac256(&hmac256(&salted, b"Server Key"), message.as_bytes()))
        };
        if self.manners.false_server {
            return said("v=AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=", true);
        }
        if BASE64_STANDARD.decode(proof).unwrap() != expected {
            return refusal(AUTHENTICATION_FAILED, "Authentication failed.");
        }
        (self.over, self.authenticated) = (true, !self.manners.chatty);
        said(&format!("v={}", BASE64_STANDARD.encode(signature)), self.authenticated)
    }
}

fn xor(a: &[u8], b: &[u8]) -> Vec<u8> {
    a.iter().zip(b).map(|(a, b)| a ^ b).collect()
}

/// Serves one connection and gives its address.
fn serve(manners: Manners) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        let (mut buffer, mut scratch) = (Vec::new(), Scratch::default());
        let mut conversation = Conversation { manners, ..Conversation::default() };
        let mut part = [0; 4096];
        while let Ok(n @ 1..) = stream.read(&mut part) {
            buffer.extend_from_slice(&part[..n]);
            while let Some(length) = frame_length(&buffer).unwrap().filter(|length| *length <= buffer.len()) {
                let command = decode(&buffer[..length], &mut scratch, Limits::default()).unwrap().into_command();
                let (command, mut out) = (command.unwrap(), Vec::new());
                command.reply_to.encode(1, conversation.answer(&command).as_doc(), &mut out);
                drop(command);
                stream.write_all(&out).unwrap();
                buffer.drain(..length);
            }
        }
    });
    address
}

fn connect(manners: Manners, user: &str, options: &str) -> Result<Client, ClientError> {
    Client::connect(&format!("mongodb://{user}@{}/?authSource=people{options}", serve(manners)))
}

const RIGHT: &str = "lab%40home:p%3A%25%2Fss";

#[test]
fn the_right_password_lets_in() {
    for (old, chatty) in [(false, false), (false, true), (true, false), (true, true)] {
        for options in ["", "&authMechanism=SCRAM-SHA-1", "&authMechanism=SCRAM-SHA-256"] {
            let manners = Manners { old, chatty, ..Manners::default() };
            let mut client = connect(manners, RIGHT, options).unwrap();
            client.command("d", &DocBuf::new().with("ping", 1)).unwrap();
        }
    }
}

#[test]
fn a_wrong_password_is_named_with_the_servers_code() {
    for (options, mechanism) in [("", "SCRAM-SHA-256"), ("&authMechanism=SCRAM-SHA-1", "SCRAM-SHA-1")] {
        let error = connect(Manners::default(), "lab%40home:wrong", options).unwrap_err();
        assert_eq!(error.code(), Some(AUTHENTICATION_FAILED));
        let expect =
            format!("authentication failed for user people.lab@home: Authentication failed. (code 18, {mechanism})");
        assert_eq!(error.to_string(), expect);
    }
}

#[test]
fn a_server_that_does_not_know_the_password_is_not_trusted() {
    let error = connect(Manners { false_server: true, ..Manners::default() }, RIGHT, "").unwrap_err();
    assert!(error.to_string().contains("does not know the password"), "{error}");
}
