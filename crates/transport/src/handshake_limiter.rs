//! Strangers whose handshakes are under way. When there are too many, one loses its slot: of the host that has most
//! slots, the oldest that has sent nothing yet, or else the oldest.
//!
//! So a stranger that answers at once gets in, however many others stay silent, and a host that floods replaces only
//! its own slots.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::convert::Infallible;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use tokio::sync::oneshot;
use tokio::sync::oneshot::error::TryRecvError;

use crate::udp::Bucket;

/// The most hosts whose handshakes are counted separately.
const MAX_HOSTS: usize = 1024;

/// The part of the handshakes of a second that each host has for itself.
const SHARE: u32 = 8;

/// Time between two searches for idle hosts. A bucket is full again after this time at the latest.
const SWEEP: Duration = Duration::from_secs(1);

/// The handshake slots of one transport, at most `limit`.
#[derive(Debug)]
pub(crate) struct HandshakeLimiter {
    limit: usize,
    slots: Mutex<HandshakeSlots>,
}

#[derive(Debug)]
struct HandshakeSlots {
    last: u64,
    /// In order of arrival. The holder of a removed entry has lost its slot.
    silent: BTreeMap<u64, Holder>,
    heard: BTreeMap<u64, Holder>,
    by_host: BTreeMap<IpAddr, usize>,
    /// Limits the slots that change their holder: half of all in a second.
    turnover: Bucket,
}

/// The stranger in a slot. Dropping it ends the stranger's handshake.
#[derive(Debug)]
struct Holder {
    host: IpAddr,
    _slot: oneshot::Sender<Infallible>,
}

/// A stranger's right to its slot, which is free again when this is dropped.
#[derive(Debug)]
pub(crate) struct HandshakeSlot {
    number: u64,
    lost: oneshot::Receiver<Infallible>,
    limiter: Arc<HandshakeLimiter>,
}

/// Limits new handshakes per second. While there are few of them in all, one host may begin many. Once half of the
/// tokens are gone each host has only its own share, so that one that floods leaves the others theirs.
#[derive(Debug)]
pub(crate) struct HandshakeRateLimiter {
    all: Bucket,
    by_host: BTreeMap<IpAddr, Bucket>,
    per_host: u32,
    /// The time of the last search for idle hosts.
    swept: Instant,
}

impl HandshakeRateLimiter {
    pub(crate) fn new(per_second: u32, now: Instant) -> Self {
        let per_host = per_second.div_ceil(SHARE);
        Self { all: Bucket::new(per_second, now), by_host: BTreeMap::new(), per_host, swept: now }
    }

    /// True if a host may begin one more handshake.
    pub(crate) fn try_begin_handshake(&mut self, host: IpAddr, now: Instant) -> bool {
        let is_own = self.own(network_of(host), now);
        (is_own || self.all.is_half_full(now)) && self.all.try_take_token(now)
    }

    /// True if one more handshake is within the host's own share. A host beyond [`MAX_HOSTS`] has no share.
    fn own(&mut self, host: IpAddr, now: Instant) -> bool {
        if self.by_host.len() >= MAX_HOSTS && now.saturating_duration_since(self.swept) >= SWEEP {
            self.by_host.retain(|_, bucket| !bucket.is_full(now));
            self.swept = now;
        }
        let has_room = self.by_host.len() < MAX_HOSTS;
        let per_host = self.per_host;
        match self.by_host.entry(host) {
            Entry::Occupied(mut bucket) => bucket.get_mut().try_take_token(now),
            Entry::Vacant(place) if has_room => place.insert(Bucket::new(per_host, now)).try_take_token(now),
            Entry::Vacant(_) => false,
        }
    }
}

/// A host whose certificate is not known yet.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Stranger {
    /// Has sent something, so that its address may be its own.
    Heard,
    Silent,
}

