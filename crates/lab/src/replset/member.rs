//! A managed server, alone or as the one member of a set.

use std::time::{Duration, Instant};

use arbor_bson::DocBuf;

use crate::target::managed::{Managed, Setup};
use crate::{Error, Result};

/// Timeout for a member to become primary.
const PRIMARY_TIMEOUT: Duration = Duration::from_secs(30);

pub(super) fn alone(engine: &str, setup: &Setup) -> Result<Managed> {
    Managed::arbor(engine, setup)
}

pub(super) fn set(engine: &str, setup: &Setup) -> Result<Managed> {
    let mut setup = setup.clone();
    setup.arguments.extend(["--replSet", "rs0"].map(str::to_owned));
    let managed = Managed::arbor(engine, &setup)?;
    let mut client = managed.mongodb().client()?;
    let failed = |source| Error::Client { server: engine.to_owned(), source };
    client.command("admin", &DocBuf::new().with("replSetInitiate", &DocBuf::new())).map_err(failed)?;
    let begun = Instant::now();
    loop {
        let hello = client.command("admin", &DocBuf::new().with("hello", 1)).map_err(failed)?;
        if matches!(hello.doc.get("isWritablePrimary"), Some(arbor_bson::ValueRef::Bool(true))) {
            return Ok(managed);
        }
        if begun.elapsed() > PRIMARY_TIMEOUT {
            return Err(Error::Usage(format!("{engine}: the member did not become primary")));
        }
        std::thread::sleep(Duration::from_millis(20));
    }
}
