//! A managed server as the one member of a set.

use std::time::{Duration, Instant};

use arbor_bson::{DocBuf, ValueRef};

use super::Target;
use super::mongodb::MongoDb;
use crate::{Error, Result};

/// Arguments of a server that is to be a member.
pub(crate) const ARGUMENTS: [&str; 2] = ["--replSet", "rs0"];

/// Timeout for a member to become primary.
const PRIMARY_TIMEOUT: Duration = Duration::from_secs(30);

/// Makes a set of the server unless it is one, and waits until it is the primary.
pub(crate) fn lead(server: &MongoDb) -> Result<()> {
    const ALREADY_INITIALIZED: i32 = 23;
    let mut client = server.client()?;
    let failed = |source| Error::Client { server: server.name().to_owned(), source };
    match client.command("admin", &DocBuf::new().with("replSetInitiate", &DocBuf::new())) {
        Err(error) if error.code() != Some(ALREADY_INITIALIZED) => return Err(failed(error)),
        _ => {}
    }
    let begun = Instant::now();
    loop {
        let hello = client.command("admin", &DocBuf::new().with("hello", 1)).map_err(failed)?;
        if matches!(hello.doc.get("isWritablePrimary"), Some(ValueRef::Bool(true))) {
            return Ok(());
        }
        if begun.elapsed() > PRIMARY_TIMEOUT {
            return Err(Error::Usage(format!("{}: the member did not become primary", server.name())));
        }
        std::thread::sleep(Duration::from_millis(20));
    }
}
