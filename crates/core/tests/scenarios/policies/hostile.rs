//! A super node that knows no policy, and members that know none either: it hands on what is forbidden, relays, and gives
//! away keys. A provider gives nothing to a member, or to a hub, that the reference evaluator forbids.

use std::collections::BTreeMap;

use roost_policy::Action;

use super::reference::{Case, Model, reference, text};
use crate::*;

const NAMES: [&str; 4] = ["uav1", "uav22", "ship1", "u"];
const NAME_PATTERNS: [&str; 4] = ["*", "uav*", "ship1", "u?*"];
const SERVICE_PATTERNS: [&str; 5] = ["video", "*", "t*k", "sensor", "s*"];
const TEAMS: [Option<&str>; 3] = [None, Some("red"), Some("blue")];
const ACTIONS: [Action; 6] =
    [Action::Request, Action::Subscribe, Action::Reflect, Action::Lookup, Action::Offer, Action::Send];

fn one_of<T: Copy>(random: &mut SplitMix64, all: &[T]) -> T {
    all[random.below(all.len() as u64) as usize]
}

fn chance<T>(random: &mut SplitMix64, percent: u64, value: impl FnOnce(&mut SplitMix64) -> T) -> Option<T> {
    (random.below(100) < percent).then(|| value(random))
}

fn random_rules(random: &mut SplitMix64) -> Vec<Model> {
    let rule = |random: &mut SplitMix64| Model {
        deny: random.below(3) == 0,
        actions: (0..1 + random.below(4)).map(|_| one_of(random, &ACTIONS)).collect(),
        role: chance(random, 40, |random| one_of(random, &[Role::Node, Role::Node, Role::SuperNode])),
        name: chance(random, 40, |random| one_of(random, &NAME_PATTERNS)),
        team: chance(random, 20, |random| one_of(random, &["red", "blue"])),
        services: chance(random, 40, |random| vec![one_of(random, &SERVICE_PATTERNS)]),
        area: chance(random, 30, |random| {
            let (left, lower) = (random.below(8) as i32, random.below(8) as i32);
            [left, lower, left + 6, lower + 6]
        }),
    };
    let mut rules: Vec<Model> = (0..random.below(7)).map(|_| rule(random)).collect();
    if random.below(2) == 0 {
        let actions = Action::ALL.to_vec();
        rules.push(Model { deny: false, actions, role: None, name: None, team: None, services: None, area: None });
    }
    rules
}

const ATTEMPTS: usize = 40;

/// A member as the reference evaluator sees it.
#[derive(Clone, Copy)]
struct Seen {
    role: Role,
    name: &'static str,
    team: Option<&'static str>,
    cell: (i32, i32),
    service: Service,
}

impl Seen {
    fn may(self, rules: &[Model], action: Action, of: Self) -> bool {
        let Self { role, name, team, .. } = self;
        let (service, place) = (Some(of.service.metric_name()), Some(of.cell));
        reference(rules, &Case { role, name, team, action, service, place }).is_some_and(|(_, allowed)| allowed)
    }
}

struct Attempts {
    world: World,
    rules: Vec<Model>,
    seen: BTreeMap<HostId, Seen>,
    nodes: Vec<HostId>,
    honest_hub: HostId,
    random: SplitMix64,
}

impl Attempts {
    /// Two hubs, the second of which is hostile, and nodes at both. Each node offers one service.
    fn new(seed: u64) -> Self {
        let mut random = SplitMix64::new(seed ^ 0x9e37_79b9);
        let mut world = World::new(seed);
        let hubs = world.mesh(2);
        world.run(2 * SECOND);
        let (rules, mut seen, mut nodes) = (random_rules(&mut random), BTreeMap::new(), Vec::new());
        for hub in &hubs {
            let name = "hub";
            world.hosts[hub.0].remote.name = name.to_owned();
            let (cell, service) = ((0, 0), Service::Video);
            seen.insert(*hub, Seen { role: Role::SuperNode, name, team: None, cell, service });
        }
        for place in 0..6 {
            let (name, team) = (one_of(&mut random, &NAMES), one_of(&mut random, &TEAMS));
            let cell = (random.below(16) as i32, random.below(16) as i32);
            let service = Service::ALL[place % 4];
            let home = [hubs[place % 2], hubs[1 - place % 2]];
            let node = world.member(name, team, cell, &[service], &home);
            seen.insert(node, Seen { role: Role::Node, name, team, cell, service });
            nodes.push(node);
        }
        world.run_until_attached();
        world.run(2 * SECOND);
        world.deliveries = Some(Vec::new());
        let policy = text(&rules);
        // The hostile ones: the second hub, and requesters, which ask whatever they like.
        world.set_policy(hubs[0], &policy);
        nodes[..3].iter().for_each(|node| world.set_policy(*node, &policy));
        world.run(SECOND);
        Self { world, rules, seen, nodes, honest_hub: hubs[0], random }
    }

