//! Relayed flows, and their fate.

use super::*;
use crate::flow::CHUNK_BYTES;
use crate::flow::INLINE_BYTES;
use crate::hub::testing::*;

const PAYLOAD: Bytes = Bytes::from_static(&[7; 300]);

#[test]
fn relaying_changes_only_the_id() {
    let all = |id| {
        [
            Message::Flow(FlowMessage::Datagram(Datagram { id, sequence: 9, sent_us: 70_000, payload: PAYLOAD })),
            Message::Flow(FlowMessage::Chunk(Chunk { id, offset: 16_384, payload: PAYLOAD })),
            Message::Flow(FlowMessage::End { id, packets: 3, bytes: 900, digest: [5; 32] }),
            Message::Flow(FlowMessage::Report(Report { id, bytes: 1, packets: 2, lost: 3, jitter_us: 4 })),
            Message::Flow(FlowMessage::Stop { id, reason: Reason::Cancelled }),
        ]
    };
    for (short, long) in [(RequestId(5), RequestId(0x8000_0001)), (RequestId(70_000), RequestId(23))] {
        for (before, after) in all(short).iter().zip(all(long)) {
            let bytes = before.encode();
            let header = Header::read(&bytes).unwrap();
            assert_eq!(header.id, short);
            assert!(is_whole(&bytes));
            assert_eq!(Message::decode(&with_id(&bytes, &header, long)), Ok(after));
        }
    }
}

#[test]
fn non_data_messages_are_not_relayed() {
    assert!(Header::read(&Message::Probe(ProbeMessage::Ping(3)).encode()).is_none());
    let stop = Message::Flow(FlowMessage::Stop { id: RequestId(1), reason: Reason::Busy }).encode();
    assert!(!is_whole(&stop[..stop.len() - 1]));
}

/// A server with a provider and a requester whose request it relays.
fn relaying(request: Request) -> (Bench, ConnectionId, ConnectionId, RequestId) {
    let mut bench = Bench::server(|_| {});
    let (provider, requester) = (bench.provider(1), bench.requester(2));
    let (connection, forward) = forwarded(&bench.ask(requester, request));
    assert!(connection == provider && forward.reply_to().is_empty() && forward.id.is_of_hub());
    (bench, provider, requester, forward.id)
}

fn accept(bench: &mut Bench, provider: ConnectionId, id: RequestId) -> Vec<(ConnectionId, Message)> {
    let flow = FlowDescription::Stream { duration_ms: 10_000, bits_per_second: 40_000, format: String::new() };
    bench.say(provider, acceptance(id, flow))
}

fn acceptance(id: RequestId, flow: FlowDescription) -> RequestMessage {
    let (nonce, cell) = (Nonce::from_u64(1), HERE);
    RequestMessage::Accept(Accept { id, nonce, flow, cell, provider: None, stream_keys: None })
}

fn object(bytes: u64, inline: Option<Bytes>) -> FlowDescription {
    FlowDescription::Object { bytes, digest: [0; 32], format: String::new(), inline, offset: None }
}

fn relaying_image() -> (Bench, ConnectionId, ConnectionId, RequestId) {
    relaying(request(1, RequestMode::Relay).with(|spec| spec.service = Service::Image))
}

fn packet(id: RequestId) -> Message {
    Message::Flow(FlowMessage::Datagram(Datagram { id, sequence: 0, sent_us: 0, payload: PAYLOAD }))
}

#[test]
fn server_relays_answer_data_and_reports() {
    let (mut bench, provider, requester, id) = relaying(request(1, RequestMode::Forward));
    match &accept(&mut bench, provider, id)[..] {
        [(connection, Message::Request(RequestMessage::Accept(accept)))] => {
            assert_eq!((*connection, accept.id, accept.provider), (requester, RequestId(1), Some(node(1))));
        }
        other => panic!("{other:?}"),
    }
    assert_eq!(bench.say(provider, packet(id)), [(requester, packet(RequestId(1)))]);
    let report = |id| Message::Flow(FlowMessage::Report(Report { id, ..Report::default() }));
    assert_eq!(bench.say(requester, report(RequestId(1))), [(provider, report(id))]);
    let end = |id| Message::Flow(FlowMessage::End { id, packets: 1, bytes: 300, digest: [0; 32] });
    let input = Input::Message { connection: provider, message: end(id).encode() };
    assert_eq!(bench.channels(input), [(requester, Channel::Reliable { flow: 1 }, end(RequestId(1)))]);
    assert_eq!(bench.hub.status(bench.now).relays, 1);
    bench.wait(LINGER);
    assert_eq!(bench.hub.status(bench.now).relays, 0);
    assert_eq!(bench.hub.counters().relayed_messages, 4);
}

