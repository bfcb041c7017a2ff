//! A handshake under way: whom we expect, what we think of whom we found.

use std::net::SocketAddr;
use std::time::{Duration, Instant, SystemTime};

use roost_identity::{Refusal, Side};
use roost_proto::RoleSet;
use tokio::sync::oneshot;

use super::answers::{Answers, Trust};
use super::entry::{NO_REFUSAL, SessionContext};
use super::hello::{COOKIE, ECHO_BYTES};
use super::{HANDSHAKE_BYTES, SEAL_BYTES};
use crate::config::Limits;
use crate::connection::VerifiedRemote;
use crate::dial::{DialRequest, unexpected};
use crate::handshake_limiter::HandshakeSlot;

/// After how long a dialler greets again when it is not greeted back, at least. Doubles.
const READY_INTERVAL: Duration = Duration::from_millis(250);

/// The most bytes of a datagram in a handshake: one of its own, or a packet that came before its
/// time. dimpl keeps thirty.
pub(super) fn most_bytes(limits: &Limits) -> usize {
    HANDSHAKE_BYTES.max(limits.packet() + SEAL_BYTES)
}

/// A dial's wish for one address.
pub(crate) struct PendingDial {
    pub(crate) request: DialRequest,
    pub(crate) done: oneshot::Sender<Result<(), String>>,
}

impl PendingDial {
    /// Tells the dial how this address turned out.
    pub(super) fn report_outcome(self, outcome: Result<(), String>) {
        // A dial that no longer waits has been told otherwise.
        let _ = self.done.send(outcome);
    }
}

/// The state of a handshake beside dimpl's own.
pub(super) struct Handshake {
    /// Whether ours is the ClientHello.
    pub(super) client: bool,
    pub(super) dial: Option<PendingDial>,
    /// Of a stranger, among all whose handshakes are under way.
    pub(super) place: Option<HandshakeSlot>,
    /// As what the peer must be certified.
    pub(super) expect: RoleSet,
    /// The random of the ClientHello.
    pub(super) random: Option<[u8; 32]>,
    /// The peer has proved its address with a cookie.
    pub(super) is_proved: bool,
    /// The proof of address that the listener asked for.
    pub(super) cookie: Option<([u8; COOKIE], Trust)>,
    /// The bytes in front of unencrypted answers.
    pub(super) echo: Option<[u8; ECHO_BYTES]>,
    pub(super) answers: Answers,
    /// Our first datagram, to be repeated with a cookie.
    pub(super) hello: Vec<u8>,
    /// A packet that overtook the peer's greeting.
    pub(super) early: Option<Vec<u8>>,
    /// Why the system has not sent what it should have, the last time.
    pub(super) unsent: Option<String>,
    /// Start of the handshake, and the time at which it is given up.
    pub(super) since: Instant,
    pub(super) until: Instant,
    /// Time at which our first datagram left, or the one that proves our address. The answer may be
    /// to a repetition, so the round trip is at most the time since.
    asked: Option<Instant>,
    rtt: Option<Duration>,
    has_heard: bool,
    verdict: Option<Result<VerifiedRemote, RemoteRejection>>,
    connected: bool,
    greeting: Option<(Instant, Duration)>,
}

/// Why we do not want the peer.
struct RemoteRejection {
    code: u8,
    reason: String,
}

/// What to do once both sides have the keys.
pub(super) enum ConnectedAction {
    /// Wait for the dialler's greeting.
    Wait,
    /// Greet the listener.
    Ready,
    /// Tell the peer why not, and go.
    Refuse { code: u8, reason: String },
}

impl Handshake {
    pub(super) fn new(client: bool, dial: Option<PendingDial>, expect: RoleSet, now: Instant, limit: Duration) -> Self {
        Self {
            client,
            dial,
            place: None,
            expect,
            random: None,
            is_proved: false,
            cookie: None,
            echo: None,
            answers: Answers::default(),
            hello: Vec::new(),
            early: None,
            unsent: None,
            since: now,
            until: now + limit,
            asked: None,
            rtt: None,
            has_heard: false,
            verdict: None,
            connected: false,
            greeting: None,
        }
    }

