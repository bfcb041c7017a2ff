//! Another hub that was asked, and its silence.

use roost_wire::messages::{Reason, RouteDirection};
use roost_wire::{ConnectionId, RequestId, Time};

use super::routed_request::{RequestStage, RequestTarget, RoutedRequest};
use crate::hub::core::HubCore;
use crate::hub::requests::{RequestTurn, Requests};
use crate::hub::route::ASKS;
use crate::hub::sender::Sender;
use crate::request_key::RequestKey;

impl Requests {
    /// A hub has not said in time that it has the request: the next one is asked, and this one again in the end, more often
    /// if there is no other. A relay would end at its provider, and a call may run there. So these go to the same hub once more
    /// first.
    pub(crate) fn on_hop_timeout(&mut self, turn: &mut RequestTurn<'_>, key: RequestKey) {
        let Some(asked) = self.table.get_mut(key) else { return };
        let RequestStage::Handed { to, relay, .. } = asked.stage else { return };
        let RequestTarget::Hub { hub, way, named, silences } = to else { return };
        turn.core.counters.hop_timeouts += 1;
        let was_unresponsive = turn.core.remotes.is_unresponsive(hub);
        turn.core.remotes.mark_unresponsive(hub);
        let again = RequestTarget::Hub { hub, way, named, silences: silences + 1 };
        let is_kept = relay.is_some() || asked.spec.service.is_call();
        if is_kept && silences == 0 && !was_unresponsive {
            return self.resend_to_hub(turn, key, again, relay);
        }
        let asks = if asked.choices.is_empty() { ASKS } else { ASKS - 1 };
        if silences + 1 < asks {
            asked.choices.push_back(again);
        }
        let is_first = silences <= u8::from(is_kept) && way == RouteDirection::Down;
        if let Some((provider, _)) = named.filter(|(node, _)| is_first && turn.core.remotes.is_up(*node)) {
            // Nothing has to be between it and this hub.
            let itself = RequestTarget::Node(provider);
            asked.choices.retain(|choice| *choice != itself);
            asked.rest.retain(|choice| *choice != itself);
            asked.choices.push_front(itself);
        }
        self.give_up(turn, key, to, relay, Reason::for_silence(way));
    }

    /// The repetition goes the same way as the request, which must be confirmed anew.
    pub(super) fn resend_to_hub(
        &mut self,
        turn: &mut RequestTurn<'_>,
        key: RequestKey,
        to: RequestTarget,
        relay: Option<RequestId>,
    ) {
        let now = turn.core.now;
        let Some(connection) = turn.core.connection_to(to.remote()) else {
            return self.give_up(turn, key, to, relay, Reason::Unreachable);
        };
        turn.core.counters.repeats += 1;
        let hop_due = turn.core.hop_due(connection, to);
        let (repeats, accepted) = (1, false);
        self.table.set_stage(key, RequestStage::Handed { to, relay, sent: now, repeats, accepted, hop_due });
        self.hand_again(turn, key, connection, to, relay);
    }

    /// The first answer to a request that was not repeated measures the way.
    pub(crate) fn time_hop(&mut self, core: &mut HubCore, from: Sender, key: RequestKey) {
        let now = core.now;
        if let Some(RoutedRequest { stage: RequestStage::Handed { sent, repeats: 0, hop_due: Some(_), .. }, .. }) =
            self.table.get(key)
        {
            core.remotes.record_rtt(from.connection, now.since(*sent));
        }
    }

    /// Another hub has the request and takes care of it: it says so, or what it says shows it.
    pub(crate) fn end_hop_wait(&mut self, key: RequestKey) {
        let Some(RoutedRequest { stage, .. }) = self.table.get(key) else { return };
        if let RequestStage::Handed { to, relay, sent, repeats, accepted, hop_due: Some(_) } = *stage {
            let to = match to {
                RequestTarget::Hub { hub, way, named, .. } => RequestTarget::Hub { hub, way, named, silences: 0 },
                RequestTarget::Node(_) => to,
            };
            self.table.set_stage(key, RequestStage::Handed { to, relay, sent, repeats, accepted, hop_due: None });
        }
    }
}

