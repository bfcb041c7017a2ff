//! A group of super nodes that know one another: SWIM (Das, Gupta and Motivala
//! 2002) by the `foca` crate, fed with this hub's time and chance.

use std::collections::{BTreeMap, VecDeque};
use std::convert::Infallible;
use std::fmt;
use std::net::{IpAddr, Ipv4Addr};
use std::num::{NonZeroU8, NonZeroUsize};
use std::time::Duration;

use bytes::Bytes;
use foca::{Foca, NoCustomBroadcast, Notification, PeriodicParams, Runtime, State, Timer};
use roost_wire::messages::MAX_GOSSIP_BYTES;
use roost_wire::random::SplitMix64;
use roost_wire::{Address, NodeId, Time};

use super::identity::MemberIdentity;
use super::wire::{MAX_ADDRESSES, SENDER_BYTES, Wire, sender};

/// Interval at which a member asks another one whether it lives.
const PROBE_EVERY: Duration = Duration::from_secs(5);

/// Time for which it waits for the answer before it asks others to ask: more than
/// the round trip of any path, since a path that is slow is not down.
const PROBE_WAIT: Duration = Duration::from_secs(3);

/// The most super nodes remembered, dead ones too. Groups are meant to have up
/// to a hundred.
pub(super) const MAX_KNOWN: usize = 256;

/// Time for which a dead member is remembered, so that old gossip does not raise it.
const REMEMBERED: Duration = Duration::from_secs(3_600);

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum MemberChange {
    Up(NodeId, Vec<Address>),
    /// The member lives another life: it has started again, or was taken for dead.
    Restarted(NodeId, Vec<Address>),
    Down(NodeId),
}

/// A message to another super node, and its addresses.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct GossipPacket {
    pub(super) to: NodeId,
    pub(super) addresses: Vec<Address>,
    pub(super) message: Bytes,
}

pub(crate) struct GossipGroup {
    foca: Foca<MemberIdentity, Wire, FocaRng, NoCustomBroadcast>,
    pending: Pending,
    rtt: Duration,
}

impl fmt::Debug for GossipGroup {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Group").field("members", &self.foca.num_members()).finish_non_exhaustive()
    }
}

/// The hub's chance as foca wants it.
struct FocaRng(SplitMix64);

impl rand_core::TryRng for FocaRng {
    type Error = Infallible;

    fn try_next_u32(&mut self) -> Result<u32, Infallible> {
        Ok((self.0.next_u64() >> 32) as u32)
    }

    fn try_next_u64(&mut self) -> Result<u64, Infallible> {
        Ok(self.0.next_u64())
    }

    fn try_fill_bytes(&mut self, dst: &mut [u8]) -> Result<(), Infallible> {
        for part in dst.chunks_mut(8) {
            part.copy_from_slice(&self.0.next_u64().to_le_bytes()[..part.len()]);
        }
        Ok(())
    }
}

/// Work that foca wants done. Its timers are a few, and one or two per member known.
#[derive(Default)]
struct Pending {
    timers: BTreeMap<(Time, u64), Timer<MemberIdentity>>,
    number: u64,
    packets: VecDeque<GossipPacket>,
    changes: VecDeque<MemberChange>,
}

impl Pending {
    fn at(&mut self, now: Time) -> FocaRuntime<'_> {
        FocaRuntime { now, pending: self }
    }
}

struct FocaRuntime<'a> {
    now: Time,
    pending: &'a mut Pending,
}

impl Runtime<MemberIdentity> for FocaRuntime<'_> {
    fn notify(&mut self, notification: Notification<'_, MemberIdentity>) {
        let news = match notification {
            Notification::MemberUp(member) => MemberChange::Up(member.node, member.addresses.clone()),
            Notification::Rename(_, member) => MemberChange::Restarted(member.node, member.addresses.clone()),
            Notification::MemberDown(member) => MemberChange::Down(member.node),
            _ => return,
        };
        self.pending.changes.push_back(news);
    }

    fn send_to(&mut self, to: MemberIdentity, data: &[u8]) {
        let message = Bytes::copy_from_slice(data.get(SENDER_BYTES..).unwrap_or_default());
        self.pending.packets.push_back(GossipPacket { to: to.node, addresses: to.addresses, message });
    }

    fn submit_after(&mut self, event: Timer<MemberIdentity>, after: Duration) {
        self.pending.number += 1;
        self.pending.timers.insert((self.now + after, self.pending.number), event);
    }
}

impl GossipGroup {
    /// A group of which nobody else is known yet.
    pub(super) fn new(node: NodeId, epoch: u32, tier: u8, addresses: &[Address], seed: u64) -> Self {
        let addresses = addresses.iter().take(MAX_ADDRESSES).cloned().collect();
        let identity = MemberIdentity { node, generation: epoch, addresses };
        let wire = Wire { own: node, tier, seen: None };
        let rtt = Duration::ZERO;
        let foca = Foca::new(identity, settings(1, rtt), FocaRng(SplitMix64::new(seed)), wire);
        Self { foca, pending: Pending::default(), rtt }
    }

