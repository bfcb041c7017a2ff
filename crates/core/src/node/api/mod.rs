//! The interface of a node: its configuration, commands, events and status.

mod command;
mod config;
mod event;
mod number;
mod provider;
mod status;

pub use command::{NodeCommand, NodePlace, PushedDelivery, SourceOutput};
pub use config::{Discovery, NodeConfig};
pub use event::{NodeEvent, RequestSummary, Trace, TracedHop};
pub use number::{SessionId, Ticket};
pub use provider::Provider;
pub use status::{HomeStatus, NodeCounters, NodeStatus, PublicationStatus, RequestStatus, SessionStatus};
