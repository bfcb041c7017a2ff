//! Two nodes that were connected lose sight of each other while hubs still reach both.

use crate::*;

/// The longest wait for the first answer: a repeated request, doubt in the connection, and a dial in vain.
const FIRST_ANSWER: Duration = Duration::from_secs(5);

/// The time more until the body of a call is doubted.
const FIRST_BODY: Duration = Duration::from_secs(2);

/// The longest gap of a flow under way: its silence, and the same.
const LONGEST_GAP: Duration = Duration::from_secs(8);

/// A provider and a requester that have a connection, at hubs that will still reach both.
pub(crate) struct ConnectedPair {
    pub(crate) world: World,
    pub(crate) provider: HostId,
    pub(crate) requester: HostId,
}

/// The shape of a pair, which a seed draws.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PairCase {
    pub(crate) hubs: usize,
    /// Each hub is home or standby of both.
    pub(crate) shares_hubs: bool,
    pub(crate) schemes: SchemeSet,
    pub(crate) delay: Duration,
    pub(crate) object_bytes: usize,
    /// Hubs that are shared even out their nodes in the first seconds.
    pub(crate) settles: Duration,
    pub(crate) idle: Duration,
}

impl PairCase {
    pub(crate) fn of_seed(seed: u64) -> Self {
        let mut random = SplitMix64::new(seed);
        let mut below = |count: usize| random.below(count as u64) as usize;
        let shares_hubs = below(2) == 0;
        let schemes =
            [SchemeSet::ALL, SchemeSet::only(Scheme::Udp), SchemeSet::only(Scheme::Tcp), SchemeSet::only(Scheme::Quic)];
        Self {
            shares_hubs,
            settles: SECOND * if shares_hubs { 30 } else { 5 },
            hubs: 1 + below(2),
            schemes: schemes[below(4)],
            delay: MS * [1, 20, 130][below(3)],
            object_bytes: [800, 20_000, 2_000_000][below(3)],
            idle: SECOND * [0, 20, 110, 300][below(4)],
        }
    }
}

pub(crate) fn render() -> Service {
    "acme/render:call".parse().unwrap_or_else(|error| panic!("{error}"))
}

impl ConnectedPair {
    pub(crate) fn new(seed: u64, case: PairCase) -> Self {
        let mut world = World::new(seed);
        world.retransmits = true;
        let hubs = world.mesh(case.hubs);
        let (first, last) =
            if case.shares_hubs { (&hubs[..], &hubs[..]) } else { (&hubs[..1], &hubs[case.hubs - 1..]) };
        let provider = world.node((1, 1), &[], first);
        let requester = world.node((0, 0), &[], last);
        world.hosts.iter_mut().for_each(|host| host.schemes = case.schemes);
        world.hosts[provider.0].object_bytes = Some(case.object_bytes);
        world.path.delay = case.delay;
        world.run_until_attached();
        let services = Service::ALL.iter().fold(ServiceSet::EMPTY, |all, service| all.with_offer(Offer::new(*service)));
        let services = services.with_offer(Offer::new(render()));
        world.command(provider, NodeCommand::Reconfigure { services, max_streams: 1, uplink_kbps: None });
        world.run(case.settles);
        let mut pair = Self { world, provider, requester };
        let first = pair.ask(Service::Sensor);
        let summary = finished(&mut pair.world, requester, first);
        assert!(summary.complete && !summary.relayed, "seed {seed}, {case:?}: {summary:?}");
        pair.world.run(case.idle);
        pair
    }

    pub(crate) fn ask(&mut self, service: Service) -> Ticket {
        self.world.request_with(self.requester, service, ANYWHERE, |wanted| {
            wanted.duration = service.is_stream().then_some(10 * SECOND);
            if service.is_call() {
                wanted.body = object(3000);
            }
        })
    }

    /// Asks for a stream that must come whole.
    fn ask_for_whole_video(&mut self) -> Ticket {
        self.world.request_with(self.requester, Service::Video, ANYWHERE, |wanted| {
            (wanted.duration, wanted.profile) = (Some(20 * SECOND), Some(Profile::Surveillance));
        })
    }

    pub(crate) fn ask_out_of_sight(&mut self, service: Service) -> Ticket {
        self.lose_sight();
        self.ask(service)
    }

    /// Loses sight while the answer comes. Another time the source would give something else.
    fn lose_sight_amid(&mut self, service: Service) -> Ticket {
        let ticket = self.ask(service);
        self.run_until_it_comes(ticket);
        self.world.hosts[self.provider.0].object_bytes = Some(1_500_000);
        self.lose_sight();
        ticket
    }

