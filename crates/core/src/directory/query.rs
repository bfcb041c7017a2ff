//! The question that a search answers, and the order of its hits.

use std::cmp::Reverse;

use roost_policy::Action;
use roost_wire::{
    Area, Capacity, Cell, ExactPosition, FlowKind, Metadata, NodeId, NodeSelector, Service, ServiceSet, Time,
};

use super::provider_health::ProviderHealth;
use super::viewpoint::Viewpoint;

#[derive(Clone, Debug)]
pub struct DirectoryQuery {
    pub service: Service,
    /// Metadata that an offer has to carry.
    pub filter: Metadata,
    pub area: Area,
    /// From where distance ranks if the area has no middle of its own.
    pub origin: Cell,
    /// From where providers in cells equally far are compared; `None` if none of them tells an exact position.
    pub viewpoint: Option<Viewpoint>,
    pub count: usize,
    /// The requester, who is not meant.
    pub except: Option<NodeId>,
    /// The purpose, which decides who counts and who goes first.
    pub aim: SearchPurpose,
    /// Adds names to the answer and limits it to the nodes meant. The hub does so, as a directory
    /// knows no names.
    pub names: Option<NodeSelector>,
    /// The member whose permissions say which places count; `None` if all do.
    pub judged: Option<Judged>,
}

/// A member that the group's policy may not let do this everywhere.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Judged {
    pub node: NodeId,
    pub action: Action,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SearchPurpose {
    /// To show who is there: the nearest go first, and suspended ones do not count.
    List,
    /// To have one of them serve: whoever can goes before those who failed of
    /// late, who are full and who are suspended, at any distance.
    Serve,
}

/// An entry that a search found. Valid until the directory changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Hit {
    pub rank: Rank,
    pub(super) slot: u32,
}

/// The order of providers; the smallest is best: the one in the nearest cell, then one that is free rather than doubtful
/// rather than full rather than suspended, then the nearest by exact positions, then the one with most capacity left, then the one that answers
/// fastest, then by id so that the order is stable.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Rank {
    distance_squared: u64,
    state: ProviderAvailability,
    meters: u32,
    left: Reverse<(u16, u32)>,
    pace: u8,
    node: NodeId,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum ProviderAvailability {
    Free,
    Doubtful,
    /// The provider could not take the request, by its own word.
    Full,
    Suspended,
}

impl Rank {
    /// The rank of a provider of a service of this form at `cell`, seen from `center`, of
    /// whom no more is known.
    pub fn new(form: FlowKind, center: Cell, cell: Cell, capacity: Capacity, node: NodeId) -> Self {
        let is_full = is_full(form, capacity);
        let state = if is_full { ProviderAvailability::Full } else { ProviderAvailability::Free };
        let left = Reverse((capacity.streams, capacity.uplink_kbps));
        Self { distance_squared: center.distance_squared(cell), state, meters: 0, left, pace: u8::MAX, node }
    }

    pub(crate) fn at(self, meters: u32) -> Self {
        Self { meters, ..self }
    }

    /// The rank of a provider that is held back until it speaks again.
    pub(super) fn suspended(self) -> Self {
        Self { state: ProviderAvailability::Suspended, ..self }
    }

    /// The rank in the light of what was seen of the provider.
    pub(super) fn seen(self, health: &ProviderHealth, now: Time) -> Self {
        let doubtful = self.state == ProviderAvailability::Free && health.is_doubtful(now);
        Self { state: if doubtful { ProviderAvailability::Doubtful } else { self.state }, pace: health.pace(), ..self }
    }

    pub fn node(&self) -> NodeId {
        self.node
    }

    /// True if the provider has capacity left, has not failed of late and is not suspended.
    pub fn is_free(&self) -> bool {
        self.state == ProviderAvailability::Free
    }

    /// The distance squared, cells².
    pub(crate) fn distance_squared(&self) -> u64 {
        self.distance_squared
    }

    /// True if it goes before another one in a search with this aim.
    pub(super) fn precedes(&self, other: &Self, aim: SearchPurpose) -> bool {
        match aim {
            SearchPurpose::List => self < other,
            SearchPurpose::Serve => self.by_availability() < other.by_availability(),
        }
    }

    /// The key by which a request tries providers: free ones before doubtful
    /// ones before full ones before suspended ones, at any distance, then by rank.
    pub(crate) fn by_availability(&self) -> impl Ord + use<> {
        (self.state, *self)
    }
}

/// True if a provider that has this much left could not take one more.
fn is_full(form: FlowKind, left: Capacity) -> bool {
    match form {
        FlowKind::Stream { bits_per_second, .. } => {
            left.streams == 0 || left.uplink_kbps < bits_per_second.div_ceil(1_000)
        }
        FlowKind::Object { .. } => false,
    }
}

impl DirectoryQuery {
    /// A query with this purpose: nobody and nothing else is left out.
    pub const fn new(service: Service, area: Area, aim: SearchPurpose, count: usize) -> Self {
        let origin = Cell::new(0, 0);
        let viewpoint = None;
        Self {
            service,
            filter: Metadata::EMPTY,
            area,
            origin,
            viewpoint,
            count,
            except: None,
            aim,
            names: None,
            judged: None,
        }
    }

    /// The exact distance of a provider, as far as it counts.
    pub(crate) fn meters(&self, cell: Cell, position: Option<ExactPosition>) -> u32 {
        self.viewpoint.map_or(0, |viewpoint| viewpoint.meters(cell, position))
    }

    /// True if one of these offers is meant.
    pub(crate) fn means(&self, services: &ServiceSet) -> bool {
        services.has(self.service, &self.filter)
    }

    /// From where distance ranks: the area's middle, or the origin.
    pub fn center(&self) -> Cell {
        match self.area {
            Area::Rectangle { min, max } => Cell::new(min.x + (max.x - min.x) / 2, min.y + (max.y - min.y) / 2),
            area => area.center().unwrap_or(self.origin),
        }
    }

    /// The part of the area in which something could be nearer than `rank`, or
    /// as near; `None` if nothing can be.
    pub(crate) fn nearer_than(&self, rank: &Rank) -> Option<Area> {
        let squared = rank.distance_squared();
        let radius = u32::try_from(squared.isqrt() + u64::from(!is_square(squared))).unwrap_or(u32::MAX);
        match self.area {
            _ if squared == 0 => None,
            Area::Nearest(center) => Some(Area::Radius { center, radius }).filter(Area::is_valid).or(Some(self.area)),
            Area::Radius { center, radius: whole } => Some(Area::Radius { center, radius: radius.min(whole) }),
            area => Some(area),
        }
    }
}

fn is_square(number: u64) -> bool {
    number.isqrt() * number.isqrt() == number
}
