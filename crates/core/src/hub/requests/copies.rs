//! Copies of reflected streams that requests are for: which are granted here, and what opens them.

use std::net::SocketAddr;

use roost_policy::Action;
use roost_wire::messages::{CopyTarget, Reason, RouteDirection, SealedKeys};
use roost_wire::reflection::{DownstreamKind, StartCondition};
use roost_wire::{Cell, ConnectionId, NodeId, ReflectionGrant, RequestId, Service};

use super::routed_request::{Granted, RequestTarget, RoutedRequest};
use super::table::RequestTable;
use super::{RequestTurn, Requests};
use crate::hub::ReflectionConfig;
use crate::hub::core::HubCore;
use crate::hub::reflection::{CopySource, KeyRequest, OverflowPlan, StreamCopy, kind_of};
use crate::hub::sender::Sender;
use crate::request_key::RequestKey;

/// The most super nodes that reflect a stream one after the other: the
/// provider's home, the subscriber's, and one between them.
const MAX_REFLECTING: u8 = 3;

impl Requests {
    /// Lets a copy of the stream that a request is for go on to whoever asked,
    /// if this hub is one that reflects it. On an error there is no room.
    pub(super) fn grant_copy(
        &mut self,
        turn: &mut RequestTurn<'_>,
        key: RequestKey,
        choice: RequestTarget,
    ) -> Result<(), Reason> {
        self.forget_overflow(turn.core, key, choice);
        let Some(asked) = self.table.get(key) else { return Ok(()) };
        let place = self.cell_of(turn, key, choice.provider()).or(asked.target_cell());
        let may_reflect = turn.core.own.permits(Action::Reflect, Some(asked.spec.service), place);
        let reflects = |reflect: &CopyTarget| may_reflect && turn.core.reflects(asked, *reflect, choice);
        let Some(reflect) = asked.copy_wanted().filter(reflects) else {
            self.table.set_granted(key, None);
            self.reflection.release(key);
            return Ok(());
        };
        let (provider, requester) = (choice.provider().or(asked.named_provider()), asked.requester);
        if asked.granted.is_none() {
            let to = turn.core.seen_from(reflect.to, asked.connection);
            let copy = StreamCopy { to, kind: kind_of(reflect), service: asked.spec.service, provider };
            if self.overflows(turn, key, choice, &copy)? {
                self.reflection.release(key);
                return Ok(());
            }
            self.reflection.admit_copy(turn.core, key, requester, copy)?;
        }
        // Another choice must not be taken for the one before.
        let tag = self.reflection.next_tag();
        self.table.set_granted(key, Some(Granted { tag, provider }));
        Ok(())
    }

    /// True if another hub is to reflect the copy instead of this one.
    ///
    /// # Errors
    /// Others are tried before `choice`, with which this hub serves it itself if it can.
    fn overflows(
        &mut self,
        turn: &RequestTurn<'_>,
        key: RequestKey,
        choice: RequestTarget,
        copy: &StreamCopy,
    ) -> Result<bool, Reason> {
        let Some(asked) = self.table.get(key).filter(|asked| !asked.elsewhere && !asked.is_overflow_here()) else {
            return Ok(false);
        };
        let source = match choice {
            RequestTarget::Node(provider) => CopySource::Provider(provider),
            RequestTarget::Hub { hub, .. } => CopySource::Hub(hub),
        };
        match self.reflection.plan_overflow(turn.core, turn.view.members, copy, source, asked.remote) {
            OverflowPlan::Here => Ok(false),
            OverflowPlan::PassOn => {
                self.table.send_elsewhere(key, std::iter::empty());
                Ok(true)
            }
            OverflowPlan::At(hubs) => {
                let provider = choice.provider();
                let Some(cell) = self.cell_of(turn, key, provider) else { return Ok(false) };
                let (named, reason) = (provider.map(|provider| (provider, cell)), asked.reason);
                let overflow = |hub| RequestTarget::Hub { hub, way: RouteDirection::Overflow, named, silences: 0 };
                let choices: Vec<RequestTarget> = hubs.into_iter().map(overflow).chain([choice]).collect();
                self.table.send_elsewhere(key, choices.into_iter());
                Err(reason)
            }
        }
    }

    /// The cell of the provider of a request. Without a provider it could mean another one's stream.
    pub(super) fn cell_of(&self, turn: &RequestTurn<'_>, key: RequestKey, provider: Option<NodeId>) -> Option<Cell> {
        let held = turn.view.records.get(provider?).map(|entry| entry.cell());
        held.or_else(|| self.table.get(key)?.target_cell())
    }

    /// Another hub passes the same request on, and wants the copy: the one before
    /// may be gone.
    pub(super) fn grant_again(&mut self, key: RequestKey, reflect: Option<CopyTarget>) {
        let tag = self.reflection.next_tag();
        if self.table.get(key).is_some_and(|asked| asked.copy_target != reflect) {
            self.table.set_reflect(key, reflect, tag);
        }
    }

