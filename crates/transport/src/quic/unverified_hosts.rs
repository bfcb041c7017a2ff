//! Limits the traffic to hosts that a remote has reported and that have not proved to be the remote's.
//!
//! The reported hosts may belong to anybody. So one is tried at a time, with a first flight that is not repeated, and
//! all of them together get no more than [`FACTOR`] times the bytes that the remote itself has sent. A lie thus costs
//! its sender traffic. A host that has answered as the remote is tried like any other.

use std::collections::BTreeSet;
use std::net::IpAddr;
use std::time::{Duration, Instant};

/// Most bytes of payload that an attempt sends to a stranger's host: a first flight, which has two packets with the
/// hybrid key exchange, the end of the attempt, and one packet more if something else answers there.
const TRY_BYTES: u64 = 4 * 1200;

/// Bytes for each byte of the remote: the factor that RFC 9000, section 8.1, allows for an address that is not
/// validated.
const FACTOR: u64 = 3;

/// The shortest wait for an answer, and for the next attempt if the remote has to send more before.
const WAIT: Duration = Duration::from_secs(1);

/// The most hosts remembered as the remote's.
const MOST_PROVED: usize = 64;

#[derive(Debug, Default)]
pub(super) struct UnverifiedHosts {
    proved: BTreeSet<IpAddr>,
    /// Bytes sent, or reserved for an attempt, to hosts that have not answered as the remote.
    spent: u64,
    /// True while a host is being tried.
    trying: bool,
}

/// A decision about a host that is due.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum AttemptDecision {
    Try,
    Wait,
    /// The remote must send more bytes before the attempt.
    RetryAt(Instant),
}

impl UnverifiedHosts {
    pub(super) fn has_proved(&self, host: IpAddr) -> bool {
        self.proved.contains(&host.to_canonical())
    }

    pub(super) const fn is_trying(&self) -> bool {
        self.trying
    }

    /// Decides if a host may be tried now. `received` are the bytes that the remote has sent.
    pub(super) fn ask(&mut self, now: Instant, received: u64) -> AttemptDecision {
        if self.trying {
            return AttemptDecision::Wait;
        }
        if self.spent + TRY_BYTES > FACTOR * received {
            return AttemptDecision::RetryAt(now + WAIT);
        }
        self.trying = true;
        self.spent += TRY_BYTES;
        AttemptDecision::Try
    }

    /// Remembers a host that has answered as the remote, and returns its bytes to the budget.
    pub(super) fn finish_attempt(&mut self, host: IpAddr, is_remote: bool) {
        self.trying = false;
        if is_remote {
            self.spent -= TRY_BYTES;
            if self.proved.len() >= MOST_PROVED {
                self.proved.clear();
            }
            self.proved.insert(host.to_canonical());
        }
    }
}

/// The time that such a host has for its answer, if the connection's round trip is `rtt` and the pause after a failure
/// is now `pause`. Another route may be longer, so later attempts wait longer.
pub(super) fn patience(rtt: Duration, pause: Duration) -> Duration {
    WAIT.max(pause).max(3 * rtt)
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOST: IpAddr = IpAddr::V4(std::net::Ipv4Addr::new(10, 0, 0, 1));

    #[test]
    fn false_hosts_cost_bounded_bytes() {
        let (mut told, now) = (UnverifiedHosts::default(), Instant::now());
        for received in (0..200_000).step_by(700) {
            if told.ask(now, received) == AttemptDecision::Try {
                assert_eq!(told.ask(now, u64::MAX / FACTOR), AttemptDecision::Wait);
                told.finish_attempt(HOST, false);
            }
            assert!(told.spent <= FACTOR * received);
        }
        assert!(told.spent > 500_000);
    }

    #[test]
    fn honest_hosts_cost_nothing() {
        let (mut told, now) = (UnverifiedHosts::default(), Instant::now());
        for host in 0..200 {
            assert_eq!(told.ask(now, TRY_BYTES / FACTOR), AttemptDecision::Try);
            told.finish_attempt(IpAddr::from([10, 0, 0, host]), true);
            assert!(told.has_proved(IpAddr::from([10, 0, 0, host])));
        }
        assert!(told.proved.len() <= MOST_PROVED);
        assert_eq!(told.ask(now, TRY_BYTES / FACTOR - 1), AttemptDecision::RetryAt(now + WAIT));
    }
}
