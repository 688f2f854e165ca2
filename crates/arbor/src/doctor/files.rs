//! Certificates and keys, etcd, versions.

use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;

use x509_parser::pem::Pem;

use super::{Finding, Machine};
use crate::config::Settings;
use crate::version;

const DAY: i64 = 86_400;
/// A certificate that expires earlier is to be replaced now.
const EXPIRY_DAYS: i64 = 30;

pub(super) fn versions(machine: &Machine) -> Vec<Finding> {
    let own = match env!("ARBOR_PROFILE") {
        "debug" => Finding::warning("version", version::long(), "use a release build: this one is many times slower"),
        _ => Finding::good("version", version::long()),
    };
    let kernel = machine.read("proc/sys/kernel/osrelease").unwrap_or_default();
    let mut numbers = kernel.split(['.', '-']).map(|part| part.parse::<u32>().unwrap_or(0));
    let (major, minor) = (numbers.next().unwrap_or(0), numbers.next().unwrap_or(0));
    let kernel = match (major, minor) {
        (0, _) => Finding::note("kernel", "the version cannot be read"),
        // before, an error of writing back pages could get lost
        (..4, _) | (4, ..13) => Finding::warning(
            "kernel",
            kernel,
            "use Linux 4.13 or newer: older ones may lose an error of the disk before fsync reports it",
        ),
        _ => Finding::good("kernel", kernel),
    };
    vec![own, kernel]
}

/// etcd is needed by sets of several members only.
pub(super) fn etcd(settings: &Settings) -> Vec<Finding> {
    const CHECK: &str = "etcd";
    if !settings.etcd.endpoints.is_empty() {
        return vec![Finding::note(CHECK, format!("runs elsewhere: {}", settings.etcd.endpoints.join(", ")))];
    }
    let binary = match arbor_etcd::find_binary(settings.etcd.binary.as_deref()) {
        Ok(binary) => binary,
        Err(error) if settings.etcd.binary.is_some() => {
            return vec![Finding::problem(CHECK, error.to_string(), "name another --etcdBinary")];
        }
        // only sets of several members need it
        Err(error) => return vec![Finding::note(CHECK, error.to_string())],
    };
    let output = Command::new(&binary).arg("--version").output();
    let text = output.map(|output| String::from_utf8_lossy(&output.stdout).into_owned()).unwrap_or_default();
    let version = text.lines().next().unwrap_or("no version").to_owned();
    vec![Finding::good(CHECK, format!("{}, {version}", binary.display()))]
}

/// Checks the files that the settings name. `now` is in seconds since 1970.
pub(super) fn certificates(settings: &Settings, now: i64) -> Vec<Finding> {
    let mut findings = Vec::new();
    let tls = &settings.tls;
    for file in [&tls.certificate_key_file, &tls.ca_file, &tls.cluster_file, &tls.cluster_ca_file].into_iter().flatten()
    {
        findings.extend(certificate(file, now));
    }
    let secrets = [&tls.certificate_key_file, &tls.cluster_file, &settings.key_file, &settings.http.token_file];
    findings.extend(secrets.into_iter().flatten().filter_map(|file| secret(file)));
    findings
}

fn certificate(file: &Path, now: i64) -> Vec<Finding> {
    const CHECK: &str = "certificate";
    let shown = file.display();
    let text = match std::fs::read(file) {
        Ok(text) => text,
        Err(error) => {
            return vec![Finding::problem(CHECK, format!("{shown}: {error}"), "mend the path or the permissions")];
        }
    };
    let parts: Vec<Pem> = Pem::iter_from_buffer(&text).flatten().filter(|part| part.label == "CERTIFICATE").collect();
    if parts.is_empty() {
        return vec![Finding::problem(
            CHECK,
            format!("{shown} contains no certificate"),
            "the file is to have the certificate in PEM",
        )];
    }
    let one = |part: &Pem| match part.parse_x509() {
        Ok(certificate) => {
            let validity = certificate.validity();
            let (from, to) = (validity.not_before.timestamp(), validity.not_after.timestamp());
            judge(&format!("{shown}: {}", certificate.subject()), from, to, now)
        }
        Err(error) => Finding::problem(CHECK, format!("{shown}: {error}"), "replace the damaged certificate"),
    };
    parts.iter().map(one).collect()
}

fn judge(name: &str, from: i64, to: i64, now: i64) -> Finding {
    const CHECK: &str = "certificate";
    let days = (to - now).div_euclid(DAY);
    if now < from {
        Finding::problem(CHECK, format!("{name} is not valid yet"), "check the clock, then the certificate")
    } else if now >= to {
        Finding::problem(CHECK, format!("{name} has expired"), "replace the file, then rotateCertificates")
    } else if days < EXPIRY_DAYS {
        Finding::warning(CHECK, format!("{name} expires in {days} days"), "replace the file, then rotateCertificates")
    } else {
        Finding::good(CHECK, format!("{name} expires in {days} days"))
    }
}

/// Checks that a secret is readable by its owner only.
fn secret(file: &Path) -> Option<Finding> {
    const CHECK: &str = "secrets";
    let mode = std::fs::metadata(file).ok()?.permissions().mode() & 0o777;
    let shown = file.display();
    Some(match mode & 0o077 {
        0 => Finding::good(CHECK, format!("{shown} is of its owner alone")),
        _ => Finding::warning(CHECK, format!("{shown} has the permissions {mode:03o}"), format!("chmod 600 {shown}")),
    })
}
