//! Other super nodes of the same tier: who they are, how to reach them, and how many nodes each has.
//!
//! The [`group`] knows who is there: a newcomer that reaches one member learns of all, and a dead member
//! disappears from the list within minutes. The hub keeps a connection with every member, and names them to its
//! nodes. Nothing else depends on the list: whether a node's home is alive is the node's own business.
//!
//! A hub tells the others how many nodes it has when that changes: see [`load`], and [`sharing`] for what comes
//! of it.

mod announcing;
mod balance;
mod group;
mod identity;
mod load;
mod sharing;
#[cfg(test)]
pub(super) mod tests;
mod wire;

use std::collections::BTreeMap;
use std::time::Duration;

use bytes::Bytes;

use self::balance::{Balance, NEAR};
use self::group::{GossipGroup, GossipPacket, MemberChange};
use self::load::Loads;
pub(super) use self::load::OwnLoad;
use super::copy_room::CopyRoom;
use super::mesh::DialPurpose;
use super::sender::Sender;
use super::{HubConfig, HubEvent, HubKind, ReflectionConfig, Relation};
use crate::address_filter;
use crate::connections::Backoff;
use crate::hub::core::HubCore;
use crate::machine::Traffic;
use roost_wire::messages::HierarchyMessage;
use roost_wire::{Address, Channel, ConnectionId, NodeId, Role, SchemeSet, Time};

/// Time for which one of two that learn of each other leaves the dial to the other.
const COURTESY: Duration = Duration::from_secs(2);

/// The first pause before a member is dialled again; it doubles up to [`MAX_PAUSE`].
const FIRST_PAUSE: Duration = Duration::from_secs(1);

/// The longest pause before a member is dialled again.
const MAX_PAUSE: Duration = Duration::from_secs(30);

/// The pause between two announcements to a hub that does not answer.
const ANNOUNCE_EVERY: Duration = Duration::from_secs(5);

/// The most announcements: a hub of another tier does not answer.
const ANNOUNCEMENTS: u8 = 3;

#[derive(Debug)]
pub(super) struct Members {
    /// None for a server, and for a hub that has left.
    group: Option<GossipGroup>,
    reach: BTreeMap<NodeId, MemberContact>,
    /// Hubs to which this one has announced itself so far in vain.
    announcing: BTreeMap<NodeId, Announcing>,
    loads: Loads,
    balance: Balance,
    pub(super) own: OwnLoad,
}

#[derive(Debug)]
pub(super) struct MemberContact {
    addresses: Vec<Address>,
    dial: Dial,
    backoff: Backoff,
    /// Dials in vain since it was reached.
    failures: u32,
    /// Nodes that were sent to it and have not arrived as far as one hears.
    pub(super) on_the_way: u32,
    /// True if it has joined and got no share of the nodes yet.
    fresh: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Dial {
    /// Not wanted: there is a connection.
    None,
    At(Time),
    UnderWay,
}

#[derive(Clone, Copy, Debug)]
struct Announcing {
    next: Time,
    left: u8,
}

/// A super node of the group at one moment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MemberStatus {
    pub node: NodeId,
    pub addresses: Vec<Address>,
    /// Number of nodes that it has. `None` of one that leaves, or has said nothing yet.
    pub leases: Option<u32>,
    /// True if there is a connection with it.
    pub connected: bool,
    pub suspected: bool,
}

impl Members {
    pub(super) fn new(config: &HubConfig) -> Self {
        let group = (config.kind == HubKind::SuperNode)
            .then(|| GossipGroup::new(config.node, config.epoch, config.tier, &config.addresses, config.seed));
        Self {
            group,
            reach: BTreeMap::new(),
            announcing: BTreeMap::new(),
            loads: Loads::new(config.reflection.and_then(ReflectionConfig::first_room)),
            balance: Balance::default(),
            own: OwnLoad::default(),
        }
    }

