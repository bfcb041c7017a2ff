//! What is measured, a module for each case: what is done, and what is to be seen.

pub(super) mod capacity;
pub(super) mod delay;
pub(super) mod idle;
pub(super) mod loss;
pub(super) mod rate;
pub(super) mod scale;
pub(super) mod schedule;
pub(super) mod setup;
