//! Readable results of a run: tables in the founding texts' form, a page with charts. Everything is drawn from
//! `results::Run` alone.

mod ageing;
pub mod arguments;
mod chart;
mod diagnostics;
mod draw;
mod founding;
mod grid;
mod heading;
mod load_control;
mod measured;
mod page;
mod phases;
mod progress;
mod published;
mod repeats;
mod table;
mod text;

pub(crate) use chart::{Axis, Chart, ChartGroup, Mark, Series, Shape};
pub use diagnostics::draw_diagnostics;
pub(crate) use draw::link;
pub use draw::{HTML, INDEX, TEXT, draw, draw_index};
pub(crate) use grid::Spread;
pub use heading::ending;
pub(crate) use heading::{heading_of, heading_text, machine, warnings as run_warnings};
pub(crate) use load_control::{KEPT_RATE, TRIED_RATE, TRY};
pub use page::{Entry, index, page};
pub(crate) use page::{Part, Sheet, Shell, escaped, linked_table, shell};
pub(crate) use phases::{BY_TIME, decade_below, phase_at};
pub use progress::Progress;
pub use published::Published;
pub(crate) use repeats::step_places;
pub use text::text;

pub use crate::results::{Form, Row, Table};
