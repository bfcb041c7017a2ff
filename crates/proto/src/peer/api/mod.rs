//! What a node is told, what it is asked, and what it tells.

mod command;
mod config;
mod event;

pub use command::{Command, Opened, Provider, Reflection, SessionId, Ticket, Wanted};
pub use config::{Config, Discovery};
pub use event::{Event, Summary, Trace, TracedHop};
