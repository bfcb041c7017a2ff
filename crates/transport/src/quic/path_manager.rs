//! Decides on the paths of a connection that we dialed, and keeps them up.
//!
//! Only the dialing side adds paths, since only it can be sure to reach the other side. Every address of either side is
//! on at least one path, paired with the most similar address of the other side. So two links with a network each
//! become two paths, not four of which two cross over.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::{Duration, Instant};

use futures_util::stream::{FuturesUnordered, StreamExt};
use quinn::Connection;
use roost_wire::{RoleSet, is_destination};
use tokio::time::timeout;

use super::connection::{GIVEN_UP, QuicConnection};
use super::hello::{Hello, HelloAck, receive_hello_ack, send_hello};
use super::settings::Flight;
use super::unverified_hosts::{AttemptDecision, UnverifiedHosts, patience};
use super::{QuicShared, identify};
use crate::multipath::{MAX_PATHS, PathId};
use crate::udp::can_reach;

/// The pause after a failed attempt, and the longest to which it grows.
const PAUSE: Duration = Duration::from_secs(1);
const LONGEST_PAUSE: Duration = Duration::from_secs(60);

/// The most paths of a connection whose attempts are remembered. So a remote that reports ever new addresses causes no
/// more attempts until the pause of one is over.
const MOST_TRIED: usize = 4 * MAX_PATHS;

/// A local and a remote address.
pub(super) type PathAddresses = (SocketAddr, SocketAddr);

/// A path that should exist, and the attempts to add it.
struct MissingPath {
    id: Option<PathId>,
    is_tried: bool,
    try_at: Instant,
    pause: Duration,
}

impl MissingPath {
    const fn new(id: Option<PathId>, try_at: Instant) -> Self {
        Self { id, is_tried: false, try_at, pause: PAUSE }
    }

    const fn is_missing(&self) -> bool {
        self.id.is_none() && !self.is_tried
    }
}

/// The parameters of an attempt to add a path.
struct Attempt {
    /// True if only the remote says that the host is its own.
    is_told: bool,
    flight: Flight,
    limit: Duration,
}

pub(super) struct PathManager {
    pub(super) inner: Arc<QuicShared>,
    pub(super) connection: Arc<QuicConnection>,
    /// The remote's greeting, which lists its hosts.
    pub(super) welcome: HelloAck,
    /// The remote's addresses that the dial had, and its port.
    pub(super) dialled: Vec<SocketAddr>,
    pub(super) port: u16,
    pub(super) expect: RoleSet,
    pub(super) busy: Arc<()>,
}

impl PathManager {
    /// Keeps the paths until the connection is over; the first one exists. Missing paths are tried concurrently, so
    /// that none waits for another.
    pub(super) async fn maintain_paths(self, addresses: PathAddresses, first: PathId) {
        let mut paths = BTreeMap::from([(addresses, MissingPath::new(Some(first), Instant::now()))]);
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
            // Without room, nothing can be done before a path or an attempt ends.
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

    /// Updates the wanted paths to those that the addresses of both sides allow. A path whose address has reappeared is
    /// tried at once.
    fn want(&self, paths: &mut BTreeMap<PathAddresses, MissingPath>) -> Vec<PathAddresses> {
        let sources: Vec<_> = self.inner.usable().map(|(at, _)| at).collect();
        let missing = pairs(&sources, &self.targets());
        let now = Instant::now();
        paths.retain(|pair, path| {
            let is_there = path.id.is_some_and(|id| self.connection.has_path(id));
            is_there || missing.contains(pair) || path.is_tried || path.try_at > now
        });
        for pair in &missing {
            if paths.contains_key(pair) || paths.len() < MOST_TRIED {
                paths.entry(*pair).or_insert_with(|| MissingPath::new(None, now));
            }
        }
        missing
    }

    /// Gives up paths that were added while better ones were not possible, once all wanted paths exist.
    fn give_up_spare(&self, paths: &BTreeMap<PathAddresses, MissingPath>, missing: &[PathAddresses]) {
        let is_there = |path: &MissingPath| path.id.is_some_and(|id| self.connection.has_path(id));
        if !missing.is_empty() && missing.iter().all(|pair| paths.get(pair).is_some_and(is_there)) {
            let spare = paths.iter().filter(|(pair, _)| !missing.contains(pair));
            for id in spare.filter_map(|(_, path)| path.id) {
                self.connection.give_up(id, "there is a better one");
            }
        }
    }

    /// The known addresses of the remote. An address that the remote listed once counts only while it stays listed.
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

    /// True if a path is missing and its next attempt is due.
    fn is_due(&self, path: &mut MissingPath) -> bool {
        if path.id.is_some_and(|id| !self.connection.has_path(id)) {
            *path = MissingPath::new(None, Instant::now() + PAUSE);
        }
        path.is_missing() && path.try_at <= Instant::now()
    }

    /// True if only the remote says that a host is its own.
    fn is_told(&self, to: SocketAddr, told: &UnverifiedHosts) -> bool {
        let is_known = self.dialled.iter().any(|at| at.ip().to_canonical() == to.ip().to_canonical());
        !is_known && !told.has_proved(to.ip())
    }

    /// True if a path that is due may be tried now. Otherwise its attempt is postponed.
    fn may_try(&self, pair: PathAddresses, path: &mut MissingPath, told: &mut UnverifiedHosts) -> bool {
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

    fn attempt(&self, to: SocketAddr, path: &MissingPath, told: &UnverifiedHosts) -> Attempt {
        let (is_told, flight) = (self.is_told(to, told), Flight { has_several: true, ..Flight::DEFAULT });
        // Another route to the remote may be longer.
        let longest = self.inner.context.limits.incoming_handshake_timeout();
        if !is_told {
            return Attempt { is_told, flight, limit: longest };
        }
        // The attempt ends before its first flight would be repeated.
        let limit = patience(self.connection.identified.rtt, path.pause).min(longest);
        Attempt { is_told, flight: Flight { rtt: limit, ..flight }, limit }
    }

    async fn try_one(&self, pair: PathAddresses, attempt: Attempt) -> (PathAddresses, bool, Result<PathId, String>) {
        let adding = timeout(attempt.limit, self.add(pair, attempt.flight)).await;
        (pair, attempt.is_told, adding.unwrap_or_else(|_| Err("no answer".to_owned())))
    }

    /// Keeps the path of an attempt, or schedules the next attempt.
    fn record_attempt(
        &self,
        paths: &mut BTreeMap<PathAddresses, MissingPath>,
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
        receive_hello_ack(&quinn_connection).await.map_err(|error| self.inner.hello_failure(to, &error))?;
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

/// A QUIC connection that should become a path. If it does not, for whatever reason, only the path is closed with
/// [`GIVEN_UP`], since the remote may have added it to the connection already.
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

/// Pairs addresses one to one, the most similar ones first. Then it pairs each left over address with the most similar
/// one of the other side. An unspecified source, for which the system chooses the route, is used for targets that no
/// other source reaches or that are left over.
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

/// The number of leading bits that two addresses share.
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
        // The system finds the route to each.
        assert_eq!(paired(&["0.0.0.0"], &["10.0.1.2", "10.0.2.2"]).len(), 2);
        assert_eq!(paired(&["0.0.0.0", "10.0.1.1"], &["10.0.1.2"]), [("10.0.1.1".to_owned(), "10.0.1.2".to_owned())]);
    }
}