    pub(crate) fn lose_sight(&mut self) {
        self.world.cut(self.provider, self.requester);
    }

    /// Two that are out of sight see each other again, lose sight once more, and see each other for good.
    pub(crate) fn regain_and_lose_twice(&mut self, random: &mut SplitMix64) {
        for earliest in [3_000, 2_000] {
            self.world.run(MS * (earliest + random.below(6_000) as u32));
            self.world.heal();
            self.world.run(MS * random.below(3_000) as u32);
            self.lose_sight();
        }
        self.world.heal();
    }

    pub(crate) fn run_until_it_comes(&mut self, ticket: Ticket) {
        let requester = self.requester;
        let has_begun = |world: &World| world.hosts[requester.0].payloads(ticket).count() > 5;
        assert!(self.world.run_while(8 * SECOND, has_begun), "nothing comes");
    }

    fn longest_gap(&self, ticket: Ticket) -> Duration {
        let is_data = |event: &NodeEvent| matches!(event, NodeEvent::Data { ticket: of, .. } if *of == ticket);
        let events = self.world.events(self.requester).iter();
        let times: Vec<Time> = events.filter(|(_, event)| is_data(event)).map(|(at, _)| *at).collect();
        times.windows(2).map(|two| two[1].since(two[0])).max().unwrap_or_default()
    }

    /// The sources that the provider has opened.
    pub(crate) fn opened(&self) -> usize {
        self.world.hosts[self.provider.0].opened.len()
    }

    pub(crate) fn last_opened(&self) -> SessionId {
        let opened = self.world.hosts[self.provider.0].opened.last().map(|(session, ..)| *session);
        opened.unwrap_or_else(|| panic!("no source was opened"))
    }

    pub(crate) fn runs(&self) -> usize {
        self.runs_at(self.provider)
    }

    pub(crate) fn runs_at(&self, provider: HostId) -> usize {
        let is_run =
            |event: &NodeEvent| matches!(event, NodeEvent::OpenSource { request, .. } if request.service.is_call());
        self.world.events(provider).iter().filter(|(_, event)| is_run(event)).count()
    }
}

pub(crate) fn services() -> [Service; 5] {
    [Service::Sensor, Service::Image, Service::Track, Service::Video, render()]
}

#[test]
fn hub_relays_soon_out_of_sight() {
    for_seeds(30, |seed| {
        let case = PairCase::of_seed(seed);
        for service in services() {
            let mut pair = ConnectedPair::new(seed, case);
            let requester = pair.requester;
            pair.lose_sight();
            for number in 0..3 {
                let body = if service.is_call() { FIRST_BODY } else { Duration::ZERO };
                let limit = if number == 0 { FIRST_ANSWER + body } else { Duration::ZERO } + case.delay * 30;
                let ticket = pair.ask(service);
                let summary = finished(&mut pair.world, requester, ticket);
                assert!(summary.complete && summary.relayed, "seed {seed}, {case:?}, {service}: {summary:?}");
                assert!(summary.first_byte < limit, "seed {seed}, {case:?}, {service} {number}: {summary:?}");
            }
            assert_eq!(pair.runs(), if service.is_call() { 3 } else { 0 }, "seed {seed}, {case:?}");
            pair.world.heal();
            pair.world.run(61 * SECOND);
            let ticket = pair.ask(service);
            let summary = finished(&mut pair.world, requester, ticket);
            assert!(summary.complete && !summary.relayed, "seed {seed}, {case:?}, {service}: {summary:?}");
        }
    });
}

/// The source is opened once: another time it would give something else.
#[test]
fn flow_goes_on_out_of_sight() {
    for_seeds(30, |seed| {
        let case = PairCase { object_bytes: 2_000_000, ..PairCase::of_seed(seed) };
        for service in [Service::Image, Service::Track, Service::Video, render()] {
            let mut pair = ConnectedPair::new(seed, case);
            let requester = pair.requester;
            let ticket = pair.lose_sight_amid(service);
            let opened = pair.opened();
            let summary = finished(&mut pair.world, requester, ticket);
            assert!(summary.complete && summary.relayed, "seed {seed}, {case:?}, {service}: {summary:?}");
            let gap = pair.longest_gap(ticket);
            assert!(gap < LONGEST_GAP + case.delay * 20, "seed {seed}, {case:?}, {service}: {gap:?}");
            assert_eq!(pair.opened(), opened, "seed {seed}, {case:?}, {service}");
            if !service.is_stream() {
                assert!(
                    pair.world.delivered(requester, ticket) == object(2_000_000),
                    "seed {seed}, {case:?}, {service}"
                );
            }
        }
    });
}

