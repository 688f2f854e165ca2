//! `top`: use per collection is not counted yet, and zeros would be invented.

use crate::call::Call;
use crate::{Error, Result};

pub fn run(_call: &mut Call<'_>) -> Result<()> {
    Err(Error::not_supported("top"))
}
