//! Connection strings, as far as a client of one connection needs them.

use std::time::Duration;

use super::{ClientError, Options};
use crate::Compressor;

/// `mongodb://host[:port][/database][?compressors=..&appName=..&socketTimeoutMS=..&checksum=true]`, or `host[:port]`.
#[derive(Clone, Debug)]
pub struct Uri {
    /// `host:port` of the first host.
    pub address: String,
    pub database: Option<String>,
    options: Options,
}

const PORT: &str = "27017";

impl Uri {
    pub fn parse(text: &str) -> Result<Uri, ClientError> {
        let wrong = |what: &str| ClientError::Uri(format!("{what} in {text:?}"));
        if text.starts_with("mongodb+srv://") {
            return Err(wrong("mongodb+srv is not supported"));
        }
        let rest = text.strip_prefix("mongodb://").unwrap_or(text);
        let (rest, query) = rest.split_once('?').unwrap_or((rest, ""));
        let (hosts, database) = rest.split_once('/').unwrap_or((rest, ""));
        if hosts.contains('@') {
            return Err(wrong("credentials are not supported"));
        }
        let host = hosts.split(',').next().filter(|host| !host.is_empty()).ok_or_else(|| wrong("no host"))?;
        let has_port = host.rsplit_once(':').is_some_and(|(before, _)| !before.contains(':') || before.ends_with(']'));
        let address = if has_port { host.to_owned() } else { format!("{host}:{PORT}") };
        let mut options = Options::default();
        for (name, value) in query.split('&').filter_map(|pair| pair.split_once('=')) {
            set(&mut options, name, value).map_err(|what| wrong(&what))?;
        }
        let database = (!database.is_empty()).then(|| database.to_owned());
        Ok(Uri { address, database, options })
    }

    pub fn options(&self) -> Options {
        self.options.clone()
    }
}

/// Options of a driver that mean nothing to one connection are passed over.
fn set(options: &mut Options, name: &str, value: &str) -> Result<(), String> {
    match name.to_ascii_lowercase().as_str() {
        "compressors" => {
            let first = value.split(',').next().unwrap_or_default();
            options.compressor =
                Some(Compressor::by_name(first).ok_or_else(|| format!("unknown compressor {first:?}"))?);
        }
        "appname" => options.app_name = value.to_owned(),
        "checksum" => options.checksum = value == "true",
        "sockettimeoutms" => {
            let milliseconds = value.parse().map_err(|_| format!("socketTimeoutMS is no number: {value:?}"))?;
            options.timeout = (milliseconds > 0).then(|| Duration::from_millis(milliseconds));
        }
        "tls" | "ssl" if value == "true" => return Err("tls is not supported".to_owned()),
        _ => {}
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses() {
        let check = |text: &str, address: &str| assert_eq!(Uri::parse(text).unwrap().address, address, "{text}");
        check("mongodb://h:1/db?x=y", "h:1");
        check("mongodb://h", "h:27017");
        check("127.0.0.1:5", "127.0.0.1:5");
        check("mongodb://[::1]:5/", "[::1]:5");
        check("mongodb://[::1]", "[::1]:27017");
        check("mongodb://a:1,b:2/?replicaSet=r", "a:1");
    }

    #[test]
    fn options_are_read_and_bad_ones_refused() {
        let uri =
            Uri::parse("mongodb://h/d?compressors=zstd,snappy&appName=lab&checksum=true&socketTimeoutMS=5").unwrap();
        let options = uri.options();
        assert_eq!(options.compressor, Some(Compressor::Zstd));
        assert_eq!((options.app_name.as_str(), options.checksum), ("lab", true));
        assert_eq!(options.timeout, Some(Duration::from_millis(5)));
        assert_eq!(uri.database.as_deref(), Some("d"));
        for bad in ["mongodb://", "mongodb://u:p@h", "mongodb+srv://h", "mongodb://h/?compressors=lzma", "h/?tls=true"]
        {
            assert!(Uri::parse(bad).is_err(), "{bad}");
        }
    }
}