    /// Members that are alive as far as this hub knows, and whether somebody doubts it.
    pub(super) fn members(&self) -> impl Iterator<Item = (NodeId, &[Address], bool)> {
        self.foca.iter_members().map(|member| {
            let id = member.id();
            (id.node, &id.addresses[..], member.state() == State::Suspect)
        })
    }

    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        self.foca.num_members()
    }

    pub(super) fn has(&self, node: NodeId) -> bool {
        self.members().any(|(member, ..)| member == node)
    }

    /// Says to a super node that this one is there. It answers with whom it knows.
    pub(super) fn announce(&mut self, now: Time, to: NodeId) {
        // Only a message that does not fit can fail, and this one is short.
        let _ = self.foca.announce(MemberIdentity::named(to, 0), self.pending.at(now));
    }

    /// Takes a message in. False if it makes no sense.
    pub(super) fn handle_gossip_packet(
        &mut self,
        now: Time,
        from: NodeId,
        seen: Option<IpAddr>,
        message: &[u8],
    ) -> bool {
        let seen = seen.unwrap_or(IpAddr::V4(Ipv4Addr::LOCALHOST));
        let data = [&sender(from, seen)[..], message].concat();
        let outcome = self.foca.handle_data(&data, self.pending.at(now));
        self.make_room(now);
        self.tune();
        outcome.is_ok()
    }

    pub(super) fn next_due(&self) -> Option<Time> {
        self.pending.timers.first_key_value().map(|((at, _), _)| *at)
    }

    pub(super) fn on_timeout(&mut self, now: Time) {
        while let Some(entry) = self.pending.timers.first_entry().filter(|entry| entry.key().0 <= now) {
            let timer = entry.remove();
            // Only a probe can fail that a clock's jump has torn: foca begins another.
            let _ = self.foca.handle_timer(timer, self.pending.at(now));
        }
        self.tune();
    }

    /// The longest round trip to a member has been measured.
    pub(super) fn set_rtt(&mut self, rtt: Duration) {
        if rtt != self.rtt {
            self.rtt = rtt;
            self.tune();
        }
    }

    pub(super) fn leave(&mut self, now: Time) {
        let _ = self.foca.leave_cluster(self.pending.at(now));
        self.pending.timers.clear();
        self.pending.changes.clear();
    }

    pub(super) fn poll_packet(&mut self) -> Option<GossipPacket> {
        self.pending.packets.pop_front()
    }

    pub(super) fn poll_news(&mut self) -> Option<MemberChange> {
        self.pending.changes.pop_front()
    }

    /// Forgets some if too many are known: the dead ones first.
    fn make_room(&mut self, now: Time) {
        while self.foca.iter_membership_state().len() > MAX_KNOWN {
            let dead = self.foca.iter_membership_state().find(|member| member.state() == State::Down);
            let Some(id) = dead.or_else(|| self.foca.iter_membership_state().last()).map(|one| one.id().clone()) else {
                return;
            };
            let down = std::iter::once(foca::Member::down(id.clone()));
            let _ = self.foca.apply_many(down, false, self.pending.at(now));
            let _ = self.foca.handle_timer(Timer::RemoveDown(id), self.pending.at(now));
        }
    }

    /// Fits the timing to the size of the group and to its paths.
    fn tune(&mut self) {
        // Refused only if a probe's period changes, which never does.
        let _ = self.foca.set_config(settings(self.foca.num_members() + 1, self.rtt));
    }
}

/// SWIM's settings for a group of `size` over wide-area paths of which the
/// longest takes `rtt`.
fn settings(size: usize, rtt: Duration) -> foca::Config {
    let doublings = size.max(2).ilog2();
    let every = |secs, members| {
        let num_members = NonZeroUsize::new(members).unwrap_or(NonZeroUsize::MIN);
        Some(PeriodicParams { frequency: Duration::from_secs(secs), num_members })
    };
    foca::Config {
        probe_period: PROBE_EVERY,
        probe_rtt: PROBE_WAIT,
        num_indirect_probes: NonZeroUsize::new(3).unwrap_or(NonZeroUsize::MIN),
        // News has spread to all after about as many rounds as the size has doublings.
        max_transmissions: NonZeroU8::new(doublings as u8 + 2).unwrap_or(NonZeroU8::MIN),
        // A suspect must have heard of it, and its denial must have spread.
        suspect_to_down_after: PROBE_EVERY * 2 * doublings.max(3) + rtt * doublings,
        remove_down_after: Some(REMEMBERED),
        max_packet_size: NonZeroUsize::new(MAX_GOSSIP_BYTES + SENDER_BYTES).unwrap_or(NonZeroUsize::MIN),
        notify_down_members: true,
        periodic_announce: every(120, 1),
        periodic_announce_to_down_members: every(60, 1),
        periodic_gossip: every(1, 2),
    }
}
