//! Overflow to other hubs, and from them.

use super::*;
use crate::hub::members::tests::announce;

/// A member of the group that says what it has left.
fn member(bench: &mut Bench, number: u8, residual_kbps: u32) -> ConnectionId {
    let connection = bench.up(number, Role::SuperNode);
    announce(bench, connection, number);
    bench.say(connection, HierarchyMessage::HubLoad { leases: 0, residual_kbps: Some(residual_kbps) });
    connection
}

/// The request as the hub at the other end of a carry hands it back.
fn back_again(carry: &Request) -> Message {
    let (to, tag) = (media(), StreamTag(99));
    Message::Request(RequestMessage::Request(Request {
        copy_target: carry.copy_target.map(|_| CopyTarget { to, tag, hops: 1, provider: None, is_resuming: None }),
        ..carry.clone().with_hop(|hop| {
            hop.direction = RouteDirection::Down;
            hop.hops_left = 2
        })
    }))
}

#[test]
fn full_home_forwards_request_unchanged() {
    let mut bench = bench();
    let (_, requester) = (between(&mut bench), bench.requester(2));
    has_left(&mut bench, VIDEO_KBPS - 1);
    let (_, carry) = the_carry(&bench.ask(requester, subscribe(1)));
    assert_eq!(reflect_of(&carry), target([10, 0, 0, 2], 7, 0));
    assert_eq!((grants(&mut bench), bench.hub.counters().saturated), (Vec::new(), 0));
}

#[test]
fn saturated_upstream_asked_to_send_directly() {
    let mut bench = bench();
    let ((_, beyond), requester) = (between(&mut bench), bench.requester(2));
    let (_, carry) = the_carry(&bench.ask(requester, subscribe(1)));
    assert_eq!(reflect_of(&carry).hops, 1);
    let (id, origin) = (carry.id, Some(carry.requester()));
    let full = RequestMessage::Decline(Decline {
        retry_after_ms: Some(9_000),
        requester: origin,
        ..Decline::new(id, Reason::Saturated)
    });
    let (to, again) = the_carry(&bench.say(beyond, full.clone()));
    assert_eq!((to, reflect_of(&again).hops, again.nonce), (beyond, 0, carry.nonce));
    // The hub beyond owns the place as well.
    let (to, owned) = the_carry(&bench.say(beyond, full.clone()));
    assert_eq!((to, owned.hop().unwrap().direction, reflect_of(&owned).hops), (beyond, RouteDirection::Across, 0));
    assert_eq!(refused(&bench.say(beyond, full.clone())), (requester, Reason::Saturated));
}

#[test]
fn changed_request_retried_after_refusal() {
    let mut bench = bench();
    let (sibling, _) = (bench.up(100, Role::SuperNode), bench.provider(1));
    has_left(&mut bench, VIDEO_KBPS - 1);
    let carry = |hops| RequestMessage::Request(Request { copy_target: wanted(hops), ..video(1) });
    let declined = |sent: &[(ConnectionId, Message)]| is_declined(sent, Reason::Saturated);
    assert!(declined(&bench.say(sibling, carry(1))));
    has_left(&mut bench, VIDEO_KBPS);
    assert!(declined(&bench.say(sibling, carry(1))), "it is the same request");
    the_forward(&bench.say(sibling, carry(0)));
    assert_eq!(grants(&mut bench)[0].kind, DownstreamKind::Subscriber);
}

#[test]
fn overflow_hub_fetches_stream_back() {
    let mut bench = bench();
    let (_, requester) = (bench.provider(1), bench.requester(2));
    let (few, many) = (member(&mut bench, 100, 2 * VIDEO_KBPS), member(&mut bench, 101, 7_000));
    has_left(&mut bench, VIDEO_KBPS);
    let (to, carry) = the_carry(&bench.ask(requester, subscribe(1)));
    assert_eq!(
        (to, carry.hop().unwrap().direction, carry.hop().unwrap().provider),
        (many, RouteDirection::Overflow, Some(node(1)))
    );
    let at_requester = target([10, 0, 0, 2], 7, 0);
    assert_eq!((reflect_of(&carry), grants(&mut bench).len()), (at_requester, 0));
    let (_, forward) = the_forward(&bench.say(many, back_again(&carry)));
    let granted = grants(&mut bench)[0];
    assert_eq!((granted.to, granted.their_tag), (([10, 0, 0, 101], media().port()).into(), StreamTag(99)));
    assert_eq!((granted.kind, granted.tag), (DownstreamKind::Reflector, reflect_of(&forward).tag));
    assert_eq!(reflect_of(&forward).hops, 2);
    // Said once more it changes nothing, and another hub has no part in it.
    let sent = bench.say(many, back_again(&carry));
    assert!(matches!(&sent[..], [(_, Message::Request(RequestMessage::RequestAck { .. }))]), "{sent:?}");
    let sent = bench.say(few, back_again(&carry));
    assert_eq!(refused(&sent).1, Reason::NotFound);
    // The next one is for whoever has the stream, as no room is left to send it to others.
    bench.say(few, HierarchyMessage::HubLoad { leases: 0, residual_kbps: Some(70_000) });
    let other = bench.requester(3);
    assert_eq!(the_carry(&bench.ask(other, naming(1, 1))).0, many);
}

