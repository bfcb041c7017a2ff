//! Multicast on the link: datagrams to all nodes of the group there.
//!
//! One socket for each interface and group. Packets leave with a TTL (hop
//! limit) of 1, so no router passes them on, and are sealed with the group's
//! key; see `seal`. Nothing is retransmitted.

mod interfaces;
mod seal;

use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use bytes::Bytes;
use roost_identity::GroupKey;
use socket2::{Domain, InterfaceIndexOrAddress, Protocol, Socket, Type};
use tokio::net::UdpSocket;
use tokio::task::JoinHandle;

use self::interfaces::Interface;
use self::seal::{Fault, Opener, Sealer};
use crate::event::Event;
use crate::transport::Context;

pub use self::seal::{MAX_MULTICAST_BYTES, TOLERANCE};
pub(crate) use self::seal::{OVERHEAD, ends};

/// Where multicast goes unless it is set otherwise: a group of the organisation's
/// own scope for IPv4, one of the link's scope for IPv6.
pub const DEFAULT_GROUPS: [&str; 2] = ["239.255.77.5:7705", "[ff12::7705]:7705"];

/// Between two attempts to read a socket that fails.
const PAUSE: Duration = Duration::from_secs(1);

/// Which groups, on which interfaces.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MulticastConfig {
    /// Addresses and ports. Each interface takes part in the first one that it
    /// has an address for.
    pub groups: Vec<SocketAddr>,
    /// Names; none: all that are up but the loopback.
    pub interfaces: Vec<String>,
}

/// Why there is no multicast. Nothing stays open.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum MulticastError {
    /// The interface is not there.
    #[error("there is no interface {0} that is up and takes multicast: see `ip link` and `ip address`")]
    NoInterface(String),
    /// No interface at all.
    #[error("no interface is up that takes multicast: name one with --multicast-interfaces")]
    NoInterfaces,
    /// The system refuses.
    #[error("cannot take part in multicast of {group} on {interface}: {source}")]
    Socket {
        /// The group.
        group: SocketAddr,
        /// The interface.
        interface: String,
        /// What the system says.
        source: io::Error,
    },
    /// No random numbers.
    #[error("the system gives no random numbers")]
    Random,
}

/// What came of packets.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MulticastCounters {
    /// Packets sent, on each interface.
    pub sent: u64,
    /// Packets taken.
    pub received: u64,
    /// Bytes of packets sent and taken.
    pub sent_bytes: u64,
    /// See `sent_bytes`.
    pub received_bytes: u64,
    /// Messages longer than [`MAX_MULTICAST_BYTES`], or that the system did not take.
    pub unsent: u64,
    /// Packets of another group, or changed on the way.
    pub forged: u64,
    /// Packets whose time is not now: replayed, or a clock is wrong.
    pub late: u64,
    /// Packets that came once more.
    pub replayed: u64,
    /// Packets of more senders than are told apart.
    pub crowded: u64,
}

#[derive(Debug, Default)]
struct Live {
    sent: AtomicU64,
    received: AtomicU64,
    sent_bytes: AtomicU64,
    received_bytes: AtomicU64,
    unsent: AtomicU64,
    forged: AtomicU64,
    late: AtomicU64,
    replayed: AtomicU64,
    crowded: AtomicU64,
}

fn add(counter: &AtomicU64, amount: u64) {
    counter.fetch_add(amount, Ordering::Relaxed);
}

/// The sockets of all groups.
pub(crate) struct Multicast {
    sealer: Mutex<Sealer>,
    sockets: Vec<(Arc<UdpSocket>, SocketAddr)>,
    readers: Vec<JoinHandle<()>>,
    live: Arc<Live>,
}

impl Drop for Multicast {
    fn drop(&mut self) {
        self.readers.iter().for_each(JoinHandle::abort);
    }
}

impl Multicast {
    /// Joins the groups. Must be called in a tokio runtime.
    pub(crate) fn join(
        config: &MulticastConfig,
        key: &GroupKey,
        context: &Arc<Context>,
    ) -> Result<Self, MulticastError> {
        let (sealer, opener) = ends(key).ok_or(MulticastError::Random)?;
        let opener = Arc::new(Mutex::new(opener));
        let mut joined =
            Self { sealer: Mutex::new(sealer), sockets: Vec::new(), readers: Vec::new(), live: Arc::default() };
        for (interface, group) in places(config)? {
            let socket = open(&interface, group).map_err(|source| MulticastError::Socket {
                group,
                interface: interface.name.clone(),
                source,
            })?;
            let socket = Arc::new(socket);
            let reader = Reader {
                socket: Arc::clone(&socket),
                opener: Arc::clone(&opener),
                live: Arc::clone(&joined.live),
                context: Arc::clone(context),
                loopback: interface.is_loopback(),
            };
            joined.readers.push(tokio::spawn(reader.run()));
            joined.sockets.push((socket, group));
        }
        Ok(joined)
    }

