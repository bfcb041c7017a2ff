//! The home: find a hub, publish there, keep the lease, go on to another.
//!
//! | file | content |
//! |---|---|
//! | `republish_limiter`, `hubs` | what a hub may have published again, and the hubs of the list |
//! | `home_dialing` | looking for a home |
//! | `change_home`, `redirect`, `failback` | going to another hub, and back |
//! | `place` | the node's place in its record |
//! | `liveness`, `standby`, `standby_search`, `lost_home` | signs of life, the standby, and its turn when the home is gone |

mod change_home;
mod failback;
mod home_dialing;
pub(super) mod hubs;
pub(super) mod liveness;
mod lost_home;
mod place;
mod redirect;
mod republish_limiter;
mod standby;
mod standby_search;
mod told_place;

use std::collections::VecDeque;
use std::time::Duration;

use roost_wire::messages::{HomeChanged, RegistrationMessage, RouteDirection};
use roost_wire::{
    Address, Capacity, Cell, ConnectionId, NodeId, Record, RequestId, SchemeSet, Service, ServiceSet, Time, Version,
};

use self::failback::Failback;
use self::hubs::Hubs;
use self::redirect::Redirect;
use self::republish_limiter::{RepublishDecision, RepublishLimiter};
use self::standby::StandbyHub;
use self::told_place::ToldPlace;
use super::core::Core;
use super::timers::Timer;

/// The longest that a hub may have a node wait for its turn to publish.
const LONGEST_TURN: Duration = Duration::from_secs(60);

/// News of the home.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum HomeEvent {
    /// A hub holds the record.
    Attached(ConnectionId),
    /// There is no home any more, or no hub could be made one.
    Lost {
        /// The connection that was lost, if there was one.
        connection: Option<ConnectionId>,
        /// Why, in a sentence.
        reason: String,
    },
    /// The connection with the standby is closed.
    StandbyLost(ConnectionId),
    /// The home holds a record that somebody else has published.
    Displaced,
}

/// The node's record, and the hub that holds it.
#[derive(Debug)]
pub(super) struct HomeRegistration {
    hubs: Hubs,
    /// Start of the node, in seconds of the Unix epoch.
    epoch: u32,
    record: Record,
    told: ToldPlace,
    state: RegistrationState,
    standby: StandbyHub,
    /// The home before this one, which is leaving and holds the record until
    /// the new one does.
    former: Option<ConnectionId>,
    /// The home that confirmed the record last, and where the node was then.
    confirmed: Option<Confirmed>,
    redirect: Redirect,
    failback: Failback,
    again: RepublishLimiter,
    events: VecDeque<HomeEvent>,
}

/// The node's record as a home confirmed it last.
#[derive(Clone, Copy, Debug)]
struct Confirmed {
    hub: NodeId,
    cell: Cell,
    /// One of its services; a node without any is not searched for.
    service: Option<Service>,
}

#[derive(Debug)]
enum RegistrationState {
    Waiting,
    Dialling,
    Linked(HomeConnection),
    Left,
}

#[derive(Debug)]
struct HomeConnection {
    connection: ConnectionId,
    /// Since when it is home: it has confirmed the record, or stood by.
    attached: Option<Time>,
    exchange: Option<PendingHomeRequest>,
    /// The capacity that the hub knows.
    told: Option<Capacity>,
    /// The hub of which it knows that it stands by.
    named: Option<NodeId>,
    /// True while a time is set at which the node publishes again.
    wants_record: bool,
}

impl HomeConnection {
    fn new(connection: ConnectionId) -> Self {
        Self { connection, attached: None, exchange: None, told: None, named: None, wants_record: false }
    }
}

#[derive(Clone, Copy, Debug)]
struct PendingHomeRequest {
    question: HomeRequest,
    /// Time of the first unanswered question, whatever it was.
    since: Time,
    asked: Time,
    tries: u8,
    /// The capacity that went along.
    told: Option<Capacity>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum HomeRequest {
    Publish,
    /// Make a home of the standby, which holds this version.
    Adopt(Version),
    /// As `Adopt`, though the home before lives.
    Return(Version),
    Renew,
    Probe(u32),
}

impl HomeRegistration {
    pub(super) fn new(core: &mut Core, record: Record, hubs: Vec<Vec<Address>>) -> Self {
        let hubs = Hubs::new(hubs);
        if hubs.current().is_some() {
            core.timers.set(Timer::Attach, Time::ZERO);
        }
        let (standby, notices) = (StandbyHub::default(), VecDeque::new());
        let (former, confirmed) = (None, None);
        let (redirect, failback) = (Redirect::default(), Failback::default());
        let again = RepublishLimiter::default();
        let epoch = record.version.epoch;
        let state = RegistrationState::Waiting;
        let told = ToldPlace::new(core.grid, record.position);
        Self {
            hubs,
            epoch,
            record,
            told,
            state,
            standby,
            former,
            confirmed,
            redirect,
            failback,
            again,
            events: notices,
        }
    }

