//! engine-lmdb
