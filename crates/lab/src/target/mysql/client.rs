//! A MySQL or MariaDB server as a target.

use std::path::{Path, PathBuf};

use mysql::prelude::Queryable;
use mysql::{Conn, Opts, OptsBuilder};
use serde_json::{Value, json};

use super::session::Connection;
use crate::target::{Failure, Session, Statistics, Target};
use crate::{Error, Result};

#[derive(Clone, Debug)]
pub struct MySql {
    name: String,
    opts: Opts,
    /// Tables are made with this engine; the server's default otherwise.
    engine: Option<&'static str>,
    /// Point queries by HANDLER instead of SELECT.
    handler: bool,
    process: Option<u32>,
    directory: Option<PathBuf>,
}

impl MySql {
    pub fn parse(name: Option<&str>, uri: &str) -> Result<MySql> {
        let handler = uri.starts_with("mysql+handler://");
        let plain = uri.replacen("mysql+handler://", "mysql://", 1);
        let opts = Opts::from_url(&plain).map_err(|error| Error::Usage(format!("{uri}: {error}")))?;
        let address = format!("{}:{}", opts.get_ip_or_hostname(), opts.get_tcp_port());
        let name = name.map_or_else(|| if handler { format!("{address}.handler") } else { address }, str::to_owned);
        let local = ["127.0.0.1", "localhost"].contains(&&*opts.get_ip_or_hostname());
        let mut target = MySql { name, opts: lean(opts), engine: None, handler, process: None, directory: None };
        target.process = if local { target.server_process() } else { None };
        Ok(target)
    }

    pub fn managed(name: &str, port: u16, engine: &'static str, handler: bool) -> MySql {
        let opts = OptsBuilder::new().ip_or_hostname(Some("127.0.0.1")).tcp_port(port).user(Some("root"));
        let engine = Some(engine);
        MySql { name: name.to_owned(), opts: lean(opts.into()), engine, handler, process: None, directory: None }
    }

    pub fn local(self, process: u32, directory: &Path) -> MySql {
        MySql { process: Some(process), directory: Some(directory.to_owned()), ..self }
    }

    /// Returns the server's process from its pid file, if readable.
    fn server_process(&self) -> Option<u32> {
        let file: Option<String> = self.connection().ok()?.query_first("SELECT @@pid_file").ok()?;
        std::fs::read_to_string(file?).ok()?.trim().parse().ok()
    }

    fn connection(&self) -> Result<Conn> {
        Conn::new(self.opts.clone())
            .map_err(|error| Error::Server { server: self.name.clone(), reason: error.to_string() })
    }
}

/// Over TCP as the other targets, statements kept by us.
fn lean(opts: Opts) -> Opts {
    let opts = OptsBuilder::from_opts(opts).prefer_socket(false).tcp_nodelay(true).stmt_cache_size(0);
    opts.tcp_connect_timeout(Some(std::time::Duration::from_secs(10))).into()
}

impl Target for MySql {
    fn name(&self) -> &str {
        &self.name
    }

    fn connect(&self) -> Result<Box<dyn Session>> {
        Ok(Box::new(Connection::new(self.connection()?, self.engine, self.handler)))
    }

    fn process(&self) -> Option<u32> {
        self.process
    }

    fn directory(&self) -> Option<&Path> {
        self.directory.as_deref()
    }

    fn about(&self) -> Result<Value> {
        let mut connection = self.connection()?;
        let mut text = |variable: &str| -> Option<String> {
            connection.query_first(format!("SELECT CAST(@@{variable} AS CHAR)")).ok().flatten()
        };
        Ok(json!({
            "address": format!("{}:{}", self.opts.get_ip_or_hostname(), self.opts.get_tcp_port()),
            "version": text("version"),
            "engine": self.engine.map(str::to_owned).or_else(|| text("default_storage_engine")),
            "point_queries": if self.handler { "HANDLER ... READ" } else { "SELECT by a prepared statement" },
            "innodb_buffer_pool_size": text("innodb_buffer_pool_size"),
            "innodb_page_size": text("innodb_page_size"),
            "innodb_flush_log_at_trx_commit": text("innodb_flush_log_at_trx_commit"),
            "rocksdb_block_cache_size": text("rocksdb_block_cache_size"),
            "transactions": "each statement commits by itself (sysbench's --oltp-skip-trx)",
        }))
    }

    fn statistics(&self) -> Option<Box<dyn Statistics>> {
        Some(Box::new(Status(self.connection().ok()?)))
    }
}

/// SHOW GLOBAL STATUS.
struct Status(Conn);

const COUNTERS: [&str; 5] =
    ["innodb_data_", "innodb_buffer_pool_pages_", "innodb_log_waits", "innodb_checkpoint_age", "rocksdb_stall"];

impl Statistics for Status {
    fn read(&mut self) -> Vec<(String, f64)> {
        let rows: Vec<(String, String)> = self.0.query("SHOW GLOBAL STATUS").unwrap_or_default();
        let known = |name: &str| COUNTERS.iter().any(|counter| name.starts_with(counter));
        let rows = rows.into_iter().map(|(name, value)| (name.to_ascii_lowercase(), value));
        rows.filter(|(name, _)| known(name)).filter_map(|(name, value)| Some((name, value.parse().ok()?))).collect()
    }
}

impl From<mysql::Error> for Failure {
    fn from(error: mysql::Error) -> Failure {
        let (code, broken) = match &error {
            mysql::Error::MySqlError(error) => (error.code.to_string(), false),
            mysql::Error::IoError(error) => (format!("io: {}", error.kind()), true),
            _ => ("protocol".to_owned(), true),
        };
        Failure { code, message: error.to_string(), broken }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn uris_name_the_way_to_ask() {
        let check = |name, uri, expect: (&str, bool)| {
            let target = MySql::parse(name, uri).unwrap();
            assert_eq!((target.name.as_str(), target.handler), expect);
        };
        check(None, "mysql://root@db.example:3307", ("db.example:3307", false));
        check(None, "mysql+handler://root@db.example:3307", ("db.example:3307.handler", true));
        check(Some("fb56.sql"), "mysql://u:p@db.example", ("fb56.sql", false));
        assert!(MySql::parse(None, "mysql://:").is_err());
    }
}
