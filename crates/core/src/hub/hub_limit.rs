//! The limits of a hub, each with a name: what is declined or dropped is counted by the limit.

/// A limit that a message, a connection or a record has met.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
pub enum HubLimit {
    /// Requests, lookups, watches and hub lookups of one remote per second
    /// ([`Limits::lookups_per_second`](super::Limits::lookups_per_second)).
    QueryRate = 0,
    /// Messages of one node that make work for other hubs and watchers: publications, hub lookups,
    /// new watches, moves, rooms and sealed keys together.
    WorkRate = 1,
    /// Connections of the hub, with all remotes together.
    Connections = 2,
    /// Requests that the hub remembers, of all remotes together.
    Requests = 3,
    /// Requests of one remote that the hub remembers.
    RequestsPerNode = 4,
    /// Lookups at other hubs that are in progress, for all remotes together.
    HubLookups = 5,
    /// Lookups of one remote that wait for other hubs.
    HubLookupsPerNode = 6,
    /// Lookups and requests that wait for one and the same lookup at other hubs.
    HubLookupWaiters = 7,
    /// Flows that the hub relays, for all remotes together.
    Relays = 8,
    /// Flows that the hub relays for one remote.
    RelaysPerNode = 9,
    /// Watches that the hub keeps, of all remotes together.
    Watches = 10,
    /// Watches that the hub keeps of one remote.
    WatchesPerNode = 11,
    /// Rooms with at least one member at the hub.
    Rooms = 12,
    /// Members of one room at the same time.
    RoomMembers = 13,
    /// Rooms that one node is in at the same time.
    RoomsPerNode = 14,
    /// Records that a standby keeps of the nodes of one home.
    Replicas = 15,
    /// Hubs that are dialed only because they are standbys of nodes.
    StandbyConnections = 16,
    /// Hosts that the hub dials for one remote although the remote is not seen there.
    Dials = 17,
    /// Summaries that the hub keeps of one other hub.
    Summaries = 18,
    /// Nodes of which a cache keeps the server's answer.
    CachedNodes = 19,
    /// Answers to one request that its provider is on its way.
    PendingAnswers = 20,
    /// Sealed files that wait for nodes.
    Mailbox = 21,
}

impl HubLimit {
    /// All limits, each at the place of its number.
    pub const ALL: [Self; 22] = [
        Self::QueryRate,
        Self::WorkRate,
        Self::Connections,
        Self::Requests,
        Self::RequestsPerNode,
        Self::HubLookups,
        Self::HubLookupsPerNode,
        Self::HubLookupWaiters,
        Self::Relays,
        Self::RelaysPerNode,
        Self::Watches,
        Self::WatchesPerNode,
        Self::Rooms,
        Self::RoomMembers,
        Self::RoomsPerNode,
        Self::Replicas,
        Self::StandbyConnections,
        Self::Dials,
        Self::Summaries,
        Self::CachedNodes,
        Self::PendingAnswers,
        Self::Mailbox,
    ];

