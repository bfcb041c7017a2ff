//! The cases, one module each, with their measurements and targets.

pub(super) mod capacity;
pub(super) mod delay;
pub(super) mod idle;
pub(super) mod loss;
pub(super) mod rate;
pub(super) mod scale;
pub(super) mod schedule;
pub(super) mod setup;