#[test]
fn third_party_messages_are_dropped() {
    let (mut bench, _, requester, id) = relaying(request(1, RequestMode::Relay));
    let third = bench.requester(3);
    assert!(bench.say(third, packet(id)).is_empty());
    assert!(bench.say(requester, packet(RequestId(1))).is_empty());
    assert_eq!((bench.hub.counters().stray, bench.hub.counters().malformed), (1, 1));
}

#[test]
fn stop_ends_flow_for_both() {
    let (mut bench, provider, requester, id) = relaying(request(1, RequestMode::Relay));
    accept(&mut bench, provider, id);
    let stop = |id| Message::Flow(FlowMessage::Stop { id, reason: Reason::Cancelled });
    assert_eq!(bench.say(requester, stop(RequestId(1))), [(provider, stop(id))]);
    let status = bench.hub.status(bench.now);
    assert_eq!((status.relays, status.requests), (0, 0));
}

#[test]
fn whoever_goes_the_other_is_told() {
    let (mut bench, provider, requester, id) = relaying(request(1, RequestMode::Relay));
    accept(&mut bench, provider, id);
    let stop = |id| Message::Flow(FlowMessage::Stop { id, reason: Reason::Unreachable });
    assert_eq!(bench.down(provider), [(requester, stop(RequestId(1)))]);
    let (mut bench, provider, requester, id) = relaying(request(1, RequestMode::Relay));
    assert_eq!(bench.down(requester), [(provider, stop(id))]);
    assert_eq!(bench.hub.status(bench.now).relays, 0);
}

#[test]
fn provider_lost_before_accept_is_replaced() {
    let (mut bench, provider, requester, _) = relaying(request(1, RequestMode::Relay));
    let second = bench.provider(4);
    // The second was not known when the request came: it is asked anew.
    assert_eq!(refused(&bench.down(provider)), (requester, Reason::Unreachable));
    let (connection, forward) = forwarded(&bench.ask(requester, request(2, RequestMode::Relay)));
    assert_eq!(connection, second);
    let third = bench.provider(5);
    assert_eq!(refused(&bench.say(second, decline(&forward, Reason::Busy))), (requester, Reason::Busy));
    bench.ask(requester, request(3, RequestMode::Relay));
    assert_eq!(forwarded(&bench.down(third)).0, second);
}

#[test]
fn a_silent_flow_is_ended() {
    let (mut bench, provider, requester, id) = relaying(request(1, RequestMode::Relay));
    accept(&mut bench, provider, id);
    let told = bench.wait(Duration::from_secs(59));
    assert!(told.is_empty());
    bench.say(provider, ProbeMessage::Ping(0));
    bench.say(requester, ProbeMessage::Ping(0));
    let stop = |id| Message::Flow(FlowMessage::Stop { id, reason: Reason::TimedOut });
    assert_eq!(bench.wait(Duration::from_secs(2)), [(requester, stop(RequestId(1))), (provider, stop(id))]);
}

#[test]
fn requested_transport_applies_to_both_sides() {
    let tcp = |number| Address { scheme: Scheme::Tcp, ..address(number) };
    let wanted = |id| request(id, RequestMode::Relay).with(|spec| spec.transports = SchemeSet::only(Scheme::Tcp));
    let mut bench = Bench::server(|_| {});
    let provider = bench.up(1, Role::Node);
    let mut record = record(1);
    record.addresses.push(tcp(1));
    bench.say(provider, RegistrationMessage::Publish(record));
    let requester = bench.requester(2);
    assert_eq!(refused(&bench.ask(requester, wanted(1))), (requester, Reason::NoTransport));
    let requester = bench.up_over(2, Role::Node, tcp(2), None);
    assert!(bench.ask(requester, wanted(2)).is_empty());
    let (dial, addresses) = bench.dialled.pop().unwrap();
    assert_eq!(addresses, [tcp(1)]);
    let connection = ConnectionId(99);
    let remote = RemoteIdentity { node: node(1), role: Role::Node, name: String::new(), labels: Labels::default() };
    let (dial, rtt) = (Some(dial), Duration::ZERO);
    let sent = bench.input(Input::ConnectionUp { connection, dial, remote, address: tcp(1), rtt });
    assert_eq!(forwarded(&sent).0, connection);
}

