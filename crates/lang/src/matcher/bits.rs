//! `$bitsAllSet`, `$bitsAllClear`, `$bitsAnySet`, `$bitsAnyClear`.

/// Which bits must be how.
#[derive(Clone, Debug)]
pub struct BitTest {}
