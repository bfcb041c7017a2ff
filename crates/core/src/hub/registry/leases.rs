//! Records that nodes publish, and their leases.

use roost_wire::messages::{HierarchyMessage, RegistrationMessage, Renew};
use roost_wire::{Address, Channel, ConnectionId, NodeId, Record, Version};

use super::Registry;
use crate::address_filter;
use crate::directory::{PreviousEntry, PublishOutcome};
use crate::hub::core::HubCore;
use crate::hub::remotes::publication_cost;
use crate::hub::sender::Sender;
use crate::hub::{HubEvent, HubLimit};
use crate::machine::Traffic;

impl Registry {
    pub(crate) fn take_record(&mut self, core: &mut HubCore, from: Sender, mut record: Record) -> PublishOutcome {
        core.filter_addresses(from, &mut record.addresses);
        let node = record.node;
        if self.directory.get(node).is_none() {
            self.make_room(core);
        }
        let now = core.now;
        let published = match self.directory.publish(now, &record) {
            // Nobody was to know a replica.
            PublishOutcome::Replaced(_) | PublishOutcome::Same if self.replicas.release(node) => PublishOutcome::New,
            published => published,
        };
        match published {
            PublishOutcome::New => {
                core.remotes.published_over(from.node, from.connection);
                self.note_distance(core, from);
            }
            PublishOutcome::Replaced(_) => core.remotes.published_over(from.node, from.connection),
            PublishOutcome::Same | PublishOutcome::Stale => core.detect_duplicate_identity(from),
            PublishOutcome::Full => core.counters.full += 1,
        }
        published
    }

    /// Prolongs a lease. False if the hub does not hold this version of the record where the node is now.
    pub(crate) fn prolong_lease(&mut self, core: &mut HubCore, from: Sender, renew: &Renew) -> bool {
        let now = core.now;
        let lacks_record =
            core.remotes.connections.get(&from.connection).is_some_and(|connection| connection.own.lacks_record);
        let is_own = !self.replicas.holds(from.node) && !lacks_record;
        if is_own && self.directory.renew(now, from.node, renew.version, renew.capacity) {
            core.counters.renews += 1;
            return true;
        }
        core.counters.unknown_renews += 1;
        if self.directory.get(from.node).is_some_and(|entry| entry.version() > renew.version) {
            core.detect_duplicate_identity(from);
        }
        false
    }

    /// Removes a node's own record. Gives where it was.
    pub(crate) fn take_out(&mut self, node: NodeId, version: Version) -> Option<PreviousEntry> {
        let place = self.directory.withdraw(node, version)?;
        (!self.replicas.release(node)).then_some(place)
    }

    /// True if this record is looked at now. A record of anybody else than the
    /// remote is refused: the certificate of the connection says whose word this is.
    pub(crate) fn may_publish(&mut self, core: &mut HubCore, from: Sender, record: &Record) -> bool {
        let now = core.now;
        if record.node != from.node {
            core.counters.foreign_records += 1;
            core.events.push_back(HubEvent::Refused {
                node: from.node,
                what: "it published the record of another node".into(),
            });
            return false;
        }
        if core.leaving.is_some() {
            return false;
        }
        if !core.remotes.get_mut(from.node).is_some_and(|node| node.try_charge(now, publication_cost(record))) {
            core.over_limit(from.node, HubLimit::WorkRate);
            return false;
        }
        self.directory.get(from.node).is_some() || self.join_limiter.admit(core, from)
    }

    /// Uses the round trip to a provider until it has answered something.
    fn note_distance(&mut self, core: &mut HubCore, from: Sender) {
        if let Some(connection) = core.remotes.connections.get(&from.connection) {
            self.directory.record_response_time(from.node, connection.rtt.smoothed());
        }
    }
}

impl HubCore {
    /// Puts the address at which a node is seen where it could not know its own, and
    /// drops those that nobody can be at.
    fn filter_addresses(&self, from: Sender, addresses: &mut Vec<Address>) {
        let seen = self.remotes.connections.get(&from.connection).and_then(|connection| connection.address.primary());
        if let Some(seen) = seen {
            *addresses = address_filter::filter_dialable(std::mem::take(addresses), seen.ip());
        }
    }