    pub(super) fn view(&self) -> MemberView<'_> {
        MemberView(self)
    }

    pub(super) fn set_own_load(&mut self, own: OwnLoad) {
        self.own = own;
    }

    pub(super) fn len(&self) -> usize {
        self.reach.len()
    }

    pub(super) fn get(&self, node: NodeId) -> Option<&MemberContact> {
        self.reach.get(&node)
    }

    /// Number of leases that a member has, those included that are on their way to it.
    pub(super) fn load(&self, node: NodeId) -> Option<usize> {
        let on_the_way = self.get(node)?.on_the_way;
        self.loads.leases_of(node).map(|load| load.saturating_add(on_the_way) as usize)
    }

    pub(super) fn get_mut(&mut self, node: NodeId) -> Option<&mut MemberContact> {
        self.reach.get_mut(&node)
    }

    pub(super) fn nodes(&self) -> impl Iterator<Item = NodeId> {
        self.reach.keys().copied()
    }

    pub(super) fn next_due(&self) -> Option<Time> {
        let dials = self.reach.values().filter_map(|reach| match reach.dial {
            Dial::At(at) => Some(at),
            Dial::None | Dial::UnderWay => None,
        });
        let announcements = self.announcing.values().map(|member| member.next);
        let gossip = self.group.as_ref().and_then(GossipGroup::next_due);
        dials.chain(announcements).chain(gossip).chain(self.loads.next_announcement()).min()
    }
}

/// A view of the other hubs of the group.
#[derive(Clone, Copy)]
pub(super) struct MemberView<'a>(&'a Members);

impl<'a> MemberView<'a> {
    /// Room that a hub has left for copies.
    pub(super) fn room_of(self, hub: NodeId) -> Option<CopyRoom> {
        self.0.loads.room_of(hub)
    }

    pub(super) fn addresses_of(self, hub: NodeId) -> &'a [Address] {
        self.0.get(hub).map_or(&[], |member| member.addresses())
    }
}

impl MemberContact {
    /// The addresses and hosts in another order with each dial in vain: only the first ones are tried.
    fn next_addresses(&self) -> Vec<Address> {
        let turn = self.failures as usize;
        let mut addresses = self.addresses.clone();
        for address in &mut addresses {
            let hosts = address.hosts.len().max(1);
            address.hosts.rotate_left(turn % hosts);
        }
        let count = addresses.len().max(1);
        addresses.rotate_left(turn % count);
        addresses
    }

    pub(super) fn addresses(&self) -> &[Address] {
        &self.addresses
    }
}

impl Members {
    pub(super) fn member_statuses(&self, core: &HubCore) -> Vec<MemberStatus> {
        let members = self.group.iter().flat_map(GossipGroup::members);
        let status = |(node, addresses, suspected): (NodeId, &[Address], bool)| MemberStatus {
            node,
            addresses: addresses.to_vec(),
            leases: self.loads.leases_of(node),
            connected: core.remotes.is_up(node),
            suspected,
        };
        members.map(status).collect()
    }

    /// A connection with another hub is up.
    pub(super) fn on_hub_connected(&mut self, core: &mut HubCore, node: NodeId) {
        self.member_reached(core, node);
        if self.reach.contains_key(&node) {
            self.send_load(core, node);
        }
        self.announce_to(core, node, ANNOUNCEMENTS);
        self.measure_group(core);
    }

    fn announce_to(&mut self, core: &mut HubCore, node: NodeId, left: u8) {
        let now = core.now;
        let Some(group) = &mut self.group else { return };
        let is_sibling = core.remotes.relation(node) == Some(Relation::Sibling);
        if left == 0 || !is_sibling || group.has(node) {
            self.announcing.remove(&node);
            return;
        }
        group.announce(now, node);
        self.announcing.insert(node, Announcing { next: now + ANNOUNCE_EVERY, left: left - 1 });
        self.drain_group_notices(core);
    }

    /// The last connection with another hub is gone.
    pub(super) fn on_hub_disconnected(&mut self, core: &mut HubCore, node: NodeId) {
        let now = core.now;
        self.announcing.remove(&node);
        self.loads.forget(node);
        if let Some(reach) = self.reach.get_mut(&node).filter(|reach| reach.dial == Dial::None) {
            reach.dial = Dial::At(now + reach.backoff.record_failure(now, &mut core.random));
        }
    }

