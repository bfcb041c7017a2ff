//! Relays of hosts as far as the control plane can tell: a provider's offers and the hubs' grants are followed
//! to the subscribers.

use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use std::time::Duration;

use bytes::Bytes;
use roost_core::hub::{HubCommand, ReflectedStream};
use roost_core::node::{NodeCommand, NodeEvent, SessionId, Ticket};
use roost_wire::messages::ProvisionalAccept;
use roost_wire::{Area, Epoch, EpochSecret, NodeId, ReflectionGrant, Scheme, Service, StreamId, StreamTag, Time};

use super::host::{Host, HostId};
use super::{MS, RequestCommand, World, address, node_id};

/// Host `n` takes in reflected streams at this port plus `n`.
const MEDIA: u16 = 10_000;

/// After so long without a way a subscriber's relay says that the stream is lost.
const LOST: Duration = Duration::from_secs(3);

/// The longest way: three hubs, and its end.
const MOST_STEPS: usize = 5;

pub fn media(host: usize) -> SocketAddr {
    ([0, 0, 0, 0], MEDIA + host as u16).into()
}

/// Rate of a copy of a stream.
fn kbps(service: Service) -> u32 {
    service.reflected_bits_per_second().div_ceil(1000) as u32
}

/// The secret of an epoch in these worlds follows from its number.
pub fn secret(stream: StreamId, epoch: Epoch) -> EpochSecret {
    let mut bytes = [0; 32];
    bytes[..8].copy_from_slice(&stream.0.to_be_bytes());
    bytes[8..12].copy_from_slice(&epoch.0.to_be_bytes());
    EpochSecret::from_bytes(bytes)
}

/// Seals with what the group's nodes share, as a node's driver does: the keys open only under the provider and
/// the service for which they were sealed.
pub fn seal(provider: NodeId, service: Service, opening: &ProvisionalAccept) -> Bytes {
    let mut sealed = provider.as_bytes().to_vec();
    sealed.extend(service.to_string().into_bytes());
    sealed.push(0);
    sealed.extend(opening.encode());
    sealed.into()
}

pub fn unseal(provider: NodeId, service: Service, sealed: &[u8]) -> Option<ProvisionalAccept> {
    let service = service.to_string();
    let rest = sealed.strip_prefix(provider.as_bytes().as_slice())?.strip_prefix(service.as_bytes())?;
    ProvisionalAccept::decode(rest.strip_prefix(&[0])?).ok()
}

/// The state of a host's relay.
#[derive(Default)]
pub struct FakeRelay {
    /// Grants of the hub.
    pub grants: Vec<ReflectionGrant>,
    /// Streams that the node publishes, and the epoch of each that was drawn last.
    pub published: BTreeMap<SessionId, (StreamId, Epoch)>,
    /// To whom it was told to offer it.
    offers: Vec<(SessionId, SocketAddr, StreamTag)>,
    /// Since when a subscription has had no way.
    broken: BTreeMap<Ticket, Time>,
    /// True if the node has nothing of what the group's nodes share.
    pub keyless: bool,
    /// True if the hub has said goodbye.
    pub left: bool,
}

impl FakeRelay {
    /// A node's stream is opened, offered, rekeyed, closed.
    pub fn handle_event(&mut self, now: Time, of: NodeId, event: &NodeEvent) -> Option<NodeCommand> {
        match event {
            NodeEvent::OpenSource { session, reflected: true, .. } => {
                let stream = StreamId::from_publisher(of, now.as_nanos() as u32);
                let epoch = Epoch(1);
                self.published.insert(*session, (stream, epoch));
                let (bits_per_second, format) = (700_000, "synthetic".to_owned());
                let secret = secret(stream, epoch);
                let opened =
                    roost_core::node::SourceOutput::Reflected { bits_per_second, format, stream, epoch, secret };
                Some(NodeCommand::SourceOpened { session: *session, opened })
            }
            NodeEvent::Reflect { session, to, tag, .. } => {
                self.offers.push((*session, *to, *tag));
                None
            }
            NodeEvent::MemberLeft { session } => {
                let (stream, epoch) = self.published.get_mut(session)?;
                epoch.0 += 1;
                Some(NodeCommand::Rekey { session: *session, epoch: *epoch, secret: secret(*stream, *epoch) })
            }
            NodeEvent::Seal { session, service, opening } if !self.keyless => {
                Some(NodeCommand::Sealed { session: *session, sealed: seal(of, *service, opening) })
            }
            NodeEvent::Unseal { ticket, service, provider, sealed } if !self.keyless => {
                let opening = unseal(*provider, *service, sealed)?;
                Some(NodeCommand::Unsealed { ticket: *ticket, provider: *provider, opening })
            }
            NodeEvent::CloseSource { session, .. } => {
                self.published.remove(session);
                self.offers.retain(|(of, ..)| of != session);
                None
            }
            _ => None,
        }
    }
}

