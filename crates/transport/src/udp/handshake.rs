//! The state of a handshake besides DTLS: its dial, the verdict on the remote, and its time limits.

use std::net::SocketAddr;
use std::time::{Duration, Instant, SystemTime};

use roost_identity::{Refusal, Side};
use roost_wire::RoleSet;
use tokio::sync::oneshot;

use super::answers::{Answers, Trust};
use super::entry::{NO_REFUSAL, SessionContext};
use super::hello::{COOKIE, ECHO_BYTES};
use super::{HANDSHAKE_BYTES, SEAL_BYTES};
use crate::config::Limits;
use crate::connection::VerifiedRemote;
use crate::dial::{DialRequest, unexpected};
use crate::handshake_limiter::HandshakeSlot;
use crate::handshake_side::HandshakeSide;

/// Shortest time after which a client that gets no answer repeats its `Ready`. It doubles each time.
const READY_INTERVAL: Duration = Duration::from_millis(250);

/// The most bytes of a datagram in a handshake: one of the handshake itself, or a packet that arrived early. dimpl
/// keeps thirty.
pub(super) fn most_bytes(limits: &Limits) -> usize {
    HANDSHAKE_BYTES.max(limits.packet() + SEAL_BYTES)
}

/// A dial that waits for the handshake with one address.
pub(crate) struct PendingDial {
    pub(crate) request: DialRequest,
    pub(crate) done: oneshot::Sender<Result<(), String>>,
}

impl PendingDial {
    /// Reports the outcome at this address to the dial.
    pub(super) fn report_outcome(self, outcome: Result<(), String>) {
        // A dial that does not wait any more has got another outcome.
        let _ = self.done.send(outcome);
    }
}

/// The state of a handshake besides dimpl's own.
pub(super) struct Handshake {
    /// True if this side sends the ClientHello.
    pub(super) client: bool,
    pub(super) dial: Option<PendingDial>,
    /// The slot of a stranger, by which the handshake counts against the limit.
    pub(super) slot: Option<HandshakeSlot>,
    /// The remote must be certified for one of these roles.
    pub(super) expect: RoleSet,
    /// The random of the ClientHello, which tells its repetitions from a new handshake.
    pub(super) random: Option<[u8; 32]>,
    /// True if the remote has proved its address with a cookie.
    pub(super) is_proved: bool,
    /// The proof of our address that the listener asked for.
    pub(super) cookie: Option<([u8; COOKIE], Trust)>,
    /// The bytes to put before unencrypted answers.
    pub(super) echo: Option<[u8; ECHO_BYTES]>,
    pub(super) answers: Answers,
    /// Our first datagram, which is repeated with a cookie.
    pub(super) hello: Vec<u8>,
    /// A packet that arrived before the remote's `Ready`.
    pub(super) early: Option<Vec<u8>>,
    /// The system's last error for a datagram of this handshake.
    pub(super) unsent: Option<String>,
    /// The start of the handshake, and the time at which it is given up.
    pub(super) since: Instant,
    pub(super) until: Instant,
    /// The time at which our first datagram left, or the one that proves our address. The answer may be to a
    /// repetition, so the round trip is at most the time since.
    asked: Option<Instant>,
    rtt: Option<Duration>,
    has_heard: bool,
    verdict: Option<Result<VerifiedRemote, RemoteRejection>>,
    connected: bool,
    greeting: Option<(Instant, Duration)>,
}

/// The reason for which we do not accept the remote.
struct RemoteRejection {
    code: u8,
    reason: String,
}

/// The next step once both sides have the keys.
pub(super) enum ConnectedAction {
    Wait,
    Ready,
    /// Tell the remote the reason, and end the session.
    Refuse {
        code: u8,
        reason: String,
    },
}

