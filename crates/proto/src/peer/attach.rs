//! The home: find a hub, publish, renew, notice when it is gone, go on.

use std::collections::VecDeque;
use std::time::Duration;

use super::core::Core;
use super::hubs::Hubs;
use super::links::Purpose;
use super::timers::Timer;
use crate::address::{Address, SchemeSet};
use crate::grid::Cell;
use crate::ids::LinkId;
use crate::record::{Capacity, Record, Version};
use crate::service::ServiceSet;
use crate::time::Time;
use crate::wire::{Message, Renew};

/// How many times a silent home is asked again before it is given up.
const PROBES: u8 = 3;

/// The same for a home that is heard but does not answer what it was asked.
const PATIENT_PROBES: u8 = 8;

/// How long a dial may take that the driver does not answer.
const DIAL_LIMIT: Duration = Duration::from_secs(20);

/// A home that lasted less than this counts as one that failed.
const SHORT_STAY: Duration = Duration::from_secs(1);

/// How long after the loss of a home others may take to notice it: until their
/// next renewal, and then some.
const UNSETTLED: Duration = Duration::from_secs(25);

/// What has become of the home.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Notice {
    /// A hub holds the record.
    Attached(LinkId),
    /// There is no home any more, or no hub could be made one.
    Lost {
        /// The association that was lost, if there was one.
        link: Option<LinkId>,
        /// Why, in a sentence.
        reason: String,
    },
    /// The home holds a record that somebody else has published.
    Displaced,
}

/// The node's record, and the hub that holds it.
#[derive(Debug)]
pub(super) struct Attach {
    hubs: Hubs,
    record: Record,
    state: State,
    notices: VecDeque<Notice>,
}

#[derive(Debug)]
enum State {
    Waiting,
    Dialling,
    Linked(Home),
    Left,
}

#[derive(Debug)]
struct Home {
    link: LinkId,
    /// When the hub first confirmed the record.
    attached: Option<Time>,
    /// What is unanswered.
    exchange: Option<Exchange>,
    /// The capacity that the hub knows.
    told: Option<Capacity>,
}

#[derive(Clone, Copy, Debug)]
struct Exchange {
    question: Question,
    asked: Time,
    tries: u8,
    /// The capacity that went along.
    told: Option<Capacity>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Question {
    Publish,
    Renew,
    Probe(u32),
}

impl Attach {
    pub(super) fn new(core: &mut Core, record: Record, hubs: Vec<Vec<Address>>) -> Self {
        let hubs = Hubs::new(hubs);
        if hubs.current().is_some() {
            core.timers.set(Timer::Attach, Time::ZERO);
        }
        Self { hubs, record, state: State::Waiting, notices: VecDeque::new() }
    }

    /// Turns to the hub whose turn it is, or gives up a dial that takes too long.
    pub(super) fn on_attach_timer(&mut self, core: &mut Core) {
        match self.state {
            State::Waiting => self.dial(core),
            State::Dialling => {
                core.links.forget(Purpose::Home);
                self.on_dial_failed(core, "the dial took too long");
            }
            State::Linked(_) | State::Left => {}
        }
    }

    fn dial(&mut self, core: &mut Core) {
        if let Some(addresses) = self.hubs.current() {
            self.state = State::Dialling;
            let role = core.hub_role;
            core.dial(Purpose::Home, addresses.to_vec(), role, None);
            core.set(Timer::Attach, DIAL_LIMIT);
        }
    }

    pub(super) fn on_dial_failed(&mut self, core: &mut Core, reason: &str) {
        if matches!(self.state, State::Dialling) {
            let hub = self.hubs.current().and_then(|hub| hub.first()).map(ToString::to_string).unwrap_or_default();
            self.go_on(core, None, format!("cannot reach the hub at {hub}: {reason}"));
        }
    }

    /// A dial has led to a hub: publish there.
    pub(super) fn on_link_up(&mut self, core: &mut Core, link: LinkId) {
        if !matches!(self.state, State::Dialling) {
            return core.close(link, "no longer needed");
        }
        core.timers.clear(Timer::Attach);
        self.state = State::Linked(Home { link, attached: None, exchange: None, told: None });
        self.publish_anew(core);
    }

    /// Any association has gone.
    pub(super) fn on_link_down(&mut self, core: &mut Core, link: LinkId, reason: &str) {
        if matches!(&self.state, State::Linked(home) if home.link == link) {
            self.go_on(core, Some(link), format!("the association with the hub has ended: {reason}"));
        }
    }

