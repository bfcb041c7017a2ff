//! The associations that a node has, and the dials that may lead to more.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::time::Duration;

use crate::address::{Address, Scheme, SchemeSet};
use crate::address_filter;
use crate::ids::{DialId, LinkId, NodeId, RequestId};
use crate::machine::Peer as Neighbour;
use crate::rtt::Rtt;
use crate::service::Role;
use crate::time::Time;
use crate::wall::WallClock;
use crate::wire::Hello;

/// The most associations at once. One more is closed as soon as it is up.
pub(super) const MAX_LINKS: usize = 1024;

/// The most associations with one neighbour. The one that was silent for
/// longest makes room for one more, as it may be dead.
const MAX_LINKS_EACH: usize = 8;

/// How long a direct association that this node dialled may carry nothing
/// before it is closed. Until then a further request needs no handshake, and
/// nothing is sent for it.
pub const IDLE: Duration = Duration::from_secs(1800);

/// For how long an association that carries nothing is as good as before: NATs
/// keep it in mind so long at least (RFC 4787, section 4.3). One with a hub, or
/// whose paths are probed (QUIC), is closed then.
pub(super) const FRESH: Duration = Duration::from_secs(120);

/// The most associations with nodes that are kept without being [`FRESH`].
/// Beyond it the one that was not used for longest is closed.
const MAX_QUIET: usize = 256;

/// After so many repetitions, of a request or an acceptance, an association is
/// doubted and the other node dialled.
pub(super) const DOUBTFUL_TRIES: u32 = 3;

/// What a dial is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum NodeDialPurpose {
    /// A home.
    Home,
    /// A hub that stands by.
    Standby,
    /// A hub to which the home has sent this node.
    Redirect,
    /// The home hub over another transport, for requests restricted to it.
    Hub(DialTarget),
    /// A node: the requester of sessions, or the provider that requests name.
    Node(DialTarget),
}

/// Who is to be reached, and over which transports. All that want the same
/// share one dial.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct DialTarget {
    pub(super) node: NodeId,
    pub(super) schemes: SchemeSet,
}

/// Why an association is gone, or could not be had.
#[derive(Clone, Copy, Debug)]
pub(super) struct ConnectionLoss<'a> {
    /// In a sentence for people.
    pub(super) reason: &'a str,
    /// Whether one side does not admit the other, so that no way leads there.
    pub(super) refused: bool,
}

impl<'a> ConnectionLoss<'a> {
    /// One that says nothing of other ways.
    pub(super) fn new(reason: &'a str) -> Self {
        Self { reason, refused: false }
    }
}

/// One association.
#[derive(Debug)]
pub(super) struct NodeConnection {
    /// Who is there.
    pub(super) peer: Neighbour,
    /// Where.
    pub(super) address: Address,
    /// How far away.
    pub(super) rtt: Rtt,
    /// When something was last sent or heard.
    pub(super) used: Time,
    /// When something was last heard.
    pub(super) heard: Time,
    /// When something was last heard that shows that this node is heard, too.
    pub(super) answered: Time,
    /// True once this end has said its version there.
    pub(super) has_greeted: bool,
    /// The version and capabilities of the remote.
    pub(super) hello: Hello,
    /// The remote's wall clock, if it has told it.
    pub(super) clock: Option<WallClock>,
    /// True once it has said something of a later version, which is reported only once.
    pub(super) said_later: bool,
    /// Acceptances of a node that did not show the request's nonce.
    pub(super) guesses: u8,
    /// The hub through which it goes, if it is but a way of requests.
    pub(super) through: Option<HubTunnel>,
}

/// The most such acceptances of an association: more are guesses.
const MAX_GUESSES: u8 = 2;

impl NodeConnection {
    /// True if a node guesses secrets of requests here. What a hub passes on is the guess of somebody else.
    pub(super) fn has_guessed(&self) -> bool {
        self.guesses > MAX_GUESSES && self.through.is_none() && self.peer.role == Role::Node
    }
}

/// A way through hubs, which stands in for a connection with a node that cannot be reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct HubTunnel {
    /// The association with the first hub.
    pub(super) link: LinkId,
    /// That hub, and the request by which it knows the way.
    pub(super) hub: NodeId,
    pub(super) id: RequestId,
}

impl NodeConnection {
    /// An association that is up now.
    pub(super) fn new(now: Time, peer: Neighbour, address: Address, rtt: Rtt) -> Self {
        Self {
            peer,
            address,
            rtt,
            used: now,
            heard: now,
            answered: now,
            has_greeted: false,
            hello: Hello::ASSUMED,
            clock: None,
            said_later: false,
            guesses: 0,
            through: None,
        }
    }

