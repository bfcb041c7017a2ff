//! Places of hosts over time, and the radio links that follow from them.
//!
//! Nothing here has a clock or reads a file: text and time come in from the caller.
//!
//! - [`resolve`] reads the files of a description: BonnMotion, GPX, CSV and two-line elements.
//! - [`Courses`] tells the place of each host at any time.
//! - [`path_loss`] and [`Budget`] tell the signal between two places, and [`LinkState`] the link that it makes.
//! - [`LinkCourse`] is a machine that yields the changes of all links in order of time.
//! - [`CellCourse`] yields the cells of hosts on the overlay's grid.
#![allow(missing_docs, reason = "only crates of `emulation` import this one")]

mod attachment;
mod budget;
mod cells;
mod course;
mod formats;
mod frame;
mod link_course;
mod link_state;
pub mod path_loss;
mod resolve;
#[cfg(test)]
mod tests;

pub use attachment::Attachment;
pub use budget::{Budget, LinkEnd, LinkGeometry, Transceiver, visible};
pub use cells::{CellCourse, CellMove};
pub use course::{Courses, HostPlace};
pub use formats::TextMistake;
pub use formats::bonnmotion::read as read_bonnmotion;
pub use formats::gpx::read as read_gpx;
pub use formats::table::read as read_csv;
pub use formats::tle::read as read_tle;
pub use frame::{Frame, Spot, distance_m};
pub use link_course::{LinkChange, LinkCourse};
pub use link_state::LinkState;
pub use resolve::resolve;

/// The speed of light in vacuum, meters a second (SI, exact).
pub const LIGHT_MPS: f64 = 299_792_458.0;
