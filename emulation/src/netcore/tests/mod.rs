//! The model, to the nanosecond.

mod timing;

use std::time::Duration;

use roost_proto::Time;

use super::{Destination, Network, PipeConfig, Port};
use crate::units::Rate;

/// So many milliseconds after the origin.
fn at_ms(ms: u64) -> Time {
    Time::from_nanos(ms * 1_000_000)
}

/// A pipe of a rate in Mbit/s (0: no limit) and a delay in milliseconds.
fn pipe(mbit: u64, delay_ms: u64) -> PipeConfig {
    let (rate, delay) = (Rate::from_bps(mbit * 1_000_000), Duration::from_millis(delay_ms));
    PipeConfig { rate, delay, ..PipeConfig::default() }
}

/// All that comes out by `until`: when in nanoseconds, the port's number, the content.
fn drain(network: &mut Network<u32>, until: Time) -> Vec<(u64, usize, u32)> {
    let mut out = Vec::new();
    while let Some(delivery) = network.poll_delivery(until) {
        out.push((delivery.due.as_nanos(), delivery.port.index(), delivery.packet));
    }
    out
}

/// Sends `count` packets at one time, numbered from 0.
fn burst(network: &mut Network<u32>, now: Time, from: Port, to: Port, bytes: u32, count: u32) {
    for number in 0..count {
        network.send(now, from, Destination::Port(to), bytes, number);
    }
}