    /// A remote is seen at another address. What a node has published names the
    /// former one where the node could not know its own, so it is asked for anew.
    pub(crate) fn connection_moved(&mut self, connection: ConnectionId, address: Address) {
        let Some(known) = self.remotes.connections.get_mut(&connection) else { return };
        let ip = |address: &Address| address.primary().map(|at| at.ip());
        let is_elsewhere = ip(&known.address) != ip(&address);
        known.address = address;
        known.own.lacks_record |= is_elsewhere;
        let node = known.node;
        let published_over = self.remotes.get_mut(node).and_then(|remote| remote.publisher);
        if is_elsewhere && published_over == Some(connection) {
            self.send(connection, Channel::Datagram, Traffic::Renew, RegistrationMessage::UnknownVersion);
        }
    }

    /// Tells other hubs that the node is here now.
    pub(crate) fn claim(&mut self, node: NodeId, version: Version) {
        let claim = HierarchyMessage::Claim { node, version };
        self.send_to_siblings(claim);
    }

    /// Notes when a node speaks of a version that is no newer than the held one,
    /// and that one has come over another connection which is still up: a daemon's
    /// versions only grow, so these are two.
    fn detect_duplicate_identity(&mut self, from: Sender) {
        let Some(remote) = self.remotes.get_mut(from.node) else { return };
        let name = remote.name.clone();
        let other = remote.publisher.filter(|publisher| *publisher != from.connection);
        if other.is_some_and(|other| self.remotes.connections.contains_key(&other)) {
            self.events.push_back(HubEvent::DuplicateIdentity { node: from.node, name });
        }
    }

    /// True if the version of a node that another hub tells can be true. It is counted if not.
    pub(crate) fn is_plausible(&mut self, version: Version) -> bool {
        let now = self.now;
        let up = self.started.map_or(0, |started| now.since(started).as_secs());
        // Without a clock nothing is too late.
        let clock = Some(self.config.epoch).filter(|epoch| *epoch > 0).unwrap_or(u32::MAX);
        let plausible = version.is_plausible(clock.saturating_add(u32::try_from(up).unwrap_or(u32::MAX)));
        self.counters.refused_by_role += u64::from(!plausible);
        plausible
    }
}

#[cfg(test)]
mod tests {
    use std::net::SocketAddr;

    use super::*;
    use crate::hub::testing::*;

    #[test]
    fn publish_grants_lease_and_fills_address() {
        let mut bench = Bench::new();
        let connection = bench.up(1, Role::Node);
        let mut sent = record(1);
        sent.addresses = vec![Address::single(Scheme::Udp, SocketAddr::from(([0, 0, 0, 0], 9)))];
        let answer = bench.say(connection, RegistrationMessage::Publish(sent));
        assert_eq!(
            answer,
            [(
                connection,
                Message::Registration(RegistrationMessage::Lease {
                    version: version(1),
                    lease_ms: 60_000,
                    siblings: None,
                    addresses: None,
                    media: None
                })
            )]
        );
        let held = &bench.hub.index(bench.now, None, 10)[0];
        assert_eq!(held.addresses, [Address::single(Scheme::Udp, SocketAddr::from(([10, 0, 0, 1], 9)))]);
        assert!(held.connected && held.expires_in == Duration::from_secs(60));
    }

    #[test]
    fn nobody_publishes_for_another() {
        let mut bench = Bench::new();
        let connection = bench.up(1, Role::Node);
        assert!(bench.say(connection, RegistrationMessage::Publish(record(2))).is_empty());
        assert_eq!((bench.hub.counters().foreign_records, bench.hub.status(bench.now).nodes), (1, 0));
    }

    #[test]
    fn renewal_of_unknown_version_requests_record() {
        let mut bench = Bench::new();
        let connection = bench.provider(1);
        let renew = |sequence| RegistrationMessage::Renew(Renew { version: version(sequence), capacity: None });
        assert!(matches!(
            bench.say(connection, renew(1))[..],
            [(_, Message::Registration(RegistrationMessage::Lease { .. }))]
        ));
        assert_eq!(
            bench.say(connection, renew(2)),
            [(connection, Message::Registration(RegistrationMessage::UnknownVersion))]
        );
    }

