//! The commands of `emulate`, one module each: `NameArgs` is its part of the
//! command line, `run` does it.

pub(crate) mod check;
mod format;
pub(crate) mod generate;
pub(crate) mod report;
pub(crate) mod topo;
