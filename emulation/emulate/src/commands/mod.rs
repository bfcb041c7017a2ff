//! The commands of `emulate`, one module each: `NameArgs` is its part of the command line, `run` executes it.

pub(crate) mod bench;
mod capture;
pub(crate) mod check;
pub(crate) mod compare;
pub(crate) mod convert;
pub(crate) mod doctor;
pub(crate) mod exec;
mod format;
pub(crate) mod generate;
pub(crate) mod growth;
mod interrupt;
mod jobs;
mod lab;
pub(crate) mod linktest;
pub(crate) mod place;
mod process;
pub(crate) mod report;
pub(crate) mod reproduce;
mod rooms;
pub(crate) mod run;
pub(crate) mod shell;
pub(crate) mod simulate;
pub(crate) mod sweep;
pub(crate) mod topo;
pub(crate) mod trace;
pub(crate) mod twin;
pub(crate) mod view;
