//! Labs as they are used: real namespaces, real programs in them.
//!
//! Where a machine cannot make namespaces these tests fail with the reason;
//! they do not pass. The program runs as the test runner and, started again
//! with `inside NAME`, as the program that runs in the sandbox.

// Tests all of it, without libtest's attribute.
#![allow(clippy::unwrap_used, clippy::print_stdout)]

mod inside;
mod outside;
mod topologies;

use std::process::ExitCode;

/// Tests that run in a sandbox and say with a panic what is wrong.
const INSIDE: &[(&str, fn())] = &[
    ("a_ping_over_a_link_takes_its_delay_twice", inside::a_ping_over_a_link_takes_its_delay_twice),
    ("a_group_reaches_the_other_members_of_a_lan", inside::a_group_reaches_the_other_members_of_a_lan),
];

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match arguments.iter().map(String::as_str).collect::<Vec<_>>().as_slice() {
        ["inside", name, rest @ ..] => inside::run(name, rest),
        filters => outside::run_all(filters),
    }
}
