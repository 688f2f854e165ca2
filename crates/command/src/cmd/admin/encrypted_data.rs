//! `compactStructuredEncryptionData` and `cleanupStructuredEncryptionData`: upkeep of the metadata of encrypted collections, of which
//! there are none, see `encrypted_fields`.

use arbor_bson::Code;

use crate::call::Call;
use crate::{Error, Result};

pub(crate) fn run(call: &mut Call<'_>) -> Result<()> {
    let tokens = match call.info.name {
        "cleanupStructuredEncryptionData" => "cleanupTokens",
        _ => "compactionTokens",
    };
    call.only(&[tokens, "encryptionInformation", "anchorPaddingFactor"])?;
    let namespace = call.namespace()?;
    call.field(tokens).document(call.required(tokens)?)?;
    let store = &call.database().store;
    store.refuse_view(&namespace)?;
    if store.collection(&namespace).is_none() {
        return Err(Error::new(Code::NAMESPACE_NOT_FOUND, format!("Collection '{namespace}' does not exist")));
    }
    Err(Error::new(Code(6_346_807), format!("Collection '{namespace}' is not an encrypted collection")))
}