    /// Any connection has gone.
    pub(super) fn on_connection_down(&mut self, core: &mut Core, connection: ConnectionId, reason: &str) {
        if matches!(&self.state, RegistrationState::Linked(home) if home.connection == connection) {
            self.move_on(core, Some(connection), format!("the connection with the hub has ended: {reason}"));
        } else {
            self.standby_lost(core, connection);
        }
    }

    pub(super) fn on_lease(
        &mut self,
        core: &mut Core,
        connection: ConnectionId,
        held: Version,
        lease: Duration,
        siblings: Vec<Address>,
    ) {
        let RegistrationState::Linked(home) = &mut self.state else { return };
        if home.connection != connection || home.wants_record {
            return;
        }
        if held > self.record.version {
            return self.on_later_record(core, held);
        }
        if held < self.record.version {
            return;
        }
        let left = self.confirm(core, connection);
        if let Some(former) = self.former.take() {
            // The former home need not wait any longer. Reliably: nobody repeats it.
            core.send_reliably(former, RequestId(0), RegistrationMessage::Withdraw(held));
        } else if let Some(moved) = left {
            core.send_reliably(connection, RequestId(0), RegistrationMessage::HomeChanged(moved));
        }
        self.hubs.learn(siblings);
        let RegistrationState::Linked(home) = &mut self.state else { return };
        if let Some(exchange) = home.exchange.take() {
            core.timers.clear(Timer::HomeReply);
            home.told = exchange.told.or(home.told);
            if let (1, Some(entry)) = (exchange.tries, core.connections.get_mut(connection)) {
                entry.rtt.sample(core.now.since(exchange.asked));
            }
        }
        core.set(Timer::Renew, (lease / 3).max(Duration::from_secs(1)));
        if home.attached.is_none() {
            home.attached = Some(core.now);
            self.hubs.succeeded();
            self.events.push_back(HomeEvent::Attached(connection));
            self.schedule_failback(core);
        }
        self.name_standby(core);
    }

    /// The home holds a later record than this node has published.
    fn on_later_record(&mut self, core: &mut Core, held: Version) {
        let clock = self.clock(core.now);
        let RegistrationState::Linked(home) = &mut self.state else { return };
        if held.is_exceedable(clock) {
            // An earlier run of this node had a later clock, or, once the home
            // has held a record of this run, another daemon is this node as
            // well. Go on from there.
            if home.attached.is_some() {
                self.events.push_back(HomeEvent::Displaced);
            }
            self.record.version = held;
        } else {
            // Nothing that this node publishes could exceed it for long, so it takes that
            // back. A hub that goes on saying it is as good as silent.
            core.counters.refused += 1;
            // With the record the hub forgets the standby.
            home.named = None;
            core.send(home.connection, RegistrationMessage::Withdraw(held));
        }
        self.publish_once_more(core, Duration::ZERO);
    }

    /// The seconds of the Unix epoch, as the clock said them when the node started.
    fn clock(&self, now: Time) -> u32 {
        let up = u32::try_from(now.since(Time::ZERO).as_secs()).unwrap_or(u32::MAX);
        self.epoch.saturating_add(up)
    }

    /// The home at `connection` holds the record. Returns what it is to tell the home
    /// before, if that was another one: nobody else knows where that is.
    fn confirm(&mut self, core: &Core, connection: ConnectionId) -> Option<HomeChanged> {
        let hub = core.connections.get(connection)?.node;
        let Record { node, version, cell, ref services, .. } = self.record;
        let now = Confirmed { hub, cell, service: services.iter().next() };
        let before = self.confirmed.replace(now).filter(|before| before.hub != hub)?;
        let Confirmed { hub: old, cell, service } = before;
        // The home fills in what is its own to say.
        Some(HomeChanged {
            node,
            version,
            old_home: old,
            new: hub,
            service: service?,
            cell,
            direction: RouteDirection::Up,
            hops_left: 0,
        })
    }

    /// Too many publish at once: this node's turn comes later.
    pub(super) fn on_retry_after(&mut self, core: &mut Core, connection: ConnectionId, after: Duration) {
        let RegistrationState::Linked(home) = &mut self.state else { return };
        if home.connection != connection
            || !matches!(home.exchange, Some(PendingHomeRequest { question: HomeRequest::Publish, .. }))
        {
            return;
        }
        self.publish_once_more(core, after.min(LONGEST_TURN));
    }