impl Host {
    /// The tags under which a ticket's stream may come, the latest last.
    fn tags(&self, ticket: Ticket) -> Vec<StreamTag> {
        let tag = |(_, event): &(Time, NodeEvent)| match event {
            NodeEvent::ExpectTag { ticket: of, tag, .. } if *of == ticket => Some(*tag),
            _ => None,
        };
        self.events.iter().filter_map(tag).collect()
    }

    /// The stream that a ticket has, if it is a reflected one.
    pub fn reflected(&self, ticket: Ticket) -> Option<StreamId> {
        let stream = |(_, event): &(Time, NodeEvent)| match event {
            NodeEvent::Reflected { ticket: of, stream, .. } if *of == ticket => Some(*stream),
            _ => None,
        };
        self.events.iter().rev().find_map(stream).filter(|_| self.ending(ticket).is_none())
    }

    /// The epochs of its stream that a ticket can open.
    pub fn epochs(&self, ticket: Ticket) -> Vec<Epoch> {
        let Some(stream) = self.reflected(ticket) else { return Vec::new() };
        let epoch = |(_, event): &(Time, NodeEvent)| match event {
            NodeEvent::Reflected { ticket: of, stream: got, epoch, secret: key, .. } => {
                (*of == ticket && *got == stream).then_some((*epoch, key.clone()))
            }
            NodeEvent::Key { ticket: of, epoch, secret: key } => (*of == ticket).then_some((*epoch, key.clone())),
            _ => None,
        };
        let keys = self.events.iter().filter_map(epoch);
        keys.filter(|(epoch, key)| *key == secret(stream, *epoch)).map(|(epoch, _)| epoch).collect()
    }

    fn subscriptions(&self) -> Vec<Ticket> {
        let tickets = self.events.iter().filter_map(|(_, event)| match event {
            NodeEvent::Reflected { ticket, .. } => Some(*ticket),
            _ => None,
        });
        let mut tickets: Vec<Ticket> = tickets.filter(|ticket| self.ending(*ticket).is_none()).collect();
        tickets.sort_unstable();
        tickets.dedup();
        tickets
    }
}

impl World {
    pub fn subscribe(&mut self, host: HostId, service: Service, area: Area) -> Ticket {
        self.subscribe_with(host, service, area, |_| {})
    }

    pub fn subscribe_with(
        &mut self,
        host: HostId,
        service: Service,
        area: Area,
        change: impl FnOnce(&mut RequestCommand),
    ) -> Ticket {
        self.request_with(host, service, area, |wanted| {
            wanted.reflect = roost_wire::messages::ReflectionPolicy::Always;
            change(wanted);
        })
    }

    /// The hubs that a ticket's stream passes, from its provider on; `None` if
    /// it does not come.
    pub fn stream_route(&self, host: HostId, ticket: Ticket) -> Option<Vec<HostId>> {
        Some(self.grants(host, ticket)?.into_iter().map(|(hub, _)| hub).collect())
    }

    /// Hosts on the way, with what each of them was granted.
    fn grants(&self, host: HostId, ticket: Ticket) -> Option<Vec<(HostId, &ReflectionGrant)>> {
        let stream = self.hosts[host.0].reflected(ticket)?;
        let tags = self.hosts[host.0].tags(ticket);
        let providers = self.hosts.iter().filter(|host| host.alive);
        let offers = providers.flat_map(|host| {
            let is_it = |session: &SessionId| host.media.published.get(session).is_some_and(|(of, _)| *of == stream);
            host.media.offers.iter().rev().filter(move |(session, ..)| is_it(session))
        });
        let mut ways = offers.filter_map(|(_, to, tag)| self.follow(host, &tags, (*to, *tag)));
        ways.next()
    }

    fn follow(
        &self,
        end: HostId,
        tags: &[StreamTag],
        mut at: (SocketAddr, StreamTag),
    ) -> Option<Vec<(HostId, &ReflectionGrant)>> {
        let mut way = Vec::new();
        for _ in 0..MOST_STEPS {
            let (to, tag) = at;
            assert!(!to.ip().is_unspecified(), "{to} is nowhere");
            let next = HostId(usize::from(to.port().checked_sub(MEDIA)?));
            if next == end {
                return tags.contains(&tag).then_some(way);
            }
            let hub = self.hosts.get(next.0).filter(|hub| hub.alive && !hub.media.left)?;
            let grant = hub.media.grants.iter().rev().find(|grant| grant.tag == tag)?;
            way.push((next, grant));
            at = (grant.to, grant.their_tag);
        }
        None
    }

    /// Lets time pass; relays tell their owners what they find.
    pub fn run_relays(&mut self, span: Duration) {
        let end = self.now + span;
        while self.now < end {
            self.run((500 * MS).min(end.since(self.now)));
            self.tell_subscribers();
            self.tell_hubs();
        }
    }

