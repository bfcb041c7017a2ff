//! The command, run like by a user, in real time: labs, daemons, measurements, and
//! simulations that are held against them.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test may stop where it stands")]

mod bench;
mod bench_bulk;
mod bench_capacity;
mod bench_reflect;
mod bench_transport;
mod bench_watch;
mod capture;
mod common;
mod estimate;
mod interrupts;
mod machines;
mod network;
mod programs;
mod run;
mod shared_nets;
mod shell;
mod simulate;
mod twin;

use std::sync::{PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

static PROCESSORS: RwLock<()> = RwLock::new(());

/// Tests that measure, or run daemons, share the processors: all but [`alone`] mostly wait, or expect no speed.
fn beside() -> RwLockReadGuard<'static, ()> {
    PROCESSORS.read().unwrap_or_else(PoisonError::into_inner)
}

/// The turn of a test that compares what it measures with what it should be.
fn alone() -> RwLockWriteGuard<'static, ()> {
    PROCESSORS.write().unwrap_or_else(PoisonError::into_inner)
}