    /// Lets a dial to a peer that is dialling us wait for this handshake.
    pub(super) fn adopt(&mut self, dialling: PendingDial) {
        if self.dial.as_ref().is_some_and(|dial| !dial.request.is_won()) {
            return dialling.report_outcome(Err("another dial to it is under way".into()));
        }
        match &self.verdict {
            Some(Ok(VerifiedRemote { remote: peer, .. })) if !dialling.request.expect.contains(peer.role) => {
                dialling.report_outcome(Err(Side::Local.sentence(Refusal::WrongRole)));
            }
            Some(Ok(VerifiedRemote { remote: peer, .. }))
                if dialling.request.node.is_some_and(|node| node != peer.node) =>
            {
                dialling.report_outcome(Err(unexpected(peer)));
            }
            _ => {
                self.expect = dialling.request.expect;
                self.dial = Some(dialling);
            }
        }
    }

    /// True if a datagram may be of use; an encrypted one is of none before there are keys.
    pub(super) fn admits(&mut self, datagram: &[u8], limits: &Limits) -> bool {
        let is_plain = datagram.first().is_some_and(|first| *first < 32);
        let admits = datagram.len() <= most_bytes(limits) && (is_plain || self.has_heard || !self.client);
        self.has_heard |= admits;
        admits
    }

    /// True if the peer has sent anything that may be of use.
    pub(super) const fn has_heard(&self) -> bool {
        self.has_heard
    }

    /// Begins ours anew, if it has not found its peer and may; its dial gets time for that.
    pub(super) fn restart(&mut self, now: Instant, limit: Duration) -> bool {
        let Some(answers) = self.answers.for_restart().filter(|_| self.client && !self.is_answered()) else {
            return false;
        };
        let fresh = Self::new(true, self.dial.take(), self.expect, now, limit);
        let (since, until) = (self.since, self.until.max(fresh.until));
        let cookie = self.cookie.filter(|(_, trust)| *trust == Trust::Echoed);
        *self = Self { answers, since, until, cookie, unsent: self.unsent.take(), ..fresh };
        true
    }

    /// The peer has answered with its certificate, which nobody at another address can.
    pub(super) fn is_answered(&self) -> bool {
        self.verdict.is_some()
    }

    /// Anybody may have begun it, in the name of an address that is not its own.
    pub(super) fn is_doubtful(&self) -> bool {
        !self.client && self.dial.is_none() && !self.is_proved && !self.is_answered()
    }

    /// A datagram leaves.
    pub(super) fn sent(&mut self, datagram: &[u8], now: Instant) {
        self.asked.get_or_insert(now);
        if self.client && self.hello.is_empty() {
            self.hello = datagram.to_vec();
            self.random = super::hello::client_random(datagram);
        }
    }

    /// Our first datagram leaves once more, since the peer wants proof of our address: it is there.
    pub(super) fn greet_again(&mut self, now: Instant, limits: &Limits) {
        self.extend(now, limits);
        self.asked = Some(now);
    }

    /// The answer that is used now came so long ago: that is no part of the round trip.
    pub(super) fn answer_was_held(&mut self, time: Duration) {
        self.asked = self.asked.map(|asked| asked + time);
    }

    /// The peer has answered, which measures the round trip: it has its time for the next word.
    fn extend(&mut self, now: Instant, limits: &Limits) {
        let rtt = now.saturating_duration_since(self.asked.unwrap_or(self.since));
        self.until = self.until.max(now + limits.next_answer(rtt));
    }

