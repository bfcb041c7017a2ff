//! A request: what is known of it, how far it has come, whom to try next.

use std::collections::VecDeque;
use std::time::Duration;

use roost_wire::messages::{
    CopyTarget, HubHop, Reason, Request, RequestMode, RequestSpec, Route, RouteDirection, Sentence,
};
use roost_wire::{Address, Area, Cell, ConnectionId, NodeId, Nonce, RequestId, SchemeSet, StreamTag, Time};

use crate::hub::route::{HOPS, RoutePlan};
use crate::hub::sender::Sender;

/// The longest that a request is remembered, whatever its deadline.
const MAX_DEADLINE: Duration = Duration::from_secs(120);

/// The most `Pending` messages of a request that are passed on in one [`PENDING_SPAN`]: a few hubs and the
/// provider send one for each repetition of the request.
const MAX_PENDING: u8 = 8;

/// See [`MAX_PENDING`].
const PENDING_SPAN: Duration = Duration::from_secs(1);

#[derive(Debug)]
pub(crate) struct RoutedRequest {
    /// The remote that asked and over which connection: the requester or another hub.
    pub(crate) remote: NodeId,
    pub(crate) connection: ConnectionId,
    /// From another hub: what it says of the request.
    pub(super) route_constraints: Option<RouteConstraints>,
    /// Cell of the provider, if that is one: other hubs can then be asked one after the other.
    pub(super) cell: Option<Cell>,
    pub(crate) requester: NodeId,
    pub(crate) nonce: Nonce,
    pub(crate) spec: RequestSpec,
    /// A central server relays what is to be forwarded.
    pub(super) mode: RequestMode,
    /// The destination of a reflected copy, as the remote tells it.
    pub(crate) copy_target: Option<CopyTarget>,
    pub(super) connect_to: Option<NodeId>,
    /// Grant of a stream to reflect, as it was last handed on.
    pub(crate) granted: Option<Granted>,
    /// Another hub is to reflect it: this one has no room, or none for the way to it.
    pub(crate) elsewhere: bool,
    /// The hub that reflects what is of a provider here.
    pub(crate) overflow: Option<Overflow>,
    /// From another hub: where the provider is to answer. Otherwise the
    /// requester's record says it.
    pub(super) reply_to: Vec<Address>,
    /// True once a provider dials there.
    pub(super) is_dialled: bool,
    pub(super) came: Time,
    pub(super) until: Time,
    pub(super) choices: VecDeque<RequestTarget>,
    /// Choices after the other hubs: own providers that are full or silent.
    pub(super) rest: Vec<RequestTarget>,
    /// True if the other hubs are among the choices already.
    pub(super) climbed: bool,
    /// Plan of its way to other hubs; `None` if it is not to leave this one.
    pub(super) route_plan: Option<RoutePlan>,
    pub(super) stage: RequestStage,
    /// The gravest reason so far why nobody serves it.
    pub(crate) reason: Reason,
    /// The words of the provider that declined last and gave some; for [`Reason::SourceFailed`].
    pub(super) sentence: Option<Sentence>,
    /// Time at which the first of the providers that are busy may be free, as they say.
    pub(super) retry_after_ms: Option<u32>,
    /// Number of reports on it that were sent, if it is traced.
    pub(super) reports: u8,
    /// Beginning of the present [`PENDING_SPAN`], and `Pending` messages in it.
    pending: (Time, u8),
}

/// The grant for a request, as it was last handed on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Granted {
    pub(crate) tag: StreamTag,
    pub(crate) provider: Option<NodeId>,
}

/// A hub that reflects in this one's place what a provider here sends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Overflow {
    pub(super) hub: NodeId,
    pub(super) provider: NodeId,
    /// Destination of the stream, in full.
    pub(crate) reflect: CopyTarget,
}

/// A request that another hub passes on.
#[derive(Debug)]
pub(crate) struct PassedRequest {
    pub(crate) request: Request,
    pub(crate) requester: NodeId,
    pub(crate) reply_to: Vec<Address>,
    pub(crate) hop: HubHop,
}

impl PassedRequest {
    /// `None` if it has no hub's instruction.
    pub(crate) fn new(mut request: Request) -> Option<Self> {
        let Route { requester, reply_to, hop } = request.route.take()?;
        Some(Self { request, requester, reply_to, hop: hop? })
    }
}

