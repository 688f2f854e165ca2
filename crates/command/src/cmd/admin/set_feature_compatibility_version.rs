//! `setFeatureCompatibilityVersion`: there is one, and any version of Arbor opens any older format.

use arbor_bson::Code;

use crate::call::Call;
use crate::{Error, Result};

pub fn run(call: &mut Call<'_>) -> Result<()> {
    call.only(&["confirm", "fromConfigServer"])?;
    match call.field("setFeatureCompatibilityVersion").string(call.target())? {
        "7.0" => Ok(()),
        other => {
            let text = format!("Invalid feature compatibility version value '{other}'; expected '7.0'.");
            Err(Error::new(Code(4926900), text))
        }
    }
}