/// Data and acceptances that come directly just before the hub goes on with the flow do not end that.
#[test]
fn sight_returns_as_hub_goes_on() {
    for_seeds(100, |seed| {
        let sizes = [800, 200_000, 2_000_000];
        let of_seed = PairCase::of_seed(seed);
        let case = PairCase { object_bytes: sizes[seed as usize % 3], idle: SECOND, delay: MS * 130, ..of_seed };
        let service = [Service::Image, Service::Track, render()][seed as usize / 3 % 3];
        let mut pair = ConnectedPair::new(seed, case);
        let opened = pair.opened();
        let mut random = SplitMix64::new(seed);
        let has_begun = random.below(2) == 0 && case.object_bytes > sizes[0];
        let ticket = if has_begun { pair.lose_sight_amid(service) } else { pair.ask_out_of_sight(service) };
        let earliest = if has_begun { 3_000 } else { 0 };
        pair.world.run(MS * (earliest + random.below(6_000) as u32));
        pair.world.heal();
        let summary = finished(&mut pair.world, pair.requester, ticket);
        let about = format!("seed {seed}, {case:?}, {service}, {has_begun}: {summary:?}");
        assert!(summary.complete && pair.opened() == opened + 1, "{about}");
        let is_object = !service.is_stream();
        assert!(!is_object || pair.world.delivered(pair.requester, ticket) == object(case.object_bytes), "{about}");
    });
}

/// Sight is lost and gained twice, on paths that lose.
#[test]
fn moved_flows_come_whole_and_once() {
    for_seeds(60, |seed| {
        let case = PairCase { object_bytes: 2_000_000, idle: SECOND, ..PairCase::of_seed(seed) };
        let mut pair = ConnectedPair::new(seed, case);
        let mut random = SplitMix64::new(seed);
        pair.world.path.loss = 30;
        let ticket = match seed % 2 {
            0 => pair.lose_sight_amid(Service::Image),
            _ => {
                pair.lose_sight();
                pair.ask_for_whole_video()
            }
        };
        pair.regain_and_lose_twice(&mut random);
        let ending = pair.world.outcome(pair.requester, ticket);
        // The provider takes a single stream at a time, and keeps the place of one whose acceptance was lost.
        let is_busy = matches!(ending, NodeEvent::Failed { reason: Reason::Busy, .. });
        let is_right = match &ending {
            NodeEvent::Finished { summary, .. } => summary.complete && summary.digest_ok == Some(true),
            _ => is_busy && seed % 2 == 1,
        };
        assert!(is_right, "seed {seed}, {case:?}: {ending:?}");
    });
}

/// Sight is lost at any moment of a call: before its body, in it, while it runs, and in its answer.
#[test]
fn call_runs_once_out_of_sight() {
    for_seeds(60, |seed| {
        let case = PairCase { object_bytes: [800, 200_000][seed as usize % 2], ..PairCase::of_seed(seed) };
        let mut pair = ConnectedPair::new(seed, case);
        let (provider, requester) = (pair.provider, pair.requester);
        pair.world.hosts[provider.0].slow_source = true;
        let ticket = pair.world.request_with(requester, render(), ANYWHERE, |wanted| {
            (wanted.body, wanted.timeout) = (object(3000), Some(60 * SECOND));
        });
        pair.world.run(case.delay * (seed as u32 / 2 % 10));
        pair.lose_sight();
        if seed % 3 == 0 {
            // The transport has noticed.
            pair.world.break_connections(provider, requester);
        }
        let is_running = |world: &World| !world.hosts[provider.0].opened.is_empty();
        let is_called = |world: &World| {
            is_running(world) && world.hosts[provider.0].opened.iter().any(|(_, service, _)| service.is_call())
        };
        assert!(pair.world.run_while(10 * SECOND, is_called), "seed {seed}, {case:?}: it does not run");
        // Repeated meanwhile, as it takes longer than a requester waits.
        pair.world.run(SECOND * (seed as u32 % 7));
        let (session, bytes) = (pair.last_opened(), object(case.object_bytes));
        let digest = object::digest(&bytes);
        let opened = SourceOutput::Object { bytes, digest, format: "synthetic".to_owned() };
        let since = pair.world.now;
        pair.world.command(provider, NodeCommand::SourceOpened { session, opened });
        let summary = finished(&mut pair.world, requester, ticket);
        assert!(summary.complete && summary.digest_ok == Some(true), "seed {seed}, {case:?}: {summary:?}");
        assert_eq!(pair.runs(), 1, "seed {seed}, {case:?}");
        let took = pair.world.now.since(since);
        assert!(took < LONGEST_GAP + case.delay * 40, "seed {seed}, {case:?}: {took:?}");
    });
}

