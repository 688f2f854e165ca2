//! `rotateCertificates`: reads the certificates of TLS, the lists of revoked ones and the key file again, for connections and logins
//! that begin from now on. If one of them is wrong, all stay as they were.

use arbor_bson::Code;

use crate::call::Call;
use crate::{Error, Result};

pub(crate) fn run(call: &mut Call<'_>) -> Result<()> {
    call.only(&["message"])?;
    let wrong = |reason| Error::new(Code::INVALID_SSL_CONFIGURATION, reason);
    let keys = call.server.host.keys().map_err(wrong)?;
    call.server.host.rotate_certificates().map_err(wrong)?;
    if let Some(keys) = keys {
        call.server.accounts.replace_keys(keys);
    }
    Ok(())
}
