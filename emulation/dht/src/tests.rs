//! Networks of nodes with the same delay everywhere.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};
use std::time::Duration;

use roost_wire::random::SplitMix64;
use roost_wire::{Cell, Time};

use super::*;

const DELAY: Duration = Duration::from_millis(40);

struct Network {
    now: Time,
    nodes: Vec<Option<DhtNode>>,
    contacts: Vec<Contact>,
    arrivals: BinaryHeap<Reverse<(Time, u64)>>,
    timers: BinaryHeap<Reverse<(Time, usize)>>,
    messages: BTreeMap<u64, (usize, usize, DhtMessage)>,
    sent: u64,
    results: Vec<(Time, SearchResult)>,
    random: SplitMix64,
}

impl Network {
    /// Nodes on drawn cells of a square, each of which joins by one that is there.
    fn grown(count: usize, side: u64, seed: u64) -> Self {
        let mut random = SplitMix64::new(seed);
        let mut cells = std::collections::BTreeSet::new();
        while cells.len() < count {
            cells.insert(Cell::new(random.below(side) as i32, random.below(side) as i32));
        }
        let contacts: Vec<Contact> =
            cells.into_iter().zip(0..).map(|(cell, id)| Contact { id: DhtId(id), cell }).collect();
        let mut network = Self {
            now: Time::from_nanos(1),
            nodes: contacts.iter().map(|_| None).collect(),
            contacts,
            arrivals: BinaryHeap::new(),
            timers: BinaryHeap::new(),
            messages: BTreeMap::new(),
            sent: 0,
            results: Vec::new(),
            random,
        };
        for place in 0..count {
            let first = network.contacts[network.random.below(place.max(1) as u64) as usize];
            let node = DhtNode::new(DhtSettings::default(), network.contacts[place], place as u64);
            network.nodes[place] = Some(node);
            network.input(place, DhtInput::Join { contacts: vec![first] });
            network.go_on(Duration::from_millis(200));
        }
        network
    }

    fn input(&mut self, place: usize, input: DhtInput) {
        let Some(node) = &mut self.nodes[place] else { return };
        node.handle(self.now, input);
        while let Some(output) = node.poll_output() {
            match output {
                DhtOutput::Send { to, message } => {
                    self.sent += 1;
                    self.arrivals.push(Reverse((self.now + DELAY, self.sent)));
                    self.messages.insert(self.sent, (place, to.id.0 as usize, message));
                }
                DhtOutput::Found(result) => self.results.push((self.now, result)),
                DhtOutput::Lost => {}
            }
        }
        let deadline = self.nodes[place].as_ref().and_then(DhtNode::poll_deadline);
        self.timers.extend(deadline.map(|at| Reverse((at, place))));
    }

    fn go_on(&mut self, length: Duration) {
        let until = self.now + length;
        while self.step(until) {}
        self.now = until;
    }

    /// Handles what comes next by this time; `false` if there is nothing.
    fn step(&mut self, until: Time) -> bool {
        let timer = self.timers.peek().map(|Reverse(timer)| *timer).filter(|(at, _)| *at <= until);
        let arrival = self.arrivals.peek().map(|Reverse((at, _))| *at).filter(|at| *at <= until);
        match (timer, arrival) {
            (Some((at, place)), _) if arrival.is_none_or(|arrival| at < arrival) => {
                self.timers.pop();
                self.now = self.now.max(at);
                let deadline = self.nodes[place].as_ref().and_then(DhtNode::poll_deadline);
                if deadline.is_some_and(|deadline| deadline <= self.now) {
                    self.input(place, DhtInput::Timeout);
                }
            }
            (_, Some(at)) => {
                self.now = at;
                let Some(Reverse((_, number))) = self.arrivals.pop() else { return false };
                let Some((from, to, message)) = self.messages.remove(&number) else { return false };
                self.input(to, DhtInput::Message { from: self.contacts[from], message });
            }
            _ => return false,
        }
        true
    }