/// A stream that must come whole waits until the two see each other again, however often they lose sight.
#[test]
fn whole_stream_waits_for_sight() {
    for_seeds(20, |seed| {
        let case = PairCase { delay: 20 * MS, ..PairCase::of_seed(seed) };
        let mut pair = ConnectedPair::new(seed, case);
        let requester = pair.requester;
        let ticket = pair.ask_for_whole_video();
        pair.run_until_it_comes(ticket);
        for span in [300, 6_000, 900].map(|millis| MS * (millis + seed as u32 * 37 % 200)) {
            pair.lose_sight();
            pair.world.run(span);
            pair.world.heal();
            pair.world.run(span / 3);
        }
        let summary = finished(&mut pair.world, requester, ticket);
        assert!(summary.complete && summary.lost == 0, "seed {seed}, {case:?}: {summary:?}");
    });
}

/// Two that lose sight and gain it again and again get all that they ask for.
#[test]
fn flapping_sight_serves_all() {
    for_seeds(20, |seed| {
        let case = PairCase { object_bytes: 400_000, delay: 20 * MS, ..PairCase::of_seed(seed) };
        let mut pair = ConnectedPair::new(seed, case);
        let mut random = SplitMix64::new(seed);
        let mut tickets = Vec::new();
        for number in 0..20 {
            match number % 2 {
                0 => pair.lose_sight(),
                _ => pair.world.heal(),
            }
            tickets
                .extend([Service::Sensor, Service::Image, Service::Track].map(|service| (service, pair.ask(service))));
            pair.world.run(MS * (100 + random.below(4_000) as u32));
        }
        for (service, ticket) in tickets {
            // The provider takes a single stream at a time.
            let ending = pair.world.outcome(pair.requester, ticket);
            let is_busy = matches!(ending, NodeEvent::Failed { reason: Reason::Busy, .. }) && service.is_stream();
            // The end of a stream may be lost with sight.
            let is_served =
                matches!(&ending, NodeEvent::Finished { summary, .. } if summary.complete || service.is_stream());
            assert!(is_served || is_busy, "seed {seed}, {case:?}, {service}: {ending:?}");
        }
    });
}

/// The hub that relays becomes the provider's home, over another connection.
#[test]
fn relay_outlives_change_of_home() {
    for_seeds(12, |seed| {
        let case = PairCase { hubs: 2, shares_hubs: true, settles: SECOND, idle: SECOND, ..PairCase::of_seed(seed) };
        let mut pair = ConnectedPair::new(seed, case);
        pair.lose_sight();
        let (ticket, requester) = (pair.ask(Service::Track), pair.requester);
        let summary = finished(&mut pair.world, requester, ticket);
        assert!(summary.complete && summary.relayed, "seed {seed}, {case:?}: {summary:?}");
    });
}

/// A connection that loses much is doubted now and then, and goes on to be used.
#[test]
fn lossy_connections_are_believed_again() {
    for_seeds(20, |seed| {
        let case = PairCase { object_bytes: 800, schemes: SchemeSet::only(Scheme::Udp), ..PairCase::of_seed(seed) };
        let mut pair = ConnectedPair::new(seed, case);
        let (requester, nodes) = (pair.requester, [pair.provider, pair.requester]);
        pair.world.path.loss = 200;
        // Behind translators no dial of the provider's brings another connection.
        pair.world.close(&nodes);
        let pause = SECOND * [0, 70][seed as usize % 2];
        let relayed = (0..30).filter(|_| {
            pair.world.run(pause);
            let ticket = pair.ask(Service::Sensor);
            pair.world.run_while(30 * SECOND, |world| world.hosts[requester.0].ending(ticket).is_some());
            let ending = pair.world.hosts[requester.0].ending(ticket).cloned();
            matches!(ending, Some(NodeEvent::Finished { summary, .. }) if summary.relayed)
        });
        let relayed = relayed.count();
        assert!(relayed <= 6, "seed {seed}, {case:?}: {relayed} of 30");
    });
}
