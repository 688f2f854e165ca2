//! Tests of the data file.