impl HubCore {
    /// Time at which another hub should have said that it has a request.
    pub(super) fn hop_due(&self, connection: ConnectionId, to: RequestTarget) -> Option<Time> {
        let now = self.now;
        to.node().is_none().then(|| now + self.remotes.answer_timeout(connection))
    }
}

#[cfg(test)]
mod tests {
    use crate::hub::testing::*;

    /// A hub beside another one, at which a provider is, and a relayed request that went there under this number.
    fn relaying() -> (Bench, ConnectionId, ConnectionId, RequestId) {
        let mut bench = Bench::new();
        let (requester, other) = (bench.requester(2), bench.up(101, Role::SuperNode));
        bench.say(other, ReplicationMessage::ReplicaUpdate(copies(vec![record(1)])));
        let sent = bench.ask(requester, request(1, RequestMode::Relay));
        let [relay] = numbers(&sent, other)[..] else { panic!("{sent:?}") };
        (bench, requester, other, relay)
    }

    /// The numbers of requests that go to a hub.
    fn numbers(sent: &[(ConnectionId, Message)], hub: ConnectionId) -> Vec<RequestId> {
        let number = |(connection, message): &(ConnectionId, Message)| match message {
            Message::Request(RequestMessage::Request(request)) if *connection == hub => Some(request.id),
            _ => None,
        };
        sent.iter().filter_map(number).collect()
    }

    /// The next numbers of requests that go to a hub, if nobody says anything.
    fn next(bench: &mut Bench, hub: ConnectionId) -> Vec<RequestId> {
        let mut waits = (0..4_000).map(|_| numbers(&bench.wait(Duration::from_millis(1)), hub));
        waits.find(|numbers| !numbers.is_empty()).unwrap_or_default()
    }

    fn ack(id: RequestId) -> RequestMessage {
        RequestMessage::RequestAck { id, requester: None, provider: None }
    }

    #[test]
    fn relay_outlasts_one_silence() {
        let (mut bench, _, other, relay) = relaying();
        assert_eq!(next(&mut bench, other), [relay], "it goes to the hub again");
        let anew = next(&mut bench, other);
        assert!(anew.len() == 1 && anew != [relay], "a hub that is silent twice is given up: {anew:?}");
    }

    #[test]
    fn each_silence_counts_anew() {
        let (mut bench, requester, other, relay) = relaying();
        for _ in 0..4 {
            bench.say(other, ack(relay));
            bench.wait(Duration::from_millis(300));
            assert_eq!(numbers(&bench.ask(requester, request(1, RequestMode::Relay)), other), [relay]);
            assert_eq!(next(&mut bench, other), [relay], "one silence after the repetition ends nothing");
        }
    }

    /// An acceptance says as much as the acknowledgement that was lost.
    #[test]
    fn accepted_relay_goes_on() {
        let (mut bench, requester, other, relay) = relaying();
        let flow = FlowDescription::Stream { duration_ms: 9000, bits_per_second: 1000, format: String::new() };
        let nonce = request(1, RequestMode::Relay).nonce;
        let accept = Accept { id: relay, nonce, flow, cell: HERE, provider: Some(node(1)), stream_keys: None };
        let sent = bench.say(other, RequestMessage::Accept(accept));
        assert!(sent.iter().any(|(to, message)| *to == requester && matches!(message, Message::Request(RequestMessage::Accept(_)))));
        let later = bench.wait(Duration::from_secs(4));
        assert!(numbers(&later, other).is_empty(), "{later:?}");
        assert!(!later.iter().any(|(_, message)| matches!(message, Message::Flow(_))), "{later:?}");
    }
}