    fn ask(&mut self) {
        let provider = self.nodes[self.random.below(3) as usize];
        let requester = self.nodes[3 + self.random.below(3) as usize];
        let Seen { service, cell, .. } = self.seen[&provider];
        let area = match self.random.below(3) {
            0 => ANYWHERE,
            _ => Area::Exact(Cell::new(cell.0, cell.1)),
        };
        match self.random.below(6) {
            0 if service.is_stream() => drop(self.world.subscribe(requester, service, area)),
            1 => {
                let known = Provider { node: node_id(provider.0), addresses: addresses(provider.0) };
                self.world.request_with(requester, service, area, |wanted| {
                    (wanted.provider, wanted.duration) = (Some(known), Some(SECOND / 2));
                });
            }
            2 => {
                self.world.request_with(requester, service, area, |wanted| {
                    (wanted.mode, wanted.duration) = (RequestMode::Relay, Some(SECOND / 2));
                });
            }
            _ => {
                self.world.request_with(requester, service, area, |wanted| wanted.duration = Some(SECOND / 2));
            }
        }
    }

    /// Checks what those that know the policy have given away, and counts it.
    fn check(&mut self) -> usize {
        let Some(deliveries) = self.world.deliveries.replace(Vec::new()) else { panic!("deliveries are recorded") };
        let given = deliveries.into_iter().filter(|(from, to, message)| {
            let Ok(message) = Message::decode(message) else { panic!("a machine sends what it cannot read") };
            if self.nodes[..3].contains(from) {
                self.check_provider(*from, *to, &message)
            } else {
                *from == self.honest_hub && self.check_relayed(*to, &message)
            }
        });
        given.count()
    }

    /// True if the message gives away something of its sender's service.
    fn check_provider(&self, from: HostId, to: HostId, message: &Message) -> bool {
        let provider = self.seen[&from];
        if let Message::Flow(FlowMessage::SealedKeys(_)) = message {
            let members = NAMES.iter().flat_map(|name| TEAMS.map(|team| Seen { name, team, ..provider }));
            members.for_each(|member| self.check_given(provider, member, Action::Subscribe));
        }
        let action = given_by(message);
        action.into_iter().for_each(|action| self.check_given(provider, self.seen[&to], action));
        action.is_some()
    }

    /// True if the message begins a flow that a hub relays.
    fn check_relayed(&self, to: HostId, message: &Message) -> bool {
        let Message::Request(RequestMessage::Accept(accept)) = message else { return false };
        let provider = self.nodes.iter().find(|node| Some(node_id(node.0)) == accept.provider);
        let Some(provider) = provider else { return false };
        self.check_given(self.seen[provider], self.seen[&to], Action::Request);
        true
    }

    fn check_given(&self, provider: Seen, receiver: Seen, action: Action) {
        let (by, to) = (provider.name, receiver.name);
        let said = format!("{by} gives its {} at {:?} to {to} ({})", provider.service, provider.cell, receiver.role);
        assert!(receiver.may(&self.rules, action, provider), "{said} by {action}:\n{}", text(&self.rules));
    }
}

/// The action by which a message of a provider gives away something of its service, if it does.
fn given_by(message: &Message) -> Option<Action> {
    match message {
        Message::Request(RequestMessage::Accept(accept)) if accept.stream_keys.is_some() => Some(Action::Subscribe),
        Message::Request(RequestMessage::Accept(_)) => Some(Action::Request),
        Message::Flow(FlowMessage::Datagram(_) | FlowMessage::Chunk(_)) => Some(Action::Request),
        Message::Flow(FlowMessage::Rekey(_)) => Some(Action::Subscribe),
        _ => None,
    }
}

#[test]
fn nothing_reaches_a_member_that_the_rules_forbid() {
    let given = std::cell::Cell::new(0);
    for_seeds(100, |seed| {
        let mut attempts = Attempts::new(seed);
        for _ in 0..ATTEMPTS {
            attempts.ask();
            attempts.world.run(SECOND / 4);
        }
        attempts.world.run(5 * SECOND);
        given.set(given.get() + attempts.check());
    });
    assert!(given.get() > 0, "nobody was given anything");
}
