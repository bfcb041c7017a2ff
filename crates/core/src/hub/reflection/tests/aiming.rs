//! At whom one can have a super node aim a copy.

use super::*;
use crate::hub::members::tests::announce_at;
use crate::hub::route::HOPS;
use crate::hub::testing::*;

const LOOPBACK: [u8; 4] = [127, 0, 0, 1];

fn at_host(to: impl Into<SocketAddr>, hops: u8) -> Option<CopyTarget> {
    Some(CopyTarget { to: to.into(), tag: StreamTag(7), hops, provider: None, is_resuming: None })
}

fn at(hosts: &[[u8; 4]]) -> Address {
    Address { scheme: Scheme::Quic, port: 7_700, hosts: hosts.iter().map(|host| (*host).into()).collect() }
}

/// The fate of a request of node 2, seen at one host and named at another, for a copy at `to`.
fn asked(seen: [u8; 4], named: [u8; 4], to: ([u8; 4], u16)) -> Vec<(ConnectionId, Message)> {
    let mut bench = bench();
    let provider = bench.up_over(1, Role::Node, at(&[seen]), None);
    bench.say(provider, RegistrationMessage::Publish(record(1)));
    let requester = bench.up_over(2, Role::Node, at(&[seen]), None);
    let published = Record { services: ServiceSet::EMPTY, addresses: vec![at(&[seen, named])], ..record(2) };
    bench.say(requester, RegistrationMessage::Publish(published));
    let sent = bench.ask(requester, Request { copy_target: at_host(to, 0), ..subscribe(1) });
    let is_handed_on = sent.iter().any(|(_, message)| is_forward(message));
    assert_eq!(grants(&mut bench).len(), usize::from(is_handed_on));
    sent
}

#[test]
fn node_copies_go_to_own_host() {
    let (seen, named) = ([10, 0, 0, 2], [10, 0, 1, 2]);
    for host in [seen, named, [0, 0, 0, 0]] {
        forwarded(&asked(seen, named, (host, 9_000)));
    }
    assert_eq!(refused(&asked(seen, named, ([10, 0, 0, 3], 9_000))).1, Reason::NotAllowed);
    // Nor is anything of that its host because its record says so.
    for host in [[224, 0, 0, 1], [255; 4], LOOPBACK] {
        assert_eq!(refused(&asked(seen, host, (host, 9_000))).1, Reason::NotAllowed, "{host:?}");
    }
}

#[test]
fn local_node_may_use_loopback() {
    forwarded(&asked(LOOPBACK, LOOPBACK, (LOOPBACK, 9_000)));
    assert_eq!(refused(&asked(LOOPBACK, LOOPBACK, ([10, 0, 0, 3], 9_000))).1, Reason::NotAllowed);
}

#[test]
fn hub_copies_go_to_checked_hosts() {
    let (own, theirs) = ([10, 0, 0, 100], [10, 0, 0, 77]);
    let (seen, named) = (at(&[own]), at(&[[10, 0, 1, 100]]));
    let cases = [
        (own, 1, 1, true),
        ([10, 0, 1, 100], 1, 1, true),
        ([0, 0, 0, 0], 1, 1, true),
        (theirs, 1, 1, false),
        // A target that it passes on as it came is where another hub is.
        (theirs, 0, 1, true),
        (theirs, 1, 2, true),
        ([224, 0, 0, 1], 0, 1, false),
        (LOOPBACK, 0, 1, false),
    ];
    for (host, hops, hubs, goes) in cases {
        let mut bench = bench();
        bench.provider(1);
        let sibling = bench.up_over(100, Role::SuperNode, seen.clone(), None);
        announce_at(&mut bench, sibling, 100, std::slice::from_ref(&named));
        let carry = Request {
            copy_target: at_host((host, 9_000), hops),
            ..video(1).with_hop(|hop| hop.hops_left = HOPS - hubs)
        };
        let sent = bench.say(sibling, RequestMessage::Request(carry));
        let is_forwarded = sent.iter().any(|(_, message)| is_forward(message));
        assert_eq!((is_forwarded, grants(&mut bench).len()), (goes, usize::from(goes)), "{host:?} {hops} {hubs}");
        if !goes {
            assert_eq!(refused(&sent), (sibling, Reason::NotAllowed));
        }
    }
}