    /// Subscribers whose stream has had no way for a while, or that cannot open it, say so.
    fn tell_subscribers(&mut self) {
        for host in (0..self.hosts.len()).map(HostId).filter(|host| self.hosts[host.0].alive).collect::<Vec<_>>() {
            for ticket in self.hosts[host.0].subscriptions() {
                let (now, whole) = (self.now, self.opens(host, ticket) && self.stream_route(host, ticket).is_some());
                let broken = &mut self.hosts[host.0].media.broken;
                if whole {
                    broken.remove(&ticket);
                } else if now.since(*broken.entry(ticket).or_insert(now)) >= LOST {
                    broken.remove(&ticket);
                    self.command(host, NodeCommand::Resubscribe { ticket, lost: true });
                }
            }
        }
    }

    /// The copies that each hub sends, and to whom.
    pub fn copies(&self) -> BTreeMap<HostId, BTreeSet<(StreamId, HostId)>> {
        let mut copies: BTreeMap<HostId, BTreeSet<(StreamId, HostId)>> = BTreeMap::new();
        for host in (0..self.hosts.len()).map(HostId).filter(|host| self.hosts[host.0].alive) {
            for ticket in self.hosts[host.0].subscriptions() {
                let (Some(way), Some(stream)) = (self.stream_route(host, ticket), self.hosts[host.0].reflected(ticket))
                else {
                    continue;
                };
                let next = way.iter().copied().skip(1).chain([host]);
                for (hub, to) in way.iter().zip(next) {
                    copies.entry(*hub).or_default().insert((stream, to));
                }
            }
        }
        copies
    }

    /// Each hub hears what it carries, and what room is left.
    fn tell_hubs(&mut self) {
        let (copies, mut carried) = (self.copies(), self.carried());
        for hub in (0..self.hosts.len()).map(HostId) {
            let streams = carried.remove(&hub).unwrap_or_default();
            self.command_hub(hub, HubCommand::ReflectedStreams { streams: streams.into_values().collect() });
            if let Some(most) = self.copies {
                let sent = copies.get(&hub).map_or(0, BTreeSet::len) as u32;
                let residual_kbps = most.saturating_sub(sent) * kbps(Service::Video);
                self.command_hub(
                    hub,
                    HubCommand::ReflectionCapacity { residual_kbps: Some(residual_kbps), subscribers: 0 },
                );
            }
        }
    }

    /// The streams that each hub carries, by the names in its grants.
    fn carried(&self) -> BTreeMap<HostId, BTreeMap<StreamId, ReflectedStream>> {
        let mut carried: BTreeMap<HostId, BTreeMap<StreamId, ReflectedStream>> = BTreeMap::new();
        for host in (0..self.hosts.len()).map(HostId).filter(|host| self.hosts[host.0].alive) {
            for ticket in self.hosts[host.0].subscriptions() {
                let Some(stream) = self.hosts[host.0].reflected(ticket) else { continue };
                for (hub, grant) in self.grants(host, ticket).unwrap_or_default() {
                    let ReflectionGrant { service, cell, provider, to, .. } = *grant;
                    let unnamed = ReflectedStream { service, cell, provider, kbps: kbps(service), to: Vec::new() };
                    let one = carried.entry(hub).or_default().entry(stream).or_insert(unnamed);
                    if provider.is_some() {
                        (one.service, one.cell, one.provider) = (service, cell, provider);
                    }
                    let at = address(usize::from(to.port() - MEDIA), Scheme::Udp).primary().map(|at| at.ip());
                    one.to.extend(at.map(|at| SocketAddr::new(at, to.port())).filter(|to| !one.to.contains(to)));
                }
            }
        }
        carried
    }

    /// The stream of `ticket` is `provider`'s, comes, and can be opened.
    pub fn receives_stream(&self, host: HostId, ticket: Ticket, provider: HostId) -> bool {
        let of = |event: &NodeEvent| matches!(event, NodeEvent::Accepted { ticket: of, provider: by, .. } if *of == ticket && *by == node_id(provider.0));
        let accepted = self.events(host).iter().any(|(_, event)| of(event));
        let is_its = self.latest(host, ticket).is_some_and(|(publisher, _)| publisher == provider);
        accepted && is_its && self.opens(host, ticket) && self.stream_route(host, ticket).is_some()
    }

    /// True if what is published now of a ticket's stream can be opened.
    fn opens(&self, host: HostId, ticket: Ticket) -> bool {
        self.latest(host, ticket).is_some_and(|(_, epoch)| self.hosts[host.0].epochs(ticket).contains(&epoch))
    }

    /// The publisher of a ticket's stream, and the latest epoch of it.
    fn latest(&self, host: HostId, ticket: Ticket) -> Option<(HostId, Epoch)> {
        let stream = self.hosts[host.0].reflected(ticket)?;
        let published = |(at, host): (usize, &Host)| {
            let (_, epoch) = host.media.published.values().find(|(of, _)| *of == stream)?;
            Some((HostId(at), *epoch))
        };
        self.hosts.iter().enumerate().find_map(published)
    }
}
