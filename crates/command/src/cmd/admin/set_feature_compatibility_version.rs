//! `setFeatureCompatibilityVersion`: the version that the server says it has, see `feature_version`.

use arbor_bson::Code;
use arbor_protocol::arguments::is_present;

use crate::call::Call;
use crate::feature_version::{LATEST, OLDER};
use crate::{Error, Result};

pub(crate) fn run(call: &mut Call<'_>) -> Result<()> {
    let mut confirm = false;
    for (name, value) in call.own_fields() {
        let field = call.field(name);
        match name {
            "confirm" => confirm = field.bool(value)?,
            "fromConfigServer" => _ = field.bool(value)?,
            _ => return Err(field.unknown().into()),
        }
    }
    let field = call.field("setFeatureCompatibilityVersion");
    if !is_present(call.target()) {
        return Err(field.missing().into());
    }
    let version = field.string(call.target())?;
    if ![LATEST, OLDER].contains(&version) {
        let text = format!(
            "Invalid feature compatibility version value '{version}'; expected '{OLDER}' or '{LATEST}'. See \
             https://docs.mongodb.com/master/release-notes/{LATEST}-compatibility/#feature-compatibility."
        );
        return Err(Error::new(Code(4_926_900), text));
    }
    if !confirm {
        let (done, direction) = match version == LATEST {
            true => (
                format!(
                    "Once you have upgraded to {LATEST}, you will not be able to downgrade FCV and binary version without \
                     support assistance."
                ),
                "upgrade",
            ),
            false => (
                "Once you have downgraded the FCV, if you choose to downgrade the binary version, it will require support \
                 assistance."
                    .to_owned(),
                "downgrade",
            ),
        };
        let text = format!(
            "{done} Please re-run this command with 'confirm: true' to acknowledge this and continue with the FCV {direction}."
        );
        return Err(Error::new(Code(7_369_100), text));
    }
    call.server.set_feature_version(version)
}