    #[test]
    fn moved_connection_requests_fresh_record() {
        let mut bench = Bench::new();
        let seen = |last: u8, port| Address::single(Scheme::Udp, SocketAddr::from(([10, 0, 0, last], port)));
        let connection = bench.up_over(1, Role::Node, seen(1, 4000), None);
        let unknown = vec![Address::single(Scheme::Udp, SocketAddr::from(([0, 0, 0, 0], 9)))];
        let publish = |number| {
            RegistrationMessage::Publish(Record { version: version(number), addresses: unknown.clone(), ..record(1) })
        };
        bench.say(connection, publish(1));
        // Another port says nothing of where it listens.
        assert!(bench.input(Input::ConnectionMoved { connection, address: seen(1, 4001) }).is_empty());
        assert_eq!(
            bench.input(Input::ConnectionMoved { connection, address: seen(2, 4001) }),
            [(connection, Message::Registration(RegistrationMessage::UnknownVersion))]
        );
        // The answer may be lost.
        let renewal = Message::Registration(RegistrationMessage::Renew(Renew { version: version(1), capacity: None }));
        assert_eq!(
            bench.say(connection, renewal),
            [(connection, Message::Registration(RegistrationMessage::UnknownVersion))]
        );
        bench.say(connection, publish(2));
        assert_eq!(bench.hub.index(bench.now, None, 10)[0].addresses, [seen(2, 9)]);
        let renewal = RegistrationMessage::Renew(Renew { version: version(2), capacity: None });
        assert!(matches!(
            bench.say(connection, renewal)[..],
            [(_, Message::Registration(RegistrationMessage::Lease { .. }))]
        ));
    }

    #[test]
    fn lease_expires_only_after_silence() {
        let mut bench = Bench::new();
        let connection = bench.provider(1);
        for _ in 0..4 {
            bench.wait(Duration::from_secs(50));
            bench.say(connection, ProbeMessage::Ping(1));
        }
        assert_eq!(bench.hub.status(bench.now).nodes, 1);
        bench.wait(Duration::from_secs(61));
        assert_eq!((bench.hub.status(bench.now).nodes, bench.hub.counters().expiries), (0, 1));
        assert_eq!(bench.closed[0].0, connection);
    }

    #[test]
    fn older_version_answered_with_newer() {
        let mut bench = Bench::new();
        let connection = bench.up(1, Role::Node);
        bench.say(connection, RegistrationMessage::Publish(Record { version: version(5), ..record(1) }));
        let answer = bench.say(connection, RegistrationMessage::Publish(record(1)));
        assert!(
            matches!(answer[..], [(_, Message::Registration(RegistrationMessage::Lease { version: held, .. }))] if held == version(5))
        );
    }

    #[test]
    fn duplicate_identity_is_reported() {
        let twins = |bench: &Bench| {
            bench.events.iter().filter(|event| matches!(event, HubEvent::DuplicateIdentity { .. })).count()
        };
        let renew = |version| RegistrationMessage::Renew(Renew { version, capacity: None });
        let mut bench = Bench::new();
        let older = bench.provider(1);
        let newer = bench.up(1, Role::Node);
        let version_2 = Version { epoch: 2, sequence: 1 };
        bench.say(newer, RegistrationMessage::Publish(Record { version: version_2, ..record(1) }));
        bench.say(newer, renew(version_2));
        assert_eq!(twins(&bench), 0, "it may be the same node with a new link");
        bench.say(older, renew(version(1)));
        assert_eq!(twins(&bench), 1);
        bench.down(newer);
        bench.say(older, renew(version(1)));
        assert_eq!(twins(&bench), 1);
    }

    #[test]
    fn disconnected_node_kept_but_unlisted() {
        let mut bench = Bench::new();
        let (provider, requester) = (bench.provider(1), bench.requester(2));
        bench.down(provider);
        let listed = |bench: &mut Bench, id| match &bench.ask(requester, request(id, RequestMode::Lookup))[..] {
            [(_, Message::Directory(DirectoryMessage::LookupResult(found)))] => found.candidates.len(),
            other => panic!("{other:?}"),
        };
        assert_eq!((listed(&mut bench, 1), bench.hub.status(bench.now).nodes), (0, 2));
        bench.up(1, Role::Node);
        assert_eq!(listed(&mut bench, 2), 1);
    }

    #[test]
    fn move_and_withdrawal_apply_immediately() {
        let mut bench = Bench::new();
        let connection = bench.provider(1);
        let moved = Record { version: version(2), cell: Cell::new(0, 0), ..record(1) };
        bench.say(connection, RegistrationMessage::Publish(moved));
        let requester = bench.requester(2);
        let sent = bench.ask(requester, request(1, RequestMode::Lookup));
        assert!(
            matches!(&sent[..], [(_, Message::Directory(DirectoryMessage::LookupResult(found)))] if found.candidates.is_empty())
        );
        bench.say(connection, RegistrationMessage::Withdraw(version(2)));
        assert_eq!(bench.hub.counters().withdrawals, 1);
        assert_eq!(bench.hub.status(bench.now).entries, 0);
    }

