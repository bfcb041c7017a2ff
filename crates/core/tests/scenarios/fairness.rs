//! Members that want everything, and how others fare beside them.

use std::collections::BTreeMap;

use crate::*;

/// The fate of honest requests.
#[derive(Debug, Default)]
pub(crate) struct RequestStats {
    pub(crate) asked: usize,
    pub(crate) took: Vec<Duration>,
    pub(crate) failed: Vec<Reason>,
}

impl RequestStats {
    /// The time within which all but one in a hundred are served.
    pub(crate) fn p99(&self) -> Duration {
        let mut took = self.took.clone();
        took.sort_unstable();
        took.get((took.len() * 99).div_ceil(100).saturating_sub(1)).copied().unwrap_or(Duration::MAX)
    }

    /// As many are served as aimed at, nearly as fast as `without` anybody hostile.
    pub(crate) fn is_fair_beside(&self, without: &Self, seed: u64) {
        let served = self.took.len() * 100;
        assert!(self.asked > 0 && served >= self.asked * 99, "seed {seed}: {self:?}");
        assert!(self.p99() <= without.p99() * 3, "seed {seed}: {:?} for {:?}", self.p99(), without.p99());
    }
}

/// Requests in a loop by honest hosts, one at a time each.
pub(crate) struct RequestLoop {
    pub(crate) hosts: Vec<HostId>,
    pub(crate) service: Service,
    /// The length of each stream, and the pause after each request.
    pub(crate) duration: Duration,
    pub(crate) pause: Duration,
    pub(crate) mode: RequestMode,
}

impl RequestLoop {
    pub(crate) fn new(hosts: &[HostId], service: Service) -> Self {
        let (duration, pause) = (500 * MS, 200 * MS);
        Self { hosts: hosts.to_vec(), service, duration, pause, mode: RequestMode::Forward }
    }

    fn ask(&self, world: &mut World, host: HostId) -> Ticket {
        if self.mode == RequestMode::Lookup {
            return world.lookup(host, self.service, ANYWHERE);
        }
        let change = |wanted: &mut RequestCommand| {
            (wanted.duration, wanted.mode) = (self.service.is_stream().then_some(self.duration), self.mode);
            wanted.timeout = Some(5 * SECOND);
        };
        world.request_with(host, self.service, ANYWHERE, change)
    }

    /// Runs for `span`, while `hostile` does its worst every 20 ms.
    pub(crate) fn run(&self, world: &mut World, span: Duration, mut hostile: impl FnMut(&mut World)) -> RequestStats {
        let end = world.now + span;
        let mut fare = RequestStats::default();
        let mut open = BTreeMap::<HostId, (Ticket, Time)>::new();
        let mut next: BTreeMap<HostId, Time> = self.hosts.iter().map(|host| (*host, world.now)).collect();
        while world.now < end || !open.is_empty() {
            hostile(world);
            for host in &self.hosts {
                if let Some((ticket, at)) = open.get(host).copied() {
                    if let Some(took) = outcome(world, *host, ticket) {
                        match took {
                            Ok(at_end) => fare.took.push(at_end.since(at)),
                            Err(reason) => fare.failed.push(reason),
                        }
                        open.remove(host);
                        next.insert(*host, world.now + self.pause);
                    }
                } else if world.now < end && next.get(host).is_some_and(|at| *at <= world.now) {
                    fare.asked += 1;
                    let ticket = self.ask(world, *host);
                    open.insert(*host, (ticket, world.now));
                }
            }
            world.run(20 * MS);
        }
        fare
    }
}

/// The time at which a request was served whole, or the reason why not; `None` while it is under way.
fn outcome(world: &World, host: HostId, ticket: Ticket) -> Option<Result<Time, Reason>> {
    world.events(host).iter().rev().find_map(|(at, event)| match event {
        NodeEvent::Finished { ticket: of, summary } if *of == ticket => {
            Some(summary.complete.then_some(*at).ok_or(summary.reason.unwrap_or(Reason::Protocol)))
        }
        NodeEvent::Failed { ticket: of, reason, .. } if *of == ticket => Some(Err(*reason)),
        NodeEvent::LookupResult { ticket: of, .. } if *of == ticket => Some(Ok(*at)),
        _ => None,
    })
}

/// A request as a rogue's own machine would not make it.
fn request(number: u32, service: Service, mode: RequestMode) -> Message {
    let spec = ServiceRequest { mode, duration: Some(3_600 * SECOND), ..ServiceRequest::new(service, ANYWHERE) };
    Message::Request(RequestMessage::Request(Request::new(
        RequestId(number),
        Nonce::from_u64(number.into()),
        spec,
        10_000,
    )))
}

/// A hub, a provider of everything, two honest requesters, and rogues.
fn crowd(seed: u64, rogues: i32) -> (World, [HostId; 4], Vec<HostId>) {
    let (mut world, hub, provider, one) = single_hub_world(seed, Role::SuperNode);
    world.hosts[provider.0].object_bytes = Some(400_000);
    let other = world.node((60, 60), &[], &[hub]);
    let rogues: Vec<HostId> = (0..rogues).map(|x| world.node((70 + x, 70), &[], &[hub])).collect();
    world.run_until_attached();
    world.run(SECOND);
    (world, [hub, provider, one, other], rogues)
}

