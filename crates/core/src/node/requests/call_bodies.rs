//! The bodies of calls. A provider that has a call asks for the body and shows the request's secret.
//!
//! Each provider gets the body for one run: the first of which this node hears. So a provider runs a call at most once,
//! however often the request is repeated and whatever becomes of connections, sessions and daemons meanwhile.

use bytes::Bytes;
use roost_wire::messages::{BodyRequest, CallBody, Chunk, FlowMessage, MAX_BODY_BYTES, Reason, ServiceRequest};
use roost_wire::{Cell, ConnectionId, NodeId, RequestId, Role};

use super::OutgoingRequests;
use super::answers::PENDING_PATIENCE;
use super::outgoing_request::{OutgoingRequest, RequestPhase};
use super::permission::Offering;
use crate::flow::CHUNK_BYTES;
use crate::node::core::Core;
use crate::node::timers::Timer;

/// The most providers that get the body of one call.
const MAX_RUNS: usize = 16;

/// The times that one provider gets the body: again over another connection, or because it has asked twice.
const MAX_TIMES: u8 = 8;

/// The body of a call, and the providers that have it.
#[derive(Debug, Default)]
pub(super) struct OutgoingBody {
    bytes: Bytes,
    runs: Vec<CallRun>,
}

/// A provider that has the body.
#[derive(Clone, Copy, Debug)]
struct CallRun {
    provider: NodeId,
    run: u64,
    connection: ConnectionId,
    times: u8,
    /// False once the provider was told to stop.
    is_wanted: bool,
}

/// The answer to a provider that asks for the body.
enum Claim {
    Given,
    /// The provider has it, or may not have it so often.
    Ignored,
    TooMany,
    /// The provider had the call once, and has lost it.
    Lost,
}

impl OutgoingBody {
    pub(super) fn new(bytes: Bytes) -> Self {
        Self { bytes, runs: Vec::new() }
    }

    /// The objection to a request with this body.
    pub(super) fn objection(&self, request: &ServiceRequest) -> Option<&'static str> {
        match () {
            () if self.bytes.len() > MAX_BODY_BYTES => Some("the body of a call has at most 64 KiB"),
            () if !self.bytes.is_empty() && !request.service.is_call() => Some("a body is for calls alone"),
            () if request.service.is_call() && request.resume.is_some() => {
                Some("a call begins anew: there is nothing to resume")
            }
            () => None,
        }
    }

    pub(super) fn name(&self) -> Option<CallBody> {
        let name = || CallBody { digest: roost_wire::object::digest(&self.bytes), length: self.bytes.len() as u32 };
        (!self.bytes.is_empty()).then(name)
    }

    /// True if a provider may run the call, or have run it.
    pub(super) fn was_given(&self) -> bool {
        !self.runs.is_empty()
    }

    fn claim(&mut self, provider: NodeId, run: u64, connection: ConnectionId) -> Claim {
        let Some(known) = self.runs.iter_mut().find(|known| known.provider == provider) else {
            if self.runs.len() >= MAX_RUNS {
                return Claim::TooMany;
            }
            self.runs.push(CallRun { provider, run, connection, times: 1, is_wanted: true });
            return Claim::Given;
        };
        if known.run != run || !known.is_wanted {
            return Claim::Lost;
        }
        if known.times >= MAX_TIMES {
            return Claim::Ignored;
        }
        known.times += 1;
        known.connection = connection;
        Claim::Given
    }

    /// The pieces from `offset` on; an empty one of an empty body.
    fn pieces(&self, id: RequestId, offset: u32) -> Vec<Chunk> {
        let since = (offset as usize).min(self.bytes.len());
        let starts: Vec<usize> =
            if self.bytes.is_empty() { vec![0] } else { (since..self.bytes.len()).step_by(CHUNK_BYTES).collect() };
        let end = |start: usize| (start + CHUNK_BYTES).min(self.bytes.len());
        let piece = |start| Chunk { id, offset: start as u64, payload: self.bytes.slice(start..end(start)) };
        starts.into_iter().map(piece).collect()
    }
}

impl OutgoingRequest {
    /// Tells providers that have the body, but the one that has accepted, that nobody waits for them.
    pub(super) fn stop_runs(&mut self, core: &mut Core, id: RequestId, accepted: Option<NodeId>) {
        for run in self.body.runs.iter_mut().filter(|run| run.is_wanted && Some(run.provider) != accepted) {
            run.is_wanted = false;
            core.send_reliably(run.connection, id, FlowMessage::Stop { id, reason: Reason::Cancelled });
        }
    }
}