    fn search(&mut self, from: usize, circle: Circle) -> (Duration, SearchResult) {
        self.results.clear();
        let begun = self.now;
        self.input(from, DhtInput::Search { ticket: 7, circle });
        while self.results.is_empty() {
            assert!(self.step(begun + Duration::from_secs(21)), "each search ends");
        }
        let (at, result) = self.results.remove(0);
        (at.since(begun), result)
    }

    fn inside(&self, from: usize, circle: &Circle) -> Vec<Contact> {
        let alive = self.contacts.iter().zip(&self.nodes).filter(|(_, node)| node.is_some());
        let others = alive.map(|(contact, _)| *contact).filter(|one| one.id.0 as usize != from);
        others.filter(|contact| circle.contains(contact.cell)).collect()
    }

    fn draw(&mut self) -> usize {
        self.random.below(self.nodes.len() as u64) as usize
    }
}

fn sorted(mut contacts: Vec<Contact>) -> Vec<Contact> {
    contacts.sort_unstable();
    contacts
}

#[test]
fn quiet_network_finds_everybody() {
    let mut network = Network::grown(200, 32, 1);
    network.go_on(Duration::from_secs(120));
    for radius in [0, 2, 4, 8, 12] {
        for _ in 0..10 {
            let (from, target) = (network.draw(), network.draw());
            let circle = Circle { center: network.contacts[target].cell, radius };
            let expected = network.inside(from, &circle);
            let (_, result) = network.search(from, circle);
            assert_eq!(sorted(result.contacts), expected, "within {radius} of {}", circle.center);
            assert!(result.is_complete);
        }
    }
}

#[test]
fn hops_grow_with_logarithm_of_distance() {
    let mut network = Network::grown(300, 128, 2);
    network.go_on(Duration::from_secs(60));
    let mut hops: BTreeMap<u32, Vec<u32>> = BTreeMap::new();
    for _ in 0..200 {
        let (from, target) = (network.draw(), network.draw());
        let (own, cell) = (network.contacts[from].cell, network.contacts[target].cell);
        let (_, result) = network.search(from, Circle { center: cell, radius: 0 });
        let Some(took) = result.hops.filter(|_| from != target) else { continue };
        let doublings = own.distance_squared(cell).ilog2() / 2;
        // Each round trip halves the distance at least, and the last asks the target itself.
        assert!(took <= doublings + 2, "{took} hops for {doublings} doublings");
        hops.entry(doublings).or_default().push(took);
    }
    let mean = |of: &Vec<u32>| f64::from(of.iter().sum::<u32>()) / of.len() as f64;
    let (near, far) = (mean(&hops[&3]), mean(&hops[&6]));
    assert!(near < far && far < near + 3.0, "{near} hops over 8 cells, {far} over 64");
}

#[test]
fn dead_nodes_are_not_found() {
    let mut network = Network::grown(200, 32, 3);
    network.go_on(Duration::from_secs(60));
    for place in (0..200).step_by(4) {
        network.nodes[place] = None;
    }
    let circle = Circle { center: Cell::new(16, 16), radius: 8 };
    let (took, result) = network.search(1, circle);
    let alive = network.inside(1, &circle);
    assert!(result.contacts.iter().all(|found| alive.contains(found)));
    assert!(result.contacts.len() * 10 >= alive.len() * 9, "{} of {}", result.contacts.len(), alive.len());
    assert!(took >= DhtSettings::default().timeout, "the dead are waited for: {took:?}");
}

#[test]
fn tables_heal_after_churn() {
    let mut network = Network::grown(150, 32, 4);
    network.go_on(Duration::from_secs(60));
    for place in (0..150).step_by(2) {
        network.nodes[place] = None;
    }
    network.go_on(Duration::from_secs(600));
    let circle = Circle { center: Cell::new(16, 16), radius: 10 };
    let (_, result) = network.search(1, circle);
    assert_eq!(sorted(result.contacts), network.inside(1, &circle));
}

