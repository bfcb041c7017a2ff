//! Liveness of the home, and the remedy when it is gone.
//!
//! A home that leaves a question unanswered is asked three times, one, two and
//! four probe time-outs apart; the third time the standby is asked as well.
//! If that answers and the home does not, the standby becomes the home: at
//! the latest seven probe time-outs after the first question. Without a
//! standby the home has one more chance, and then the next hub is dialled.

use roost_wire::messages::{
    Adopt, DirectoryMessage, Message, ProbeMessage, RegistrationMessage, Renew, RequestMessage,
};
use roost_wire::{ConnectionId, Time};

use crate::node::core::Core;
use crate::node::home::{HomeConnection, HomeRegistration, HomeRequest, PendingHomeRequest, RegistrationState};
use crate::node::timers::Timer;

/// After so many unanswered questions a standby that answers becomes the home.
const PROBES: u8 = 3;

/// Questions to a silent home if there is no standby.
const LAST_PROBE: u8 = 4;

/// Questions to a silent home that answers others.
const PATIENT_PROBES: u8 = 9;

/// True if it shows that this node is heard at the other end: on a path that
/// loses in one direction only, what comes unasked does not.
pub(crate) fn is_answer(message: &Message) -> bool {
    use RegistrationMessage as Registration;
    matches!(
        message,
        Message::Probe(ProbeMessage::Pong(_))
            | Message::Registration(
                Registration::Lease { .. } | Registration::UnknownVersion | Registration::RetryAfter(_)
            )
            | Message::Directory(DirectoryMessage::LookupResult(_))
            | Message::Request(
                RequestMessage::Decline(_)
                    | RequestMessage::Pending { .. }
                    | RequestMessage::Accept(_)
                    | RequestMessage::BodyRequest(_)
            )
    )
}

impl HomeRegistration {
    /// An answer to something came over `connection`.
    pub(crate) fn on_answered(&mut self, core: &mut Core, connection: ConnectionId) {
        if self.standby.connection() == Some(connection) {
            return self.on_standby_answered(core);
        }
        let RegistrationState::Linked(home) = &mut self.state else { return };
        if home.connection == connection
            && matches!(home.exchange, Some(PendingHomeRequest { question: HomeRequest::Probe(_), .. }))
        {
            home.exchange = None;
            core.timers.clear(Timer::HomeReply);
        }
    }

    /// A probe's answer measures the round trip; that it came was noted by `on_answered`.
    pub(crate) fn on_pong(&mut self, core: &mut Core, connection: ConnectionId, token: u32) {
        let asked = self.probe_sent(token).or_else(|| self.standby.pinged(connection, token));
        if let (Some(asked), Some(entry)) = (asked, core.connections.get_mut(connection)) {
            entry.rtt.sample(core.now.since(asked));
        }
    }

    /// Time at which the probe with this token was sent, if it is the one under way.
    fn probe_sent(&self, token: u32) -> Option<Time> {
        let RegistrationState::Linked(HomeConnection { exchange: Some(exchange), .. }) = &self.state else {
            return None;
        };
        (exchange.question == HomeRequest::Probe(token)).then_some(exchange.asked)
    }

    pub(crate) fn on_renew_timer(&mut self, core: &mut Core) {
        if self.depart_now(core) {
            return;
        }
        let RegistrationState::Linked(home) = &mut self.state else { return };
        if home.exchange.is_some() {
            return core.set(Timer::Renew, std::time::Duration::from_secs(1));
        }
        if std::mem::take(&mut home.wants_record) {
            return self.publish_anew(core);
        }
        // A node whose turn to publish was put off has nothing to renew yet.
        let question = if home.attached.is_some() { HomeRequest::Renew } else { HomeRequest::Publish };
        self.ask(core, question, 1, core.now);
    }

    /// The home is silent for longer than it should be.
    pub(crate) fn on_exchange_timer(&mut self, core: &mut Core) {
        let RegistrationState::Linked(home) = &self.state else { return };
        let (connection, Some(exchange)) = (home.connection, home.exchange) else { return };
        let answers = answers_since(core, connection, exchange.since);
        if exchange.tries >= PROBES && !answers && self.standby.answers() {
            return self.switch(core, "the hub does not answer".to_owned());
        }
        if exchange.tries >= if answers { PATIENT_PROBES } else { LAST_PROBE } {
            core.close(connection, "no answer");
            return self.try_next_home(core, Some(connection), "the hub does not answer".to_owned());
        }
        if exchange.tries + 1 >= PROBES {
            self.standby.ping(core);
        }
        let question = match exchange.question {
            HomeRequest::Probe(_) => HomeRequest::Probe(core.random.next_u64() as u32),
            other => other,
        };
        self.ask(core, question, exchange.tries + 1, exchange.since);
    }

    /// The standby answers late: the home has had its time already.
    fn on_standby_answered(&mut self, core: &mut Core) {
        self.standby.on_answer(core);
        let RegistrationState::Linked(HomeConnection { connection, exchange: Some(exchange), .. }) = &self.state else {
            return;
        };
        if exchange.tries > PROBES && !answers_since(core, *connection, exchange.since) {
            self.switch(core, "the hub does not answer".to_owned());
        }
    }

    /// A request has gone unanswered since then: find out whether the home is
    /// still there. The request counts as the first question.
    pub(crate) fn suspect(&mut self, core: &mut Core, since: Time) {
        let RegistrationState::Linked(home) = &mut self.state else { return };
        if let Some(exchange) = &mut home.exchange {
            exchange.since = exchange.since.min(since);
            return;
        }
        let token = core.random.next_u64() as u32;
        self.ask(core, HomeRequest::Probe(token), 2, since);
    }

    /// Puts a question to the home, and waits until one, three, seven, … probe
    /// time-outs after the first of its kind.
    pub(super) fn ask(&mut self, core: &mut Core, question: HomeRequest, tries: u8, since: Time) {
        let record = self.record_now(core);
        let RegistrationState::Linked(home) = &mut self.state else { return };
        let (version, left) = (self.record.version, self.record.capacity);
        let news = Some(left).filter(|now| home.told != Some(*now));
        let (message, told): (Message, _) = match question {
            HomeRequest::Publish => (RegistrationMessage::Publish(record).into(), Some(left)),
            HomeRequest::Adopt(held_version) | HomeRequest::Return(held_version) => {
                let is_failback = matches!(question, HomeRequest::Return(_)).then_some(true);
                let adopt = Adopt { held_version, version, capacity: left, is_failback };
                (RegistrationMessage::Adopt(adopt).into(), Some(left))
            }
            HomeRequest::Renew => (RegistrationMessage::Renew(Renew { version, capacity: news }).into(), news),
            HomeRequest::Probe(token) => (ProbeMessage::Ping(token).into(), None),
        };
        home.exchange = Some(PendingHomeRequest { question, since, asked: core.now, tries, told });
        if !matches!(question, HomeRequest::Probe(_)) {
            core.reckoned_streams = left.streams;
            core.reckoned_kbps = left.uplink_kbps;
            core.told_capacity = core.now;
        }
        let connection = home.connection;
        core.send(connection, message);
        let pto = core.pto(connection);
        let due = since + pto * ((1 << u32::from(tries.min(8))) - 1);
        core.timers.set(Timer::HomeReply, due.max(core.now + pto / 2));
    }
}

/// True if the remote has answered anything that it was asked since then:
/// what came sooner than a probe time-out later was under way already.
pub(crate) fn answers_since(core: &Core, connection: ConnectionId, since: Time) -> bool {
    core.connections.get(connection).is_some_and(|connection| connection.own.answered > since + connection.rtt.pto())
}
