//! `buildInfo`: the MongoDB release that Arbor presents itself as, and what it really is under `arbor`.

use arbor_bson::{ArrayBuf, DocBuf};

use crate::call::Call;
use crate::{MONGODB_VERSION, Result};

pub(crate) fn run(call: &mut Call<'_>) -> Result<()> {
    call.only(&[])?;
    let members = call.database().transactions.engine().members();
    let engines: ArrayBuf = members.iter().map(|member| member.name.as_str()).collect();
    let numbers: ArrayBuf = MONGODB_VERSION.split('.').filter_map(|n| n.parse::<i32>().ok()).chain([0]).collect();
    let environment = DocBuf::new().with("target_arch", std::env::consts::ARCH).with("target_os", std::env::consts::OS);
    let (commit, build) = (call.server.options.commit, call.server.options.build);
    let reply = &mut call.reply;
    reply.append("version", MONGODB_VERSION).append("gitVersion", commit).append("modules", &ArrayBuf::new());
    reply.append("allocator", "jemalloc").append("javascriptEngine", "none").append("sysInfo", "deprecated");
    reply.append("versionArray", &numbers).append("buildEnvironment", &environment).append("bits", usize::BITS as i32);
    reply
        .append("debug", cfg!(debug_assertions))
        .append("maxBsonObjectSize", crate::cmd::diagnostics::hello::DOCUMENT_BYTES_MAX);
    reply.append("storageEngines", &engines);
    reply.append("openssl", &DocBuf::new().with("running", "rustls").with("compiled", "rustls"));
    reply.append("arbor", &DocBuf::new().with("version", env!("CARGO_PKG_VERSION")).with("build", build));
    Ok(())
}