    /// Tells the owner of what was granted for a request.
    pub(super) fn tell_grant(&mut self, turn: &mut RequestTurn<'_>, key: RequestKey) {
        let Some(asked) = self.table.get(key) else { return };
        let (Some(granted), Some(reflect)) = (asked.granted, asked.copy_wanted()) else { return };
        let Granted { tag, provider } = granted;
        let (to, service) = (turn.core.seen_from(reflect.to, asked.connection), asked.spec.service);
        let (cell, requester) = (self.cell_of(turn, key, provider), asked.requester);
        let (their_tag, kind, begin) = (reflect.tag, kind_of(reflect), turn.core.begin(to, reflect, asked.connection));
        let grant = ReflectionGrant { tag, to, their_tag, kind, service, cell, provider, begin };
        self.reflection.tell_grant(turn.core, key, requester, grant);
    }

    /// Another hub says which provider has a request.
    pub(crate) fn found_provider(&mut self, turn: &mut RequestTurn<'_>, key: RequestKey, provider: NodeId) {
        let Some(granted) = self.table.get(key).and_then(|asked| asked.granted) else { return };
        if granted.provider.is_none() {
            self.table.set_granted(key, Some(Granted { provider: Some(provider), ..granted }));
            self.tell_grant(turn, key);
        }
    }

    /// A request for a provider's stream has gone on: who asked gets what opens
    /// it, if that is here, or once it comes.
    pub(super) fn hand_keys(&mut self, core: &mut HubCore, key: RequestKey, provider: NodeId) {
        let Some(asked) = self.table.get(key).filter(|asked| asked.is_reflected()) else { return };
        let Some(source) = asked.handed_to() else { return };
        let (service, connection, is_granted) = (asked.spec.service, asked.connection, asked.granted.is_some());
        let hub = asked.is_from_hub().then_some(asked.remote);
        if hub.is_some() || is_granted {
            let wanted = KeyRequest { service, provider, source, is_granted, hub };
            self.reflection.sealed_keys.hand_keys(core, wanted, connection, key.id);
        }
    }

    /// A provider, or the hub that is nearer to it, says what opens its stream.
    pub(crate) fn handle_keys(&mut self, core: &mut HubCore, from: Sender, keys: SealedKeys) {
        let Self { table, reflection, .. } = self;
        let granted = |service, provider| table.granted_requests(from.node, service, provider);
        reflection.sealed_keys.handle_keys(core, from, keys, granted);
    }
}

impl RequestTable {
    /// The requests of this hub's nodes that `remote` has and that were granted a copy of this stream; one
    /// that has gone on to another provider's is none.
    fn granted_requests(&self, remote: NodeId, service: Service, provider: NodeId) -> Vec<(ConnectionId, RequestId)> {
        let is_of = |asked: &RoutedRequest| {
            let granted = asked.granted.and_then(|granted| granted.provider);
            let is_handed = asked.handed_to() == Some(remote) && !asked.is_from_hub();
            is_handed && asked.spec.service == service && granted == Some(provider)
        };
        let granted = self.iter().filter(|(_, asked)| is_of(asked));
        granted.map(|(key, asked)| (asked.connection, key.id)).collect()
    }
}

impl HubCore {
    /// The destination of a copy that this hub tells the next one.
    pub(super) fn copy_onward(&self, asked: &RoutedRequest, relayed: bool) -> Option<CopyTarget> {
        let wanted = asked.copy_wanted()?;
        match (asked.granted, self.config.reflection) {
            // Whoever relays an answer would see what opens the stream.
            (_, _) if relayed => None,
            (Some(granted), Some(ReflectionConfig { media, .. })) => Some(CopyTarget {
                to: media,
                tag: granted.tag,
                hops: wanted.hops.saturating_add(1),
                provider: None,
                is_resuming: None,
            }),
            (_, _) => Some(CopyTarget { to: self.seen_from(wanted.to, asked.connection), provider: None, ..wanted }),
        }
    }

    /// True if this hub reflects what is asked for: as the home of who asks, as
    /// the home of who provides, in that one's place, or as the layer between.
    /// One that leaves does not begin.
    fn reflects(&self, asked: &RoutedRequest, reflect: CopyTarget, choice: RequestTarget) -> bool {
        let Some(ReflectionConfig { layers, .. }) = self.config.reflection.filter(|_| self.leaving.is_none()) else {
            return false;
        };
        let at_an_end = choice.node().is_some() || asked.is_overflow_here() || !asked.is_from_hub() && !asked.elsewhere;
        reflect.hops < MAX_REFLECTING && (at_an_end || layers > 1 && reflect.hops == 1)
    }

    /// The time from which who asks over `connection` is sent a copy. A super node may have the stream from
    /// elsewhere, and says so when it answers.
    fn begin(&self, to: SocketAddr, reflect: CopyTarget, connection: ConnectionId) -> StartCondition {
        let seen = self.remotes.connections.get(&connection).and_then(|connection| connection.address.primary());
        let is_there = seen.is_some_and(|seen| seen.ip().to_canonical() == to.ip().to_canonical());
        match kind_of(reflect) {
            _ if reflect.is_resuming == Some(true) => StartCondition::Resumed,
            DownstreamKind::Subscriber if is_there => StartCondition::Offered,
            DownstreamKind::Subscriber | DownstreamKind::Reflector => StartCondition::Answered,
        }
    }
}
