//! `arbor lab run query`: single shapes of queries over one data set, on each engine or on any MongoDB server.
//!
//! | file | holds |
//! |---|---|
//! | `shapes.yaml`, `shape.rs` | the commands |
//! | `dataset.rs` | the collections, the same bytes on every server |
//! | `measure.rs` | time of a shape, and whether it scans although there is an index |
//! | `profile.rs` | shares of the server's time: planning, engine, execution |
//! | `table.rs`, `page.rs` | what is printed and written; the page |
//! | `arguments.rs` | the command line |

pub(crate) mod arguments;
mod dataset;
mod measure;
mod page;
mod profile;
mod shape;
mod table;