    /// Something came over `link`.
    pub(super) fn on_heard(&mut self, core: &mut Core, link: LinkId) {
        let State::Linked(home) = &mut self.state else { return };
        if home.link != link {
            return;
        }
        let probing = matches!(home.exchange, Some(Exchange { question: Question::Probe(_), .. }));
        if probing {
            home.exchange = None;
            core.timers.clear(Timer::Exchange);
        }
    }

    pub(super) fn on_lease(
        &mut self,
        core: &mut Core,
        link: LinkId,
        held: Version,
        lease: Duration,
        siblings: Vec<Address>,
    ) {
        let State::Linked(home) = &mut self.state else { return };
        if home.link != link {
            return;
        }
        if held > self.record.version {
            // An earlier run of this node had a later clock, or, once the home
            // has held a record of this run, another daemon is this node as
            // well. Go on from there.
            if home.attached.is_some() {
                self.notices.push_back(Notice::Displaced);
            }
            self.record.version = held;
            return self.publish_anew(core);
        }
        if held < self.record.version {
            return;
        }
        self.hubs.learn(siblings);
        let State::Linked(home) = &mut self.state else { return };
        if let Some(exchange) = home.exchange.take() {
            core.timers.clear(Timer::Exchange);
            home.told = exchange.told.or(home.told);
            if let (1, Some(entry)) = (exchange.tries, core.links.get_mut(link)) {
                entry.rtt.sample(core.now.since(exchange.asked));
            }
        }
        core.set(Timer::Renew, (lease / 3).max(Duration::from_secs(1)));
        if home.attached.is_none() {
            home.attached = Some(core.now);
            self.hubs.succeeded();
            self.notices.push_back(Notice::Attached(link));
        }
    }

    /// The home says where else it listens, for requests that name a transport.
    pub(super) fn on_home_addresses(&mut self, core: &Core, link: LinkId, addresses: Vec<Address>) {
        let at_home = matches!(&self.state, State::Linked(home) if home.link == link);
        let seen = core.links.get(link).and_then(|entry| entry.address.primary());
        if let Some(seen) = seen.filter(|_| at_home) {
            self.hubs.complete(addresses.into_iter().map(|address| address.seen_from(seen.ip())));
        }
    }

    /// The hub does not hold the record.
    pub(super) fn on_anew(&mut self, core: &mut Core, link: LinkId) {
        if matches!(&self.state, State::Linked(home) if home.link == link) {
            self.publish_anew(core);
        }
    }

    /// A probe's answer measures the round trip; that it came was noted by `on_heard`.
    pub(super) fn on_pong(&self, core: &mut Core, link: LinkId, asked: Option<Time>) {
        if let (Some(asked), Some(entry)) = (asked, core.links.get_mut(link)) {
            entry.rtt.sample(core.now.since(asked));
        }
    }

    /// When the probe with this token was sent, if it is the one under way.
    pub(super) fn probe_sent(&self, token: u32) -> Option<Time> {
        let State::Linked(Home { exchange: Some(exchange), .. }) = &self.state else { return None };
        (exchange.question == Question::Probe(token)).then_some(exchange.asked)
    }

    pub(super) fn on_renew_timer(&mut self, core: &mut Core) {
        let State::Linked(home) = &self.state else { return };
        if home.exchange.is_some() {
            return core.set(Timer::Renew, Duration::from_secs(1));
        }
        self.ask(core, Question::Renew, 1);
    }

    pub(super) fn on_exchange_timer(&mut self, core: &mut Core) {
        let State::Linked(home) = &self.state else { return };
        let Some(exchange) = home.exchange else { return };
        let heard = core.links.get(home.link).is_some_and(|link| link.heard > exchange.asked);
        let patience = if heard { PATIENT_PROBES } else { PROBES };
        if exchange.tries > patience {
            let link = home.link;
            core.close(link, "no answer");
            return self.go_on(core, Some(link), "the hub does not answer".to_owned());
        }
        let question = match exchange.question {
            Question::Probe(_) => Question::Probe(core.random.next_u64() as u32),
            other => other,
        };
        self.ask(core, question, exchange.tries + 1);
    }

    /// The home says that it leaves: on to the next one. The association stays
    /// up for what is still relayed over it, until the hub closes it.
    pub(super) fn depart(&mut self, core: &mut Core, link: LinkId) {
        if self.home() == Some(link) {
            self.go_on(core, None, "the hub is leaving".to_owned());
        }
    }