/// Keeps asking for objects of which nothing is read.
fn hoard(world: &mut World, rogue: HostId, tries: &mut usize) {
    world.hosts[rogue.0].unread.get_or_insert_default();
    let under_way = world.status(rogue).requests.len();
    // As fast as 24 kbit/s carry.
    let fresh = (64 - under_way.min(64)).min(2);
    for _ in 0..fresh {
        *tries += 1;
        world.request(rogue, Service::Image, ANYWHERE);
    }
}

#[test]
fn unread_objects_block_no_other_requester() {
    for_few_seeds(|seed| {
        let fare = |hoarders: i32| {
            let (mut world, [_, provider, one, other], rogues) = crowd(seed, hoarders);
            let honest = RequestLoop::new(&[one, other], Service::Image);
            let mut tries = 0;
            let fare = honest.run(&mut world, 20 * SECOND, |world| {
                for rogue in &rogues {
                    hoard(world, *rogue, &mut tries);
                }
            });
            assert!(hoarders == 0 || tries > 100 && world.status(provider).counters.displaced > 20, "{tries}");
            fare
        };
        let without = fare(0);
        for hoarders in [1, 5] {
            fare(hoarders).is_fair_beside(&without, seed);
        }
    });
}

#[test]
fn endless_streams_block_no_other_requester() {
    for_few_seeds(|seed| {
        let fare = |hostile: bool| {
            let (mut world, [_, _, one, other], rogues) = crowd(seed, 1);
            let honest = RequestLoop::new(&[one, other], Service::Video);
            let fare = honest.run(&mut world, 30 * SECOND, |world| {
                let (rogue, wants) = (rogues[0], if hostile { 12 } else { 0 });
                for _ in world.status(rogue).requests.len()..wants {
                    world.request_with(rogue, Service::Video, ANYWHERE, |wanted| wanted.duration = Some(3600 * SECOND));
                }
            });
            let left = world.status(rogues[0]).requests.len();
            assert!(!hostile || left >= 6, "{left}: the rogue keeps what nobody else asks for");
            fare
        };
        fare(true).is_fair_beside(&fare(false), seed);
    });
}

/// Packets of the first stream may still come, and nothing tells them from those of a second one.
#[test]
fn displaced_stream_is_not_restarted() {
    for_few_seeds(|seed| {
        let (mut world, [_, provider, one, _], rogues) = crowd(seed, 1);
        let meeting = world.request(rogues[0], Service::Sensor, ANYWHERE);
        assert!(finished(&mut world, rogues[0], meeting).complete, "seed {seed}");
        world.mute(rogues[0], provider);
        let ask = |world: &mut World| {
            for number in 100..108 {
                world.inject(rogues[0], provider, request(number, Service::Video, RequestMode::Forward).encode());
            }
            world.run(20 * MS);
            world.status(provider).sessions.len()
        };
        assert_eq!(ask(&mut world), 8, "seed {seed}");
        let ticket = world.request_with(one, Service::Video, ANYWHERE, |wanted| wanted.duration = Some(SECOND));
        assert!(finished(&mut world, one, ticket).complete, "seed {seed}");
        assert_eq!(ask(&mut world), 7, "seed {seed}");
    });
}

#[test]
fn one_requester_has_all_places_alone() {
    let (mut world, [_, provider, one, other], _) = crowd(10, 0);
    world.hosts[provider.0].object_bytes = Some(2_000_000);
    let tickets: Vec<Ticket> = (0..MAX_OBJECT_SESSIONS).map(|_| world.request(one, Service::Image, ANYWHERE)).collect();
    world.run(200 * MS);
    assert_eq!(world.status(provider).sessions.len(), MAX_OBJECT_SESSIONS);
    let ticket = world.request(other, Service::Image, ANYWHERE);
    assert!(finished(&mut world, other, ticket).complete);
    // A request that lost its place goes on later.
    for ticket in tickets {
        assert!(finished(&mut world, one, ticket).complete);
    }
}

#[test]
fn flood_of_lookups_is_refused_alone() {
    for_few_seeds(|seed| {
        let fare = |mode: Option<RequestMode>| {
            let (mut world, [hub, _, one, other], rogues) = crowd(seed, 1);
            for _ in 0..200 {
                world.node((3, 3), &[Service::Video], &[hub]);
            }
            world.run_until_attached();
            let before = world.hub_at(hub).counters().clone();
            let honest = RequestLoop {
                mode: RequestMode::Lookup,
                pause: 40 * MS,
                ..RequestLoop::new(&[one, other], Service::Video)
            };
            let mut number = 0;
            let fare = honest.run(&mut world, 5 * SECOND, |world| {
                for _ in 0..mode.map_or(0, |_| 200) {
                    number += 1;
                    let request = request(number, Service::Video, mode.unwrap_or_default());
                    world.inject(rogues[0], hub, request.encode());
                }
            });
            let counters = world.hub_at(hub).counters();
            let searches = counters.searches - before.searches;
            let throttled = counters.over_limit(HubLimit::QueryRate);
            // Some 200 records are looked at each time, which costs as much as three more.
            assert!(mode.is_none() || searches < 7 * 5_000 / 3 + 2_000 && throttled > 20_000, "{searches}");
            assert!(mode.is_some() || throttled == 0);
            fare
        };
        let without = fare(None);
        for mode in [RequestMode::Lookup, RequestMode::Forward] {
            fare(Some(mode)).is_fair_beside(&without, seed);
        }
    });
}