    /// How long it may carry nothing, if this node dialled it.
    pub(super) fn idle_limit(&self) -> Duration {
        let costs_nothing = self.peer.role == Role::Node && self.address.scheme != Scheme::Quic;
        if costs_nothing { IDLE } else { FRESH }
    }

    /// Those of its peer's addresses that are where it is seen.
    pub(super) fn there(&self, addresses: Vec<Address>) -> Vec<Address> {
        self.address.primary().map_or(Vec::new(), |seen| address_filter::filter_observed(addresses, seen.ip()))
    }

    /// Those of others' addresses, of which its peer tells, that somebody can be at.
    pub(super) fn told(&self, addresses: Vec<Address>) -> Vec<Address> {
        self.address.primary().map_or(Vec::new(), |seen| address_filter::filter_reported(addresses, seen.ip()))
    }

    fn is_quiet(&self, now: Time) -> bool {
        now.since(self.used) >= FRESH
    }

    /// Whether its peer is where one of `addresses` says, so that no NAT can
    /// have forgotten the association. Over TCP a peer dials from another port;
    /// NATs keep those for hours.
    fn is_to(&self, addresses: &[Address]) -> bool {
        let Some(there) = self.address.primary() else { return false };
        let any_port = self.address.scheme == Scheme::Tcp;
        let is_there = |at: SocketAddr| at.ip() == there.ip() && (any_port || at.port() == there.port());
        let fits = |address: &&Address| address.scheme == self.address.scheme;
        addresses.iter().filter(fits).filter_map(Address::primary).any(is_there)
    }
}

/// All associations and dials.
#[derive(Debug, Default)]
pub(super) struct Links {
    links: BTreeMap<LinkId, NodeConnection>,
    dials: BTreeMap<DialId, NodeDialPurpose>,
    next_dial: u64,
    next_way: u64,
}

impl Links {
    pub(super) fn get(&self, link: LinkId) -> Option<&NodeConnection> {
        self.links.get(&link)
    }

    /// Every association, and every way through hubs.
    pub(super) fn iter(&self) -> impl Iterator<Item = &NodeConnection> {
        self.links.values()
    }

    /// The wall clocks that remotes have told.
    pub(super) fn clocks_mut(&mut self) -> impl Iterator<Item = &mut WallClock> {
        self.links.values_mut().filter_map(|link| link.clock.as_mut())
    }

    pub(super) fn get_mut(&mut self, link: LinkId) -> Option<&mut NodeConnection> {
        self.links.get_mut(&link)
    }

    pub(super) fn insert(&mut self, link: LinkId, entry: NodeConnection) {
        self.links.insert(link, entry);
    }

    pub(super) fn remove(&mut self, link: LinkId) -> Option<NodeConnection> {
        self.links.remove(&link)
    }

    pub(super) fn len(&self) -> usize {
        self.links.len()
    }

    pub(super) fn ids(&self) -> Vec<LinkId> {
        self.links.keys().copied().collect()
    }

    /// The youngest association with `node` over one of `schemes`: an older
    /// one may have died without a word. One that has carried nothing for long
    /// counts only if it leads to one of the node's `addresses`.
    pub(super) fn between(&self, now: Time, node: NodeId, schemes: SchemeSet, addresses: &[Address]) -> Option<LinkId> {
        let fits = |link: &NodeConnection| {
            let may_live = !link.is_quiet(now) || link.is_to(addresses);
            link.through.is_none() && link.peer.node == node && schemes.contains(link.address.scheme) && may_live
        };
        self.links.iter().rev().find(|(_, link)| fits(link)).map(|(id, _)| *id)
    }

    /// True if there is a connection with a node; a way through hubs does not count.
    pub(super) fn is_with(&self, node: NodeId) -> bool {
        self.links.values().any(|link| link.through.is_none() && link.peer.node == node)
    }

    /// The way through hubs to a node.
    pub(super) fn way_to(&self, node: NodeId) -> Option<LinkId> {
        let leads = |link: &NodeConnection| link.through.is_some() && link.peer.node == node;
        self.links.iter().rev().find(|(_, link)| leads(link)).map(|(id, _)| *id)
    }

    /// The ways through hubs of which `which` holds.
    pub(super) fn ways(&self, which: impl Fn(HubTunnel) -> bool) -> Vec<LinkId> {
        let ways = self.links.iter().filter(|(_, link)| link.through.is_some_and(&which));
        ways.map(|(id, _)| *id).collect()
    }

    /// A number for a way through hubs; those of associations count from below.
    pub(super) fn number_way(&mut self) -> LinkId {
        self.next_way += 1;
        LinkId(u64::MAX - self.next_way)
    }

