//! The resources that a real-time run needs of a machine, and those that the machine has.
//!
//! - [`RunOutline`] says in numbers what runs: daemons, hosts, requests and packets.
//! - [`Demand`] is what that needs: processors, memory, open files, tasks, namespaces. [`costs`] has the measured costs.
//! - [`Resources`] is what this machine has of them.
//! - [`Estimate`] compares both before anything is started, in sentences for people.
//!
//! All but [`Resources::read`] are pure functions.
#![allow(missing_docs, reason = "only crates of `emulation` import this one")]

pub mod costs;
mod demand;
mod estimate;
mod groups;
mod machine;
mod outline;

pub use costs::Build;
pub use demand::Demand;
pub use estimate::{Estimate, Shortage, ShortageGrade};
pub use machine::{Resources, SystemLimit};
pub use outline::{NetworkOutline, RunOutline, TrafficOutline};
