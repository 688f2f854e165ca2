//! `_killOperations`: ends operations by the keys with which a router has sent them (`clientOperationKey`).

use arbor_bson::ValueRef;
use uuid::Uuid;

use crate::Result;
use crate::call::Call;

pub(crate) fn run(call: &mut Call<'_>) -> Result<()> {
    call.only(&["operationKeys"])?;
    let field = call.field("operationKeys");
    let mut keys = Vec::new();
    for value in field.array(call.required("operationKeys")?)?.iter() {
        match value {
            ValueRef::Binary { subtype: 4, bytes } => keys.extend(Uuid::from_slice(bytes)),
            other => return Err(field.wrong_type(other, "binData").into()),
        }
    }
    call.server.operations.kill_keys(&keys);
    call.database().feed.wake_all();
    Ok(())
}
