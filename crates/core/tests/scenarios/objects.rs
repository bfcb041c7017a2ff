//! Objects that are large, read slowly, broken off and gone on with.

use std::collections::BTreeMap;

use roost_core::flow::CHUNK_BYTES;
use roost_core::flow::MAX_WINDOW_BYTES;
use roost_core::flow::WINDOW_BYTES;
use roost_wire::object::digest;

use crate::*;

/// The round trip between any two hosts.
const RTT: Duration = Duration::from_millis(40);

/// A provider of an object of so many bytes that it reads piece by piece.
fn with_object(seed: u64, bytes: usize) -> (World, HostId, HostId) {
    let (mut world, _, provider, requester) = single_hub_world(seed, Role::SuperNode);
    world.hosts[provider.0].object_bytes = Some(bytes);
    world.hosts[provider.0].reads_objects = true;
    (world, provider, requester)
}

/// Asks for what is left of it.
fn go_on(world: &mut World, requester: HostId, bytes: usize, offset: u64) -> Ticket {
    let resume = Some(ResumePoint { digest: digest(&object(bytes)), offset });
    world.request_with(requester, Service::Image, ANYWHERE, |wanted| wanted.resume = resume)
}

/// The offset at which the data begins, as the acceptance says.
fn begins(world: &World, requester: HostId, ticket: Ticket) -> Option<u64> {
    let offset = |event: &NodeEvent| match event {
        NodeEvent::Accepted { ticket: of, flow: FlowDescription::Object { offset, .. }, .. } if *of == ticket => {
            Some(*offset)
        }
        _ => None,
    };
    world.events(requester).iter().find_map(|(_, event)| offset(event)).unwrap_or_else(|| panic!("it was not accepted"))
}

#[test]
fn large_object_window_grows_only_direct() {
    for (role, mode) in [(Role::SuperNode, RequestMode::Forward), (Role::Server, RequestMode::Relay)] {
        let (mut world, _, provider, requester) = single_hub_world(7, role);
        world.hosts[provider.0].object_bytes = Some(3_000_001);
        let ticket = world.request_with(requester, Service::Image, ANYWHERE, |wanted| wanted.mode = mode);
        let summary = finished(&mut world, requester, ticket);
        assert!(summary.complete && summary.bytes == 3_000_001, "{summary:?}");
        let round_trips = summary.elapsed.as_millis() / RTT.as_millis();
        // A quarter of a megabyte, a half, one, two; or eleven times a quarter.
        let expected = if mode == RequestMode::Forward { 4..9 } else { 22..30 };
        assert!(expected.contains(&round_trips), "{mode:?}: {round_trips}");
    }
}

#[test]
fn streamed_object_arrives_whole() {
    let (mut world, provider, requester) = with_object(1, 20_000_003);
    let ticket = world.request(requester, Service::Image, ANYWHERE);
    let summary = finished(&mut world, requester, ticket);
    assert!(summary.complete && summary.digest_ok == Some(true), "{summary:?}");
    assert!(world.delivered(requester, ticket) == object(20_000_003));
    world.run(SECOND);
    assert!(world.status(provider).sessions.is_empty());
}

#[test]
fn slow_reader_backpressures_provider() {
    let (mut world, provider, requester) = with_object(2, 8_000_000);
    world.hosts[requester.0].unread = Some(BTreeMap::new());
    let ticket = world.request(requester, Service::Image, ANYWHERE);
    let mut most = 0;
    for _ in 0..400 {
        world.run(100 * MS);
        let waiting = world.hosts[requester.0].unread.as_ref().and_then(|unread| unread.get(&ticket));
        most = most.max(waiting.copied().unwrap_or(0) + world.on_its_way(requester));
        // 250 kB/s.
        world.read(requester, ticket, 25_000);
    }
    assert!(most <= WINDOW_BYTES + 64 * 1024, "{most} bytes waited");
    assert!(most >= WINDOW_BYTES / 2, "{most} bytes waited");
    let summary = finished(&mut world, requester, ticket);
    assert!(summary.complete && summary.elapsed > 28 * SECOND, "{summary:?}");
    assert!(world.status(provider).sessions.is_empty());
}

#[test]
fn paused_reader_times_out_eventually() {
    for (pause, complete) in [(20, true), (40, false)] {
        let (mut world, provider, requester) = with_object(3, 2_000_000);
        world.hosts[requester.0].unread = Some(BTreeMap::new());
        let ticket = world.request(requester, Service::Image, ANYWHERE);
        world.run(pause * SECOND);
        world.read(requester, ticket, u64::MAX);
        world.hosts[requester.0].unread = None;
        let summary = finished(&mut world, requester, ticket);
        assert_eq!(summary.complete, complete, "{pause}: {summary:?}");
        assert_eq!(summary.reason, (!complete).then_some(Reason::Cancelled));
        world.run(SECOND);
        assert!(world.status(provider).sessions.is_empty());
    }
}

#[test]
fn object_resumes_at_offset() {
    let bytes = 5_000_000;
    for_seeds(10, |seed| {
        let (mut world, _, requester) = with_object(seed, bytes);
        let mut random = SplitMix64::new(seed);
        let offset = [0, bytes as u64, random.below(bytes as u64)][seed as usize % 3];
        let ticket = go_on(&mut world, requester, bytes, offset);
        let summary = finished(&mut world, requester, ticket);
        assert_eq!(begins(&world, requester, ticket), Some(offset), "seed {seed}");
        // The beginning is the owner's, and so is the verdict.
        assert!(summary.complete && summary.digest_ok.is_none() == (offset > 0), "seed {seed}: {summary:?}");
        assert_eq!(summary.bytes, bytes as u64 - offset, "seed {seed}");
        assert!(world.delivered(requester, ticket) == object(bytes)[offset as usize..], "seed {seed}");
    });
}

