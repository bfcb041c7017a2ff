//! Multicast in the subnet: datagrams to all nodes of the group there.
//!
//! There is one socket for each interface and group. Packets leave with a TTL (hop limit) of 1, so no router passes
//! them on, and are sealed with the group's key; see `seal`. Nothing is retransmitted.

mod interfaces;
mod seal;
mod socket;

use std::collections::BTreeSet;
use std::io;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use roost_identity::GroupKey;
use tokio::net::UdpSocket;
use tokio::task::JoinHandle;

use self::interfaces::Interface;
use self::seal::{Opener, Sealer};
use self::socket::{Reader, open};
use crate::transport::Context;

#[cfg(feature = "simulated")]
pub(crate) use self::seal::OVERHEAD;
pub(crate) use self::seal::ends;
pub use self::seal::{MAX_MULTICAST_BYTES, TOLERANCE};

/// The multicast groups unless the settings name others: one of organization-local scope for IPv4, one of link-local
/// scope for IPv6.
pub const DEFAULT_GROUPS: [&str; 2] = ["239.255.77.5:7705", "[ff12::7705]:7705"];

/// Time between two looks at the interfaces: one may appear late, disappear, or come back as another.
const LOOK_EVERY: Duration = Duration::from_secs(3);

/// The multicast groups and interfaces. Interfaces may come and go.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MulticastConfig {
    /// Addresses and ports. Each interface joins the first group of a protocol in which it has an address.
    pub groups: Vec<SocketAddr>,
    /// Interface names. If there are none, all interfaces that are up except the loopback.
    pub interfaces: Vec<String>,
}

#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum MulticastError {
    #[error("the system gives no random numbers")]
    Random,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MulticastCounters {
    /// Packets sent. A message counts once for each interface.
    pub sent: u64,
    /// Packets whose message was added to the event queue.
    pub received: u64,
    pub sent_bytes: u64,
    pub received_bytes: u64,
    /// Messages longer than [`MAX_MULTICAST_BYTES`], or that the system did not send.
    pub unsent: u64,
    /// Packets of another group, or changed on the way.
    pub forged: u64,
    /// Packets whose time is too far from our clock: replayed, or a clock is wrong.
    pub late: u64,
    pub replayed: u64,
    /// Packets of new senders beyond the number that is told apart.
    pub over_sender_limit: u64,
    /// Packets of unknown senders beyond the number that is examined in one second.
    pub over_unknown_limit: u64,
    /// Packets that found the event queue full.
    pub dropped: u64,
}

#[derive(Debug, Default)]
struct LiveMulticastCounters {
    sent: AtomicU64,
    received: AtomicU64,
    sent_bytes: AtomicU64,
    received_bytes: AtomicU64,
    unsent: AtomicU64,
    forged: AtomicU64,
    late: AtomicU64,
    replayed: AtomicU64,
    over_sender_limit: AtomicU64,
    over_unknown_limit: AtomicU64,
    dropped: AtomicU64,
}

fn add(counter: &AtomicU64, amount: u64) {
    counter.fetch_add(amount, Ordering::Relaxed);
}

/// The sockets of all groups, on all interfaces that take part.
pub(crate) struct Multicast {
    inner: Arc<MulticastShared>,
    watcher: JoinHandle<()>,
}

struct MulticastShared {
    config: MulticastConfig,
    context: Arc<Context>,
    sealer: Mutex<Sealer>,
    opener: Arc<Mutex<Opener>>,
    members: Mutex<Vec<GroupMembership>>,
    /// The sentences of [`missing`] at the last look, so that each is logged once.
    lacking: Mutex<Vec<String>>,
    live: Arc<LiveMulticastCounters>,
}

/// The socket by which one interface takes part in one group.
struct GroupMembership {
    interface: Interface,
    group: SocketAddr,
    socket: Arc<UdpSocket>,
    reader: JoinHandle<()>,
}

impl Drop for GroupMembership {
    fn drop(&mut self) {
        self.reader.abort();
    }
}

impl Drop for Multicast {
    fn drop(&mut self) {
        self.watcher.abort();
    }
}

impl Multicast {
    /// Joins the groups on the present interfaces, and on others when they appear. Must be called in a tokio runtime.
    pub(crate) fn join(
        config: &MulticastConfig,
        key: &GroupKey,
        context: &Arc<Context>,
    ) -> Result<Self, MulticastError> {
        let (sealer, opener) = ends(key).ok_or(MulticastError::Random)?;
        let inner = Arc::new(MulticastShared {
            config: config.clone(),
            context: Arc::clone(context),
            sealer: Mutex::new(sealer),
            opener: Arc::new(Mutex::new(opener)),
            members: Mutex::default(),
            lacking: Mutex::default(),
            live: Arc::default(),
        });
        inner.refresh_memberships();
        let watched = Arc::downgrade(&inner);
        let watcher = tokio::spawn(async move {
            loop {
                tokio::time::sleep(LOOK_EVERY).await;
                let Some(inner) = watched.upgrade() else { return };
                inner.refresh_memberships();
            }
        });
        Ok(Self { inner, watcher })
    }

