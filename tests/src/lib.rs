//! What the end-to-end tests share: starting the real binaries as an operator
//! would, and stopping what was started.

pub mod fuzz;
pub mod process;
