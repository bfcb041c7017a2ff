//! Hosts' interfaces, and the descriptors on which their frames are read and written.

use std::fmt;
use std::io;
use std::os::fd::OwnedFd;
use std::str::FromStr;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

use super::carrier::DeviceStatistics;
use super::kernel;
use super::namespace::Namespace;
use super::netlink::{Netlink, NetlinkRequest};
use super::plan::InterfacePlan;

/// What a packet socket may hold while the carrier is busy: some 3000 full frames as the kernel counts them.
const RECEIVE_BUFFER_BYTES: u32 = 8 * 1024 * 1024;
/// The number of the first outer end in the carrier's namespace; see [`FIRST_INDEX`](super::plan).
const FIRST_OUTER_INDEX: u32 = 1000;

/// The numbers of outer ends so far: a process may make one lab after the other, or two.
static OUTER_ENDS: AtomicU32 = AtomicU32::new(FIRST_OUTER_INDEX);

/// How frames get from a host's interface to the carrier and back.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum DeviceBackend {
    /// TAP devices where `/dev/net/tun` is open to this user, else veth pairs.
    #[default]
    Auto,
    /// A TAP device per interface: one system call reads or writes a frame.
    Tap,
    /// A veth pair per interface, with a raw packet socket on its outer end:
    /// needs no device file.
    Veth,
}

impl DeviceBackend {
    /// The one to use: never `Auto`.
    ///
    /// # Errors
    /// When TAP devices are asked for and the device file does not open; it says why.
    pub(crate) fn choose(self) -> io::Result<Self> {
        match (self, kernel::probe_tap()) {
            (Self::Auto, Ok(())) => Ok(Self::Tap),
            (Self::Auto, Err(_)) => Ok(Self::Veth),
            (Self::Tap, Err(error)) => Err(error),
            (chosen, _) => Ok(chosen),
        }
    }
}

impl fmt::Display for DeviceBackend {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Auto => "auto",
            Self::Tap => "tap",
            Self::Veth => "veth",
        })
    }
}

impl FromStr for DeviceBackend {
    type Err = String;

    /// Reads `auto`, `tap` or `veth`.
    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "auto" => Ok(Self::Auto),
            "tap" => Ok(Self::Tap),
            "veth" => Ok(Self::Veth),
            _ => Err(format!("`{text}` is no way to carry packets: write auto, tap or veth")),
        }
    }
}

/// How much the system really keeps for a carrier that is held up, in words;
/// none if it reads from a TAP device. Root gets [`RECEIVE_BUFFER_BYTES`], but
/// for root of a user namespace, who gets as anybody else what
/// `net.core.rmem_max` allows.
pub(crate) fn receive_buffer(connection: &CarrierEnd) -> Option<String> {
    // The kernel doubles what it was asked for, to allow for its own part.
    let bytes = rustix::net::sockopt::socket_recv_buffer_size(&connection.fd).ok()? / 2;
    Some(match bytes < RECEIVE_BUFFER_BYTES as usize {
        true => format!("{bytes} of {RECEIVE_BUFFER_BYTES} bytes"),
        false => format!("{RECEIVE_BUFFER_BYTES} bytes"),
    })
}

/// The two namespaces that an interface is between.
pub(crate) struct DeviceNamespaces<'a> {
    /// The carrier's.
    pub(crate) outer: &'a Namespace,
    /// Requests to it.
    pub(crate) outer_requests: &'a mut Netlink,
    /// Requests to the host's, which is the calling thread's.
    pub(crate) inner_requests: &'a mut Netlink,
}

/// A host's interface, seen from the carrier.
#[derive(Debug)]
pub(crate) enum Device {
    /// A TAP device, opened in the host's namespace.
    Tap {
        /// Where its frames are.
        fd: OwnedFd,
        /// What the kernel drops of them.
        statistics: DeviceStatistics,
    },
    /// A veth pair.
    Veth {
        /// The number of its outer end in the carrier's namespace.
        outer_index: u32,
        /// What the kernel drops on either way, as the inner end counts it.
        statistics: DeviceStatistics,
    },
}

impl Device {
    /// Makes the device of an interface; the interface itself is still down.
    pub(crate) fn make(
        backend: DeviceBackend,
        interface: &InterfacePlan,
        sides: &mut DeviceNamespaces<'_>,
    ) -> io::Result<Self> {
        let (name, index) = (interface.name.clone(), interface.index);
        if backend == DeviceBackend::Tap {
            let fd = kernel::open_tap(&name, index)?;
            return Ok(Self::Tap { fd, statistics: DeviceStatistics::open(&name)? });
        }
        let outer_index = OUTER_ENDS.fetch_add(1, Relaxed);
        let outer_name = format!("w{outer_index}");
        let outer_namespace = sides.outer.raw();
        sides.inner_requests.apply(&[NetlinkRequest::Pair {
            name,
            index,
            outer_name,
            outer_index,
            outer_namespace,
        }])?;
        // Before the inner end: an end that goes up second sends at once.
        sides.outer_requests.apply(&[NetlinkRequest::Up { index: outer_index }])?;
        kernel::finish_checksums(&interface.name)?;
        Ok(Self::Veth { outer_index, statistics: DeviceStatistics::open(&interface.name)? })
    }

    /// What the carrier needs of it; to be called in the carrier's namespace.
    pub(crate) fn connect(self) -> io::Result<CarrierEnd> {
        match self {
            Self::Tap { fd, statistics } => Ok(CarrierEnd { fd, statistics }),
            Self::Veth { outer_index, statistics } => {
                Ok(CarrierEnd { fd: kernel::open_packet_socket(outer_index, RECEIVE_BUFFER_BYTES)?, statistics })
            }
        }
    }
}

/// The carrier's end of an interface.
#[derive(Debug)]
pub(crate) struct CarrierEnd {
    /// Where one read or write moves one frame.
    pub(crate) fd: OwnedFd,
    /// What its device does with frames.
    pub(crate) statistics: DeviceStatistics,
}
