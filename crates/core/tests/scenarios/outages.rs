//! Transfers that are under way when connections are down for a while, or a provider starts again.

use crate::*;

/// Long enough to be under way in each outage.
const BYTES: usize = 12_000_000;

/// As long as the video is to last.
const DURATION: Duration = Duration::from_secs(60);

/// A provider that has sent a part of a video and of an image.
struct OutageScene {
    world: World,
    hub: HostId,
    provider: HostId,
    requester: HostId,
    video: Ticket,
    image: Ticket,
}

impl OutageScene {
    fn new(seed: u64, mode: RequestMode) -> Self {
        let (mut world, hub, provider, requester) = single_hub_world(seed, Role::SuperNode);
        world.path.delay = MS * (5 + seed as u32 * 7 % 60);
        world.hosts[provider.0].object_bytes = Some(BYTES);
        world.hosts[provider.0].reads_objects = true;
        let video = world.request_with(requester, Service::Video, ANYWHERE, |wanted| {
            (wanted.duration, wanted.mode) = (Some(DURATION), mode);
        });
        world.run(2 * SECOND);
        let image = world.request_with(requester, Service::Image, ANYWHERE, |wanted| wanted.mode = mode);
        let some = |world: &World| world.hosts[requester.0].payloads(image).count() > 30;
        assert!(world.run_while(5 * SECOND, some), "seed {seed}: nothing comes");
        world.run(MS * (seed * 131 % 20) as u32);
        for ticket in [video, image] {
            assert!(world.hosts[requester.0].payloads(ticket).next().is_some(), "seed {seed}: it has not begun");
            assert!(world.hosts[requester.0].ending(ticket).is_none(), "seed {seed}: it is over");
        }
        Self { world, hub, provider, requester, video, image }
    }

    /// Nobody reaches `host` for so long.
    fn out(&mut self, host: HostId, span: Duration) {
        for other in [self.hub, self.provider, self.requester].into_iter().filter(|other| *other != host) {
            self.world.cut(host, other);
        }
        self.world.run(span);
        self.world.heal();
    }

    fn came(&self, ticket: Ticket) -> usize {
        self.world.hosts[self.requester.0].payloads(ticket).count()
    }

    /// Both go on within so long, and end well.
    fn goes_on(mut self, seed: u64, within: Duration) -> RequestSummary {
        let before = [self.video, self.image].map(|ticket| self.came(ticket));
        self.world.run(within);
        for (ticket, before) in [self.video, self.image].into_iter().zip(before) {
            assert!(self.came(ticket) > before, "seed {seed}: {ticket:?} does not go on");
        }
        let image = finished(&mut self.world, self.requester, self.image);
        assert!(image.complete && image.digest_ok == Some(true), "seed {seed}: {image:?}");
        assert!(self.world.delivered(self.requester, self.image) == object(BYTES), "seed {seed}");
        let video = finished(&mut self.world, self.requester, self.video);
        assert!(video.complete && video.interruptions <= 1, "seed {seed}: {video:?}");
        assert!(video.elapsed < DURATION + 2 * SECOND, "seed {seed}: {video:?}");
        self.world.run(2 * SECOND);
        assert!(self.world.status(self.provider).sessions.is_empty(), "seed {seed}");
        video
    }
}

/// The host that is cut off, for how long, and the mode of the flows under way.
fn cases(modes: &[RequestMode]) -> Vec<(usize, Duration, RequestMode)> {
    let spans = [100 * MS, 4 * SECOND, 10 * SECOND, 25 * SECOND];
    let of_mode =
        |mode: &RequestMode| (0..3).flat_map(|host| spans.map(|span| (host, span, *mode))).collect::<Vec<_>>();
    modes.iter().flat_map(of_mode).collect()
}

