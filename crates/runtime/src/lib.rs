//! The parts that the Roost daemons share: configuration, driver loop, metrics, logs, signals, drain.
//!
//! A daemon is a [`Program`]: a name, a table of settings, a machine and what
//! its owner does with the machine's events. [`main`] does the rest:
//!
//! 1. read flags, environment, file and defaults into one table ([`config`]);
//! 2. load the identity, open the control socket and the transports;
//! 3. spawn the machine in its [`driver`];
//! 4. serve the local API and metrics until a signal comes;
//! 5. drain within a bound, and say how it ended.

#![allow(missing_docs, reason = "only this workspace imports it")]

pub mod api;
mod audit;
mod authority;
mod check;
pub mod clock;
mod command_queue;
pub mod config;
mod denials;
mod documents;
pub mod driver;
pub mod failure;
mod group_policy;
pub mod http;
pub mod hub;
pub mod log_dedup;
mod log_limiter;
pub mod logging;
pub mod media;
pub mod metrics;
pub mod naming;
mod page;
pub mod places;
mod program;
mod renewal;
pub mod resolve;
mod serve;
pub mod shared;
mod signals;
mod systemd;
pub mod traffic;
mod watchdog;

pub use failure::Failure;
pub use log_limiter::LogLimiter;
pub use program::{Base, Program, Running, main, table};
pub use shared::DaemonContext;

/// A number from the system for the seed of a machine's jitter.
///
/// # Errors
/// Fails if the system gives none.
pub fn random_seed() -> std::io::Result<u64> {
    let mut bytes = [0; 8];
    random_bytes(&mut bytes)?;
    Ok(u64::from_ne_bytes(bytes))
}

/// The secret of a machine's nonces and tags, from the system's random source.
///
/// # Errors
/// Fails if the system gives none.
pub fn random_secret() -> std::io::Result<roost_wire::random::RootSecret> {
    let mut bytes = [0; 32];
    random_bytes(&mut bytes)?;
    Ok(roost_wire::random::RootSecret::from_bytes(bytes))
}

/// Fills `bytes` from the system's random source.
///
/// # Errors
/// Fails if the system gives none.
pub fn random_bytes(bytes: &mut [u8]) -> std::io::Result<()> {
    use std::io::Read;
    std::fs::File::open("/dev/urandom")?.read_exact(bytes)
}