    /// Sends a message on every interface. A packet that the system does not accept is dropped.
    pub(crate) fn send(&self, message: &[u8]) {
        let MulticastShared { sealer, members, live, .. } = &*self.inner;
        let packet = lock(sealer).seal(now(), message);
        let Some(packet) = packet else { return add(&live.unsent, 1) };
        let members = lock(members);
        if members.is_empty() {
            add(&live.unsent, 1);
        }
        for GroupMembership { socket, group, .. } in members.iter() {
            match socket.try_send_to(&packet, *group) {
                Ok(sent) => {
                    add(&live.sent, 1);
                    add(&live.sent_bytes, sent as u64);
                }
                Err(error) => {
                    tracing::debug!(%group, %error, "a multicast packet was not sent");
                    add(&live.unsent, 1);
                }
            }
        }
    }

    pub(crate) fn counters(&self) -> MulticastCounters {
        let get = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        let live = &self.inner.live;
        MulticastCounters {
            sent: get(&live.sent),
            received: get(&live.received),
            sent_bytes: get(&live.sent_bytes),
            received_bytes: get(&live.received_bytes),
            unsent: get(&live.unsent),
            forged: get(&live.forged),
            late: get(&live.late),
            replayed: get(&live.replayed),
            over_sender_limit: get(&live.over_sender_limit),
            over_unknown_limit: get(&live.over_unknown_limit),
            dropped: get(&live.dropped),
        }
    }
}

impl MulticastShared {
    /// Joins on the interfaces that have appeared, and leaves those that have disappeared.
    fn refresh_memberships(&self) {
        let places = places(&self.config);
        let mut members = lock(&self.members);
        members.retain(|member| {
            let stays = places.iter().any(|(one, group)| *one == member.interface && *group == member.group);
            if !stays {
                tracing::warn!(interface = member.interface.name, group = %member.group, "multicast has ended there");
            }
            stays
        });
        let present: BTreeSet<&str> = places.iter().map(|(interface, _)| interface.name.as_str()).collect();
        let mut lacking = missing(&self.config, &present);
        for (interface, group) in places {
            if members.iter().any(|member| member.interface == interface) {
                continue;
            }
            match self.member(interface.clone(), group) {
                Ok(member) => {
                    tracing::info!(interface = interface.name, %group, "takes part in multicast");
                    members.push(member);
                }
                Err(error) => {
                    lacking.push(format!("cannot take part in multicast of {group} on {}: {error}", interface.name))
                }
            }
        }
        // Each sentence is logged once, not at every look.
        let mut before = lock(&self.lacking);
        lacking.iter().filter(|what| !before.contains(what)).for_each(|what| tracing::warn!("{what}"));
        *before = lacking;
    }

    fn member(&self, interface: Interface, group: SocketAddr) -> io::Result<GroupMembership> {
        let socket = Arc::new(open(&interface, group)?);
        let reader = Reader {
            socket: Arc::clone(&socket),
            opener: Arc::clone(&self.opener),
            live: Arc::clone(&self.live),
            context: Arc::clone(&self.context),
            loopback: interface.is_loopback(),
        };
        Ok(GroupMembership { interface, group, socket, reader: tokio::spawn(reader.run()) })
    }
}

/// Each interface that takes part, with its multicast group.
fn places(config: &MulticastConfig) -> Vec<(Interface, SocketAddr)> {
    let mut places: Vec<(Interface, SocketAddr)> = Vec::new();
    let wanted = |one: &Interface| match config.interfaces.is_empty() {
        true => !one.is_loopback(),
        false => config.interfaces.contains(&one.name),
    };
    for group in &config.groups {
        for interface in interfaces::with_address(group.is_ipv6()).into_iter().filter(wanted) {
            if places.iter().all(|(other, _)| other.index != interface.index) {
                places.push((interface, *group));
            }
        }
    }
    places
}

/// A sentence for each interface that should take part and is not there.
fn missing(config: &MulticastConfig, present: &BTreeSet<&str>) -> Vec<String> {
    if config.interfaces.is_empty() && present.is_empty() {
        return vec!["no multicast interface is up: the node will use one that appears".to_owned()];
    }
    let missing = config.interfaces.iter().filter(|name| !present.contains(name.as_str()));
    let say = |name: &String| {
        format!(
            "there is no interface {name} that is up with multicast: see `ip address`; the node uses it when it appears"
        )
    };
    missing.map(say).collect()
}

fn lock<T>(held: &Mutex<T>) -> MutexGuard<'_, T> {
    held.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The wall clock, in milliseconds since the Unix epoch.
fn now() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
}
