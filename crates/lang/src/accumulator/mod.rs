//! Accumulators of `$group`.
