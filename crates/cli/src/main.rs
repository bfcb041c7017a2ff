//! The `roost` command.
fn main() {}