    /// Something else went unanswered: find out whether the home is still there.
    pub(super) fn suspect(&mut self, core: &mut Core) {
        if matches!(&self.state, State::Linked(home) if home.exchange.is_none()) {
            let token = core.random.next_u64() as u32;
            self.ask(core, Question::Probe(token), 1);
        }
    }

    /// The node is elsewhere.
    pub(super) fn relocate(&mut self, core: &mut Core, cell: Cell) {
        self.record.cell = cell;
        self.publish_anew(core);
    }

    /// The node offers something else.
    pub(super) fn offer(&mut self, core: &mut Core, services: ServiceSet, capacity: Capacity) {
        self.record.services = services;
        self.record.capacity = capacity;
        self.publish_anew(core);
    }

    /// The node's capacity has changed: the next renewal says so.
    pub(super) fn set_capacity(&mut self, capacity: Capacity) {
        self.record.capacity = capacity;
    }

    /// The node leaves.
    pub(super) fn leave(&mut self, core: &mut Core) {
        if let State::Linked(home) = &self.state {
            let withdraw = Message::Withdraw(self.record.version);
            // Reliably: nobody is here any more to repeat it.
            core.send_reliably(home.link, crate::ids::RequestId(0), &withdraw);
        }
        self.state = State::Left;
    }

    /// Publishes under a new version, if there is a hub to publish at.
    fn publish_anew(&mut self, core: &mut Core) {
        self.record.version.sequence = self.record.version.sequence.saturating_add(1);
        self.ask(core, Question::Publish, 1);
    }

    fn ask(&mut self, core: &mut Core, question: Question, tries: u8) {
        let State::Linked(home) = &mut self.state else { return };
        let version = self.record.version;
        let capacity = Some(self.record.capacity).filter(|now| home.told != Some(*now));
        let (message, told) = match question {
            Question::Publish => (Message::Publish(self.record.clone()), Some(self.record.capacity)),
            Question::Renew => (Message::Renew(Renew { version, capacity }), capacity),
            Question::Probe(token) => (Message::Ping(token), None),
        };
        home.exchange = Some(Exchange { question, asked: core.now, tries, told });
        if !matches!(question, Question::Probe(_)) {
            core.reckoned_streams = self.record.capacity.streams;
            core.told_capacity = core.now;
        }
        let link = home.link;
        core.send(link, &message);
        let wait = core.pto(link) * (1 << u32::from(tries - 1).min(6));
        core.set(Timer::Exchange, wait);
    }

    /// The home, or a candidate for it, has failed: on to the next.
    fn go_on(&mut self, core: &mut Core, link: Option<LinkId>, reason: String) {
        let stayed = match &self.state {
            State::Linked(home) => home.attached.map(|since| core.now.since(since)),
            _ => None,
        };
        core.timers.clear(Timer::Exchange);
        core.timers.clear(Timer::Renew);
        self.state = State::Waiting;
        if stayed.is_some() {
            core.counters.failovers += 1;
            core.unsettled_until = core.now + UNSETTLED;
        }
        self.notices.push_back(Notice::Lost { link, reason });
        if stayed.is_some_and(|stayed| stayed >= SHORT_STAY) {
            self.hubs.lost();
            return self.dial(core);
        }
        let pause = self.hubs.failed(&mut core.random);
        if pause.is_zero() { self.dial(core) } else { core.set(Timer::Attach, pause) }
    }

    pub(super) fn poll(&mut self) -> Option<Notice> {
        self.notices.pop_front()
    }

    /// The association with the home, once the hub holds the record.
    pub(super) fn home(&self) -> Option<LinkId> {
        self.home_since().map(|(link, _)| link)
    }

    /// The same, and since when.
    pub(super) fn home_since(&self) -> Option<(LinkId, Time)> {
        let State::Linked(home) = &self.state else { return None };
        home.attached.map(|since| (home.link, since))
    }

    /// The home's addresses over one of `schemes`.
    pub(super) fn home_addresses(&self, schemes: SchemeSet) -> Vec<Address> {
        let all = self.hubs.current().unwrap_or_default();
        all.iter().filter(|address| schemes.contains(address.scheme)).cloned().collect()
    }

    pub(super) fn record(&self) -> &Record {
        &self.record
    }

    pub(super) fn hubs(&self) -> &[Vec<Address>] {
        self.hubs.list()
    }

    /// What it is doing, in a word.
    pub(super) fn state(&self) -> &'static str {
        match &self.state {
            State::Waiting => "waiting",
            State::Dialling => "dialling",
            State::Linked(home) if home.attached.is_some() => "attached",
            State::Linked(_) => "publishing",
            State::Left => "left",
        }
    }
}
