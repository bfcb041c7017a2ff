//! Three hubs, and nodes that use them while something befalls them.

use crate::*;

/// Long enough for round trips to be known as well as they can be.
pub(crate) const WARM: Duration = Duration::from_secs(300);

/// Three hubs, two providers of everything and two requesters, all of whom
/// have the first hub for their home and the second one for their standby.
pub(crate) struct ThreeHubScene {
    pub(crate) world: World,
    pub(crate) checker: InvariantChecker,
    pub(crate) hubs: Vec<HostId>,
    pub(crate) providers: [HostId; 2],
    pub(crate) requesters: [HostId; 2],
    pub(crate) asked: Vec<(HostId, Ticket)>,
}

impl ThreeHubScene {
    pub(crate) fn new(seed: u64) -> Self {
        // Never so near that the hubs share their nodes.
        let delay = MS * (6 + seed as u32 * 7 % 60);
        Self::with(seed, delay, 0)
    }

    pub(crate) fn with(seed: u64, delay: Duration, loss: u32) -> Self {
        let mut world = World::new(seed);
        world.path.delay = delay;
        world.path.spread = delay / 10;
        world.path.loss = loss;
        let hubs = world.mesh(3);
        world.run(5 * SECOND);
        let providers = [(1, 0), (9, 0)].map(|cell| world.node(cell, &Service::ALL, &hubs));
        let requesters = [(0, 0), (2, 2)].map(|cell| world.node(cell, &[], &hubs));
        world.run_until_attached();
        let mut scene =
            Self { world, checker: InvariantChecker::new(seed), hubs, providers, requesters, asked: Vec::new() };
        // At another moment between two renewals for every seed.
        scene.run(30 * SECOND + MS * (seed * 7_919 % 20_000) as u32);
        scene
    }

    pub(crate) fn nodes(&self) -> [HostId; 4] {
        let ([a, b], [c, d]) = (self.providers, self.requesters);
        [a, b, c, d]
    }

    pub(crate) fn run(&mut self, span: Duration) {
        run_checked(&mut self.world, &mut self.checker, span);
    }

    /// Goes on for `span`, with a request of each kind in turn every `pause`.
    pub(crate) fn ask_for(&mut self, span: Duration, pause: Duration) {
        let end = self.world.now + span;
        while self.world.now < end {
            self.ask();
            let step = pause.min(end.since(self.world.now));
            self.world.run(step);
            self.checker.check_now(&self.world);
        }
    }

    pub(crate) fn ask(&mut self) {
        let count = self.asked.len();
        if count.is_multiple_of(5) {
            let requester = self.requesters[count % 2];
            let ticket = self.world.lookup(requester, Service::Video, Area::Exact(Cell::new(1, 0)));
            return self.asked.push((requester, ticket));
        }
        self.request();
    }

    /// A request, and no lookup, which says what is known at that moment.
    pub(crate) fn request(&mut self) {
        let count = self.asked.len();
        let requester = self.requesters[count % 2];
        let area = [ANYWHERE, NEAREST, Area::Exact(Cell::new(1, 0))][count / 2 % 3];
        let ticket = self.world.request_with(requester, Service::Sensor, area, |wanted| {
            wanted.timeout = Some(30 * SECOND);
            wanted.mode = if count % 5 == 4 { RequestMode::Relay } else { RequestMode::Forward };
        });
        self.asked.push((requester, ticket));
    }

    /// Lets everything end: all of it well.
    pub(crate) fn end(mut self) {
        self.run(40 * SECOND);
        self.checker.check_served(&self.world, &self.asked);
    }

    pub(crate) fn homes(&self) -> [Option<HostId>; 4] {
        self.nodes().map(|node| self.world.home(node))
    }

    /// The latest that a home may be given up after a question: seven probe time-outs.
    pub(crate) fn seven_pto(&self) -> Duration {
        let rtt = self.world.path.delay * 2 + self.world.path.spread * 2;
        (rtt + rtt / 5 + 35 * MS) * 7
    }
}