impl Handshake {
    pub(super) fn new(
        side: HandshakeSide,
        dial: Option<PendingDial>,
        expect: RoleSet,
        now: Instant,
        limit: Duration,
    ) -> Self {
        Self {
            client: side == HandshakeSide::Client,
            dial,
            slot: None,
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

    /// Lets a dial wait for this handshake, which the remote may have begun.
    pub(super) fn adopt(&mut self, dialling: PendingDial) {
        if self.dial.as_ref().is_some_and(|dial| !dial.request.is_won()) {
            return dialling.report_outcome(Err("another dial to it is under way".into()));
        }
        match &self.verdict {
            Some(Ok(VerifiedRemote { remote, .. })) if !dialling.request.expect.contains(remote.role) => {
                dialling.report_outcome(Err(Side::Local.sentence(Refusal::WrongRole)));
            }
            Some(Ok(VerifiedRemote { remote, .. }))
                if dialling.request.node.is_some_and(|node| node != remote.node) =>
            {
                dialling.report_outcome(Err(unexpected(remote)));
            }
            _ => {
                self.expect = dialling.request.expect;
                self.dial = Some(dialling);
            }
        }
    }

    /// Notes a datagram. Returns true if it may be useful; an encrypted one is useless before there are keys.
    pub(super) fn admit(&mut self, datagram: &[u8], limits: &Limits) -> bool {
        let is_plain = datagram.first().is_some_and(|first| *first < 32);
        let admits = datagram.len() <= most_bytes(limits) && (is_plain || self.has_heard || !self.client);
        self.has_heard |= admits;
        admits
    }

    /// True if the remote has sent anything that may be useful.
    pub(super) const fn has_heard(&self) -> bool {
        self.has_heard
    }

    /// Restarts our handshake, unless the remote has answered with its certificate or restarts are used up. Its dial
    /// gets the time for that.
    pub(super) fn restart(&mut self, now: Instant, limit: Duration) -> bool {
        let Some(answers) = self.answers.for_restart().filter(|_| self.client && !self.is_answered()) else {
            return false;
        };
        let fresh = Self::new(HandshakeSide::Client, self.dial.take(), self.expect, now, limit);
        let (since, until) = (self.since, self.until.max(fresh.until));
        let cookie = self.cookie.filter(|(_, trust)| *trust == Trust::Echoed);
        *self = Self { answers, since, until, cookie, unsent: self.unsent.take(), ..fresh };
        true
    }

    /// True if the remote has answered with its certificate. That proves its address, since it needs our datagrams.
    pub(super) fn is_answered(&self) -> bool {
        self.verdict.is_some()
    }

    /// True if anybody may have begun the handshake, with an address that is not its own.
    pub(super) fn is_doubtful(&self) -> bool {
        !self.client && self.dial.is_none() && !self.is_proved && !self.is_answered()
    }

    /// Notes that a datagram of the handshake leaves.
    pub(super) fn sent(&mut self, datagram: &[u8], now: Instant) {
        self.asked.get_or_insert(now);
        if self.client && self.hello.is_empty() {
            self.hello = datagram.to_vec();
            self.random = super::hello::client_random(datagram);
        }
    }

    /// Restarts the round trip's measurement because the first datagram leaves again with a cookie. The demand for the
    /// cookie shows that the remote exists, so it gets more time.
    pub(super) fn greet_again(&mut self, now: Instant, limits: &Limits) {
        self.extend(now, limits);
        self.asked = Some(now);
    }

    /// Excludes the time for which an answer was held back from the round trip.
    pub(super) fn answer_was_held(&mut self, time: Duration) {
        self.asked = self.asked.map(|asked| asked + time);
    }

    /// Gives the remote time for its next message. Its answer has measured the round trip.
    fn extend(&mut self, now: Instant, limits: &Limits) {
        let rtt = now.saturating_duration_since(self.asked.unwrap_or(self.since));
        self.until = self.until.max(now + limits.next_answer(rtt));
    }

    pub(super) fn judge(&mut self, der: &[u8], from: SocketAddr, cx: &SessionContext<'_>) {
        if self.client {
            self.extend(cx.now, &cx.context.limits);
            self.rtt = Some(self.rtt(cx.now));
        }
        let verdict = cx.context.policy.admit(der, self.expect, SystemTime::now());
        let wanted = self.dial.as_ref().and_then(|dial| dial.request.node);
        self.verdict = Some(match verdict {
            Ok((remote, certificate_status)) if wanted.is_none_or(|node| node == remote.node) => {
                Ok(VerifiedRemote { remote, certificate_status })
            }
            Ok((remote, _)) => Err(RemoteRejection { code: NO_REFUSAL, reason: unexpected(&remote) }),
            Err(refusal) => {
                cx.live.refuse(from, refusal);
                tracing::debug!(remote = %from, %refusal, "refused a certificate");
                Err(RemoteRejection { code: refusal.code(), reason: Side::Local.sentence(refusal) })
            }
        });
    }

    /// Notes that both sides have the keys, and returns the next step.
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
            None => ConnectedAction::Refuse { code: NO_REFUSAL, reason: "the remote showed no certificate".into() },
        }
    }

    /// Takes the remote, if it was accepted and both sides have the keys. The handshake is over then.
    pub(super) fn take_passed(&mut self) -> Option<VerifiedRemote> {
        match self.verdict.take_if(|_| self.connected) {
            Some(Ok(passed)) => Some(passed),
            _ => None,
        }
    }

    /// The round trip, from a side's first flight to the answer.
    pub(super) fn rtt(&self, now: Instant) -> Duration {
        self.rtt.unwrap_or_else(|| now.saturating_duration_since(self.asked.unwrap_or(self.since)))
    }

    /// The error of a handshake whose time is up.
    pub(super) fn overdue(&self, now: Instant) -> Option<String> {
        let seconds = self.until.saturating_duration_since(self.since).as_secs_f32();
        let unsent = self.unsent.as_ref().map(|why| format!(" ({why})")).unwrap_or_default();
        (self.until <= now).then(|| match self.has_heard() {
            false => format!("no answer in {seconds} s{unsent}"),
            true => format!("the handshake was not done in {seconds} s{unsent}"),
        })
    }

    /// True if another attempt of the dial has won, so that this handshake is useless. Once the listener may have a
    /// connection, it must get a farewell instead.
    pub(super) fn is_idle_effort(&self) -> bool {
        self.client && !self.connected && self.dial.as_ref().is_some_and(|dial| dial.request.is_won())
    }

    /// Returns true if the `Ready` is due again, and schedules the next one.
    pub(super) fn take_ready_due(&mut self, now: Instant) -> bool {
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
        let mut handshake = Handshake::new(HandshakeSide::Client, None, RoleSet::ALL, now, limit);
        assert_eq!(handshake.overdue(now), None);
        assert_eq!(handshake.overdue(now + limit).unwrap(), "no answer in 5 s");
        handshake.unsent = Some("the system did not send 1250 bytes: Message too long".into());
        let why = "no answer in 5 s (the system did not send 1250 bytes: Message too long)";
        assert_eq!(handshake.overdue(now + limit).unwrap(), why);
    }
}