#[test]
fn overflow_hubs_exhausted_before_own_copy() {
    let mut bench = bench();
    let (_, requester) = (bench.provider(1), bench.requester(2));
    let hubs = [member(&mut bench, 100, 7_000), member(&mut bench, 101, 2 * VIDEO_KBPS)];
    member(&mut bench, 102, 2 * VIDEO_KBPS - 1);
    has_left(&mut bench, VIDEO_KBPS);
    let mut sent = bench.ask(requester, subscribe(1));
    for hub in hubs {
        let (to, carry) = the_carry(&sent);
        assert_eq!(to, hub);
        let (id, reason, requester) = (carry.id, Reason::Saturated, Some(carry.requester()));
        sent = bench.say(hub, RequestMessage::Decline(Decline { requester, ..Decline::new(id, reason) }));
    }
    the_forward(&sent);
    assert_eq!(grants(&mut bench)[0].kind, DownstreamKind::Subscriber);
}

#[test]
fn hub_reflects_overflow_with_free_capacity() {
    let overflow = |id| video(id).with_hop(|hop| hop.direction = RouteDirection::Overflow);
    let asked = Request { copy_target: wanted(0), ..overflow(1) };
    let mut bench = bench();
    let home = bench.up(100, Role::SuperNode);
    let (to, carry) = the_carry(&bench.ask(home, asked.clone()));
    assert_eq!(
        (to, carry.hop().unwrap().direction, carry.hop().unwrap().provider),
        (home, RouteDirection::Down, Some(node(1)))
    );
    let onward = reflect_of(&carry);
    assert_eq!((onward.to, onward.hops), (media(), 1));
    let granted = grants(&mut bench)[0];
    assert_eq!((granted.kind, granted.tag, granted.their_tag), (DownstreamKind::Subscriber, onward.tag, StreamTag(7)));
    bench.say(home, RequestMessage::RequestAck { id: carry.id, requester: Some(carry.requester()), provider: None });
    bench.wait(Duration::from_millis(300));
    let (_, again) = the_carry(&bench.ask(home, asked.clone()));
    assert_eq!(reflect_of(&again), onward);
    has_left(&mut bench, VIDEO_KBPS - 1);
    let elsewhere = Some(target([10, 0, 0, 51], 8, 0));
    let sent = bench.ask(home, Request { copy_target: elsewhere, ..overflow(2) });
    assert!(is_declined(&sent, Reason::Saturated), "{sent:?}");
}

#[test]
fn count_policy_never_overflows() {
    let mut bench = reflecting(1, OverflowPolicy::Count(0));
    let (_, requester) = (bench.provider(1), bench.requester(2));
    member(&mut bench, 100, 7_000);
    assert_eq!(refused(&bench.ask(requester, subscribe(1))), (requester, Reason::Saturated));
}

#[test]
fn residual_reports_are_thresholded_and_paced() {
    let mut bench = bench();
    let sibling = member(&mut bench, 100, 0);
    bench.wait(Duration::from_secs(2));
    let told = |sent: Vec<(ConnectionId, Message)>| {
        let room = |(connection, message)| match message {
            Message::Hierarchy(HierarchyMessage::HubLoad { residual_kbps, .. }) if connection == sibling => {
                residual_kbps
            }
            _ => None,
        };
        sent.into_iter().filter_map(room).collect::<Vec<_>>()
    };
    let says = |bench: &mut Bench, residual_kbps| {
        told(bench.input(Input::Command(HubCommand::ReflectionCapacity {
            residual_kbps: Some(residual_kbps),
            subscribers: 0,
        })))
    };
    assert_eq!(says(&mut bench, 8_000), [8_000]);
    assert!(says(&mut bench, 700).is_empty());
    assert!(told(bench.wait(Duration::from_millis(999))).is_empty());
    assert_eq!(told(bench.wait(Duration::from_millis(2))), [700]);
    bench.wait(Duration::from_secs(2));
    assert!(says(&mut bench, 640).is_empty());
    assert_eq!(says(&mut bench, 0), [0]);
}

#[test]
fn active_receiver_needs_no_new_reservation() {
    let mut bench = bench();
    let (_, requester) = (bench.provider(1), bench.requester(2));
    forwarded(&bench.ask(requester, naming(1, 1)));
    has_left(&mut bench, 0);
    bench.wait(BEGINNING);
    carries_to(&mut bench, 1, &[2]);
    forwarded(&bench.ask(requester, naming(2, 1)));
    bench.wait(BEGINNING);
    carries_to(&mut bench, 1, &[]);
    assert_eq!(refused(&bench.ask(requester, naming(3, 1))), (requester, Reason::Saturated));
}
