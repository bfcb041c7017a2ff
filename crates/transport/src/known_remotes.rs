//! The remotes that have connections to a daemon, kept for its next run.
//!
//! A daemon that was killed has forgotten its connections, and over `udp://` and `quic://` the system does not tell the
//! remotes. A remote that sends something learns of it by the answer, see [`crate::stateless_reset`]. An idle remote is
//! told by the next run, once at each address that was kept.

use std::collections::{BTreeMap, VecDeque};
use std::fmt;
use std::net::{IpAddr, SocketAddr};
use std::str::FromStr;
use std::time::{Duration, Instant};

use roost_wire::Scheme;

use crate::udp::Bucket;

/// The most remotes that are kept. A daemon has 20 000 connections unless a setting says otherwise.
const MAX_KNOWN: usize = 32_768;
/// Remotes told in a second, and as many at once: half of the default of [`crate::Limits::handshakes_per_second`].
const TOLD_PER_SECOND: u32 = 500;
/// The least time between two writes of the file, and the time that each remote adds to it.
const PAUSE: Duration = Duration::from_millis(100);
const PAUSE_PER_REMOTE: Duration = Duration::from_millis(1);
/// The time after which addresses that have changed are looked for.
const REVIEW: Duration = Duration::from_secs(10);

/// The connection's id on the wire, which the remote uses in its packets.
pub(crate) type WireId = [u8; 8];

/// A remote that dialed us, and the id by which it learns that its connection is gone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KnownRemote {
    pub(crate) scheme: Scheme,
    /// The address of the socket that it dialed.
    pub(crate) at: SocketAddr,
    /// Our address that it dialed, if the socket has several.
    pub(crate) from: Option<IpAddr>,
    pub(crate) to: SocketAddr,
    pub(crate) wire_id: WireId,
}

impl fmt::Display for KnownRemote {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let from = self.from.map_or_else(|| "-".to_owned(), |from| from.to_string());
        write!(f, "{} {} {from} {} {:016x}", self.scheme, self.at, self.to, u64::from_be_bytes(self.wire_id))
    }
}

impl FromStr for KnownRemote {
    type Err = ();

    fn from_str(line: &str) -> Result<Self, ()> {
        let [scheme, at, from, to, name] = <[&str; 5]>::try_from(line.split(' ').collect::<Vec<_>>()).map_err(drop)?;
        Ok(Self {
            scheme: scheme.parse().map_err(drop)?,
            at: at.parse().map_err(drop)?,
            from: if from == "-" { None } else { Some(from.parse().map_err(drop)?) },
            to: to.parse().map_err(drop)?,
            wire_id: u64::from_str_radix(name, 16).map_err(drop)?.to_be_bytes(),
        })
    }
}

/// Decides at which times the remotes of the last run are told, and at which times the list for the next run is
/// written.
#[derive(Debug)]
pub struct RestartNotifier {
    untold: VecDeque<KnownRemote>,
    telling: Bucket,
    /// The number of changes at the last review.
    seen: Option<u64>,
    review: Instant,
    /// The earliest time of the next write.
    write: Instant,
    written: String,
}

impl RestartNotifier {
    /// Reads the list that the last run has written. Lines that cannot be parsed are skipped.
    pub fn new(text: &str, now: Instant) -> Self {
        let untold = unique(text.lines().filter_map(|line| line.parse().ok()));
        let telling = Bucket::new(TOLD_PER_SECOND, now);
        Self { untold, telling, seen: None, review: now, write: now, written: text.to_owned() }
    }

    /// A remote of the last run that may be told now.
    pub fn next(&mut self, now: Instant) -> Option<KnownRemote> {
        let may_tell = !self.untold.is_empty() && self.telling.try_take_token(now);
        if may_tell { self.untold.pop_front() } else { None }
    }

    /// Puts a remote back because the socket was not ready; it is told later.
    pub fn put_back(&mut self, known: KnownRemote) {
        self.untold.push_front(known);
    }

    /// True if the connections should be reviewed now. `changes` counts those that came up or ended.
    pub fn is_due(&self, now: Instant, changes: u64) -> bool {
        self.write <= now && (self.seen != Some(changes) || self.review <= now)
    }

    /// The text to write for the next run, if it differs from the text written last. Remotes that are still to be told
    /// stay in it.
    pub fn review(&mut self, now: Instant, changes: u64, known: Vec<KnownRemote>) -> Option<&str> {
        let all = unique(self.untold.iter().cloned().chain(known));
        (self.seen, self.review) = (Some(changes), now + REVIEW);
        self.write = now + PAUSE + PAUSE_PER_REMOTE * all.len() as u32;
        let text: String = all.iter().map(|known| format!("{known}\n")).collect();
        let is_new = text != self.written;
        self.written = text;
        is_new.then_some(&self.written)
    }
}

