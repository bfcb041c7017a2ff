//! A gateway between a Roost node and TAK, the Team Awareness Kit, by events of Cursor on Target.
//!
//! `gateway` is the machine: it decides and does no I/O. `driver` runs it over sockets and a daemon's local API.

#![allow(missing_docs, reason = "only this workspace imports it")]

mod clock;
mod contacts;
mod driver;
mod endpoint;
mod events;
mod framing;
pub mod fuzzing;
mod gateway;
mod kinds;
mod marks;
mod outgoing;
#[cfg(test)]
mod tests;
mod totals;

pub use driver::{OwnFiles, Report, ServeError, Setup, TlsError, TlsFiles, TlsSetup, serve};
pub use endpoint::{Endpoint, EndpointError, ListenAddress};
pub use gateway::ContactNews;
pub use kinds::{TypeRule, TypeRuleError};
pub use totals::Totals;