    /// Sends a message on every interface; what the system does not take is dropped.
    pub(crate) fn send(&self, message: &[u8]) {
        let packet = self.sealer.lock().unwrap_or_else(PoisonError::into_inner).seal(now(), message);
        let Some(packet) = packet else { return add(&self.live.unsent, 1) };
        for (socket, group) in &self.sockets {
            match socket.try_send_to(&packet, *group) {
                Ok(sent) => {
                    add(&self.live.sent, 1);
                    add(&self.live.sent_bytes, sent as u64);
                }
                Err(error) => {
                    tracing::debug!(%group, %error, "a multicast packet was not sent");
                    add(&self.live.unsent, 1);
                }
            }
        }
    }

    pub(crate) fn counters(&self) -> MulticastCounters {
        let get = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        let live = &self.live;
        MulticastCounters {
            sent: get(&live.sent),
            received: get(&live.received),
            sent_bytes: get(&live.sent_bytes),
            received_bytes: get(&live.received_bytes),
            unsent: get(&live.unsent),
            forged: get(&live.forged),
            late: get(&live.late),
            replayed: get(&live.replayed),
            crowded: get(&live.crowded),
        }
    }
}

/// Each interface with the group that it takes part in.
fn places(config: &MulticastConfig) -> Result<Vec<(Interface, SocketAddr)>, MulticastError> {
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
    let missing = config.interfaces.iter().find(|name| places.iter().all(|(one, _)| one.name != **name));
    match missing {
        Some(name) => Err(MulticastError::NoInterface(name.clone())),
        None if places.is_empty() => Err(MulticastError::NoInterfaces),
        None => Ok(places),
    }
}

fn open(interface: &Interface, group: SocketAddr) -> io::Result<UdpSocket> {
    let socket = Socket::new(Domain::for_address(group), Type::DGRAM, Some(Protocol::UDP))?;
    socket.set_nonblocking(true)?;
    // Several daemons of one machine take part.
    socket.set_reuse_address(true)?;
    socket.bind_device(Some(interface.name.as_bytes()))?;
    let at = match group {
        SocketAddr::V4(v4) => {
            socket.join_multicast_v4_n(v4.ip(), &InterfaceIndexOrAddress::Index(interface.index))?;
            socket.set_multicast_ttl_v4(1)?;
            socket.set_multicast_loop_v4(true)?;
            group
        }
        SocketAddr::V6(mut v6) => {
            socket.set_only_v6(true)?;
            socket.join_multicast_v6(v6.ip(), interface.index)?;
            socket.set_multicast_hops_v6(1)?;
            socket.set_multicast_if_v6(interface.index)?;
            socket.set_multicast_loop_v6(true)?;
            v6.set_scope_id(interface.index);
            v6.into()
        }
    };
    socket.bind(&at.into())?;
    UdpSocket::from_std(socket.into())
}

/// Reads one socket.
struct Reader {
    socket: Arc<UdpSocket>,
    opener: Arc<Mutex<Opener>>,
    live: Arc<Live>,
    context: Arc<Context>,
    loopback: bool,
}

impl Reader {
    async fn run(self) {
        let mut buffer = [0; MAX_MULTICAST_BYTES + OVERHEAD + 1];
        loop {
            match self.socket.recv_from(&mut buffer).await {
                Ok((length, from)) => self.take(&mut buffer[..length], from.ip()),
                // An interface that goes down says so once; then nothing comes.
                Err(error) => {
                    tracing::debug!(%error, "multicast was not received");
                    tokio::time::sleep(PAUSE).await;
                }
            }
        }
    }

    fn take(&self, packet: &mut [u8], from: IpAddr) {
        let length = packet.len() as u64;
        let mut opener = self.opener.lock().unwrap_or_else(PoisonError::into_inner);
        match opener.open(now(), packet) {
            Ok(message) => {
                add(&self.live.received, 1);
                add(&self.live.received_bytes, length);
                // What comes over the loopback has one of this machine's other addresses.
                let from = if self.loopback { IpAddr::V4(Ipv4Addr::LOCALHOST) } else { from };
                let message = Bytes::copy_from_slice(message);
                if !self.context.queue.push_if_room(Event::Multicast { from, message }) {
                    add(&self.live.crowded, 1);
                }
            }
            Err(Fault::Own) => {}
            Err(Fault::Forged) => add(&self.live.forged, 1),
            Err(Fault::Late) => add(&self.live.late, 1),
            Err(Fault::Replayed) => add(&self.live.replayed, 1),
            Err(Fault::Crowded) => add(&self.live.crowded, 1),
        }
    }
}

/// The wall clock, milliseconds.
fn now() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
}
