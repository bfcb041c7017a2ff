//! A node's record as the directory holds it.

use std::time::Duration;

use roost_wire::messages::Candidate;
use roost_wire::{
    Address, Capacity, Cell, ExactPosition, FlowKind, NodeId, OrbitElements, Record, ServiceSet, Time, Version,
};

use super::motion::Motions;
use super::provider_health::ProviderHealth;
use super::service_sets::SetNumber;

/// A node's record. Addresses stay encoded: most are only ever copied into an answer.
#[derive(Debug)]
pub(super) struct Slot {
    pub(super) node: NodeId,
    pub(super) version: Version,
    /// Since which version of its epoch services and addresses are what they are.
    pub(super) settled: u32,
    pub(super) cell: Cell,
    /// The node's last word.
    pub(super) told: Capacity,
    /// The capacity less the requests handed to the node since.
    pub(super) left: Capacity,
    /// The end of the lease unless the node is heard.
    pub(super) expires: Time,
    /// The time under which the slot stands in `expiry`.
    pub(super) listed: Time,
    pub(super) addresses: Box<[u8]>,
    pub(super) services: SetNumber,
    /// True if one of the addresses means something on the node's own machine only.
    pub(super) confined: bool,
    pub(super) health: ProviderHealth,
}

/// An entry before it changed or went.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PreviousEntry {
    pub node: NodeId,
    pub cell: Cell,
    pub services: ServiceSet,
}

/// A record as the directory holds it.
#[derive(Clone, Copy, Debug)]
pub struct DirectoryEntry<'a> {
    pub(super) slot: &'a Slot,
    pub(super) services: &'a ServiceSet,
    pub(super) motions: &'a Motions,
    pub(super) number: u32,
    pub(super) lease: Duration,
    pub(super) now: Time,
}

impl Slot {
    pub(super) fn new(expires: Time, record: &Record) -> Self {
        Self {
            node: record.node,
            version: record.version,
            settled: record.version.sequence,
            cell: record.cell,
            told: record.capacity,
            left: record.capacity,
            expires,
            listed: expires,
            addresses: encode(&record.addresses),
            services: SetNumber::EMPTY,
            confined: record.addresses.iter().any(Address::has_local_host),
            health: ProviderHealth::default(),
        }
    }

    /// Puts a later record of the node in place of this one, which had these services.
    pub(super) fn replace(&mut self, services: &ServiceSet, record: &Record) {
        let addresses = encode(&record.addresses);
        let before = (self.version.epoch, services, &self.addresses);
        if (record.version.epoch, &record.services, &addresses) != before {
            self.settled = record.version.sequence;
        }
        self.version = record.version;
        (self.told, self.left) = (record.capacity, record.capacity);
        self.confined = record.addresses.iter().any(Address::has_local_host);
        self.addresses = addresses;
    }

    /// True if the record has the addresses held here.
    pub(super) fn says(&self, record: &Record) -> bool {
        self.addresses == encode(&record.addresses)
    }

    /// The node lives. An older sign of life changes nothing, and ends no suspension.
    pub(super) fn extend_lease(&mut self, expires: Time) {
        if expires >= self.expires {
            self.expires = expires;
            self.health.suspended = false;
        }
    }

    pub(super) fn deduct(&mut self, form: FlowKind) {
        if let FlowKind::Stream { bits_per_second, .. } = form {
            self.left.streams = self.left.streams.saturating_sub(1);
            self.left.uplink_kbps = self.left.uplink_kbps.saturating_sub(bits_per_second.div_ceil(1_000));
        }
    }
}

impl DirectoryEntry<'_> {
    pub fn node(&self) -> NodeId {
        self.slot.node
    }

    pub fn version(&self) -> Version {
        self.slot.version
    }

    /// Since which version it offers what it offers, and is dialled where it is dialled.
    pub(crate) fn unchanged_since(&self) -> Version {
        Version { epoch: self.slot.version.epoch, sequence: self.slot.settled }
    }

    pub fn cell(&self) -> Cell {
        self.slot.cell
    }

    /// The exact position now, if the node tells it.
    pub fn position(&self) -> Option<ExactPosition> {
        self.motions.position(self.now, self.number, Duration::ZERO)
    }

    fn orbit(&self) -> Option<OrbitElements> {
        self.motions.get(self.number)?.orbit
    }

    /// The cell and the position as they were told, however long ago.
    pub(crate) fn told_place(&self) -> (Cell, Option<ExactPosition>) {
        self.motions.get(self.number).map_or((self.cell(), None), |placed| (placed.cell, placed.position))
    }

    pub fn services(&self) -> &ServiceSet {
        self.services
    }

    /// True if it is as it was.
    pub(crate) fn is_at(&self, before: &PreviousEntry) -> bool {
        (self.cell(), self.services()) == (before.cell, &before.services)
    }

    pub(crate) fn place(&self) -> PreviousEntry {
        PreviousEntry { node: self.node(), cell: self.cell(), services: self.services.clone() }
    }

    /// The capacity left by the node's own word, less the requests handed to it since.
    pub fn capacity(&self) -> Capacity {
        self.slot.left
    }

    pub(crate) fn told_capacity(&self) -> Capacity {
        self.slot.told
    }

    /// True if the node was heard at `time` or later.
    pub fn is_heard_since(&self, time: Time) -> bool {
        self.slot.expires >= time + self.lease
    }

    /// Time for which the node has not been heard.
    pub fn silence(&self, now: Time) -> Duration {
        self.lease.saturating_sub(self.slot.expires.since(now))
    }

    /// True if it is held back until it speaks again.
    pub fn is_suspended(&self) -> bool {
        self.slot.health.suspended
    }

    /// True if it has failed of late.
    pub fn is_doubtful(&self) -> bool {
        self.slot.health.is_doubtful(self.now)
    }

    /// The end of its lease unless the node is heard.
    pub fn expires(&self) -> Time {
        self.slot.expires
    }

    pub fn addresses(&self) -> Vec<Address> {
        // The directory encoded them itself; nothing else writes there.
        minicbor::decode(&self.slot.addresses).unwrap_or_default()
    }

    /// The addresses as they go over the wire.
    pub(crate) fn encoded_addresses(&self) -> &[u8] {
        &self.slot.addresses
    }

    /// True if one of the addresses means something on the node's own machine only.
    pub(crate) fn is_confined(&self) -> bool {
        self.slot.confined
    }

    /// The record as its node published it, with what it last said that it has left.
    pub fn record(&self) -> Record {
        Record {
            node: self.node(),
            version: self.version(),
            cell: self.cell(),
            services: self.services().clone(),
            capacity: self.told_capacity(),
            addresses: self.addresses(),
            position: self.position().filter(|_| self.told_place().1.is_some()),
            orbit: self.orbit(),
        }
    }

    /// The record as a lookup shows it.
    pub fn candidate(&self) -> Candidate {
        Candidate {
            node: self.node(),
            version: self.version(),
            cell: self.cell(),
            services: self.services().clone(),
            capacity: self.capacity(),
            addresses: self.addresses(),
            name: None,
            position: self.position(),
        }
    }
}

fn encode(addresses: &[Address]) -> Box<[u8]> {
    // Encoding into memory cannot fail; an empty list is what a failure would mean.
    minicbor::to_vec(addresses).unwrap_or_default().into_boxed_slice()
}