    pub(super) fn member_reached(&mut self, core: &mut HubCore, node: NodeId) {
        let now = core.now;
        if let Some(reach) = self.reach.get_mut(&node) {
            (reach.dial, reach.failures) = (Dial::None, 0);
            reach.backoff.record_success(now);
        }
    }

    pub(super) fn member_unreachable(&mut self, core: &mut HubCore, node: NodeId) {
        let now = core.now;
        let Some(reach) = self.reach.get_mut(&node) else { return };
        let pause = reach.backoff.record_failure(now, &mut core.random);
        reach.failures = reach.failures.saturating_add(1);
        reach.dial = if core.remotes.is_up(node) { Dial::None } else { Dial::At(now + pause) };
    }

    pub(super) fn handle_gossip(&mut self, core: &mut HubCore, from: Sender, message: &Bytes) {
        let now = core.now;
        let seen = core.remotes.connections.get(&from.connection).and_then(|connection| connection.address.primary());
        let is_sibling = core.relation(from.node) == Some(Relation::Sibling);
        let Some(group) = self.group.as_mut().filter(|_| is_sibling) else { return };
        if !group.handle_gossip_packet(now, from.node, seen.map(|seen| seen.ip()), message) {
            core.counters.malformed += 1;
        }
        self.drain_group_notices(core);
    }

    pub(super) fn poll_members(&mut self, core: &mut HubCore) {
        let now = core.now;
        if let Some(group) = &mut self.group {
            group.on_timeout(now);
            self.drain_group_notices(core);
        }
        let due = self.announcing.iter().filter(|(_, announcing)| announcing.next <= now);
        for (node, left) in due.map(|(node, announcing)| (*node, announcing.left)).collect::<Vec<_>>() {
            self.announce_to(core, node, left);
        }
        let due = |reach: &MemberContact| matches!(reach.dial, Dial::At(at) if at <= now);
        let due = self.reach.iter().filter(|(_, reach)| due(reach));
        let mut due: Vec<(u32, NodeId)> = due.map(|(node, reach)| (reach.failures, *node)).collect();
        // Members that never answer leave dials to the others.
        due.sort_unstable();
        for (_, node) in due {
            self.dial_member(core, node);
        }
    }

    fn dial_member(&mut self, core: &mut HubCore, node: NodeId) {
        let now = core.now;
        let Some(reach) = self.reach.get(&node) else { return };
        let is_wanted = !core.remotes.is_up(node) && !reach.addresses.is_empty();
        let dial = match is_wanted.then(|| reach.next_addresses()).map(|to| self.dial_told(core, node, to)) {
            Some(true) => Dial::UnderWay,
            Some(false) => Dial::At(now + FIRST_PAUSE),
            None => Dial::None,
        };
        if let Some(reach) = self.reach.get_mut(&node) {
            reach.dial = dial;
        }
    }

    /// Dials a super node where others say that it is. False if too many such dials have led nowhere:
    /// one that lies could aim all of its group at other hosts.
    fn dial_told(&mut self, core: &mut HubCore, node: NodeId, addresses: Vec<Address>) -> bool {
        let now = core.now;
        let addresses = address_filter::few(addresses);
        let Some(cost) = core.advice.charge_dial(now, &addresses) else { return false };
        core.dial(addresses, Role::SuperNode, Some(node), DialPurpose::Member(node, cost));
        true
    }

    /// Carries out what the group wants said, and notes who has come and gone.
    fn drain_group_notices(&mut self, core: &mut HubCore) {
        let Some(group) = &mut self.group else { return };
        let words: Vec<GossipPacket> = std::iter::from_fn(|| group.poll_packet()).collect();
        let news: Vec<MemberChange> = std::iter::from_fn(|| group.poll_news()).collect();
        for word in words {
            self.gossip(core, word);
        }
        for news in news {
            match news {
                MemberChange::Up(node, addresses) => self.member_up(core, node, addresses),
                MemberChange::Restarted(node, addresses) => {
                    if let Some(reach) = self.reach.get_mut(&node) {
                        (reach.addresses, reach.fresh) = (addresses, true);
                    }
                }
                MemberChange::Down(node) => self.member_down(core, node),
            }
        }
    }