impl HandshakeLimiter {
    /// A limiter with `limit` slots, at least one.
    pub(crate) fn new(limit: usize) -> Arc<Self> {
        let limit = limit.max(1);
        let per_second = u32::try_from(limit.div_ceil(2)).unwrap_or(u32::MAX);
        let (silent, heard, by_host) = (BTreeMap::new(), BTreeMap::new(), BTreeMap::new());
        let turnover = Bucket::new(per_second, Instant::now());
        Arc::new(Self { limit, slots: Mutex::new(HandshakeSlots { last: 0, silent, heard, by_host, turnover }) })
    }

    pub(crate) fn len(&self) -> usize {
        self.lock().len()
    }

    /// Gives a slot to a stranger. The flag in the result is true if another stranger lost its slot for this one.
    /// `None` if too many have lost theirs in the last second, so that this one is turned away.
    pub(crate) fn acquire_slot(self: &Arc<Self>, host: IpAddr, stranger: Stranger) -> Option<(HandshakeSlot, bool)> {
        let (holder, lost) = oneshot::channel();
        let host = network_of(host);
        let mut places = self.lock();
        let is_full = places.len() >= self.limit;
        if is_full && !places.make_room(host) {
            return None;
        }
        places.last += 1;
        let number = places.last;
        *places.by_host.entry(host).or_default() += 1;
        let whereto = match stranger {
            Stranger::Heard => &mut places.heard,
            Stranger::Silent => &mut places.silent,
        };
        whereto.insert(number, Holder { host, _slot: holder });
        Some((HandshakeSlot { number, lost, limiter: Arc::clone(self) }, is_full))
    }

    fn lock(&self) -> MutexGuard<'_, HandshakeSlots> {
        self.slots.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The network of a host. For IPv6 it is the prefix of 64 bits, in which one host can have any number of addresses.
pub(crate) fn network_of(host: IpAddr) -> IpAddr {
    match host.to_canonical() {
        IpAddr::V6(host) => IpAddr::V6((host.to_bits() >> 64 << 64).into()),
        host => host,
    }
}

impl HandshakeSlots {
    fn len(&self) -> usize {
        self.silent.len() + self.heard.len()
    }

    /// Frees the slot of a stranger of the host that has most slots. False if too many were replaced in the last
    /// second.
    fn make_room(&mut self, newcomer: IpAddr) -> bool {
        let most = self.by_host.values().copied().max().unwrap_or(0);
        let is_most = |host: &IpAddr| self.by_host.get(host) == Some(&most);
        let is_own = is_most(&newcomer);
        let loses = |holder: &Holder| if is_own { holder.host == newcomer } else { is_most(&holder.host) };
        let oldest =
            |all: &BTreeMap<u64, Holder>| all.iter().find(|(_, holder)| loses(holder)).map(|(number, _)| *number);
        let Some(number) = oldest(&self.silent).or_else(|| oldest(&self.heard)) else { return false };
        if !is_own && !self.turnover.try_take_token(Instant::now()) {
            return false;
        }
        self.remove(number);
        true
    }

    fn remove(&mut self, number: u64) {
        let Some(Holder { host, .. }) = self.silent.remove(&number).or_else(|| self.heard.remove(&number)) else {
            return;
        };
        if let Some(count) = self.by_host.get_mut(&host) {
            *count -= 1;
            if *count == 0 {
                self.by_host.remove(&host);
            }
        }
    }
}

impl HandshakeSlot {
    /// Notes that the stranger has sent something.
    pub(crate) fn mark_active(&self) {
        let mut places = self.limiter.lock();
        if let Some(holder) = places.silent.remove(&self.number) {
            places.heard.insert(self.number, holder);
        }
    }

    /// True if another stranger has the slot by now.
    pub(crate) fn is_lost(&mut self) -> bool {
        self.lost.try_recv() == Err(TryRecvError::Closed)
    }

