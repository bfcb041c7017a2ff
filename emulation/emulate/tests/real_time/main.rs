//! The command, run like by a user, in real time: labs, daemons, measurements, and
//! simulations that are held against them.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test may stop where it stands")]

mod bench;
mod bench_bulk;
mod bench_capacity;
mod bench_reflect;
mod bench_transport;
mod bench_watch;
mod common;
mod network;
mod run;
mod shell;
mod simulate;

use std::sync::{Mutex, MutexGuard, PoisonError};

/// Tests that measure, or run daemons, take turns: they share the processors.
fn turn() -> MutexGuard<'static, ()> {
    static TURN: Mutex<()> = Mutex::new(());
    TURN.lock().unwrap_or_else(PoisonError::into_inner)
}