    /// The home says where else it listens, for requests that name a transport.
    pub(super) fn on_home_addresses(&mut self, core: &Core, connection: ConnectionId, addresses: Vec<Address>) {
        let at_home = matches!(&self.state, RegistrationState::Linked(home) if home.connection == connection);
        let seen = core.connections.get(connection).and_then(|entry| entry.address.primary());
        if let Some(seen) = seen.filter(|_| at_home) {
            self.hubs.complete(addresses.into_iter().map(|address| address.with_observed_host(seen.ip())));
        }
    }

    /// The hub does not hold the record.
    pub(super) fn on_unknown_version(&mut self, core: &mut Core, connection: ConnectionId) {
        if let RegistrationState::Linked(home) = &mut self.state
            && home.connection == connection
        {
            home.named = None;
            self.publish_once_more(core, Duration::ZERO);
        }
    }

    /// The home has the node publish once more, after so long at the soonest: not without end, and
    /// not as fast as it says.
    fn publish_once_more(&mut self, core: &mut Core, after: Duration) {
        let RegistrationState::Linked(home) = &mut self.state else { return };
        if home.wants_record {
            return;
        }
        let connection = home.connection;
        match self.again.once_more(core.now, &mut core.random) {
            RepublishDecision::AtOnce if after.is_zero() => self.publish_anew(core),
            RepublishDecision::AtOnce => self.publish_after(core, after),
            RepublishDecision::After(pause) => self.publish_after(core, pause.max(after)),
            RepublishDecision::Leave => {
                core.close(connection, "it wants the record again and again");
                self.move_on(core, Some(connection), "the hub wants the record again and again".to_owned());
            }
        }
    }

    fn publish_after(&mut self, core: &mut Core, pause: Duration) {
        let RegistrationState::Linked(home) = &mut self.state else { return };
        home.wants_record = true;
        home.exchange = None;
        core.timers.clear(Timer::HomeReply);
        core.set(Timer::Renew, pause);
    }

    /// The host stood still: the home may have forgotten the record, or be gone. It has its time to answer from now on.
    pub(super) fn on_host_suspended(&mut self, core: &mut Core) {
        self.standby.doubt(core);
        let RegistrationState::Linked(home) = &self.state else { return };
        match home.exchange {
            Some(exchange) => self.ask(core, exchange.question, 1, core.now),
            None if home.attached.is_some() => core.timers.set(Timer::Renew, core.now),
            None => {}
        }
    }

    /// The node is reached at other addresses.
    pub(super) fn set_addresses(&mut self, core: &mut Core, addresses: Vec<Address>) {
        if self.record.addresses != addresses {
            self.record.addresses = addresses;
            self.publish_anew(core);
        }
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
        if let RegistrationState::Linked(home) = &self.state {
            let withdraw = RegistrationMessage::Withdraw(self.record.version);
            // Reliably: nobody is here any more to repeat it.
            core.send_reliably(home.connection, RequestId(0), withdraw);
        }
        self.state = RegistrationState::Left;
    }

    /// Publishes under a new version, if there is a hub to publish at.
    fn publish_anew(&mut self, core: &mut Core) {
        self.record.version = self.record.version.next();
        self.ask(core, HomeRequest::Publish, 1, core.now);
    }

    pub(super) fn poll(&mut self) -> Option<HomeEvent> {
        self.events.pop_front()
    }

    /// The connection with the home, once the hub holds the record.
    pub(super) fn home(&self) -> Option<ConnectionId> {
        self.home_since().map(|(connection, _)| connection)
    }

    /// The connection, and since when.
    pub(super) fn home_since(&self) -> Option<(ConnectionId, Time)> {
        let RegistrationState::Linked(home) = &self.state else { return None };
        home.attached.map(|since| (home.connection, since))
    }

    /// The connection with the standby.
    pub(super) fn standby(&self) -> Option<ConnectionId> {
        self.standby.connection()
    }

    /// The connection, and since when.
    pub(super) fn standby_since(&self) -> Option<(ConnectionId, Time)> {
        self.standby.since()
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

    /// The state in a word.
    pub(super) fn state(&self) -> &'static str {
        match &self.state {
            RegistrationState::Waiting => "waiting",
            RegistrationState::Dialling => "dialing",
            RegistrationState::Linked(home) if home.attached.is_some() => "attached",
            RegistrationState::Linked(_) => "publishing",
            RegistrationState::Left => "left",
        }
    }
}
