//! Small reports that drivers, shells and exporters ask for.

use std::time::Duration;

use arbor_bson::{ArrayBuf, Code, Doc, DocBuf, ValueRef};
use arbor_protocol::arguments::{is_present, wrong_type};
use arbor_protocol::log::now_ms;

use crate::call::Call;
use crate::cmd::diagnostics::server_status;
use crate::{Commands, Error, Result};

/// `getnonce`: drivers of 2013 ask for it before they authenticate.
pub(crate) fn get_nonce(call: &mut Call<'_>) -> Result<()> {
    call.reply.append("nonce", &format!("{:016x}", rand::random::<u64>()));
    Ok(())
}

/// `testVersion2`: a command that is not in version 1 of the stable API, for the tests of drivers.
pub(crate) fn test_version_2(call: &mut Call<'_>) -> Result<()> {
    if !call.server.parameters.test_commands() {
        return Err(Error::new(Code::COMMAND_NOT_FOUND, format!("no such command: '{}'", call.info.name)));
    }
    Ok(())
}

/// `features`: `oidMachine` names the machine, as an ObjectId did.
pub(crate) fn features(call: &mut Call<'_>) -> Result<()> {
    let machine = arbor_protocol::process::host_name()
        .bytes()
        .fold(0u32, |sum, byte| sum.wrapping_mul(31).wrapping_add(byte.into()));
    call.reply.append("oidMachine", (machine & 0xff_ffff) as i32);
    Ok(())
}

/// `connPoolStats`: connections to other servers; there are none.
pub(crate) fn connection_pool_stats(call: &mut Call<'_>) -> Result<()> {
    let reply = &mut call.reply;
    reply.append("numClientConnections", 0i32).append("numAScopedConnections", 0i32);
    for name in ["totalInUse", "totalAvailable", "totalLeased", "totalCreated", "totalRefreshing", "totalRefreshed"] {
        reply.append(name, 0i64);
    }
    reply.append("pools", &DocBuf::new()).append("hosts", &DocBuf::new()).append("replicaSets", &DocBuf::new());
    Ok(())
}

/// `dropConnections`: closes connections to other servers; there are none.
pub(crate) fn drop_connections(call: &mut Call<'_>) -> Result<()> {
    call.only(&["hostAndPort"])?;
    let hosts = call.field("hostAndPort").array(call.required("hostAndPort")?)?;
    for (at, host) in hosts.iter().enumerate().filter(|(_, host)| is_present(*host)) {
        if !matches!(host, ValueRef::String(_)) {
            return Err(wrong_type(&format!("dropConnections.hostAndPort.{at}"), host, "string").into());
        }
    }
    Ok(())
}

/// `getDiagnosticData`: a sample of all statistics, as the flight recorder keeps them.
pub(crate) fn get_diagnostic_data(call: &mut Call<'_>) -> Result<()> {
    call.only(&[])?;
    let data = call.server.diagnostic_data()?;
    call.reply.append("data", &data);
    Ok(())
}

impl Commands {
    /// Returns a sample of all statistics.
    pub fn diagnostic_data(&self) -> Result<DocBuf> {
        let start = now_ms();
        let timed = |section: DocBuf, begun: i64| {
            let mut doc = DocBuf::new().with("start", ValueRef::DateTime(begun));
            section.as_doc().iter().for_each(|(name, value)| _ = doc.append(name, value));
            doc.with("end", ValueRef::DateTime(now_ms()))
        };
        let mut data = DocBuf::new().with("start", ValueRef::DateTime(start));
        let status = server_status::document(self, Doc::empty())?;
        data.append("serverStatus", &timed(status.with("ok", 1.0), start));
        if let Some(replication) = &self.replication {
            let (begun, mut status) = (now_ms(), DocBuf::new());
            // a member that has no set yet has no status
            if self.set_status(replication, &mut status).is_ok() {
                data.append("replSetGetStatus", &timed(status.with("ok", 1.0), begun));
            }
        }
        let begun = now_ms();
        data.append("systemMetrics", &timed(arbor_protocol::process::system_metrics(), begun));
        data.append("slowShapes", &self.slow_shapes.sample());
        Ok(data.with("end", ValueRef::DateTime(now_ms())))
    }

    /// Returns what does not change while the server runs: version, options, machine.
    pub fn diagnostic_constants(&self) -> DocBuf {
        let argv: ArrayBuf = self.options.argv.iter().map(String::as_str).collect();
        let mut host = DocBuf::new();
        arbor_protocol::process::host_info(&mut host);
        DocBuf::new()
            .with("version", self.options.build)
            .with("gitVersion", self.options.commit)
            .with("argv", &argv)
            .with("parsed", &self.options.parsed)
            .with("hostInfo", &host)
    }

    /// Returns the settings of the flight recorder; None: it is disabled.
    pub fn recording(&self) -> Option<Recording> {
        if !self.parameters.bool("diagnosticDataCollectionEnabled") || self.router.is_some() {
            return None;
        }
        let number = |name: &str| self.parameters.int(name).and_then(|number| u64::try_from(number).ok()).unwrap_or(0);
        let directory_bytes = number("diagnosticDataCollectionDirectorySizeMB").saturating_mul(1 << 20);
        Some(Recording {
            period: Duration::from_millis(number("diagnosticDataCollectionPeriodMillis").max(100)),
            directory_bytes,
            file_bytes: number("diagnosticDataCollectionFileSizeMB").saturating_mul(1 << 20).min(directory_bytes / 2),
            samples_per_chunk: number("diagnosticDataCollectionSamplesPerChunk") as usize,
            samples_per_interim: number("diagnosticDataCollectionSamplesPerInterimUpdate") as usize,
        })
    }
}

/// Settings of the flight recorder, which may change at any time.
#[derive(Clone, Copy, Debug)]
pub struct Recording {
    pub period: Duration,
    pub directory_bytes: u64,
    pub file_bytes: u64,
    pub samples_per_chunk: usize,
    pub samples_per_interim: usize,
}
