//! `ping`.

use crate::Result;
use crate::call::Call;

pub(crate) fn run(call: &mut Call<'_>) -> Result<()> {
    call.only(&[])
}
