//! Shows the network that was understood: for people and for programs.

mod json;
mod tables;

pub use json::{Description, describe};
pub use tables::{Section, sections};