    /// Which association with `node` is one too many now that `new` is up.
    pub(super) fn spare(&self, node: NodeId, new: LinkId) -> Option<LinkId> {
        let of_node = || self.links.iter().filter(|(_, link)| link.peer.node == node && link.through.is_none());
        let oldest = of_node().filter(|(id, _)| **id != new).min_by_key(|(id, link)| (link.heard, **id));
        oldest.filter(|_| of_node().count() > MAX_LINKS_EACH).map(|(id, _)| *id)
    }

    /// Which association with a node is to be closed because too many are quiet.
    pub(super) fn quietest(&self, now: Time) -> Option<LinkId> {
        let is_quiet =
            |link: &NodeConnection| link.peer.role == Role::Node && link.through.is_none() && link.is_quiet(now);
        let quiet = || self.links.iter().filter(|(_, link)| is_quiet(link));
        let longest = quiet().min_by_key(|(id, link)| (link.used, **id));
        longest.filter(|_| quiet().count() > MAX_QUIET).map(|(id, _)| *id)
    }

    /// After how many messages without an answer an association is doubted:
    /// sooner if nothing has been heard for long.
    pub(super) fn doubtful_tries(&self, now: Time, link: LinkId) -> u32 {
        let is_silent = self.get(link).is_none_or(|link| now.since(link.heard) >= FRESH);
        if is_silent { DOUBTFUL_TRIES - 1 } else { DOUBTFUL_TRIES }
    }

    /// Numbers a dial.
    pub(super) fn dial(&mut self, purpose: NodeDialPurpose) -> DialId {
        let dial = DialId(self.next_dial);
        self.next_dial += 1;
        self.dials.insert(dial, purpose);
        dial
    }

    /// What a dial was for, now that it is answered.
    pub(super) fn answered(&mut self, dial: DialId) -> Option<NodeDialPurpose> {
        self.dials.remove(&dial)
    }

    /// Whether a dial for this is under way.
    pub(super) fn is_dialling(&self, purpose: NodeDialPurpose) -> bool {
        self.dials.values().any(|other| *other == purpose)
    }

    /// Forgets what a dial was for: its association will not be wanted for it.
    pub(super) fn forget(&mut self, purpose: NodeDialPurpose) {
        self.dials.retain(|_, wanted| *wanted != purpose);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const START: Time = Time::from_nanos(1);
    const UDP: SchemeSet = SchemeSet::only(Scheme::Udp);

    fn node(number: u16) -> NodeId {
        let mut bytes = [0; 16];
        bytes[..2].copy_from_slice(&number.to_be_bytes());
        NodeId::from_bytes(bytes)
    }

    fn at(scheme: Scheme, port: u16) -> Address {
        Address::single(scheme, SocketAddr::from(([10, 0, 0, 1], port)))
    }

    fn link(number: u16, address: Address, used: Time) -> NodeConnection {
        let peer = Neighbour { node: node(number), role: Role::Node, name: String::new() };
        NodeConnection::new(used, peer, address, Rtt::new(Duration::ZERO))
    }

    #[test]
    fn idle_connection_counts_only_without_nat() {
        let mut links = Links::default();
        links.insert(LinkId(1), link(1, at(Scheme::Udp, 7710), START));
        links.insert(LinkId(2), link(2, at(Scheme::Tcp, 40_000), START));
        let (soon, later) = (START + FRESH / 2, START + 2 * FRESH);
        let tcp = SchemeSet::only(Scheme::Tcp);
        assert_eq!(links.between(soon, node(1), UDP, &[]), Some(LinkId(1)));
        assert_eq!(links.between(later, node(1), UDP, &[]), None);
        assert_eq!(links.between(later, node(1), UDP, &[at(Scheme::Udp, 7711), at(Scheme::Tcp, 7710)]), None);
        assert_eq!(links.between(later, node(1), UDP, &[at(Scheme::Udp, 7710)]), Some(LinkId(1)));
        assert_eq!(links.between(later, node(2), tcp, &[at(Scheme::Tcp, 7710)]), Some(LinkId(2)));
        assert_eq!(links.doubtful_tries(soon, LinkId(1)), DOUBTFUL_TRIES);
        assert_eq!(links.doubtful_tries(later, LinkId(1)), DOUBTFUL_TRIES - 1);
    }

    #[test]
    fn longest_idle_connection_is_evicted() {
        let mut links = Links::default();
        for number in 0..MAX_QUIET as u16 + 2 {
            let used = START + Duration::from_secs(number.into());
            links.insert(LinkId(1000 - u64::from(number)), link(number, at(Scheme::Udp, 1), used));
        }
        assert_eq!(links.quietest(START), None, "all are fresh");
        let later = START + IDLE;
        for number in 0..2 {
            let quietest = links.quietest(later);
            assert_eq!(quietest, Some(LinkId(1000 - number)));
            links.remove(quietest.unwrap());
        }
        assert_eq!(links.quietest(later), None);
    }
}