/// Constraints of another hub on a request that it passes on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct RouteConstraints {
    /// To how many further hubs it may go.
    pub(super) hops: u8,
    /// The only provider that is meant.
    pub(super) provider: Option<NodeId>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RequestTarget {
    Node(NodeId),
    /// Another hub, which way; a provider that it has named before, and where;
    /// and how often it was asked in vain.
    Hub {
        hub: NodeId,
        way: RouteDirection,
        named: Option<(NodeId, Cell)>,
        silences: u8,
    },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum RequestStage {
    /// Other hubs are being asked what they have.
    LookingUp,
    /// The provider is being dialled over a transport that the request wants.
    Dialling(RequestTarget),
    /// The provider has it, or another hub.
    Handed {
        to: RequestTarget,
        /// The relayed flow, if the hub carries the answer.
        relay: Option<RequestId>,
        sent: Time,
        /// The times that it was repeated without a word since.
        repeats: u8,
        accepted: bool,
        /// Time at which the hub should have said that it has it; `None` if it has, or
        /// is none.
        hop_due: Option<Time>,
    },
    /// Nobody who is known serves it, and the hub has just started.
    Held { until: Time },
    /// Nobody serves it; said again whenever the requester asks again.
    Declined { retry_after_ms: Option<u32> },
}

impl RoutedRequest {
    pub(super) fn by_node(now: Time, from: Sender, request: Request, mode: RequestMode) -> Self {
        // Nobody has reflected yet what a node requests, whatever it says.
        let copy_target = request.copy_target.map(|target| CopyTarget { hops: 0, ..target });
        Self {
            cell: if let Area::Exact(cell) = request.spec.area { Some(cell) } else { None },
            route_plan: RoutePlan::from_scope(request.spec.scope),
            mode,
            copy_target,
            ..Self::new(now, from, from.node, request)
        }
    }

    /// A request that another hub passes on.
    pub(super) fn by_hub(now: Time, from: Sender, passed: PassedRequest) -> Self {
        let PassedRequest { request, requester, reply_to, hop } = passed;
        Self {
            route_constraints: Some(RouteConstraints { hops: hop.hops_left.min(HOPS), provider: hop.provider }),
            cell: Some(hop.cell),
            route_plan: Some(RoutePlan::from(hop.direction, from.node)),
            mode: if reply_to.is_empty() { RequestMode::Relay } else { RequestMode::Forward },
            reply_to,
            ..Self::new(now, from, requester, request)
        }
    }

    fn new(now: Time, from: Sender, requester: NodeId, request: Request) -> Self {
        Self {
            remote: from.node,
            connection: from.connection,
            route_constraints: None,
            cell: None,
            requester,
            nonce: request.nonce,
            until: until(now, request.deadline_ms),
            spec: request.spec,
            mode: RequestMode::Forward,
            copy_target: request.copy_target,
            connect_to: request.connect_to,
            granted: None,
            elsewhere: false,
            overflow: None,
            reply_to: Vec::new(),
            is_dialled: false,
            came: now,
            choices: VecDeque::new(),
            rest: Vec::new(),
            climbed: false,
            route_plan: None,
            stage: RequestStage::LookingUp,
            reason: Reason::NotFound,
            sentence: None,
            retry_after_ms: None,
            reports: 0,
            pending: (now, 0),
        }
    }

    /// True if one more `Pending` is to be passed on.
    pub(super) fn may_be_pending(&mut self, now: Time) -> bool {
        if now.since(self.pending.0) >= PENDING_SPAN {
            self.pending = (now, 0);
        }
        self.pending.1 = self.pending.1.saturating_add(1);
        self.pending.1 <= MAX_PENDING
    }

    /// True if it has not passed as many hubs as it may.
    pub(super) fn may_go_on(&self) -> bool {
        self.route_constraints.is_none_or(|carried| carried.hops > 0)
    }

    /// True if another hub passes on this very request, and not one that was refused
    /// with a specification that may be met elsewhere.
    pub(super) fn is_same(&self, passed: &PassedRequest) -> bool {
        let hops = |target: Option<CopyTarget>| target.map(|target| target.hops);
        let is_refused = matches!(self.stage, RequestStage::Declined { .. });
        let is_new = is_refused && hops(self.copy_target) != hops(passed.request.copy_target);
        self.nonce == passed.request.nonce && self.named_provider() == passed.hop.provider && !is_new
    }

    /// True if hubs above or beside this one are asked.
    pub(super) fn is_beyond(&self) -> bool {
        match self.stage {
            RequestStage::Handed { to: RequestTarget::Hub { way, .. }, .. } => way != RouteDirection::Down,
            RequestStage::LookingUp => true,
            _ => false,
        }
    }

    /// True if the hub to which the request has gone passes it on here. Two hubs that each know the other to have
    /// something would wait for one another. What is relayed has another number there, so it comes as a repetition.
    pub(super) fn is_back_from(&self, passing: NodeId) -> bool {
        let RequestStage::Handed { to: RequestTarget::Hub { hub, .. }, relay: None, .. } = self.stage else {
            return false;
        };
        hub == passing
    }

    /// The only provider that is meant.
    pub(crate) fn named_provider(&self) -> Option<NodeId> {
        let by_requester = || self.copy_target.and_then(|target| target.provider).or(self.connect_to);
        match self.route_constraints {
            Some(carried) => carried.provider,
            None => by_requester(),
        }
    }

    /// Cell in which the provider should be, if that is known.
    pub(crate) fn target_cell(&self) -> Option<Cell> {
        let named = match self.stage {
            RequestStage::Handed { to: RequestTarget::Hub { named: Some((_, cell)), .. }, .. } => Some(cell),
            _ => None,
        };
        named.or(self.cell)
    }

    pub(crate) fn copy_wanted(&self) -> Option<CopyTarget> {
        self.overflow.map(|overflow| overflow.reflect).or(self.copy_target)
    }

    /// The remote that has it and answers to the requester, a hub or the provider.
    pub(crate) fn handed_to(&self) -> Option<NodeId> {
        match self.stage {
            RequestStage::Handed { to, relay: None, .. } => Some(to.remote()),
            _ => None,
        }
    }

    /// The hub that was asked to reflect something in this one's place, and
    /// whose stream.
    pub(crate) fn overflow_hub(&self) -> Option<(NodeId, NodeId)> {
        match self.stage {
            RequestStage::Handed {
                to: RequestTarget::Hub { hub, way: RouteDirection::Overflow, named, .. }, ..
            } => named.map(|(provider, _)| (hub, provider)),
            _ => None,
        }
    }

    /// True if a provider's home wants the stream reflected in its place.
    pub(crate) fn is_overflow_here(&self) -> bool {
        self.is_from_hub() && self.route_plan.is_some_and(|course| course.way == RouteDirection::Overflow)
    }

    /// True if only a way to a node is wanted.
    pub(super) fn is_connect(&self) -> bool {
        self.connect_to.is_some()
    }

    pub(super) fn is_reflected(&self) -> bool {
        self.copy_target.is_some()
    }

    pub(crate) fn transports(&self) -> SchemeSet {
        self.spec.transports
    }

    pub(crate) fn is_from_hub(&self) -> bool {
        self.route_constraints.is_some()
    }

    /// True if the hub carries the answer from the start.
    pub(super) fn is_relay(&self) -> bool {
        self.mode == RequestMode::Relay
    }

    /// True if it can be forgotten for the sake of a newer one: what follows
    /// goes on without the hub, or is nothing.
    pub(super) fn is_forgettable(&self) -> bool {
        matches!(
            self.stage,
            RequestStage::Handed { relay: None, hop_due: None, .. }
                | RequestStage::Handed { accepted: true, .. }
                | RequestStage::Held { .. }
                | RequestStage::Declined { .. }
        )
    }

    pub(super) fn relay(&self) -> Option<RequestId> {
        match self.stage {
            RequestStage::Handed { relay, .. } => relay,
            _ => None,
        }
    }

    /// The requester by whose number the hub that passed the request on calls it.
    pub(super) fn named_requester(&self) -> Option<NodeId> {
        (self.is_from_hub() && !self.is_relay()).then_some(self.requester)
    }

    /// True while it waits for a provider to come.
    pub(super) fn is_held(&self) -> bool {
        matches!(self.stage, RequestStage::Held { .. })
    }
}

impl RequestStage {
    /// Time at which the hub looks after it, if nothing comes before.
    pub(super) fn due(&self) -> Option<Time> {
        match self {
            Self::Handed { hop_due, .. } => *hop_due,
            Self::Held { until } => Some(*until),
            Self::LookingUp | Self::Dialling(_) | Self::Declined { .. } => None,
        }
    }
}

impl RequestTarget {
    /// The remote that gets the request.
    pub(super) fn remote(self) -> NodeId {
        match self {
            Self::Node(node) => node,
            Self::Hub { hub, .. } => hub,
        }
    }

    /// The provider, if it is one of this hub's.
    pub(crate) fn node(self) -> Option<NodeId> {
        match self {
            Self::Node(node) => Some(node),
            Self::Hub { .. } => None,
        }
    }

    /// The provider, if that is known.
    pub(crate) fn provider(self) -> Option<NodeId> {
        match self {
            Self::Node(node) => Some(node),
            Self::Hub { named, .. } => named.map(|(node, _)| node),
        }
    }

    /// True if another hub is to reflect what is of a provider here.
    pub(crate) fn is_overflow(self) -> bool {
        matches!(self, Self::Hub { way: RouteDirection::Overflow, .. })
    }
}

/// Time at which an acceptance is of no use any more.
fn until(now: Time, deadline_ms: u32) -> Time {
    now + Duration::from_millis(deadline_ms.into()).min(MAX_DEADLINE)
}