    /// Says something to a super node, or sees to it that it can be said next time.
    fn gossip(&mut self, core: &mut HubCore, word: GossipPacket) {
        let GossipPacket { to, addresses, message } = word;
        if let Some(connection) = core.remotes.best_connection(to, SchemeSet::ALL) {
            core.counters.gossip_sent += 1;
            core.counters.gossip_bytes += message.len() as u64;
            core.send(connection, Channel::Datagram, Traffic::Gossip, HierarchyMessage::Gossip(message));
        } else if !self.reach.contains_key(&to) && !addresses.is_empty() && !core.mesh.is_dialling(to) {
            // A member that was taken for dead is asked now and then whether it is.
            self.dial_told(core, to, addresses);
        }
    }

    fn member_up(&mut self, core: &mut HubCore, node: NodeId, addresses: Vec<Address>) {
        let now = core.now;
        self.announcing.remove(&node);
        core.promote_to_sibling(node);
        let up = core.remotes.is_up(node);
        let wait = if core.config.node < node { Duration::ZERO } else { core.random.jitter(COURTESY) };
        let dial = if up { Dial::None } else { Dial::At(now + wait) };
        let (backoff, failures, on_the_way, fresh) = (Backoff::new(FIRST_PAUSE, MAX_PAUSE), 0, 0, true);
        let reach = MemberContact { addresses: addresses.clone(), dial, backoff, failures, on_the_way, fresh };
        self.reach.insert(node, reach);
        core.member_count = self.len();
        core.events.push_back(HubEvent::MemberUp { node, addresses });
        if up {
            self.send_load(core, node);
            self.welcome(core, node);
        }
        self.measure_group(core);
    }

    fn member_down(&mut self, core: &mut HubCore, node: NodeId) {
        if self.reach.remove(&node).is_some() {
            core.member_count = self.len();
            core.events.push_back(HubEvent::MemberDown { node });
        }
    }

    /// Takes the longest round trip to a member as the group's.
    pub(super) fn measure_group(&mut self, core: &mut HubCore) {
        let rtts = self.nodes().filter_map(|node| core.rtt_to(node));
        let longest = rtts.max().unwrap_or_default();
        if let Some(group) = &mut self.group {
            group.set_rtt(longest);
        }
    }

    /// Addresses of the other members, to which the node at `connection` may turn when this hub is gone: the nearest
    /// first; among members that are about as near, nodes get different orders.
    pub(super) fn standby_candidates(&self, core: &HubCore, connection: ConnectionId, node: NodeId) -> Vec<Address> {
        let members = self.reach.iter();
        let up = members.filter_map(|(member, reach)| Some((core.rtt_to(*member)?, member, reach.addresses.first()?)));
        let mut up: Vec<_> = up.collect();
        up.sort_unstable_by_key(|(rtt, member, _)| (*rtt, **member));
        let turn = usize::from(node.as_bytes()[15]) + usize::from(node.as_bytes()[0]);
        let mut all = Vec::new();
        while let Some((nearest, ..)) = up.first() {
            let near = *nearest + NEAR.max(*nearest / 4);
            let mut alike: Vec<_> = up.extract_if(.., |(rtt, ..)| *rtt <= near).collect();
            alike.sort_unstable_by_key(|(_, member, _)| **member);
            let turned = turn % alike.len();
            alike.rotate_left(turned);
            all.extend(alike.into_iter().map(|(.., address)| address.clone()));
        }
        core.shareable(connection, all)
    }

    pub(super) fn leave_group(&mut self, core: &mut HubCore) {
        let now = core.now;
        for node in self.nodes().collect::<Vec<_>>() {
            self.send_load(core, node);
        }
        if let Some(group) = &mut self.group {
            group.leave(now);
        }
        self.drain_group_notices(core);
        self.group = None;
        self.reach.clear();
        core.member_count = 0;
        self.announcing.clear();
        self.loads.stop_announcing();
    }
}

impl HubCore {
    /// The round trip to a remote, if there is a connection with it.
    pub(super) fn rtt_to(&self, node: NodeId) -> Option<Duration> {
        let connection = self.remotes.best_connection(node, SchemeSet::ALL)?;
        self.remotes.connections.get(&connection).map(|connection| connection.rtt.smoothed())
    }
}