    #[test]
    fn published_claimed_and_disconnected_dropped() {
        let mut bench = Bench::new();
        let sibling = bench.up(100, Role::SuperNode);
        let connection = bench.up(1, Role::Node);
        let sent = bench.say(connection, RegistrationMessage::Publish(record(1)));
        assert!(
            sent.contains(&(
                sibling,
                Message::Hierarchy(HierarchyMessage::Claim { node: node(1), version: version(1) })
            ))
        );
        bench.say(sibling, HierarchyMessage::Claim { node: node(1), version: version(1) });
        assert_eq!(bench.hub.status(bench.now).nodes, 1);
        bench.down(connection);
        bench.say(sibling, HierarchyMessage::Claim { node: node(1), version: version(2) });
        assert_eq!(bench.hub.registry.directory.nodes(), 0);
    }

    #[test]
    fn older_claim_or_replica_is_contradicted() {
        let mut bench = Bench::new();
        let sibling = bench.up(100, Role::SuperNode);
        let connection = bench.up(1, Role::Node);
        bench.say(connection, RegistrationMessage::Publish(Record { version: version(5), ..record(1) }));
        let objection = [(sibling, Message::Hierarchy(HierarchyMessage::Claim { node: node(1), version: version(5) }))];
        assert_eq!(bench.say(sibling, HierarchyMessage::Claim { node: node(1), version: version(4) }), objection);
        assert_eq!(bench.say(sibling, ReplicationMessage::ReplicaUpdate(copies(vec![record(1)]))), objection);
        assert!(bench.say(sibling, HierarchyMessage::Claim { node: node(1), version: version(5) }).is_empty());
        assert_eq!(bench.hub.status(bench.now).nodes, 1);
    }

    #[test]
    fn a_full_directory_sends_newcomers_away() {
        let mut bench = Bench::server(|config| config.limits.nodes = 1);
        bench.provider(1);
        let second = bench.provider(2);
        assert_eq!((bench.closed[0].0, bench.hub.counters().full), (second, 1));
    }

    #[test]
    fn roles_are_kept_apart() {
        let mut bench = Bench::new();
        let (connection, hub) = (bench.up(1, Role::Node), bench.up(100, Role::SuperNode));
        bench.say(connection, HierarchyMessage::Claim { node: node(2), version: version(9) });
        bench.say(hub, RegistrationMessage::Publish(record(100)));
        let server = bench.up(3, Role::Server);
        assert_eq!(bench.hub.counters().refused_by_role, 3);
        assert_eq!(bench.closed[0].0, server);
        let mut server = Bench::with(HubConfig::new(node(201), HubKind::Server, 1));
        server.up(100, Role::SuperNode);
        assert_eq!(server.closed.len(), 1);
    }

    #[test]
    fn renewal_restores_deducted_capacity() {
        let mut bench = Bench::new();
        let (provider, requester) = (bench.provider(1), bench.requester(2));
        bench.ask(requester, request(1, RequestMode::Forward));
        let left = |bench: &Bench| bench.hub.index(bench.now, None, 1)[0].capacity;
        assert_eq!(left(&bench), Capacity { streams: 3, uplink_kbps: 9_960 });
        bench.say(provider, RegistrationMessage::Renew(Renew { version: version(1), capacity: None }));
        assert_eq!(left(&bench), record(1).capacity);
    }

    #[test]
    fn repeated_connections_keep_the_newest() {
        let mut bench = Bench::new();
        let connections: Vec<_> = (0..20)
            .map(|_| {
                bench.wait(Duration::from_millis(1));
                bench.provider(1)
            })
            .collect();
        let closed: Vec<_> = bench.closed.iter().map(|(connection, _)| *connection).collect();
        assert_eq!(closed, connections[..12]);
        assert_eq!(bench.hub.status(bench.now).connections, 8);
    }

    #[test]
    fn record_in_motion_costs_more() {
        let published = |speed_mps: f64| {
            let mut bench = Bench::new();
            let connection = bench.up(1, Role::Node);
            let at = ExactPosition::new(LatLon::new(1.0, 2.0).unwrap());
            let position = Some(ExactPosition { course_deg: Some(3.0), speed_mps: Some(speed_mps), ..at });
            let record = |sequence| Record { version: version(sequence), position, ..record(1) };
            for sequence in 1..=100 {
                bench.say(connection, RegistrationMessage::Publish(record(sequence)));
            }
            bench.hub.counters().publishes
        };
        assert_eq!([published(0.0), published(20.0)], [96, 24]);
    }
}
