//! The link model in exact nanoseconds, without a clock.
//!
//! A [`Network`] is pipes, joined into links and LANs. Packets go in at a [`Port`] and come out of others. The
//! caller passes the time, so that wall clock and virtual time drive the same code, and the same calls with the
//! same seed give the same result to the nanosecond.
//!
//! A pipe is, in this order:
//!
//! 1. **down?** A packet that arrives while the pipe is down vanishes; those inside are delivered.
//! 2. **loss**, random and then in bursts (Gilbert–Elliott), on arrival, before the queue, as dummynet does it.
//! 3. **queue**, `DropTail` or RED, in packets or bytes, the packet in service counted.
//! 4. **rate**. Transmissions end at exact fractions of a nanosecond, so that a long run has exactly the
//!    configured rate; the visible time of an end is rounded up to the nanosecond.
//! 5. **propagation delay and jitter**. Packets keep their order, even when the delay becomes shorter, unless the
//!    pipe lets them overtake.
//!
//! A pipe may play a **trace**. What it gives (rate, delay, loss, up and down) replaces the pipe's own values. A step
//! of the rate holds for the packet in service, too: a transmission ends when the sum of the rate over time has
//! reached the packet's bits. Opportunities are used as Mahimahi's `mm-link` does: one that nothing waits for is lost, a
//! packet may need several, and several may share one; a packet that arrives at its instant comes too late.
//!
//! A link is one pipe each way. On a LAN a packet crosses its sender's pipe to the switch, is copied to its
//! receivers, and crosses a pipe to each of them. A host with several interfaces has several ports. [`wiring`]
//! makes the network of a topology, and maps its ports to names.
//!
//! On a radio each pair of members has a pipe of its own, or all share one channel ([`Network::add_medium`]). Their
//! links follow the places of hosts.
//!
//! # Time
//! Each stage starts from the exact time of the event before it, however late the caller is. At one instant
//! transmissions end first, then come changes in the order in which they were scheduled, then packets that move
//! on in the order in which they entered their pipes, then newly sent packets.
//!
//! # Changes
//! - rate: the packet in service keeps its own; waiting packets get the new one. While a trace gives the rate, there
//!   is no effect; so with delay and loss.
//! - delay: for packets whose transmission ends later; FIFO is kept.
//! - jitter: for packets whose transmission begins later.
//! - queue: packets inside stay; a smaller limit holds for new arrivals.
//! - while a pipe is down, changes are kept and take effect when it is up again.
//!
//! # Example
//! ```
//! use std::time::Duration;
//!
//! use roost_netcore::{Destination, Network, PipeConfig};
//! use roost_topology::units::Rate;
//! use roost_wire::Time;
//!
//! let pipe = PipeConfig { rate: Rate::from_bps(100_000_000), delay: Duration::from_millis(50), ..Default::default() };
//! let mut network = Network::new(1);
//! let [a, b] = network.add_link(pipe.clone(), pipe);
//! network.send(Time::ZERO, a, Destination::Port(b), 1500, "hello");
//!
//! let due = network.poll_deadline().unwrap();
//! let delivery = network.poll_delivery(due).unwrap();
//! assert_eq!((delivery.port, delivery.packet), (b, "hello"));
//! assert_eq!(delivery.due.as_nanos(), 50_120_000);
//! ```
#![allow(missing_docs, reason = "only crates of `emulation` import this one")]

mod air;
mod config;
mod counters;
mod loss;
mod medium;
mod network;
mod parts;
mod pipe;
mod player;
mod queue;
mod radio;
mod timer_queue;
mod transmitter;
mod watch;
pub mod wiring;

#[cfg(test)]
mod tests;

pub use config::{NetworkLimits, PipeChange, PipeConfig};
pub use counters::{FlowCounters, PacketCount, PipeCounters};
pub use network::{Delivery, Destination, Network, PipeId, Port, ScheduleFull, SendOutcome, Watching};
pub use parts::{Crossing, PartId};
pub use pipe::DropCause;
pub use watch::{Sighting, SightingKind};

/// The Ethernet header: two addresses and a type. It counts as part of every packet.
pub const HEADER_BYTES: usize = 14;
