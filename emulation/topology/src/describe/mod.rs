//! Descriptions of a topology for people and for programs.

mod json;
mod radio;
mod rows;
mod tables;

pub use json::describe;
pub use rows::Description;
pub use tables::{Section, sections};