#[test]
fn search_alone_ends_at_once() {
    let own = Contact { id: DhtId(0), cell: Cell::new(0, 0) };
    let mut node = DhtNode::new(DhtSettings::default(), own, 1);
    let circle = Circle { center: Cell::new(5, 5), radius: 3 };
    node.handle(Time::ZERO, DhtInput::Search { ticket: 3, circle });
    let result = SearchResult { ticket: 3, contacts: Vec::new(), is_complete: true, hops: None };
    assert_eq!(node.poll_output(), Some(DhtOutput::Found(result)));
}

#[test]
fn node_without_contacts_says_so() {
    let own = Contact { id: DhtId(0), cell: Cell::new(0, 0) };
    let mut node = DhtNode::new(DhtSettings::default(), own, 1);
    node.handle(Time::ZERO, DhtInput::Join { contacts: Vec::new() });
    assert_eq!(node.poll_output(), None);
    let at = node.poll_deadline().unwrap();
    node.handle(at, DhtInput::Timeout);
    assert_eq!(node.poll_output(), Some(DhtOutput::Lost));
}

#[test]
fn foreign_answers_change_nothing() {
    let own = Contact { id: DhtId(0), cell: Cell::new(0, 0) };
    let other = |id| Contact { id: DhtId(id), cell: Cell::new(id as i32, 1) };
    let mut node = DhtNode::new(DhtSettings::default(), own, 1);
    node.handle(Time::ZERO, DhtInput::Join { contacts: vec![other(1)] });
    let Some(DhtOutput::Send { message: DhtMessage::Find { question, .. }, .. }) = node.poll_output() else {
        panic!("the node asks first")
    };
    let found = DhtMessage::Found { question, contacts: vec![other(3)], is_inside: false, purpose: Purpose::Upkeep };
    node.handle(Time::ZERO, DhtInput::Message { from: other(2), message: found });
    assert_eq!(node.poll_output(), None);
}

#[test]
fn answers_of_other_kinds_close_nothing() {
    let own = Contact { id: DhtId(0), cell: Cell::new(0, 0) };
    let other = Contact { id: DhtId(1), cell: Cell::new(1, 1) };
    let mut node = DhtNode::new(DhtSettings::default(), own, 1);
    node.handle(Time::ZERO, DhtInput::Message { from: other, message: DhtMessage::Ping { question: 1 } });
    assert!(matches!(node.poll_output(), Some(DhtOutput::Send { message: DhtMessage::Pong { .. }, .. })));
    node.handle(Time::ZERO, DhtInput::Search { ticket: 3, circle: Circle { center: other.cell, radius: 0 } });
    let Some(DhtOutput::Send { message: DhtMessage::Find { question, .. }, .. }) = node.poll_output() else {
        panic!("the node asks its contact")
    };
    node.handle(Time::ZERO, DhtInput::Message { from: other, message: DhtMessage::Pong { question } });
    assert_eq!(node.poll_output(), None);
    let found = DhtMessage::Found { question, contacts: Vec::new(), is_inside: true, purpose: Purpose::Search };
    node.handle(Time::ZERO, DhtInput::Message { from: other, message: found });
    let result = SearchResult { ticket: 3, contacts: vec![other], is_complete: true, hops: Some(1) };
    assert_eq!(node.poll_output(), Some(DhtOutput::Found(result)));
}

#[test]
fn messages_have_sizes() {
    let (circle, purpose) = (Circle { center: Cell::new(0, 0), radius: 1 }, Purpose::Search);
    let contacts = vec![Contact { id: DhtId(1), cell: Cell::new(0, 0) }; 3];
    let bytes = [
        DhtMessage::Ping { question: 1 }.bytes(),
        DhtMessage::Find { question: 1, circle, purpose }.bytes(),
        DhtMessage::Found { question: 1, contacts: contacts.clone(), is_inside: false, purpose }.bytes(),
        DhtMessage::Found { question: 1, contacts, is_inside: true, purpose }.bytes(),
    ];
    assert_eq!(bytes, [13, 25, 62, 94]);
}
