//! Topologies for other systems.

mod rspec;

pub use rspec::{Request, RequestError, write as rspec};
