//! What a node is told, what it is asked, and what it tells.

mod command;
mod config;
mod event;
mod number;
mod status;

pub use command::{NodeCommand, Provider, SourceOutput};
pub use config::{Discovery, NodeConfig};
pub use event::{NodeEvent, RequestSummary, Trace, TracedHop};
pub use number::{SessionId, Ticket};
pub use status::{HomeStatus, NodeCounters, NodeStatus, PublicationStatus, RequestStatus, SessionStatus};
