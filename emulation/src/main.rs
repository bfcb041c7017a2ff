//! The `emulate` command.
fn main() {}