#[test]
fn another_object_comes_from_its_beginning() {
    let (mut world, provider, requester) = with_object(4, 2_000_000);
    for (bytes, offset) in [(2_000_001, 1_000_000), (2_000_000, 2_000_001)] {
        let ticket = go_on(&mut world, requester, bytes, offset);
        let summary = finished(&mut world, requester, ticket);
        assert_eq!(begins(&world, requester, ticket), None);
        assert!(summary.complete && summary.digest_ok == Some(true), "{summary:?}");
        assert!(world.delivered(requester, ticket) == object(2_000_000));
    }
    world.run(SECOND);
    assert!(world.status(provider).sessions.is_empty());
}

#[test]
fn an_object_survives_connection_after_connection() {
    for_few_seeds(|seed| {
        let bytes = 30_000_000;
        let (mut world, provider, requester) = with_object(seed, bytes);
        let mut random = SplitMix64::new(seed);
        world.path.loss = 20;
        let ticket = world.request(requester, Service::Image, ANYWHERE);
        world.run(300 * MS);
        while world.hosts[requester.0].ending(ticket).is_none() {
            world.break_connections(provider, requester);
            world.run(MS * (400 + random.below(600) as u32));
        }
        let summary: RequestSummary = finished(&mut world, requester, ticket);
        assert!(summary.complete && summary.digest_ok == Some(true), "seed {seed}: {summary:?}");
        assert!(world.delivered(requester, ticket) == object(bytes), "seed {seed}");
    });
}

#[test]
fn objects_share_one_connections_window() {
    let (mut world, _, requester) = with_object(5, 2_000_000);
    let tickets: Vec<_> = (0..16).map(|_| world.request(requester, Service::Image, ANYWHERE)).collect();
    let mut most = 0;
    let all_ended = |world: &World| tickets.iter().all(|ticket| world.hosts[requester.0].ending(*ticket).is_some());
    for _ in 0..600 {
        world.run(10 * MS);
        most = most.max(world.on_its_way(requester));
        if all_ended(&world) {
            break;
        }
    }
    assert!(all_ended(&world));
    for ticket in &tickets {
        assert!(finished(&mut world, requester, *ticket).complete);
    }
    assert!(most <= MAX_WINDOW_BYTES + 100_000, "{most} bytes on their way");
    assert!(most >= MAX_WINDOW_BYTES / 2, "{most} bytes on their way");
}

#[test]
fn failing_source_ends_object_with_reason() {
    let (mut world, provider, requester) = with_object(6, 30_000_000);
    let ticket = world.request(requester, Service::Image, ANYWHERE);
    world.run(250 * MS);
    let session = world.status(provider).sessions[0].session;
    world.command(provider, NodeCommand::SourceFailed { session, reason: "it has changed".to_owned() });
    let summary = finished(&mut world, requester, ticket);
    assert_eq!((summary.complete, summary.reason), (false, Some(Reason::SourceFailed)));
    assert!(summary.bytes > 0);
}

#[test]
fn provider_exceeding_window_is_stopped() {
    let (mut world, provider, requester) = with_object(8, 30_000_000);
    world.hosts[requester.0].unread = Some(BTreeMap::new());
    world.corpus = Some(Vec::new());
    let ticket = world.request(requester, Service::Image, ANYWHERE);
    world.run(SECOND);
    let said = world.corpus.take().unwrap();
    let id = said.iter().find_map(|message| match Message::decode(message) {
        Ok(Message::Request(RequestMessage::Accept(accept))) => Some(accept.id),
        _ => None,
    });
    // The provider has sent so much by the rules, and then goes on.
    let sent = said.iter().filter_map(|message| match Message::decode(message) {
        Ok(Message::Flow(FlowMessage::Chunk(chunk))) => Some(chunk.offset + chunk.payload.len() as u64),
        _ => None,
    });
    let mut offset = sent.max().unwrap();
    assert!(offset <= WINDOW_BYTES);
    let payload = Bytes::from(vec![1; CHUNK_BYTES]);
    while offset < 4 * MAX_WINDOW_BYTES && world.hosts[requester.0].ending(ticket).is_none() {
        let chunk = Chunk { id: id.unwrap(), offset, payload: payload.clone() };
        assert!(world.inject(provider, requester, Message::Flow(FlowMessage::Chunk(chunk)).encode()));
        world.run(MS);
        offset += CHUNK_BYTES as u64;
    }
    let summary = finished(&mut world, requester, ticket);
    assert_eq!((summary.complete, summary.reason), (false, Some(Reason::Protocol)));
    assert!(summary.bytes > MAX_WINDOW_BYTES / 2 && summary.bytes <= MAX_WINDOW_BYTES + CHUNK_BYTES as u64);
    world.run(SECOND);
    assert!(world.status(provider).sessions.is_empty());
}

#[test]
fn requester_without_progress_times_out() {
    let (mut world, provider, requester) = with_object(9, 8_000_000);
    world.hosts[requester.0].unread = Some(BTreeMap::new());
    let ticket = world.request(requester, Service::Image, ANYWHERE);
    for second in 0..100 {
        world.run(SECOND);
        // The reader claims to be there, and the requester's machine reports the same again.
        world.read(requester, ticket, 0);
        assert!(second > 50 || world.status(provider).sessions.len() == 1, "{second} s");
    }
    assert!(world.status(provider).sessions.is_empty());
    assert_eq!(finished(&mut world, requester, ticket).reason, Some(Reason::TimedOut));
}
