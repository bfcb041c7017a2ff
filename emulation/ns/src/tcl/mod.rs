//! A small Tcl: the parts of the language that NS files need, without access to files, processes, sockets or
//! clocks. Every step, value and level of nesting is counted.
//!
//! Written from the manual pages of Tcl 8.6. Where the pages leave something open (the order of `array names`,
//! quoting of list elements, numbers as text) it follows tclsh 8.6.13.

mod commands;
pub(crate) mod completion;
mod escape;
mod expr;
mod glob;
pub(crate) mod interp;
pub(crate) mod list;
pub(crate) mod number;
mod parse;
mod script;
pub(crate) mod table;
pub(crate) mod value;
mod variables;

pub(crate) use commands::{Builtin, is_command};
pub(crate) use expr::short;

#[cfg(test)]
mod tests;
