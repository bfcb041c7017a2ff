//! The paths over which objects go.

use std::time::Duration;

use roost_topology::Topology;
use roost_topology::model::{Leg, Queue};
use roost_topology::units::Rate;

use crate::networks;

/// The least size of a queue, bytes: some thirty packets.
const LEAST_QUEUE: u32 = 45_000;

/// The network between the two hosts, equal in both directions. Losses occur after the bottleneck; its queue
/// holds one bandwidth-delay product.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct PathProfile {
    /// The name on command lines, in tables and in JSON.
    pub name: &'static str,
    /// Rate of whole Ethernet frames, Mbit/s.
    pub mbit: u32,
    /// Round trip in ms.
    pub rtt_ms: u64,
    /// Fraction of packets, 0 to 1.
    pub loss: f64,
    /// The default length of a run, s: as long as in the measurements with which ours are compared.
    pub seconds: u32,
}

impl PathProfile {
    /// Paths for one object.
    pub const ALL: [Self; 7] = [
        Self { name: "thin", mbit: 10, rtt_ms: 150, loss: 0.005, seconds: 45 },
        Self { name: "regional", mbit: 40, rtt_ms: 17, loss: 0.004, seconds: 45 },
        Self { name: "thin-clean", mbit: 10, rtt_ms: 150, loss: 0.0, seconds: 30 },
        Self { name: "regional-clean", mbit: 40, rtt_ms: 17, loss: 0.0, seconds: 30 },
        Self { name: "satellite", mbit: 20, rtt_ms: 600, loss: 0.001, seconds: 45 },
        Self { name: "clean", mbit: 200, rtt_ms: 100, loss: 0.0, seconds: 16 },
        Self { name: "nearly-clean", mbit: 200, rtt_ms: 100, loss: 0.0001, seconds: 16 },
    ];
    pub const SHARED: Self = Self { name: "shared", mbit: 40, rtt_ms: 17, loss: 0.0, seconds: 30 };

    pub(super) fn bits_per_second(&self) -> f64 {
        f64::from(self.mbit) * 1e6
    }

    pub(super) const fn one_way(&self) -> Duration {
        Duration::from_micros(self.rtt_ms * 500)
    }

    fn queue(&self) -> Queue {
        // Fits u32: at most 2.5 MB.
        let held = (self.bits_per_second() / 8e3 * self.rtt_ms as f64) as u32;
        Queue { limit: held.max(LEAST_QUEUE), in_bytes: true, ..Queue::DEFAULT }
    }

    pub(super) fn topology(&self) -> Topology {
        let rate = Rate::from_bps(u64::from(self.mbit) * 1_000_000);
        let to_net = Leg { rate, delay: self.one_way(), queue: self.queue(), ..Leg::default() };
        // Without a rate it has no queue: losses here come after the bottleneck.
        let from_net = Leg { loss: self.loss, ..Leg::default() };
        let mut topology = networks::between_two([Leg::default()]);
        for member in topology.nets.iter_mut().flat_map(|net| &mut net.members) {
            (member.to_net, member.from_net) = (to_net.clone(), from_net.clone());
        }
        topology
    }
}
