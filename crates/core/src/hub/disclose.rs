//! Addresses that a remote gets to see.
//!
//! A loopback address means the machine of whoever reads it. It is of use to a
//! remote that is itself seen on the loopback, hence on this machine;
//! anybody else would dial itself, in vain, and wait for it.

use std::net::{IpAddr, SocketAddr};

use roost_wire::messages::Candidate;
use roost_wire::record::MAX_ADDRESSES;
use roost_wire::{Address, ConnectionId, Scheme};

use super::core::HubCore;

impl HubCore {
    /// True if the remote at `connection` is on the hub's own machine, as far as
    /// one can see.
    pub(super) fn is_here(&self, connection: ConnectionId) -> bool {
        let seen = self.remotes.connections.get(&connection).and_then(|connection| connection.address.primary());
        seen.is_some_and(|seen| seen.ip().to_canonical().is_loopback())
    }

    /// Keeps the addresses of others that the remote at `connection` can use.
    pub(super) fn shareable(&self, connection: ConnectionId, addresses: Vec<Address>) -> Vec<Address> {
        if self.is_here(connection) { addresses } else { without_local_hosts(addresses) }
    }

    /// Adds where the remote at `connection` is seen, if it listens there as well: a translator of
    /// addresses may let in who was called from behind it.
    pub(super) fn add_seen(&self, connection: ConnectionId, addresses: &mut Vec<Address>) {
        let seen = self
            .remotes
            .connections
            .get(&connection)
            .map(|connection| (connection.address.scheme, connection.address.primary()));
        // Over TCP one is seen at another port than the one at which one listens.
        let Some((scheme, Some(at))) = seen.filter(|(scheme, _)| *scheme != Scheme::Tcp) else { return };
        let seen = Address::single(scheme, SocketAddr::new(at.ip().to_canonical(), at.port()));
        let is_there = |host: &IpAddr| seen.hosts.contains(&host.to_canonical());
        let is_same = |known: &Address| known.port == seen.port && known.hosts.iter().any(is_there);
        let mut alike = addresses.iter().filter(|known| known.scheme == scheme).peekable();
        let is_news = alike.peek().is_some() && !alike.any(is_same);
        if is_news && addresses.len() < MAX_ADDRESSES {
            addresses.push(seen);
        }
    }

    /// A candidate as the remote at `connection` gets to see it.
    pub(super) fn shown(&self, connection: ConnectionId, candidate: Candidate) -> Candidate {
        Candidate { addresses: self.shareable(connection, candidate.addresses), ..candidate }
    }

    /// The hub's own addresses that the remote at `connection` can use. It puts
    /// the host that it sees in the place of an unspecified one.
    pub(super) fn own_addresses(&self, connection: ConnectionId) -> Vec<Address> {
        let here = self.is_here(connection);
        let own = self.config.addresses.iter().take(MAX_ADDRESSES).cloned();
        let usable = own.filter_map(|mut address| {
            address.hosts.retain(|host| here || !host.to_canonical().is_loopback());
            (!address.hosts.is_empty()).then_some(address)
        });
        usable.collect()
    }
}

/// The addresses that are of use on other machines.
pub(super) fn without_local_hosts(addresses: Vec<Address>) -> Vec<Address> {
    addresses.into_iter().filter_map(Address::without_local_hosts).collect()
}

#[cfg(test)]
mod tests {
    use super::super::members::tests::announce_at;
    use super::*;
    use crate::hub::testing::*;

    fn udp(host: [u8; 4], port: u16) -> Address {
        Address::single(Scheme::Udp, SocketAddr::from((host, port)))
    }

    const LOOPBACK: [u8; 4] = [127, 0, 0, 1];

    /// Attaches a node that is seen at `seen` and listens at `listens`.
    fn attach(bench: &mut Bench, number: u8, seen: Address, listens: Vec<Address>) -> ConnectionId {
        let connection = bench.up_over(number, Role::Node, seen, None);
        bench.say(connection, RegistrationMessage::Publish(Record { addresses: listens, ..record(number) }));
        connection
    }

