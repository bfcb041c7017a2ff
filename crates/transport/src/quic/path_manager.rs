//! The paths of a connection that we dialled: which there should be, and keeping them.
//!
//! The dialler adds paths, since only it can be sure to reach the other side.
//! Every address of either side is on one path at least, with the address of
//! the other side that is nearest to it in number: two connections with a network
//! each thus become two paths, not four of which two cross over.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::{Duration, Instant};

use futures_util::stream::{FuturesUnordered, StreamExt};
use quinn::Connection;
use roost_proto::{RoleSet, is_destination};
use tokio::time::timeout;

use super::connection::{GIVEN_UP, QuicConnection};
use super::hello::{Hello, HelloAck, receive_hello_ack, send_hello};
use super::settings::Flight;
use super::unverified_hosts::{AttemptDecision, UnverifiedHosts, patience};
use super::{QuicShared, identify};
use crate::multipath::{MAX_PATHS, PathId};
use crate::udp::can_reach;

/// How long after a failure a path is tried again, and the longest that grows to.
const PAUSE: Duration = Duration::from_secs(1);
const LONGEST_PAUSE: Duration = Duration::from_secs(60);

/// The most paths of a connection of which it is remembered how trying them went. A peer
/// that tells of ever new addresses has us try no more of them than that until the
/// pause of one is over.
const MOST_TRIED: usize = 4 * MAX_PATHS;

/// From which of our addresses to which of the peer's.
pub(super) type PathAddresses = (SocketAddr, SocketAddr);

/// A path that there should be.
struct WantedPath {
    id: Option<PathId>,
    is_tried: bool,
    try_at: Instant,
    pause: Duration,
}

impl WantedPath {
    const fn new(id: Option<PathId>, try_at: Instant) -> Self {
        Self { id, is_tried: false, try_at, pause: PAUSE }
    }

    const fn is_missing(&self) -> bool {
        self.id.is_none() && !self.is_tried
    }
}

/// The manner in which a path is tried.
struct Attempt {
    /// Only the remote says of the host that it is its own.
    is_told: bool,
    flight: Flight,
    limit: Duration,
}

/// What to know of a connection to add paths to it.
pub(super) struct PathManager {
    pub(super) inner: Arc<QuicShared>,
    pub(super) connection: Arc<QuicConnection>,
    /// What the peer said at the beginning.
    pub(super) welcome: HelloAck,
    /// The peer's addresses that we know from elsewhere, and its port.
    pub(super) dialled: Vec<SocketAddr>,
    pub(super) port: u16,
    pub(super) expect: RoleSet,
    pub(super) busy: Arc<()>,
}

