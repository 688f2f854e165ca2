//! The integration tests of `lang` in one binary: one link instead of one for each file. Tests that
//! need a process of their own are files next to this directory, with the reason in their first lines.

mod deep_values;
mod nothing_panics;
mod random;
mod wide_statements;
