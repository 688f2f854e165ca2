//! Credentials of a client, and the SASL conversation.

use arbor_bson::{DocBuf, ValueRef};

use crate::scram::Scram;
use crate::{Client, ClientError, Mechanism};

#[derive(Clone, PartialEq, Eq)]
pub struct Credential {
    pub user: String,
    pub password: String,
    /// The database that knows the user (authSource).
    pub source: String,
    /// `None`: the best that the server knows for the user.
    pub mechanism: Option<Mechanism>,
}

/// Without the password.
impl std::fmt::Debug for Credential {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Credential { user, source, mechanism, .. } = self;
        f.debug_struct("Credential").field("user", user).field("source", source).field("mechanism", mechanism).finish()
    }
}

impl Credential {
    /// Returns that of a member of a cluster, by a key that its members share.
    pub fn of_member(key: &str) -> Credential {
        Credential {
            user: "__system".to_owned(),
            password: key.to_owned(),
            source: "local".to_owned(),
            mechanism: Some(Mechanism::ScramSha256),
        }
    }

    /// Returns the name for which `hello` requests the mechanisms.
    pub(crate) fn full_name(&self) -> String {
        format!("{}.{}", self.source, self.user)
    }

    /// Chooses from hello's `saslSupportedMechs`; servers that omit it support SHA-1 only.
    pub(crate) fn choose(&self, offered: Option<ValueRef<'_>>) -> Mechanism {
        let sha256 = match offered {
            Some(ValueRef::Array(names)) => {
                names.iter().any(|name| matches!(name, ValueRef::String(name) if name == Mechanism::ScramSha256.name()))
            }
            _ => false,
        };
        let best = if sha256 { Mechanism::ScramSha256 } else { Mechanism::ScramSha1 };
        self.mechanism.unwrap_or(best)
    }

    fn refused(&self, mechanism: Mechanism, error: ClientError) -> ClientError {
        match error {
            ClientError::Command { code, message, .. } => ClientError::Authentication {
                user: self.full_name(),
                reason: format!("{message} (code {code}, {})", mechanism.name()),
                code: Some(code),
            },
            other => other,
        }
    }

    fn distrusted(&self, reason: String) -> ClientError {
        ClientError::Authentication { user: self.full_name(), reason, code: None }
    }
}

/// Server message of the conversation, and its `done` flag.
struct Turn {
    conversation: i32,
    text: String,
    done: bool,
}

impl Client {
    /// Requires that hello was said.
    pub(crate) fn authenticate(&mut self, credential: &Credential, mechanism: Mechanism) -> Result<(), ClientError> {
        let wrong = |reason| credential.distrusted(reason);
        let mut scram = Scram::new(mechanism, &credential.user, &credential.password).map_err(wrong)?;
        let options = DocBuf::new().with("skipEmptyExchange", true);
        let first = scram.client_first();
        let start = DocBuf::new().with("saslStart", 1).with("mechanism", mechanism.name());
        let start = start.with("payload", binary(&first)).with("autoAuthorize", 1).with("options", &options);
        let turn = self.turn(credential, mechanism, &start)?;
        let proof = scram.client_final(&turn.text).map_err(wrong)?;
        let mut turn = self.turn(credential, mechanism, &next(turn.conversation, &proof))?;
        scram.verify(&turn.text).map_err(wrong)?;
        // Servers that do not skip it want one more message, empty.
        if !turn.done {
            turn = self.turn(credential, mechanism, &next(turn.conversation, ""))?;
        }
        if turn.done { Ok(()) } else { Err(wrong("the server does not end the conversation".to_owned())) }
    }

    /// Requires that hello was said. The server knows the certificate from the handshake.
    pub(crate) fn authenticate_by_certificate(&mut self) -> Result<(), ClientError> {
        let command = DocBuf::new().with("authenticate", 1).with("mechanism", "MONGODB-X509");
        match self.command("$external", &command) {
            Ok(_) => Ok(()),
            Err(ClientError::Command { code, message, .. }) => Err(ClientError::Authentication {
                user: "the certificate".to_owned(),
                reason: format!("{message} (code {code}, MONGODB-X509)"),
                code: Some(code),
            }),
            Err(other) => Err(other),
        }
    }

    fn turn(&mut self, credential: &Credential, mechanism: Mechanism, command: &DocBuf) -> Result<Turn, ClientError> {
        let reply = self.command(&credential.source, command).map_err(|error| credential.refused(mechanism, error))?;
        let text = match reply.doc.get("payload") {
            Some(ValueRef::Binary { bytes, .. }) => String::from_utf8_lossy(bytes).into_owned(),
            _ => String::new(),
        };
        Ok(Turn {
            conversation: reply.number("conversationId").unwrap_or(1.0) as i32,
            text,
            done: matches!(reply.doc.get("done"), Some(ValueRef::Bool(true))),
        })
    }
}

fn next(conversation: i32, payload: &str) -> DocBuf {
    DocBuf::new().with("saslContinue", 1).with("conversationId", conversation).with("payload", binary(payload))
}

fn binary(text: &str) -> ValueRef<'_> {
    ValueRef::Binary { subtype: 0, bytes: text.as_bytes() }
}