    /// Runs `work`, or returns `None` if the slot is lost before it is done.
    pub(crate) async fn hold<T>(&mut self, work: impl Future<Output = T>) -> Option<T> {
        tokio::select! {
            // Nothing is ever sent, so this ends only when the holder is dropped.
            _ = &mut self.lost => None,
            done = work => Some(done),
        }
    }
}

impl Drop for HandshakeSlot {
    fn drop(&mut self) {
        self.limiter.lock().remove(self.number);
    }
}

#[cfg(test)]
mod tests {
    use std::future::{pending, ready};

    use super::*;

    fn host(number: u8) -> IpAddr {
        [10, 0, 0, number].into()
    }

    #[tokio::test]
    async fn oldest_silent_gives_way_then_oldest() {
        let crowd = HandshakeLimiter::new(2);
        let (mut first, _) = crowd.acquire_slot(host(1), Stranger::Heard).unwrap();
        let (mut silent, displaced) = crowd.acquire_slot(host(1), Stranger::Silent).unwrap();
        assert!(!displaced);
        let (third, displaced) = crowd.acquire_slot(host(1), Stranger::Silent).unwrap();
        assert!(displaced && crowd.len() == 2);
        assert_eq!(silent.hold(pending::<()>()).await, None);
        assert_eq!(first.hold(ready(1)).await, Some(1));
        third.mark_active();
        let (_fourth, displaced) = crowd.acquire_slot(host(1), Stranger::Silent).unwrap();
        assert!(displaced);
        assert_eq!(first.hold(pending::<()>()).await, None);
        drop((first, silent, third));
        assert_eq!(crowd.len(), 1);
    }

    #[tokio::test]
    async fn one_host_displaces_itself_alone() {
        let crowd = HandshakeLimiter::new(64);
        let mut honest: Vec<HandshakeSlot> =
            (1..=8).map(|number| crowd.acquire_slot(host(number), Stranger::Silent).unwrap().0).collect();
        // All addresses of one network count as one host.
        let stranger = |number: u64| IpAddr::V6((0x2001_0db8_u128 << 96 | u128::from(number)).into());
        let flood: Vec<_> =
            (0..10_000).filter_map(|number| crowd.acquire_slot(stranger(number), Stranger::Silent)).collect();
        assert_eq!((crowd.len(), flood.len()), (64, 10_000));
        for place in &mut honest {
            assert_eq!(place.hold(ready(1)).await, Some(1));
        }
        assert!(crowd.acquire_slot(host(9), Stranger::Silent).is_some());
    }

    #[test]
    fn flooding_host_leaves_others_their_share() {
        let now = Instant::now();
        let mut shares = HandshakeRateLimiter::new(1000, now);
        let flood = (0..100_000).filter(|_| shares.try_begin_handshake(host(1), now)).count();
        assert!((500..=501).contains(&flood), "{flood}");
        for number in 2..=5 {
            assert_eq!(
                (0..1000).filter(|_| shares.try_begin_handshake(host(number), now)).count(),
                125 - usize::from(number == 5),
                "{number}"
            );
        }
        let later = now + Duration::from_secs(1);
        assert!((2..=5).all(|number| shares.try_begin_handshake(host(number), later)));
    }

    #[test]
    fn hosts_that_are_still_are_forgotten() {
        let now = Instant::now();
        let mut shares = HandshakeRateLimiter::new(1000, now);
        let many = |shares: &mut HandshakeRateLimiter, at| {
            (0..3000_u32)
                .filter(|number| shares.try_begin_handshake(IpAddr::V4((0x0a00_0000 | number).into()), at))
                .count()
        };
        many(&mut shares, now);
        assert_eq!(shares.by_host.len(), MAX_HOSTS);
        assert!(many(&mut shares, now + Duration::from_secs(10)) >= 1000);
        assert_eq!(shares.by_host.len(), MAX_HOSTS);
    }

    #[test]
    fn many_hosts_turn_over_half() {
        let crowd = HandshakeLimiter::new(64);
        let hosts = (0..=255).map(host);
        let taken: Vec<_> = hosts.filter_map(|host| crowd.acquire_slot(host, Stranger::Silent)).collect();
        assert!((96..=110).contains(&taken.len()), "{}", taken.len());
    }
}
