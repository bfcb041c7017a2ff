//! Properties that hold whatever remotes say: random ones, from seeds.

mod crowd;
mod streams;

use std::collections::BTreeMap;
use std::time::Duration;

use bytes::Bytes;
use proptest::prelude::*;
use roost_wire::messages::{DirectoryMessage, Message, Reason, RequestMessage, RequestMode};
use roost_wire::{ConnectionId, RequestId, Role};

use super::testing::Bench;
use super::{HubCommand, Limits};
use crate::machine::Input;
use crowd::RandomRemotes;

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn tables_stay_bounded_and_drain(seed in any::<u64>()) {
        let limits = Limits {
            nodes: 4, connections: 10, requests: 12, requests_per_node: 4, relays: 5, relays_per_node: 2,
            watches: 6, watches_per_node: 2, hub_lookups: 3, joins_per_second: 2, lookups_per_second: 1_000,
            standby_connections: 2, block_services_per_hub: 5,
        };
        let mut crowd = RandomRemotes::new(seed, limits.clone());
        for _ in 0..300 {
            let sent = crowd.step();
            crowd.record_sent(&sent);
            let pause = Duration::from_millis(crowd.below(3_000));
            let sent = crowd.bench.wait(pause);
            crowd.record_sent(&sent);
            let status = crowd.bench.hub.status(crowd.bench.now);
            prop_assert!(status.nodes + status.replicas <= 4 && status.connections <= limits.connections && status.hub_lookups <= limits.hub_lookups);
            prop_assert!(status.numbered <= 4, "{} are numbered", status.numbered);
            prop_assert!(status.requests <= limits.requests && status.relays <= limits.relays);
            prop_assert!(status.watches <= limits.watches && status.block_services <= 2 * limits.block_services_per_hub);
        }
        for (connection, _) in crowd.connections.clone() {
            crowd.bench.down(connection);
        }
        crowd.bench.wait(Duration::from_secs(200));
        prop_assert_eq!(crowd.bench.hub.rooms.next_due(), None);
        let none = HubCommand::ReflectedStreams { streams: Vec::new() };
        crowd.bench.input(Input::Command(none));
        let status = crowd.bench.hub.status(crowd.bench.now);
        prop_assert_eq!((status.nodes, status.replicas, status.connections, status.requests), (0, 0, 0, 0));
        prop_assert_eq!((status.numbered, crowd.bench.hub.replication.next_due()), (0, None));
        prop_assert_eq!((status.relays, status.watches, status.hub_lookups), (0, 0, 0));
        prop_assert_eq!((status.block_services, status.announced), (0, 0));
        crowd.bench.input(Input::Command(HubCommand::Leave));
        prop_assert!(crowd.bench.events.contains(&super::HubEvent::Left));
    }

    #[test]
    fn a_request_gets_one_final_answer(seed in any::<u64>()) {
        let mut crowd = RandomRemotes::new(seed, Limits::default());
        let mut refusals: BTreeMap<RequestId, Reason> = BTreeMap::new();
        let mut locates: BTreeMap<RequestId, usize> = BTreeMap::new();
        for _ in 0..200 {
            let mut sent = crowd.step();
            let pause = Duration::from_millis(crowd.below(100));
            sent.extend(crowd.bench.wait(pause));
            crowd.record_sent(&sent);
            for (connection, message) in sent {
                let own = |id: RequestId| crowd.requests.iter().find(|(_, request)| request.id == id);
                let whose = |connection: ConnectionId| crowd.connections.iter().find(|(other, _)| *other == connection).map(|(_, number)| *number);
                match message {
                    Message::Request(RequestMessage::Decline(decline)) if own(decline.id).is_some() && whose(connection).is_some_and(|n| n < 100) => {
                        let first = *refusals.entry(decline.id).or_insert(decline.reason);
                        prop_assert_eq!(first, decline.reason);
                        prop_assert!(decline.sentence.is_none() || decline.reason == Reason::SourceFailed);
                    }
                    Message::Request(RequestMessage::Accept(accept)) => {
                        prop_assert!(!refusals.contains_key(&accept.id), "accepted after a refusal");
                    }
                    Message::Directory(DirectoryMessage::LookupResult(found)) if whose(connection).is_some_and(|n| n < 100) => {
                        *locates.entry(found.id).or_default() += 1;
                    }
                    _ => {}
                }
            }
        }
        for (id, answers) in locates {
            let mode = crowd.requests.iter().find(|(_, request)| request.id == id).map(|(_, request)| request.spec.mode);
            prop_assert_eq!(mode, Some(RequestMode::Lookup), "{} answers to {:?}", answers, id);
        }
    }

    #[test]
    fn random_bytes_only_count_as_malformed(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        let mut bench = Bench::new();
        let connection = bench.up(1, Role::Node);
        let before = bench.hub.status(bench.now);
        if Message::decode(&bytes).is_err() {
            let sent = bench.input(Input::Message { connection, message: Bytes::from(bytes) });
            prop_assert!(sent.iter().all(|(_, message)| matches!(message, Message::Request(RequestMessage::Decline(_)))), "{sent:?}");
            prop_assert_eq!(bench.hub.counters().malformed + bench.hub.counters().newer_version, 1);
            prop_assert_eq!(bench.hub.status(bench.now), before);
        }
    }
}
