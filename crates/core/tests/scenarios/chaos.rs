//! Anything may happen: what must hold nevertheless.

use std::collections::BTreeSet;

use crate::*;

struct Chaos {
    world: World,
    random: SplitMix64,
    hubs: Vec<HostId>,
    nodes: Vec<HostId>,
    asked: Vec<(HostId, Ticket, Option<Service>)>,
}

impl Chaos {
    fn new(seed: u64) -> Self {
        let mut random = SplitMix64::new(seed ^ 0x5eed);
        let mut world = World::new(seed);
        world.path = PathConditions {
            delay: MS * (1 + random.below(80) as u32),
            spread: MS * random.below(40) as u32,
            loss: random.below(4) as u32 * 100,
            duplication: random.below(3) as u32 * 100,
            rate: None,
        };
        world.damage_chunks = seed % 10 == 9;
        let hubs = world.mesh(1 + random.below(3) as usize);
        let nodes = (0..3 + random.below(5)).map(|n| {
            let services: Vec<_> = Service::ALL.into_iter().filter(|_| random.below(4) != 0).collect();
            world.node((n as i32, random.below(5) as i32), &services, &hubs)
        });
        let nodes = nodes.collect();
        Self { world, random, hubs, nodes, asked: Vec::new() }
    }

    fn any_node(&mut self) -> HostId {
        self.nodes[self.random.below(self.nodes.len() as u64) as usize]
    }

    fn service(&mut self) -> Service {
        Service::ALL[self.random.below(4) as usize]
    }

    fn area(&mut self) -> Area {
        let cell = Cell::new(self.random.below(8) as i32, self.random.below(5) as i32);
        match self.random.below(4) {
            0 => Area::Anywhere,
            1 => Area::Nearest(cell),
            2 => Area::Radius { center: cell, radius: self.random.below(5) as u32 },
            _ => Area::Exact(cell),
        }
    }

    fn step(&mut self) {
        let node = self.any_node();
        let other = self.any_node();
        match self.random.below(100) {
            0..50 => self.request(node),
            50..60 => {
                let (service, area) = (self.service(), self.area());
                let ticket = self.world.lookup(node, service, area);
                self.asked.push((node, ticket, None));
            }
            60..65 => {
                let ticket = self.world.ping(node, None);
                self.asked.push((node, ticket, None));
            }
            65..72 => {
                if let Some((host, ticket, _)) = self.asked.last().copied() {
                    self.world.cancel(host, ticket);
                }
            }
            72..82 => {
                let cell = Cell::new(self.random.below(8) as i32, self.random.below(5) as i32);
                self.world.command(node, NodeCommand::Move(cell.into()));
            }
            82..88 => self.world.break_connections(node, other),
            88..90 => self.world.cut(node, other),
            90 => self.world.mute(node, self.hubs[0]),
            91..93 => self.world.command(node, NodeCommand::Leave),
            93..95 if self.nodes.len() > 2 => self.lose_node(node),
            95..97 if self.hubs.len() > 1 => self.lose_hub(),
            _ => {}
        }
        let pause = MS * self.random.below(600) as u32;
        self.world.run(pause);
        self.check_bounds();
    }

    fn request(&mut self, node: HostId) {
        let (service, area) = (self.service(), self.area());
        let mode = if self.random.below(3) == 0 { RequestMode::Relay } else { RequestMode::Forward };
        let scheme = Scheme::ALL[self.random.below(3) as usize];
        let restricted = self.random.below(4) == 0;
        let ticket = self.world.request_with(node, service, area, |wanted| {
            wanted.mode = mode;
            if restricted {
                wanted.transports = SchemeSet::only(scheme);
            }
        });
        self.asked.push((node, ticket, Some(service)));
    }

    /// A node dies or freezes; what it asked for no longer counts.
    fn lose_node(&mut self, node: HostId) {
        if self.random.below(2) == 0 {
            self.world.kill(node)
        } else {
            self.world.freeze(node)
        }
        self.nodes.retain(|other| *other != node);
        self.asked.retain(|(host, _, _)| *host != node);
    }