impl PathManager {
    /// Keeps the paths until the connection is over; the first one is there. Those
    /// that are missing are tried side by side, so that none waits for another.
    pub(super) async fn maintain_paths(self, first: (PathAddresses, PathId)) {
        let mut paths = BTreeMap::from([(first.0, WantedPath::new(Some(first.1), Instant::now()))]);
        let (mut trying, mut told) = (FuturesUnordered::new(), UnverifiedHosts::default());
        while !self.connection.is_over() {
            let wanted = self.want(&mut paths);
            let has_room = |trying: usize| self.connection.path_count() + trying < MAX_PATHS;
            for (pair, path) in paths.iter_mut().filter(|(pair, _)| wanted.contains(pair)) {
                if self.is_due(path) && has_room(trying.len()) && self.may_try(*pair, path, &mut told) {
                    path.is_tried = true;
                    trying.push(self.try_one(*pair, self.attempt(pair.1, path, &told)));
                }
            }
            self.give_up_spare(&paths, &wanted);
            // Without room nothing is done before a path or an attempt is over.
            let waits = |to: SocketAddr| told.is_trying() && self.is_told(to, &told);
            let missing = paths.iter().filter(|(pair, path)| path.is_missing() && !waits(pair.1));
            let again = missing.filter(|_| has_room(trying.len())).map(|(_, path)| path.try_at).min();
            let is_time = async {
                match again {
                    Some(at) => tokio::time::sleep_until(at.into()).await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                () = is_time => {}
                () = self.connection.changed.notified() => {}
                Some((pair, is_told, outcome)) = trying.next() => {
                    if is_told {
                        told.finish_attempt(pair.1.ip(), outcome.is_ok());
                    }
                    self.record_attempt(&mut paths, pair, outcome);
                }
            }
        }
    }

    /// Wants the paths that the addresses of both sides make possible, and no
    /// others any more. One whose address has come back is tried at once.
    fn want(&self, paths: &mut BTreeMap<PathAddresses, WantedPath>) -> Vec<PathAddresses> {
        let sources: Vec<_> = self.inner.usable().map(|(at, _)| at).collect();
        let wanted = pairs(&sources, &self.targets());
        let now = Instant::now();
        paths.retain(|pair, path| {
            let is_there = path.id.is_some_and(|id| self.connection.has_path(id));
            is_there || wanted.contains(pair) || path.is_tried || path.try_at > now
        });
        for pair in &wanted {
            if paths.contains_key(pair) || paths.len() < MOST_TRIED {
                paths.entry(*pair).or_insert_with(|| WantedPath::new(None, now));
            }
        }
        wanted
    }

    /// A path that was added for want of a better one is of no use beside that.
    fn give_up_spare(&self, paths: &BTreeMap<PathAddresses, WantedPath>, wanted: &[PathAddresses]) {
        let is_there = |path: &WantedPath| path.id.is_some_and(|id| self.connection.has_path(id));
        if !wanted.is_empty() && wanted.iter().all(|pair| paths.get(pair).is_some_and(is_there)) {
            let spare = paths.iter().filter(|(pair, _)| !wanted.contains(pair));
            for id in spare.filter_map(|(_, path)| path.id) {
                self.connection.give_up(id, "there is a better one");
            }
        }
    }

    /// The peer's addresses, as far as we know them. What it has once listed
    /// counts for as long as it does.
    fn targets(&self) -> Vec<SocketAddr> {
        let listed = self.connection.hosts().unwrap_or_else(|| self.welcome.hosts.clone());
        let is_taken_back = |ip| self.welcome.hosts.contains(&ip) && !listed.contains(&ip);
        let known = self.dialled.iter().copied().filter(|at| !is_taken_back(at.ip().to_canonical()));
        let is_local = self.dialled.iter().all(|at| at.ip().is_loopback());
        let told = listed.iter().filter(|host| is_destination(**host, is_local));
        let mut targets: Vec<_> = known.chain(told.map(|host| SocketAddr::new(*host, self.port))).collect();
        targets.sort_unstable();
        targets.dedup();
        targets
    }

    /// Whether a path is not there and it is time to try.
    fn is_due(&self, path: &mut WantedPath) -> bool {
        if path.id.is_some_and(|id| !self.connection.has_path(id)) {
            *path = WantedPath::new(None, Instant::now() + PAUSE);
        }
        path.is_missing() && path.try_at <= Instant::now()
    }

    /// True if only the remote says of a host that it is its own.
    fn is_told(&self, to: SocketAddr, told: &UnverifiedHosts) -> bool {
        let is_known = self.dialled.iter().any(|at| at.ip().to_canonical() == to.ip().to_canonical());
        !is_known && !told.has_proved(to.ip())
    }

    /// True if a path that is due may be tried; it is put off otherwise.
    fn may_try(&self, pair: PathAddresses, path: &mut WantedPath, told: &mut UnverifiedHosts) -> bool {
        if !self.is_told(pair.1, told) {
            return true;
        }
        match told.ask(Instant::now(), self.connection.received()) {
            AttemptDecision::Try => return true,
            AttemptDecision::Wait => {}
            AttemptDecision::RetryAt(at) => path.try_at = at,
        }
        false
    }

    fn attempt(&self, to: SocketAddr, path: &WantedPath, told: &UnverifiedHosts) -> Attempt {
        let (is_told, flight) = (self.is_told(to, told), Flight::usual(true));
        // Another way to the peer may be a longer one.
        let longest = self.inner.context.limits.incoming_handshake_timeout();
        if !is_told {
            return Attempt { is_told, flight, limit: longest };
        }
        // It is over before its first packet would be repeated.
        let limit = patience(self.connection.identified.rtt, path.pause).min(longest);
        Attempt { is_told, flight: Flight { rtt: limit, ..flight }, limit }
    }

    async fn try_one(&self, pair: PathAddresses, attempt: Attempt) -> (PathAddresses, bool, Result<PathId, String>) {
        let adding = timeout(attempt.limit, self.add(pair, attempt.flight)).await;
        (pair, attempt.is_told, adding.unwrap_or_else(|_| Err("no answer".to_owned())))
    }

    /// Notes what came of an attempt.
    fn record_attempt(
        &self,
        paths: &mut BTreeMap<PathAddresses, WantedPath>,
        pair: PathAddresses,
        outcome: Result<PathId, String>,
    ) {
        match (paths.get_mut(&pair), outcome) {
            (Some(path), Ok(id)) if path.id.is_none() => (path.id, path.is_tried) = (Some(id), false),
            (Some(path), Err(reason)) => {
                tracing::debug!(from = %pair.0, to = %pair.1, reason, "a path cannot be added");
                path.is_tried = false;
                path.try_at = Instant::now() + path.pause;
                path.pause = (path.pause * 2).min(LONGEST_PAUSE);
            }
            (_, Ok(id)) => drop(self.connection.give_up(id, "its addresses are of no use any more")),
            (None, Err(_)) => {}
        }
    }

    async fn add(&self, (from, to): PathAddresses, flight: Flight) -> Result<PathId, String> {
        let (_, endpoint) = self.inner.usable().find(|(at, _)| *at == from).ok_or("our address is gone")?;
        let (quinn_connection, probing) = self.inner.connect(&endpoint, to, self.expect, flight).await?;
        let joining = Joining(Some(quinn_connection.clone()));
        let code =
            self.connection.key.as_ref().and_then(|key| key.code(&quinn_connection)).ok_or("TLS tells no secret")?;
        let hello = Hello::Path { connection: self.welcome.connection, code };
        send_hello(&quinn_connection, &hello).await.map_err(|error| self.inner.failed(to, &error))?;
        receive_hello_ack(&quinn_connection).await.map_err(|error| self.inner.no_greeting(to, &error))?;
        let passed = identify(&self.inner.context, &quinn_connection, self.expect)?;
        if passed.remote.node != self.connection.identified.remote.node {
            return Err("another node answers there".to_owned());
        }
        joining.succeed();
        let added = self.connection.add_path(
            quinn_connection,
            probing,
            self.inner.dialed_local_end(&endpoint, to, &self.dialled),
            &self.busy,
        );
        added.ok_or_else(|| "the connection has enough paths".to_owned())
    }
}

/// A connection that is to become a path. Should it not, for whatever reason, then
/// that alone is over: the peer may have taken it for one already.
struct Joining(Option<Connection>);

impl Joining {
    fn succeed(mut self) {
        self.0 = None;
    }
}

impl Drop for Joining {
    fn drop(&mut self) {
        if let Some(quinn_connection) = &self.0 {
            quinn_connection.close(GIVEN_UP, b"the path is not added");
        }
    }
}

/// Pairs addresses one to one, the nearest first; then what is left over with
/// the nearest of the other side. An unspecified source, where the system finds
/// the way, is for targets that no other can reach or that are left over.
pub(super) fn pairs(sources: &[SocketAddr], targets: &[SocketAddr]) -> Vec<PathAddresses> {
    let all = targets.iter().flat_map(|to| sources.iter().map(|from| (*from, *to)));
    let mut near: Vec<PathAddresses> = all.filter(|(from, to)| can_reach(*from, *to)).collect();
    near.sort_by_key(|(from, to)| Reverse(common_bits(from.ip(), to.ip())));
    let mut pairs: Vec<PathAddresses> = Vec::new();
    let has_from = |pairs: &[PathAddresses], from| pairs.iter().any(|(other, _)| *other == from);
    let has_to = |pairs: &[PathAddresses], to| pairs.iter().any(|(_, other)| *other == to);
    for (from, to) in &near {
        if !has_from(&pairs, *from) && !has_to(&pairs, *to) {
            pairs.push((*from, *to));
        }
    }
    for (from, to) in near {
        let is_left_over = !has_from(&pairs, from) && !from.ip().is_unspecified();
        if is_left_over || !has_to(&pairs, to) {
            pairs.push((from, to));
        }
    }
    pairs.truncate(MAX_PATHS);
    pairs
}

/// How many of their first bits two addresses share.
fn common_bits(one: IpAddr, other: IpAddr) -> u32 {
    match (one, other) {
        (one, _) if one.is_unspecified() => 0,
        (IpAddr::V4(one), IpAddr::V4(other)) => (one.to_bits() ^ other.to_bits()).leading_zeros(),
        (IpAddr::V6(one), IpAddr::V6(other)) => (one.to_bits() ^ other.to_bits()).leading_zeros(),
        _ => 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(addresses: &[&str]) -> Vec<SocketAddr> {
        addresses.iter().map(|ip| SocketAddr::new(ip.parse().unwrap(), 7701)).collect()
    }

    fn paired(sources: &[&str], targets: &[&str]) -> Vec<(String, String)> {
        let pairs = pairs(&at(sources), &at(targets));
        pairs.iter().map(|(from, to)| (from.ip().to_string(), to.ip().to_string())).collect()
    }

    #[test]
    fn two_networks_become_two_paths() {
        let expected = [("10.0.1.1", "10.0.1.2"), ("10.0.2.1", "10.0.2.2")].map(|(a, b)| (a.to_owned(), b.to_owned()));
        let mut two = paired(&["10.0.2.1", "10.0.1.1"], &["10.0.1.2", "10.0.2.2"]);
        two.sort();
        assert_eq!(two, expected);
    }

    #[test]
    fn every_address_gets_a_path() {
        assert_eq!(paired(&["10.0.1.1"], &["10.0.1.2", "10.0.2.2"]).len(), 2);
        assert_eq!(paired(&["127.0.0.3", "127.0.0.4"], &["127.0.0.1", "127.0.0.2"]).len(), 2);
        assert_eq!(paired(&["10.0.1.1", "192.168.0.1"], &["10.0.1.2"]).len(), 2);
        assert_eq!(paired(&["10.0.1.1", "fd00::1"], &["10.0.1.2"]).len(), 1);
        assert_eq!(paired(&["127.0.0.1"], &["10.0.1.2"]).len(), 0);
        // The system finds the way to each.
        assert_eq!(paired(&["0.0.0.0"], &["10.0.1.2", "10.0.2.2"]).len(), 2);
        assert_eq!(paired(&["0.0.0.0", "10.0.1.1"], &["10.0.1.2"]), [("10.0.1.1".to_owned(), "10.0.1.2".to_owned())]);
    }
}