#[test]
fn flows_per_requester_are_limited() {
    let mut bench = Bench::server(|config| config.limits.relays_per_node = 2);
    let (_, requester) = (bench.provider(1), bench.requester(2));
    for id in 1..=2 {
        forwarded(&bench.ask(requester, request(id, RequestMode::Relay)));
    }
    assert_eq!(refused(&bench.ask(requester, request(3, RequestMode::Relay))), (requester, Reason::TooMany));
}

#[test]
fn stop_before_accept_tries_next_provider() {
    let mut bench = Bench::server(|_| {});
    let (first, second, requester) = (bench.provider(1), bench.provider(2), bench.requester(3));
    let (connection, forward) = forwarded(&bench.ask(requester, request(1, RequestMode::Relay)));
    assert_eq!(connection, first);
    let stop = FlowMessage::Stop { id: forward.id, reason: Reason::SourceFailed };
    assert_eq!(forwarded(&bench.say(first, stop)).0, second);
}

#[test]
fn object_never_overtakes_acceptance() {
    let (mut bench, provider, requester, id) = relaying_image();
    let accept = Message::from(acceptance(id, object(100_000, None)));
    let sent = bench.channels(Input::Message { connection: provider, message: accept.encode() });
    assert!(
        matches!(&sent[..], [(connection, Channel::Reliable { flow: 1 }, Message::Request(RequestMessage::Accept(_)))] if *connection == requester)
    );
}

#[test]
fn inline_object_leaves_no_flow() {
    let mut bench = Bench::server(|config| config.limits.relays_per_node = 2);
    let (provider, requester) = (bench.provider(1), bench.requester(2));
    for id in 1..=10 {
        let (_, forward) = forwarded(&bench.ask(requester, request(id, RequestMode::Relay)));
        let accept = acceptance(forward.id, object(300, Some(PAYLOAD)));
        let sent = bench.say(provider, accept.clone());
        assert!(matches!(sent[..], [(to, Message::Request(RequestMessage::Accept(_)))] if to == requester));
        // The acceptance may have been lost on its way, and can be had once more.
        assert_eq!(bench.say(provider, accept.clone()).len(), 1);
        bench.wait(LINGER);
        assert_eq!(bench.hub.status(bench.now).relays, 0);
    }
}

/// A message between the ends of a way, as one of them says it.
fn through(id: RequestId, inner: &Message) -> Bytes {
    Message::Request(RequestMessage::Tunneled { id, message: inner.encode() }).encode()
}

fn file_chunk(id: RequestId) -> Message {
    Message::Flow(FlowMessage::Chunk(Chunk { id, offset: 0, payload: vec![7; CHUNK_BYTES].into() }))
}

fn deliver(bench: &mut Bench, connection: ConnectionId, message: &Bytes) -> Vec<(ConnectionId, Message)> {
    bench.input(Input::Message { connection, message: message.clone() })
}

/// Three gigabytes from one end of a way to the other, whichever has called.
#[test]
fn a_long_file_passes_through() {
    const FILE: RequestId = RequestId(9);
    for sends in [Side::Requester, Side::Provider] {
        let (mut bench, provider, requester, id) = relaying_image();
        let (from, to) = match sends {
            Side::Requester => ((requester, RequestId(1)), (provider, id)),
            Side::Provider => ((provider, id), (requester, RequestId(1))),
        };
        let chunk = through(from.1, &file_chunk(FILE));
        for round in 1..=48_000_u64 {
            assert_eq!(deliver(&mut bench, from.0, &chunk).len(), 1, "the file goes on in round {round}");
            let report = Report { id: FILE, bytes: round * 64 * 1024, ..Report::default() };
            assert_eq!(
                deliver(&mut bench, to.0, &through(to.1, &Message::Flow(FlowMessage::Report(report)))).len(),
                1,
                "{round}"
            );
        }
        assert_eq!(bench.hub.counters().overruns, 0);
    }
}