/// The last entry of each address, at most [`MAX_KNOWN`].
fn unique(all: impl Iterator<Item = KnownRemote>) -> VecDeque<KnownRemote> {
    let mut by_address = BTreeMap::new();
    for known in all {
        let address = (known.scheme as u8, known.at, known.to);
        if by_address.len() < MAX_KNOWN || by_address.contains_key(&address) {
            by_address.insert(address, known);
        }
    }
    by_address.into_values().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn known(port: u16, name: u8) -> KnownRemote {
        let (at, to) = (SocketAddr::from(([0; 16], 7777)), SocketAddr::from(([192, 0, 2, 1], port)));
        KnownRemote { scheme: Scheme::Udp, at, from: None, to, wire_id: [name; 8] }
    }

    fn text(ports: u16) -> String {
        (1..=ports).map(|port| format!("{}\n", known(port, 1))).collect()
    }

    #[test]
    fn what_is_written_reads_the_same() {
        let addresses = ["127.0.0.1:1", "[::1]:2", "[fe80::1%3]:4", "0.0.0.0:5", "[::ffff:192.0.2.1]:6"];
        for (scheme, at) in [Scheme::Udp, Scheme::Quic].into_iter().flat_map(|s| addresses.map(|at| (s, at))) {
            for from in [None, Some(IpAddr::from([192, 0, 2, 7])), Some(IpAddr::from([7; 16]))] {
                let (at, to) = (at.parse().unwrap(), addresses[2].parse().unwrap());
                let known = KnownRemote { scheme, at, from, to, wire_id: [0, 1, 2, 3, 4, 5, 6, 255] };
                assert_eq!(known.to_string().parse(), Ok(known));
            }
        }
        for nonsense in ["", "udp", "udp 1 - 2 3", "x 0.0.0.0:1 - 0.0.0.0:2 00", "udp 0.0.0.0:1 - 0.0.0.0:2 0 0"] {
            assert_eq!(nonsense.parse::<KnownRemote>(), Err(()), "{nonsense}");
        }
    }

    #[test]
    fn notifications_are_unique_and_paced() {
        let now = Instant::now();
        let mut memory = RestartNotifier::new(&(text(2000) + "nonsense\n" + &text(2000)), now);
        let mut told = Vec::new();
        for (second, most) in [(0, 500), (1, 1000), (2, 1500), (9, 2000), (10, 2000)] {
            told.extend(std::iter::from_fn(|| memory.next(now + Duration::from_secs(second))));
            assert_eq!(told.len(), most, "after {second} s");
        }
        assert!((1..=2000).all(|port| told.contains(&known(port, 1))));
    }

    #[test]
    fn unnotified_remotes_stay_stored() {
        let now = Instant::now();
        let mut memory = RestartNotifier::new(&text(3), now);
        let first = memory.next(now).unwrap();
        let written = memory.review(now, 0, vec![known(3, 2), known(4, 2)]).unwrap().to_owned();
        let read: Vec<KnownRemote> = written.lines().map(|line| line.parse().unwrap()).collect();
        // Of the two connections of one address, only the present one is kept.
        assert_eq!((first, read), (known(1, 1), vec![known(2, 1), known(3, 2), known(4, 2)]));
    }

    #[test]
    fn writing_waits_longer_with_more_remotes() {
        let now = Instant::now();
        let mut memory = RestartNotifier::new("", now);
        assert!(memory.is_due(now, 0));
        let many = (1..=1000).map(|port| known(port, 1)).collect();
        assert!(memory.review(now, 1, many).is_some());
        assert!(!memory.is_due(now + Duration::from_secs(1), 2), "a second for a thousand remotes");
        assert!(memory.is_due(now + Duration::from_millis(1100), 2));
        assert!(!memory.is_due(now + Duration::from_secs(9), 1), "nothing has changed");
        assert!(memory.is_due(now + REVIEW, 1));
        let same = (1..=1000).map(|port| known(port, 1)).collect();
        assert_eq!(memory.review(now + REVIEW, 1, same), None);
    }

    #[test]
    fn known_remotes_are_limited() {
        let all = (0..40_000u32)
            .map(|n| KnownRemote { at: SocketAddr::from(([0; 4], (n / 60_000) as u16)), ..known(n as u16, 1) });
        assert_eq!(unique(all).len(), MAX_KNOWN);
    }
}
