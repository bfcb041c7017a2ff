//! The associations that a node has, and the dials that may lead to more.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::address::{Address, SchemeSet};
use crate::ids::{DialId, LinkId, NodeId};
use crate::machine::Peer as Neighbour;
use crate::rtt::Rtt;
use crate::time::Time;

/// The most associations at once. One more is closed as soon as it is up.
pub(super) const MAX_LINKS: usize = 1024;

/// The most associations with one neighbour. The one that was silent for
/// longest makes room for one more, as it may be dead.
const MAX_LINKS_EACH: usize = 8;

/// How long a direct association that this node dialled may carry nothing
/// before it is closed. Until then a further request needs no handshake.
pub const IDLE: Duration = Duration::from_secs(120);

/// What a dial is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Purpose {
    /// A home.
    Home,
    /// A hub that stands by.
    StandBy,
    /// A hub to which the home has sent this node.
    Redirect,
    /// The home hub over another transport, for requests restricted to it.
    Hub(Way),
    /// A node: the requester of sessions, or the provider that requests name.
    Node(Way),
}

/// Who is to be reached, and over which transports. All that want the same
/// share one dial.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Way {
    pub(super) node: NodeId,
    pub(super) schemes: SchemeSet,
}

/// Why an association is gone, or could not be had.
#[derive(Clone, Copy, Debug)]
pub(super) struct Loss<'a> {
    /// In a sentence for people.
    pub(super) reason: &'a str,
    /// Whether one side does not admit the other, so that no way leads there.
    pub(super) refused: bool,
}

impl<'a> Loss<'a> {
    /// One that says nothing of other ways.
    pub(super) fn new(reason: &'a str) -> Self {
        Self { reason, refused: false }
    }
}

/// One association.
#[derive(Debug)]
pub(super) struct Link {
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
}

/// All associations and dials.
#[derive(Debug, Default)]
pub(super) struct Links {
    links: BTreeMap<LinkId, Link>,
    dials: BTreeMap<DialId, Purpose>,
    next_dial: u64,
}

impl Links {
    pub(super) fn get(&self, link: LinkId) -> Option<&Link> {
        self.links.get(&link)
    }

    pub(super) fn get_mut(&mut self, link: LinkId) -> Option<&mut Link> {
        self.links.get_mut(&link)
    }

    pub(super) fn insert(&mut self, link: LinkId, entry: Link) {
        self.links.insert(link, entry);
    }

    pub(super) fn remove(&mut self, link: LinkId) -> Option<Link> {
        self.links.remove(&link)
    }

    pub(super) fn len(&self) -> usize {
        self.links.len()
    }

    pub(super) fn ids(&self) -> Vec<LinkId> {
        self.links.keys().copied().collect()
    }

    /// The youngest association with `node` over one of `schemes`: an older
    /// one may have died without a word.
    pub(super) fn between(&self, node: NodeId, schemes: SchemeSet) -> Option<LinkId> {
        let fits = |link: &Link| link.peer.node == node && schemes.contains(link.address.scheme);
        self.links.iter().rev().find(|(_, link)| fits(link)).map(|(id, _)| *id)
    }

    /// Which association with `node` is one too many now that `new` is up.
    pub(super) fn spare(&self, node: NodeId, new: LinkId) -> Option<LinkId> {
        let of_node = || self.links.iter().filter(|(_, link)| link.peer.node == node);
        let oldest = of_node().filter(|(id, _)| **id != new).min_by_key(|(id, link)| (link.heard, **id));
        oldest.filter(|_| of_node().count() > MAX_LINKS_EACH).map(|(id, _)| *id)
    }

    /// Numbers a dial.
    pub(super) fn dial(&mut self, purpose: Purpose) -> DialId {
        let dial = DialId(self.next_dial);
        self.next_dial += 1;
        self.dials.insert(dial, purpose);
        dial
    }

    /// What a dial was for, now that it is answered.
    pub(super) fn answered(&mut self, dial: DialId) -> Option<Purpose> {
        self.dials.remove(&dial)
    }

    /// Whether a dial for this is under way.
    pub(super) fn is_dialling(&self, purpose: Purpose) -> bool {
        self.dials.values().any(|other| *other == purpose)
    }

    /// Forgets what a dial was for: its association will not be wanted for it.
    pub(super) fn forget(&mut self, purpose: Purpose) {
        self.dials.retain(|_, wanted| *wanted != purpose);
    }
}
