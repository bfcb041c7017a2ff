//! What a node is told, what it is asked, and what it tells.

mod command;
mod config;
mod event;

pub use command::{NodeCommand, Provider, SessionId, SourceOutput, Ticket};
pub use config::{Discovery, NodeConfig};
pub use event::{NodeEvent, RequestSummary, Trace, TracedHop};