/// Small files come with their acceptances, and nobody reports them.
#[test]
fn many_small_files_pass_through() {
    let (mut bench, provider, requester, id) = relaying_image();
    let inline = Some(Bytes::from(vec![7; INLINE_BYTES]));
    for number in 1..=20_000 {
        let file = RequestId(number);
        let push = Push {
            id: file,
            name: "x".repeat(200),
            bytes: 1_024,
            digest: [1; 32],
            addresses: vec![address(1)],
            delivery: None,
        };
        let accept = acceptance(file, object(1_024, inline.clone()));
        for message in [RequestMessage::Push(push), accept].map(Message::from) {
            assert_eq!(deliver(&mut bench, requester, &through(RequestId(1), &message)).len(), 1, "{number}");
        }
        let wanted = Message::Request(RequestMessage::Request(request(number, RequestMode::Forward)));
        assert_eq!(deliver(&mut bench, provider, &through(id, &wanted)).len(), 1);
    }
    assert_eq!(bench.hub.counters().overruns, 0);
}

/// The end that floods the other loses the way; the one that is flooded is told apart.
#[test]
fn flooding_side_loses_the_flow() {
    for (floods, number) in [(Side::Requester, 2), (Side::Provider, 1)] {
        let (mut bench, provider, requester, id) = relaying_image();
        let (from, other) = match floods {
            Side::Requester => ((requester, RequestId(1)), (provider, id)),
            Side::Provider => ((provider, id), (requester, RequestId(1))),
        };
        let chunk = through(from.1, &file_chunk(RequestId(9)));
        let is_stop = |sent: &[(ConnectionId, Message)]| {
            sent.iter().any(|(_, message)| matches!(message, Message::Flow(FlowMessage::Stop { .. })))
        };
        let mut passed = 0;
        let mut last = Vec::new();
        while !is_stop(&last) {
            passed += chunk.len();
            assert!(passed < 12 << 20, "the connection has no room for more");
            last = deliver(&mut bench, from.0, &chunk);
            bench.now = bench.now + Duration::from_millis(1);
        }
        let stop = |(connection, id), reason| (connection, Message::Flow(FlowMessage::Stop { id, reason }));
        let mut expected = vec![stop(from, Reason::Protocol), stop(other, Reason::Unreachable)];
        expected.sort_by_key(|(connection, _)| *connection != requester);
        assert_eq!(last, expected);
        let refused = bench
            .events
            .iter()
            .filter(|event| matches!(event, HubEvent::Refused { node: who, .. } if *who == node(number)));
        assert_eq!((refused.count(), bench.hub.status(bench.now).relays), (1, 0));
    }
}

/// Reports go as control, before everything else: so they are short, and few.
#[test]
fn odd_reports_are_dropped() {
    let (mut bench, provider, requester, id) = relaying_image();
    let padding = 60_000_u16.to_be_bytes();
    let padded = |head: &[u8]| [head, &[0x59, padding[0], padding[1]], &[7; 60_000]].concat();
    // A report that does not decode, and a longer one than any report.
    for odd in [padded(&[0x82, 14, 0x82, 1]), padded(&[0x82, 14, 0x86, 1, 5, 0, 0, 0])] {
        let sent = bench.channels(Input::Message { connection: requester, message: odd.into() });
        assert!(sent.is_empty(), "{} messages", sent.len());
    }
    assert_eq!(bench.hub.counters().malformed, 2);
    let report = |id| Message::Flow(FlowMessage::Report(Report { id, bytes: 5, ..Report::default() }));
    assert_eq!(bench.say(requester, report(RequestId(1))), [(provider, report(id))]);
}

#[test]
fn endless_accepts_end_the_flow() {
    for length in [0, INLINE_BYTES] {
        let (mut bench, provider, requester, id) = relaying_image();
        let inline = (length > 0).then(|| Bytes::from(vec![7; length]));
        let offer =
            FlowDescription::Object { bytes: 1, digest: [0; 32], format: "x".repeat(200), inline, offset: None };
        let message = acceptance(id, offer);
        let mut passed = 0;
        for _ in 0..20_000 {
            let sent = bench.say(provider, message.clone());
            passed +=
                sent.iter().filter(|(to, _)| *to == requester).map(|(_, said)| said.encode().len()).sum::<usize>();
        }
        assert!(passed < 2 << 20, "{passed} bytes");
        assert_eq!(bench.hub.status(bench.now).relays, 0);
    }
}
