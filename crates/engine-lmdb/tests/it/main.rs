//! The integration tests of `engine-lmdb` in one binary: one link instead of one for each file. Tests that
//! need a process of their own are files next to this directory, with the reason in their first lines.

mod concurrent;
mod contract;
mod crash_images;
mod damage;
mod images;
mod space;