impl OutgoingRequests {
    /// A provider has a call and asks for its body.
    pub(crate) fn on_body_request(
        &mut self,
        core: &mut Core,
        here: Cell,
        connection: ConnectionId,
        wanted: BodyRequest,
    ) {
        let id = wanted.id;
        let Some(asked) = self.asked.get_mut(&id) else {
            core.counters.stale += 1;
            return core.send_reliably(connection, id, FlowMessage::Stop { id, reason: Reason::Cancelled });
        };
        let Some(entry) = core.connections.get_mut(connection) else { return };
        let provider = if entry.role == Role::Node { Some(entry.node) } else { wanted.provider };
        if asked.nonce != wanted.nonce {
            entry.own.guesses = entry.own.guesses.saturating_add(1);
        }
        let is_allowed = asked.request.transports.contains(entry.address.scheme);
        let Some(provider) = provider.filter(|_| asked.nonce == wanted.nonce && asked.request.service.is_call()) else {
            core.counters.refused += 1;
            return;
        };
        if let RequestPhase::Receiving(receiving) = &asked.phase {
            // What the accepting provider asks for late is of no use any more.
            if receiving.provider != provider {
                core.send_reliably(connection, id, FlowMessage::Stop { id, reason: Reason::Cancelled });
            }
            return;
        }
        if !is_allowed {
            core.counters.refused += 1;
            return core.send_reliably(connection, id, FlowMessage::Stop { id, reason: Reason::NoTransport });
        }
        if self.refuses_provider(core, connection, Offering { id, cell: wanted.cell }, here) {
            return;
        }
        self.give_body(core, connection, provider, wanted);
    }

    fn give_body(&mut self, core: &mut Core, connection: ConnectionId, provider: NodeId, wanted: BodyRequest) {
        let id = wanted.id;
        let Some(asked) = self.asked.get_mut(&id) else { return };
        let stop = |reason| FlowMessage::Stop { id, reason };
        match asked.body.claim(provider, wanted.run, connection) {
            Claim::Given => {}
            Claim::Ignored => return,
            Claim::TooMany => return core.send_reliably(connection, id, stop(Reason::TooMany)),
            Claim::Lost => {
                core.send_reliably(connection, id, stop(Reason::Cancelled));
                let lost = "the provider has lost the call, which it may have run: call again if it may run twice";
                return self.fail_because(core, id, Reason::Unreachable, lost.to_owned());
            }
        }
        asked.await_call(core, id, connection);
        for piece in asked.body.pieces(id, wanted.offset) {
            core.send_reliably(connection, id, FlowMessage::Body(piece));
        }
    }
}

impl OutgoingRequest {
    /// A provider has the call: it is waited for as for one that is on its way.
    fn await_call(&mut self, core: &mut Core, id: RequestId, connection: ConnectionId) {
        if matches!(self.phase, RequestPhase::Waiting) {
            self.answered(core);
        }
        self.phase = RequestPhase::Pending;
        core.timers.clear(Timer::MulticastSearch(id));
        if let Some(search) = &mut self.ways.multicast {
            search.over = true;
        }
        core.set(Timer::Ask(id), PENDING_PATIENCE.max(core.pto(connection) * 2));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ID: RequestId = RequestId(3);

    fn node(number: u8) -> NodeId {
        NodeId::from_bytes([number; 16])
    }

    #[test]
    fn body_is_cut_from_where_it_is_missing() {
        let body = OutgoingBody::new(Bytes::from(vec![1; 3 * CHUNK_BYTES + 5]));
        let lengths = |offset| body.pieces(ID, offset).iter().map(|piece| piece.payload.len()).collect::<Vec<_>>();
        assert_eq!(lengths(0), [CHUNK_BYTES, CHUNK_BYTES, CHUNK_BYTES, 5]);
        assert_eq!(lengths(3 * CHUNK_BYTES as u32), [5]);
        assert!(lengths(u32::MAX).is_empty());
        let empty = OutgoingBody::default().pieces(ID, 0);
        assert!(empty.len() == 1 && empty[0].payload.is_empty());
    }

    #[test]
    fn provider_gets_one_run() {
        let (mut body, connection) = (OutgoingBody::new(Bytes::from_static(b"b")), ConnectionId(1));
        let mut given = |provider, run| matches!(body.claim(node(provider), run, connection), Claim::Given);
        assert!(given(1, 7) && given(1, 7), "over another connection it gets the body again");
        assert!(!given(1, 8), "another run is another execution");
        assert!(given(2, 8), "another provider may run it");
        assert_eq!((0..100).filter(|_| given(1, 7)).count(), usize::from(MAX_TIMES) - 2);
        assert_eq!((3..100).filter(|number| given(*number, 1)).count(), MAX_RUNS - 2);
    }
}