    #[test]
    fn loopback_requester_needs_relay_elsewhere() {
        for (host, relayed) in [([10, 0, 0, 1], true), (LOOPBACK, false)] {
            let mut bench = Bench::new();
            let provider = attach(&mut bench, 1, udp(host, 9), vec![udp(host, 9)]);
            let requester = attach(&mut bench, 2, udp(LOOPBACK, 10), vec![udp([0, 0, 0, 0], 10)]);
            let (connection, forward) = forwarded(&bench.ask(requester, request(1, RequestMode::Forward)));
            assert_eq!(
                (connection, forward.reply_to().is_empty(), forward.id.is_of_hub()),
                (provider, relayed, relayed)
            );
            // The repetition goes the same way.
            let (_, again) = forwarded(&bench.ask(requester, request(1, RequestMode::Forward)));
            assert_eq!((again.id, again.reply_to()), (forward.id, forward.reply_to()));
        }
    }

    #[test]
    fn loopback_requester_reached_at_public_address() {
        let mut bench = Bench::new();
        attach(&mut bench, 1, address(1), vec![address(1)]);
        let requester = attach(&mut bench, 2, address(2), vec![udp(LOOPBACK, 10), address(2)]);
        assert_eq!(forwarded(&bench.ask(requester, request(1, RequestMode::Forward))).1.reply_to(), [address(2)]);
    }

    #[test]
    fn remote_loopback_reply_address_is_declined() {
        let mut bench = Bench::new();
        let sibling = bench.up_over(100, Role::SuperNode, udp(LOOPBACK, 100), None);
        let provider = bench.provider(1);
        let carry = carried(5).with_reply_to(vec![udp(LOOPBACK, 50)]);
        let sent = bench.ask(sibling, carry);
        assert!(
            matches!(&sent[..], [_, (connection, Message::Request(RequestMessage::Decline(decline)))]
                if *connection == sibling && decline.reason == Reason::NoTransport && decline.requester == Some(node(50))),
            "{sent:?} (the provider is at {provider:?})"
        );
    }

    #[test]
    fn lookups_and_watches_show_usable_addresses() {
        for (host, shown) in [([10, 0, 0, 2], vec![address(1)]), (LOOPBACK, vec![udp(LOOPBACK, 9), address(1)])] {
            let mut bench = Bench::new();
            attach(&mut bench, 1, udp(LOOPBACK, 9), vec![udp(LOOPBACK, 9), address(1)]);
            let requester = bench.up_over(2, Role::Node, udp(host, 10), None);
            let (_, found) = looked_up(&bench.ask(requester, request(1, RequestMode::Lookup)));
            assert_eq!(found.candidates[0].addresses, shown);
            let area = Area::Anywhere;
            let watch =
                Watch { id: RequestId(9), services: ServiceSet::ALL, area, last_seen: 0, direction: None, names: None };
            let sent = bench.say(requester, DirectoryMessage::Watch(watch));
            let [(_, Message::Directory(DirectoryMessage::WatchChange(change)))] = &sent[..] else {
                panic!("{sent:?}")
            };
            assert_eq!(change.updated[0].addresses, shown);
        }
    }

    #[test]
    fn lease_names_dialable_addresses() {
        let mut config = HubConfig::new(node(200), HubKind::SuperNode, 1);
        let (wide, lan) = (udp([0, 0, 0, 0], 1), udp([10, 0, 0, 9], 2));
        config.addresses = vec![wide.clone(), lan.clone(), udp(LOOPBACK, 3)];
        config.siblings = vec![vec![udp(LOOPBACK, 4)], vec![udp([10, 0, 0, 8], 5)]];
        let mut bench = Bench::with(config);
        for (index, (dial, addresses)) in std::mem::take(&mut bench.dialled).into_iter().enumerate() {
            let connection = bench.up_over(100 + index as u8, Role::SuperNode, addresses[0].clone(), Some(dial));
            announce_at(&mut bench, connection, 100 + index as u8, &addresses);
        }
        let mut lease = |number, seen| {
            let connection = bench.up_over(number, Role::Node, seen, None);
            let sent = bench.say(connection, RegistrationMessage::Publish(record(number)));
            let lease = sent.into_iter().find_map(|(to, message)| match message {
                Message::Registration(RegistrationMessage::Lease { siblings, addresses, .. }) if to == connection => {
                    Some((siblings, addresses))
                }
                _ => None,
            });
            lease.unwrap()
        };
        let (siblings, addresses) = lease(1, address(1));
        assert_eq!(siblings, Some(vec![udp([10, 0, 0, 8], 5)]));
        assert_eq!(addresses, Some(vec![wide, lan]));
        let (siblings, addresses) = lease(2, udp(LOOPBACK, 7));
        assert_eq!((siblings.unwrap().len(), addresses.unwrap().len()), (2, 3));
    }
}
