//! Exports of topologies to other systems.

mod ns;
mod rspec;

pub use ns::{ExportError, write as ns};
pub use rspec::{RspecError, RspecRequest, write as rspec};
