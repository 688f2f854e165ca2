//! From flags and configuration files to [`Settings`].
//!
//! | file | what |
//! |---|---|
//! | `table` | the one table: flag, YAML key, old key, what it does |
//! | `command_line` | flags to `(row, value)` pairs |
//! | `file` | a configuration file to `(row, value)` pairs; detects YAML or the old form by its content |
//! | `yaml`, `old_form` | the two forms, flattened to dotted keys |
//! | `document` | docs/configuration.md |
//! | `nested` | settings as documents |
//! | `settings` | the resulting settings of the server |
//!
//! Every key of the table is handled: applied, mapped to something near, or ignored with a warning in the log. A key that
//! is not in the table refuses the start.

mod command_line;
#[cfg(test)]
mod document;
mod file;
mod nested;
mod old_form;
mod settings;
mod table;
mod value;
mod yaml;

pub(crate) use command_line::{doctor_command, read as read_command_line, route_command, serve_command};
pub(crate) use nested::nested;
pub(crate) use settings::{AuditDestination, OplogSettings, Settings, TlsMode};
pub(crate) use table::without_secrets;

/// Why the configuration is refused; the text is all that the user sees.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Refused(pub String);

impl std::fmt::Display for Refused {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

/// One setting as the user wrote it. `parameter` is the name behind `setParameter`.
#[derive(Clone)]
struct RawSetting {
    row: &'static table::Row,
    written: String,
    parameter: Option<String>,
    value: String,
}

/// Settings from a configuration file (if there is one) and from flags, which win.
fn settle(from_file: Vec<RawSetting>, from_flags: Vec<RawSetting>) -> Result<Settings, Refused> {
    let overridden = |given: &RawSetting| {
        from_flags.iter().any(|flag| std::ptr::eq(flag.row, given.row) && flag.parameter == given.parameter)
    };
    let mut settings = Settings::default();
    let kept: Vec<RawSetting> = from_file.into_iter().filter(|given| !overridden(given)).collect();
    for given in kept.into_iter().chain(from_flags) {
        table::apply(&mut settings, &given)?;
    }
    Ok(settings)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn from_file(text: &str) -> Result<Settings, Refused> {
        settle(file::read_text(text)?, Vec::new())
    }

    fn from_flags(flags: &[&str]) -> Result<Settings, Refused> {
        let matches = serve_command().no_binary_name(true).try_get_matches_from(flags);
        read_command_line(&matches.map_err(|error| Refused(error.to_string()))?)
    }

    fn warned(settings: &Settings) -> Vec<&str> {
        settings.warnings.iter().map(|warning| warning.key.as_str()).collect()
    }

    /// The configuration file of the first founding text, its TokuMX form.
    #[test]
    fn founding_text_old_form() {
        let settings = from_file(
            "dbpath = /home/mongo/data\nlogpath = /home/mongo/log\nlogappend = true\nfork = true\nslowms = 2000\n\
             oplogSize = 2000\nexpireOplogHours = 2\n",
        )
        .unwrap();
        assert_eq!(settings.dbpath.to_str(), Some("/home/mongo/data"));
        assert_eq!(settings.logpath.as_deref().and_then(|p| p.to_str()), Some("/home/mongo/log"));
        assert!(settings.logappend && settings.fork);
        assert_eq!(settings.slow_ms, 2000);
        let oplog = OplogSettings { megabytes: Some(2000), hours_min: None, hours_max: Some(2.0) };
        assert_eq!((warned(&settings), settings.oplog), (vec![], oplog));
    }

    /// Its flags.
    #[test]
    fn founding_text_tokumx_flags() {
        let settings = from_flags(&[
            "--setParameter=defaultCompression=quicklz",
            "--setParameter=defaultFanout=128",
            "--setParameter=defaultReadPageSize=16384",
            "--setParameter=fastUpdates=true",
            "--cacheSize=70G",
            "--replSet",
            "foobar",
            "--checkpointPeriod=900",
        ])
        .unwrap();
        assert_eq!(settings.cache_bytes, Some(70 << 30));
        assert_eq!(settings.checkpoint_seconds, 900);
        assert_eq!(settings.parameters.len(), 4);
        assert_eq!(settings.parameters[1], ("defaultFanout".to_owned(), "128".to_owned()));
        assert_eq!((warned(&settings), settings.replica_set.as_deref()), (vec![], Some("foobar")));
    }

    /// Its YAML form, nested and dotted keys mixed.
    #[test]
    fn founding_text_yaml() {
        let settings = from_file(
            r#"
processManagement:
  fork: true
systemLog:
  destination: file
  path: /home/mongo/log
  logAppend: true
storage:
  syncPeriodSecs: 60
  dbPath: /home/mongo/data
  journal:
    enabled: true
  mmapv1:
    journal:
      commitIntervalMs: 100
operationProfiling.slowOpThresholdMs: 2000
replication.oplogSizeMB: 2000

storage.wiredTiger.collectionConfig.blockCompressor: snappy
storage.wiredTiger.engineConfig.journalCompressor: none

storage.rocksdb.compression: snappy
storage.rocksdb.configString: "write_buffer_size=16m;max_write_buffer_number=4;soft_rate_limit=2.9"
"#,
        )
        .unwrap();
        assert!(settings.fork && settings.logappend);
        assert_eq!((settings.slow_ms, settings.checkpoint_seconds, settings.commit_interval_ms), (2000, 60, 100));
        assert!(!settings.log_compression, "journalCompressor: none");
        assert_eq!(
            warned(&settings),
            ["storage.mmapv1.journal.commitIntervalMs", "storage.wiredTiger.engineConfig.journalCompressor",]
        );
        let options: Vec<&str> = settings.engine_options.iter().map(|(name, _)| name.as_str()).collect();
        assert_eq!(options, ["wiredTiger.blockCompressor", "rocksdb.compression", "rocksdb.configString"]);
    }

    /// The start lines of the last founding text.
    #[test]
    fn founding_text_ycsb_flags() {
        for (flags, engine) in [
            (&["--dbpath=/d", "--logpath=/l/server.log"][..], None),
            (&["--storageEngine=mmapv1"], Some("lmdb")),
            (
                &[
                    "--dbpath=/d",
                    "--storageEngine=wiredTiger",
                    "--wiredTigerCacheSizeGB=8",
                    "--wiredTigerJournalCompressor=none",
                ],
                Some("wiredTiger"),
            ),
            (&["--dbpath=/d", "--storageEngine=rocksdb", "--rocksdbCacheSizeGB=8"], Some("rocksdb")),
            (
                &[
                    "--storageEngine=tokuft",
                    "--tokuftCollectionReadPageSize=16384",
                    "--tokuftCollectionCompression=quicklz",
                    "--tokuftCollectionFanout=128",
                    "--tokuftIndexReadPageSize=16384",
                    "--tokuftIndexCompression=quicklz",
                    "--tokuftIndexFanout=128",
                    "--tokuftEngineCacheSize=8589934592",
                    "--syncdelay=900",
                ],
                Some("ftree"),
            ),
        ] {
            let settings = from_flags(flags).unwrap();
            assert_eq!(settings.engine.as_deref(), engine, "{flags:?}");
            let cached = engine.is_some_and(|engine| engine != "lmdb");
            assert_eq!(settings.cache_bytes, cached.then_some(8 << 30), "{flags:?}");
        }
    }

    #[test]
    fn unknown_and_wrong_values_are_refused_by_name() {
        for (text, expect) in [
            ("storage:\n  dbPaht: /d\n", "Unrecognized option: storage.dbPaht"),
            ("dbpaht = /d\n", "Unrecognized option: dbpaht"),
            ("net:\n  port: high\n", "net.port: expected a number from 0 to 65535, found 'high'"),
            ("port = 70000\n", "port: expected a number from 0 to 65535, found '70000'"),
            ("net:\n  port: 1\nnet.port: 2\n", "net.port is given more than once"),
            ("fork = perhaps\n", "fork: expected true or false, found 'perhaps'"),
            ("storage:\n  engine: paper\n", "storage.engine: unknown storage engine 'paper'"),
            ("security:\n  clusterAuthMode: x508\n", "security.clusterAuthMode: unknown mode 'x508'"),
            ("net:\n  tls:\n    disabledProtocols: TLS1_2,TLS1_3\n", "net.tls.disabledProtocols: no version is left"),
            ("net:\n  tls:\n    FIPSMode: true\n", "net.tls.FIPSMode"),
            ("net:\n  unixDomainSocket:\n    filePermissions: 0999\n", "net.unixDomainSocket.filePermissions"),
            ("auditLog:\n  destination: paper\n", "auditLog.destination: unknown destination 'paper'"),
            ("auditLog:\n  format: XML\n", "auditLog.format: unknown format 'XML'"),
            ("storage: [1, 2\n", "cannot read it as YAML"),
        ] {
            let refused = from_file(text).err().unwrap_or_else(|| panic!("{text} was accepted")).0;
            assert!(refused.contains(expect), "{text} -> {refused}");
        }
        assert!(from_flags(&["--dbpaht", "/d"]).unwrap_err().0.contains("unexpected argument '--dbpaht'"));
    }

    #[test]
    fn passwords_are_not_shown() {
        let arguments =
            ["arbor", "--tlsCertificateKeyFilePassword", "secret", "--sslPEMKeyPassword=secret", "--port", "1"];
        let shown = without_secrets(arguments.map(str::to_owned).into_iter());
        assert_eq!(shown.len(), arguments.len());
        assert!(!shown.join(" ").contains("secret") && shown.ends_with(&["--port".to_owned(), "1".to_owned()]));
        let settings = from_flags(&["--tlsCertificateKeyFilePassword", "secret"]).unwrap();
        assert_eq!(settings.tls.key_password.as_deref(), Some("secret"));
        assert!(!format!("{settings:?}").contains("secret"));
    }

    #[test]
    fn flags_win_over_the_file() {
        let directory = std::env::temp_dir().join(format!("arbor-config-{}", std::process::id()));
        std::fs::write(&directory, "net:\n  port: 1111\n  bindIp: 127.0.0.1,::1\nsetParameter:\n  a: 1\n  b: 2\n")
            .unwrap();
        let settings =
            from_flags(&["--config", directory.to_str().unwrap(), "--port", "2222", "--setParameter", "b=3"]);
        std::fs::remove_file(&directory).unwrap();
        let settings = settings.unwrap();
        assert_eq!(settings.port, 2222);
        assert_eq!(settings.bind_ip, ["127.0.0.1", "::1"]);
        let pairs: Vec<(&str, &str)> = settings.parameters.iter().map(|(k, v)| (k.as_str(), v.as_str())).collect();
        assert_eq!(pairs, [("a", "1"), ("b", "3")]);
        assert!(from_flags(&["--config", "/nowhere/x.conf"]).unwrap_err().0.contains("/nowhere/x.conf"));
    }

    #[test]
    fn every_row_of_the_table_can_be_reached_and_only_once() {
        let mut seen = std::collections::HashSet::new();
        for row in table::rows() {
            assert!(!row.flag.is_empty() || !row.yaml.is_empty());
            for name in [row.flag, row.yaml].into_iter().filter(|name| !name.is_empty()) {
                assert!(seen.insert(name), "{name} is in the table twice");
            }
        }
        serve_command().debug_assert();
    }
}
