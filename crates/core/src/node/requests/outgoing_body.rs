//! The body of a call, and the providers that have it. Each provider gets it for one run, so that none runs a call twice.

use bytes::Bytes;
use roost_wire::messages::{CallBody, Chunk, MAX_BODY_BYTES, ServiceRequest};
use roost_wire::{ConnectionId, NodeId, RequestId};

use crate::flow::{BODY_CHUNK_BYTES, MAX_BODY_TIMES};

/// The most providers that get the body of one call.
const MAX_RUNS: usize = 16;

/// The body of a call, and the providers that have it.
#[derive(Debug, Default)]
pub(super) struct OutgoingBody {
    bytes: Bytes,
    runs: Vec<CallRun>,
}

#[derive(Clone, Copy, Debug)]
struct CallRun {
    provider: NodeId,
    run: u64,
    way: BodyWay,
    times: u8,
    /// False once the provider was told to stop.
    is_wanted: bool,
}

/// The way to a provider that asks for the body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum BodyWay {
    /// A connection of the provider itself delivers all that was sent, unless it breaks.
    Direct(ConnectionId),
    /// A hub relays, and may lose what it has when the connection beyond breaks.
    Relayed(ConnectionId),
}

/// The answer to a provider that asks for the body.
pub(super) enum BodyClaim {
    Given,
    /// The provider is getting it, or may not have it so often.
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

    /// The connections of providers that have the body and were not told to stop, besides those of hubs.
    pub(super) fn direct_runs(&self) -> impl Iterator<Item = ConnectionId> {
        self.runs.iter().filter(|run| run.is_wanted).filter_map(|run| match run.way {
            BodyWay::Direct(connection) => Some(connection),
            BodyWay::Relayed(_) => None,
        })
    }

    pub(super) fn claim(&mut self, provider: NodeId, run: u64, way: BodyWay) -> BodyClaim {
        let Some(known) = self.runs.iter_mut().find(|known| known.provider == provider) else {
            if self.runs.len() >= MAX_RUNS {
                return BodyClaim::TooMany;
            }
            self.runs.push(CallRun { provider, run, way, times: 1, is_wanted: true });
            return BodyClaim::Given;
        };
        if known.run != run || !known.is_wanted {
            return BodyClaim::Lost;
        }
        let is_under_way = known.way == way && matches!(way, BodyWay::Direct(_));
        if is_under_way || known.times >= MAX_BODY_TIMES {
            return BodyClaim::Ignored;
        }
        known.times += 1;
        known.way = way;
        BodyClaim::Given
    }

    /// The hub through which another run of a provider has the body, if this one came through a hub, too.
    pub(super) fn other_relay(&self, provider: NodeId, run: u64, way: BodyWay) -> Option<ConnectionId> {
        let known = self.runs.iter().find(|known| known.provider == provider && known.run != run && known.is_wanted)?;
        match (known.way, way) {
            (BodyWay::Relayed(other), BodyWay::Relayed(hub)) if other != hub => Some(other),
            _ => None,
        }
    }

    /// The pieces from `offset` on; an empty one of an empty body.
    pub(super) fn pieces(&self, id: RequestId, offset: u32) -> Vec<Chunk> {
        let since = (offset as usize).min(self.bytes.len());
        let starts: Vec<usize> =
            if self.bytes.is_empty() { vec![0] } else { (since..self.bytes.len()).step_by(BODY_CHUNK_BYTES).collect() };
        let end = |start: usize| (start + BODY_CHUNK_BYTES).min(self.bytes.len());
        let piece = |start| Chunk { id, offset: start as u64, payload: self.bytes.slice(start..end(start)) };
        starts.into_iter().map(piece).collect()
    }

    /// Ends the runs of all providers but the one that has accepted, and gives the connections over which they are told.
    pub(super) fn end_runs(&mut self, accepted: Option<NodeId>) -> Vec<ConnectionId> {
        let open = |run: &&mut CallRun| run.is_wanted && Some(run.provider) != accepted;
        let ended = self.runs.iter_mut().filter(open).map(|run| {
            run.is_wanted = false;
            let (BodyWay::Direct(connection) | BodyWay::Relayed(connection)) = run.way;
            connection
        });
        ended.collect()
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
        let body = OutgoingBody::new(Bytes::from(vec![1; 3 * BODY_CHUNK_BYTES + 5]));
        let lengths = |offset| body.pieces(ID, offset).iter().map(|piece| piece.payload.len()).collect::<Vec<_>>();
        assert_eq!(lengths(0), [BODY_CHUNK_BYTES, BODY_CHUNK_BYTES, BODY_CHUNK_BYTES, 5]);
        assert_eq!(lengths(3 * BODY_CHUNK_BYTES as u32), [5]);
        assert!(lengths(u32::MAX).is_empty());
        let empty = OutgoingBody::default().pieces(ID, 0);
        assert!(empty.len() == 1 && empty[0].payload.is_empty());
    }

    #[test]
    fn provider_gets_one_run() {
        let mut body = OutgoingBody::new(Bytes::from_static(b"b"));
        let mut connections = 0;
        let mut given = |provider, run| {
            connections += 1;
            let way = BodyWay::Direct(ConnectionId(connections));
            matches!(body.claim(node(provider), run, way), BodyClaim::Given)
        };
        assert!(given(1, 7) && given(1, 7), "over another connection it gets the body again");
        assert!(!given(1, 8), "another run is another execution");
        assert!(given(2, 8), "another provider may run it");
        assert_eq!((0..100).filter(|_| given(1, 7)).count(), usize::from(MAX_BODY_TIMES) - 2);
        assert_eq!((3..100).filter(|number| given(*number, 1)).count(), MAX_RUNS - 2);
    }

    #[test]
    fn second_hub_relays_another_run() {
        let mut body = OutgoingBody::new(Bytes::from_static(b"b"));
        let hubs = [1, 2].map(|number| BodyWay::Relayed(ConnectionId(number)));
        body.claim(node(1), 7, hubs[0]);
        assert_eq!(body.other_relay(node(1), 8, hubs[1]), Some(ConnectionId(1)));
        assert_eq!(body.other_relay(node(1), 7, hubs[1]), None, "the same run");
        assert_eq!(body.other_relay(node(1), 8, hubs[0]), None, "the provider has lost its run");
        assert_eq!(body.other_relay(node(1), 8, BodyWay::Direct(ConnectionId(3))), None);
        assert_eq!(body.other_relay(node(2), 8, hubs[1]), None, "another provider may run it");
    }

    #[test]
    fn body_goes_once_over_a_connection() {
        let mut body = OutgoingBody::new(Bytes::from_static(b"b"));
        let mut given = |way| matches!(body.claim(node(1), 7, way), BodyClaim::Given);
        let (direct, relayed) = (BodyWay::Direct(ConnectionId(1)), BodyWay::Relayed(ConnectionId(2)));
        assert!(given(direct) && !given(direct), "it is on its way");
        assert!(given(relayed) && given(relayed), "the hub may have lost it");
        assert!(given(direct), "what the connection had is not known any more");
    }
}