    fn lose_hub(&mut self) {
        let hub = self.hubs.remove(self.random.below(self.hubs.len() as u64) as usize);
        match self.random.below(3) {
            0 => self.world.kill(hub),
            1 => self.world.freeze(hub),
            _ => self.world.leave_hub(hub),
        }
    }

    fn check_bounds(&self) {
        for node in &self.nodes {
            let status = self.world.status(*node);
            assert!(status.requests.len() <= MAX_REQUESTS);
            assert!(status.sessions.len() <= MAX_OBJECT_SESSIONS + 8);
        }
    }

    /// After a quiet time everything has ended, once, and nothing is left over.
    fn check_end(&mut self, seed: u64) {
        self.world.run(90 * SECOND);
        for (host, ticket, service) in &self.asked {
            let endings: Vec<_> = self.world.hosts[host.0].endings(*ticket).collect();
            assert_eq!(endings.len(), 1, "seed {seed}: {ticket:?} of {host:?}: {endings:?}");
            if let Some(service) = service {
                self.check_data(seed, *host, *ticket, *service);
            }
        }
        for node in &self.nodes {
            self.check_sessions(seed, *node);
        }
        let before = self.world.messages;
        self.world.run(40 * SECOND);
        let said = self.world.messages - before;
        // Hubs gossip twice a second, and ask one another whether they live.
        let (nodes, hubs): (Vec<_>, Vec<_>) = self.world.hosts.iter().partition(|host| host.role == Role::Node);
        let limit = (hubs.len() * 130 + nodes.len() * 25) as u64;
        assert!(
            said <= limit,
            "seed {seed}: {said} messages of {} hosts that have nothing to do",
            self.world.hosts.len()
        );
    }

    fn check_data(&self, seed: u64, host: HostId, ticket: Ticket, service: Service) {
        let host = &self.world.hosts[host.0];
        let Some(NodeEvent::Finished { summary, .. }) = host.ending(ticket) else { return };
        let delivered = host.delivered(ticket);
        assert_eq!(delivered.len() as u64, summary.bytes, "seed {seed}");
        if service.is_stream() {
            let payloads: Vec<_> = host.payloads(ticket).collect();
            let distinct: BTreeSet<_> = payloads.iter().collect();
            assert_eq!(distinct.len(), payloads.len(), "seed {seed}: a datagram came twice");
            return;
        }
        let whole = object(match service {
            Service::Image => 100_000,
            _ => 10_000,
        });
        assert_eq!(summary.complete, delivered == whole, "seed {seed}: {summary:?}");
        assert!(self.world.damage_chunks || whole.starts_with(&delivered), "seed {seed}: out of order");
    }

    fn check_sessions(&self, seed: u64, node: HostId) {
        let host = &self.world.hosts[node.0];
        let status = self.world.status(node);
        assert!(status.sessions.is_empty() && status.requests.is_empty(), "seed {seed}: {status:?}");
        let mut open = BTreeSet::new();
        for (_, event) in &host.events {
            match event {
                NodeEvent::OpenSource { session, .. } => assert!(open.insert(*session), "seed {seed}"),
                NodeEvent::CloseSource { session, .. } => assert!(open.remove(session), "seed {seed}"),
                _ => {}
            }
        }
        assert!(open.is_empty(), "seed {seed}: {open:?} of {node:?} were never closed");
    }
}

#[test]
fn random_faults_end_each_request_once() {
    for_seeds(40, |seed| {
        let mut chaos = Chaos::new(seed);
        for _ in 0..60 {
            chaos.step();
        }
        chaos.check_end(seed);
    });
}

#[test]
fn chaos_repeats_itself() {
    let run = |seed| {
        let mut chaos = Chaos::new(seed);
        for _ in 0..60 {
            chaos.step();
        }
        chaos.world.trace()
    };
    assert_eq!(run(1), run(1));
    assert_ne!(run(1), run(2));
}
