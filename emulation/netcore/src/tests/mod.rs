//! Tests of the model, exact to the nanosecond.

mod changes;
mod lan;
mod loss;
mod medium;
mod parts;
mod property;
mod queues;
mod radio;
mod reference;
mod timing;
mod trace;
mod watching;

use std::time::Duration;

use roost_topology::model::{Discipline, PacketOrder, Queue, TopologyChange};
use roost_topology::units::Rate;
use roost_wire::Time;

use super::{Destination, DropCause, Network, PipeChange, PipeConfig, PipeId, Port, SendOutcome};

fn at_ms(ms: u64) -> Time {
    Time::from_nanos(ms * 1_000_000)
}

/// A pipe of a rate in Mbit/s (0: no limit) and a delay in milliseconds.
fn pipe(mbit: u64, delay_ms: u64) -> PipeConfig {
    let (rate, delay) = (Rate::from_bps(mbit * 1_000_000), Duration::from_millis(delay_ms));
    PipeConfig { rate, delay, ..PipeConfig::default() }
}

/// As [`pipe`], with room for any number of packets.
fn roomy(mbit: u64, delay_ms: u64) -> PipeConfig {
    PipeConfig { queue: packets(u32::MAX), ..pipe(mbit, delay_ms) }
}

fn packets(limit: u32) -> Queue {
    Queue { limit, in_bytes: false, discipline: Discipline::DropTail }
}

/// Fetches all packets that come out by `until`: time in nanoseconds, number of the port, content.
fn drain(network: &mut Network<u32>, until: Time) -> Vec<(u64, usize, u32)> {
    let mut out = Vec::new();
    while let Some(delivery) = network.poll_delivery(until) {
        out.push((delivery.due.as_nanos(), delivery.port.index(), delivery.packet));
    }
    out
}

/// The times, in microseconds, of the packets that come out by `until`.
fn dues_us(network: &mut Network<u32>, until: Time) -> Vec<u64> {
    drain(network, until).into_iter().map(|(due, _, _)| due / 1_000).collect()
}

/// Sends `count` packets at one time, numbered from 0; returns the number taken.
fn burst(network: &mut Network<u32>, now: Time, from: Port, to: Port, bytes: u32, count: u32) -> u32 {
    let taken = |number: &u32| network.send(now, from, Destination::Port(to), bytes, *number) == SendOutcome::Queued;
    (0..count).filter(taken).count() as u32
}

/// The pipe for packets from a port.
fn up(network: &Network<u32>, port: Port) -> PipeId {
    network.to_net(port).unwrap()
}

/// Schedules a change of the pipe for packets from a port.
fn plan(network: &mut Network<u32>, ms: u64, port: Port, change: TopologyChange) {
    let pipe = up(network, port);
    network.schedule(at_ms(ms), PipeChange { pipe, change }).unwrap();
}