    /// The limit's name in metrics and in the log.
    pub const fn name(self) -> &'static str {
        match self {
            Self::QueryRate => "query_rate",
            Self::WorkRate => "work_rate",
            Self::Connections => "connections",
            Self::Requests => "requests",
            Self::RequestsPerNode => "requests_per_node",
            Self::HubLookups => "hub_lookups",
            Self::HubLookupsPerNode => "hub_lookups_per_node",
            Self::HubLookupWaiters => "hub_lookup_waiters",
            Self::Relays => "relays",
            Self::RelaysPerNode => "relays_per_node",
            Self::Watches => "watches",
            Self::WatchesPerNode => "watches_per_node",
            Self::Rooms => "rooms",
            Self::RoomMembers => "room_members",
            Self::RoomsPerNode => "rooms_per_node",
            Self::Replicas => "replicas",
            Self::StandbyConnections => "standby_connections",
            Self::Dials => "dials",
            Self::Summaries => "summaries",
            Self::CachedNodes => "cached_nodes",
            Self::PendingAnswers => "pending_answers",
            Self::Mailbox => "mailbox",
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::super::Limits;
    use super::*;
    use crate::hub::testing::*;

    type SetLimit = fn(&mut Limits);

    fn bench(limit: SetLimit) -> Bench {
        Bench::configured(|config| limit(&mut config.limits))
    }

    /// A lookup of an area that no other lookup of the test has.
    fn apart(id: u32) -> Request {
        request(id, RequestMode::Lookup).with(|spec| spec.area = Area::Nearest(Cell::new(id as i32, 0)))
    }

    /// The limits that were met so far, each with its count.
    fn counted(bench: &Bench) -> Vec<(HubLimit, u64)> {
        let counts = HubLimit::ALL.map(|limit| (limit, bench.hub.counters().over_limit(limit)));
        counts.into_iter().filter(|(_, count)| *count > 0).collect()
    }

    fn told(bench: &Bench) -> Vec<(NodeId, HubLimit)> {
        let limit = |event: &HubEvent| match event {
            HubEvent::OverLimit { node, limit } => Some((*node, *limit)),
            _ => None,
        };
        bench.events.iter().filter_map(limit).collect()
    }

    #[test]
    fn limit_has_own_name_and_place() {
        let names: BTreeSet<_> = HubLimit::ALL.into_iter().map(HubLimit::name).collect();
        assert_eq!(names.len(), HubLimit::ALL.len());
        for (index, limit) in HubLimit::ALL.into_iter().enumerate() {
            assert_eq!(limit as usize, index, "{limit:?}");
        }
        assert!(HubLimit::ALL.len() <= u32::BITS as usize, "a remote keeps a bit for each");
    }

    #[test]
    fn declined_lookup_counts_by_cause() {
        let limited: [(HubLimit, SetLimit); 3] = [
            (HubLimit::QueryRate, |limits| limits.lookups_per_second = 1),
            (HubLimit::HubLookups, |limits| limits.hub_lookups = 3),
            (HubLimit::HubLookupsPerNode, |limits| limits.requests_per_node = 3),
        ];
        for (cause, limit) in limited {
            let mut bench = bench(limit);
            bench.up(100, Role::SuperNode);
            let requester = bench.up(2, Role::Node);
            for id in 0..3 {
                bench.ask(requester, apart(id));
            }
            for id in 3..5 {
                assert_eq!(refused(&bench.ask(requester, apart(id))), (requester, Reason::TooMany), "{cause:?}");
            }
            assert_eq!(counted(&bench), [(cause, 2)]);
            assert_eq!(told(&bench), [(node(2), cause)], "once");
        }
    }

    #[test]
    fn limit_is_told_for_each_remote() {
        let mut bench = bench(|limits| limits.watches_per_node = 0);
        let services = ServiceSet::ALL;
        for number in [1, 2, 1] {
            let (id, area) = (RequestId(1), Area::Nearest(Cell::new(0, 0)));
            let watch = Watch { id, services: services.clone(), area, last_seen: 0, direction: None, names: None };
            let connection = bench.up(number, Role::Node);
            bench.say(connection, DirectoryMessage::Watch(watch));
        }
        assert_eq!(counted(&bench), [(HubLimit::WatchesPerNode, 3)]);
        assert_eq!(told(&bench), [(node(1), HubLimit::WatchesPerNode), (node(2), HubLimit::WatchesPerNode)]);
    }

    #[test]
    fn traced_request_reports_being_throttled() {
        let mut bench = bench(|limits| limits.lookups_per_second = 1);
        let requester = bench.up(1, Role::Node);
        bench.ask(requester, request(1, RequestMode::Forward));
        match &bench.ask(requester, request(2, RequestMode::Forward).with(|spec| spec.trace = true))[..] {
            [
                (_, Message::Request(RequestMessage::HopReport(HopReport { id, hop, .. }))),
                (_, Message::Request(RequestMessage::Decline(decline))),
            ] => {
                assert_eq!((*id, hop.node, hop.step), (RequestId(2), node(200), HopAction::Exhausted));
                assert_eq!((hop.reason, decline.reason), (Some(Reason::TooMany), Reason::TooMany));
            }
            other => panic!("{other:?}"),
        }
    }
}
