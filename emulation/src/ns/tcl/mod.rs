//! A small Tcl: what NS files need of the language, and nothing that reaches
//! out of it. There are no files, processes, sockets or clocks; every step,
//! value and level of nesting is counted.
//!
//! Written from the manual pages of Tcl 8.6; where the pages leave something
//! open (the order of `array names`, quoting of list elements, numbers as
//! text) tclsh 8.6.13 was asked.

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
