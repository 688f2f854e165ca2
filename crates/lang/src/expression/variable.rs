//! `$$variables`.

use crate::Result;

/// Checks a name that a client gives to a variable of its own.
pub fn check_user_name(_name: &str) -> Result<()> {
    Ok(())
}
