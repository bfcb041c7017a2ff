//! What nodes publish, and how long it stays.

use super::{Event, Hub, MAX_PER_WAKE, Sender};
use crate::address::Address;
use crate::directory::{Place, Published};
use crate::ids::NodeId;
use crate::machine::{Channel, Traffic};
use crate::record::{MAX_ADDRESSES, Record, Version};
use crate::time::Time;
use crate::wire::{Message, Renew};

impl Hub {
    /// Takes a node's own record in. A record of anybody else is refused: the
    /// certificate of the link says whose word this is.
    pub(super) fn publish(&mut self, now: Time, from: Sender, mut record: Record) {
        if record.node != from.node {
            self.counters.not_own += 1;
            self.events.push_back(Event::Refused { node: from.node, what: "it published the record of another node" });
            return;
        }
        if self.leaving.is_some() {
            return;
        }
        self.fill_in(from, &mut record.addresses);
        let Record { node, version, cell, services, .. } = record;
        match self.directory.publish(now, &record) {
            Published::New => {
                self.claim(node, version);
                self.published(node, None);
            }
            Published::Replaced(place) => self.published(node, Some(place)),
            Published::Same => {}
            // The node learns from the lease which version it has to exceed.
            Published::Stale => {
                let held = self.directory.get(node).map_or(version, |entry| entry.version());
                return self.grant(from, Traffic::Join, held, false);
            }
            Published::Full => {
                self.counters.full += 1;
                return self.close(now, from.link, "the hub's directory is full");
            }
        }
        self.events.push_back(Event::Published { node, cell, services });
        self.grant(from, Traffic::Join, version, true);
    }

    /// Puts the address at which a node is seen where it could not know its own.
    fn fill_in(&self, from: Sender, addresses: &mut [Address]) {
        let seen = self.neighbours.links.get(&from.link).and_then(|link| link.address.primary());
        if let Some(seen) = seen {
            for address in addresses {
                *address = address.clone().seen_from(seen.ip());
            }
        }
    }

    /// Tells the peers that the node is here now.
    fn claim(&mut self, node: NodeId, version: Version) {
        let claim = Message::Claim { node, version };
        self.tell_peers(&claim);
    }

    fn published(&mut self, node: NodeId, before: Option<Place>) {
        self.counters.publishes += 1;
        self.tell_watchers(node, before);
    }

    fn grant(&mut self, from: Sender, traffic: Traffic, version: Version, with_siblings: bool) {
        let lease_ms = u32::try_from(self.config.lease.as_millis()).unwrap_or(u32::MAX);
        let mut siblings = if with_siblings { self.siblings() } else { Vec::new() };
        siblings.truncate(MAX_ADDRESSES);
        let siblings = (!siblings.is_empty()).then_some(siblings);
        let lease = Message::Lease { version, lease_ms, siblings };
        self.send(from.link, Channel::Datagram, traffic, &lease);
    }

    pub(super) fn renew(&mut self, now: Time, from: Sender, renew: Renew) {
        if self.leaving.is_some() {
            return;
        }
        if self.directory.renew(now, from.node, renew.version, renew.capacity) {
            self.counters.renews += 1;
            self.grant(from, Traffic::Renew, renew.version, false);
        } else {
            self.counters.unknown_renews += 1;
            self.send(from.link, Channel::Datagram, Traffic::Renew, &Message::Anew);
        }
    }

    pub(super) fn withdraw(&mut self, from: Sender, version: Version) {
        if let Some(place) = self.directory.withdraw(from.node, version) {
            self.counters.withdrawals += 1;
            self.gone(place, "withdrawn");
        }
    }

    /// Another hub holds this node from `version` on.
    pub(super) fn claimed(&mut self, node: NodeId, version: Version) {
        if let Some(place) = self.directory.claim(node, version) {
            self.counters.claimed += 1;
            self.gone(place, "claimed");
        }
    }

    pub(super) fn expire_leases(&mut self, now: Time) {
        for _ in 0..MAX_PER_WAKE {
            let Some(place) = self.directory.expire(now) else { return };
            self.counters.expiries += 1;
            self.gone(place, "expired");
            // Nothing came over any of its links for a whole lease.
            for link in self.neighbours.links_of(place.node).to_vec() {
                self.close(now, link, "nothing was heard from the node for a lease");
            }
        }
    }

    fn gone(&mut self, place: Place, cause: &'static str) {
        self.events.push_back(Event::Gone { node: place.node, cause });
        self.tell_watchers(place.node, Some(place));
    }
}