    /// Looks at the peer's certificate.
    pub(super) fn judge(&mut self, der: &[u8], from: SocketAddr, desk: &SessionContext<'_>) {
        if self.client {
            self.extend(desk.now, &desk.context.limits);
            self.rtt = Some(self.rtt(desk.now));
        }
        let verdict = desk.context.policy.admit(der, self.expect, SystemTime::now());
        let wanted = self.dial.as_ref().and_then(|dial| dial.request.node);
        self.verdict = Some(match verdict {
            Ok((peer, standing)) if wanted.is_none_or(|node| node == peer.node) => {
                Ok(VerifiedRemote { remote: peer, standing })
            }
            Ok((peer, _)) => Err(RemoteRejection { code: NO_REFUSAL, reason: unexpected(&peer) }),
            Err(refusal) => {
                desk.live.refuse(from, refusal);
                tracing::debug!(peer = %from, %refusal, "refused a certificate");
                Err(RemoteRejection { code: refusal.code(), reason: Side::Local.sentence(refusal) })
            }
        });
    }

    /// Both sides have the keys.
    pub(super) fn connected(&mut self, now: Instant) -> ConnectedAction {
        self.connected = true;
        match &self.verdict {
            Some(Ok(_)) if self.client => {
                let interval = READY_INTERVAL.max(2 * self.rtt(now));
                self.greeting = Some((now + interval, interval));
                ConnectedAction::Ready
            }
            Some(Ok(_)) => {
                self.rtt = Some(self.rtt(now));
                ConnectedAction::Wait
            }
            Some(Err(verdict)) => ConnectedAction::Refuse { code: verdict.code, reason: verdict.reason.clone() },
            None => ConnectedAction::Refuse { code: NO_REFUSAL, reason: "the peer showed no certificate".into() },
        }
    }

    /// The peer, if it has passed; the handshake is over with that.
    pub(super) fn take_passed(&mut self) -> Option<VerifiedRemote> {
        match self.verdict.take_if(|_| self.connected) {
            Some(Ok(passed)) => Some(passed),
            _ => None,
        }
    }

    /// The round trip: from a side's first flight to the answer.
    pub(super) fn rtt(&self, now: Instant) -> Duration {
        self.rtt.unwrap_or_else(|| now.saturating_duration_since(self.asked.unwrap_or(self.since)))
    }

    /// Why the handshake has failed, once its time is up.
    pub(super) fn overdue(&self, now: Instant) -> Option<String> {
        let seconds = self.until.saturating_duration_since(self.since).as_secs_f32();
        let unsent = self.unsent.as_ref().map(|why| format!(" ({why})")).unwrap_or_default();
        (self.until <= now).then(|| match self.has_heard() {
            false => format!("no answer in {seconds} s{unsent}"),
            true => format!("the handshake was not done in {seconds} s{unsent}"),
        })
    }

    /// Whether it is ours alone and another attempt of its dial has won. Once
    /// the listener may have a connection, it has to hear a farewell instead.
    pub(super) fn is_idle_effort(&self) -> bool {
        self.client && !self.connected && self.dial.as_ref().is_some_and(|dial| dial.request.is_won())
    }

    /// Whether it is time to greet again.
    pub(super) fn ready_due(&mut self, now: Instant) -> bool {
        let Some((at, interval)) = &mut self.greeting else { return false };
        let due = *at <= now;
        if due {
            *interval *= 2;
            *at = now + *interval;
        }
        due
    }

    pub(super) fn deadline(&self) -> Instant {
        let greeting = self.greeting.map(|(at, _)| at);
        greeting.into_iter().chain(self.answers.deadline()).fold(self.until, Instant::min)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn timeout_names_unsent_datagram() {
        let (now, limit) = (Instant::now(), Duration::from_secs(5));
        let mut handshake = Handshake::new(true, None, RoleSet::ALL, now, limit);
        assert_eq!(handshake.overdue(now), None);
        assert_eq!(handshake.overdue(now + limit).unwrap(), "no answer in 5 s");
        handshake.unsent = Some("the system did not send 1250 bytes: Message too long".into());
        let why = "no answer in 5 s (the system did not send 1250 bytes: Message too long)";
        assert_eq!(handshake.overdue(now + limit).unwrap(), why);
    }
}
