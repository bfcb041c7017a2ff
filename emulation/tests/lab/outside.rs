//! The runner.

use std::process::{Command, ExitCode};

/// Runs every test whose name contains one of the filters, or all.
pub(crate) fn run_all(filters: &[&str]) -> ExitCode {
    let mut failed = 0;
    for (name, _) in crate::INSIDE {
        if !filters.is_empty() && !filters.iter().any(|filter| name.contains(filter)) {
            continue;
        }
        let status = Command::new(std::env::current_exe().unwrap()).args(["inside", name]).status().unwrap();
        eprintln!("test {name} ... {status}");
        failed += usize::from(!status.success());
    }
    if failed == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
