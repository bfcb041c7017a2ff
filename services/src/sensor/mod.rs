//! Sensor: a SenML pack.

pub mod senml;