#[test]
fn network_outage_ends_nothing() {
    let cases = cases(&[RequestMode::Forward, RequestMode::Relay]);
    for_seeds(cases.len() as u64, |seed| {
        let (host, span, mode) = cases[seed as usize % cases.len()];
        let mut scene = OutageScene::new(seed, mode);
        let host = [scene.requester, scene.provider, scene.hub][host];
        let (is_passed, is_short) = (host == scene.hub && mode == RequestMode::Forward, span < SECOND);
        scene.out(host, span);
        if is_passed || is_short {
            let image = finished(&mut scene.world, scene.requester, scene.image);
            let video = finished(&mut scene.world, scene.requester, scene.video);
            assert!(image.complete && video.complete, "seed {seed}, {mode:?} {span:?}: {image:?}, {video:?}");
            assert_eq!(video.interruptions, 0, "seed {seed}, {mode:?} {span:?}");
            assert!(!is_passed || video.lost == 0, "seed {seed}, {mode:?} {span:?}: {video:?}");
            assert!(scene.world.delivered(scene.requester, scene.image) == object(BYTES), "seed {seed}");
            return;
        }
        // A relayed flow is found again once both nodes are attached again.
        let within = if mode == RequestMode::Forward { 3 * SECOND } else { 12 * SECOND };
        let video = scene.goes_on(seed, within);
        assert_eq!(video.interruptions, 1, "seed {seed}, {mode:?}: {video:?}");
        assert!(video.interrupted >= span, "seed {seed}, {mode:?}: {video:?}");
        assert!(mode == RequestMode::Relay || video.lost > 0, "seed {seed}: {video:?}");
    });
}

#[test]
fn restarted_provider_resumes_flows() {
    for_seeds(8, |seed| {
        let mut scene = OutageScene::new(seed, RequestMode::Forward);
        let (provider, hub) = (scene.provider, scene.hub);
        let restart = if seed % 2 == 0 { World::restart_node } else { World::restart_silently };
        restart(&mut scene.world, provider, &[hub], 2_000);
        let host = &mut scene.world.hosts[provider.0];
        (host.object_bytes, host.reads_objects) = (Some(BYTES), true);
        scene.world.offer_everything(provider);
        scene.world.run(SECOND);
        let video = scene.goes_on(seed, 5 * SECOND);
        // Nobody has numbered what was not sent meanwhile.
        let rate = video.packets as f64 / (video.elapsed - video.interrupted).as_secs_f64();
        let stood_still = video.lost as f64 / rate;
        let longest = if seed % 2 == 0 { 2.5 } else { 4.8 };
        assert!((0.5..longest).contains(&stood_still), "seed {seed}: {stood_still} s in {video:?}");
        let told = video.interrupted.as_secs_f64();
        assert!(told == 0.0 || (stood_still - told).abs() < 0.3, "seed {seed}: {stood_still} s in {video:?}");
    });
}

#[test]
fn long_silence_times_out() {
    for_seeds(4, |seed| {
        let mut scene = OutageScene::new(seed, RequestMode::Forward);
        let provider = scene.provider;
        scene.world.freeze(provider);
        scene.world.run(STALL_TIMEOUT + SECOND);
        for ticket in [scene.video, scene.image] {
            let summary = finished(&mut scene.world, scene.requester, ticket);
            assert_eq!((summary.complete, summary.reason), (false, Some(Reason::TimedOut)), "seed {seed}");
            assert!(summary.elapsed < STALL_TIMEOUT + 5 * SECOND, "seed {seed}: {summary:?}");
        }
    });
}

#[test]
fn trickled_bytes_are_no_progress() {
    let (mut world, _, provider, requester) = single_hub_world(1, Role::SuperNode);
    world.hosts[provider.0].object_bytes = Some(BYTES);
    world.hosts[provider.0].reads_objects = true;
    world.corpus = Some(Vec::new());
    let image = world.request(requester, Service::Image, ANYWHERE);
    let some = |world: &World| world.hosts[requester.0].payloads(image).count() > 3;
    assert!(world.run_while(5 * SECOND, some));
    let said = world.corpus.take().unwrap();
    let id = said.iter().find_map(|message| match Message::decode(message) {
        Ok(Message::Request(RequestMessage::Accept(accept))) => Some(accept.id),
        _ => None,
    });
    world.freeze(provider);
    world.run(SECOND);
    for _ in 0..40 {
        if world.hosts[requester.0].ending(image).is_some() {
            break;
        }
        let offset = world.delivered(requester, image).len() as u64;
        let chunk = Chunk { id: id.unwrap(), offset, payload: Bytes::from_static(b"!") };
        world.inject(provider, requester, Message::Flow(FlowMessage::Chunk(chunk)).encode());
        world.run(SECOND);
    }
    let summary = finished(&mut world, requester, image);
    assert_eq!((summary.reason, summary.stalled), (Some(Reason::TimedOut), true), "{summary:?}");
    assert!(summary.elapsed < STALL_TIMEOUT + 3 * SECOND, "{summary:?}");
}
