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

/// The receive buffer of a packet socket for times when the carrier is busy: some 3000 full frames by the
/// kernel's count.
const RECEIVE_BUFFER_BYTES: u32 = 8 * 1024 * 1024;
/// The index of the first outer end in the carrier's namespace; see [`FIRST_INDEX`](super::plan).
const FIRST_OUTER_INDEX: u32 = 1000;

/// The count of outer ends: a process may make several labs, one after the other or at once.
static OUTER_ENDS: AtomicU32 = AtomicU32::new(FIRST_OUTER_INDEX);

/// The way in which frames pass between a host's interface and the carrier.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum DeviceBackend {
    /// TAP devices if this user may open `/dev/net/tun`, else veth pairs.
    #[default]
    Auto,
    /// A TAP device for each interface: one system call reads or writes a frame.
    Tap,
    /// A veth pair for each interface, with a raw packet socket on its outer end. This needs no device file.
    Veth,
}

impl DeviceBackend {
    /// Resolves `Auto` to one of the others.
    ///
    /// # Errors
    /// Fails when TAP devices are required and the device file does not open; the message gives the reason.
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

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "auto" => Ok(Self::Auto),
            "tap" => Ok(Self::Tap),
            "veth" => Ok(Self::Veth),
            _ => Err(format!("`{text}` is no way to carry packets: write auto, tap or veth")),
        }
    }
}

/// Describes the real receive buffer; `None` for a TAP device, which has none. Root gets
/// [`RECEIVE_BUFFER_BYTES`]; anyone else, root of a user namespace included, gets at most `net.core.rmem_max`.
pub(crate) fn receive_buffer(end: &CarrierEnd) -> Option<String> {
    // The kernel reports twice the requested size, to allow for its overhead.
    let bytes = rustix::net::sockopt::socket_recv_buffer_size(&end.fd).ok()? / 2;
    Some(match bytes < RECEIVE_BUFFER_BYTES as usize {
        true => format!("{bytes} of {RECEIVE_BUFFER_BYTES} bytes"),
        false => format!("{RECEIVE_BUFFER_BYTES} bytes"),
    })
}

/// The two namespaces of an interface's ends.
pub(crate) struct DeviceNamespaces<'a> {
    pub(crate) outer: &'a Namespace,
    pub(crate) outer_requests: &'a mut Netlink,
    /// Requests to the host's namespace, which is the calling thread's.
    pub(crate) inner_requests: &'a mut Netlink,
}

/// A host's interface, as the carrier uses it.
#[derive(Debug)]
pub(crate) enum Device {
    /// A TAP device, opened in the host's namespace.
    Tap { fd: OwnedFd, statistics: DeviceStatistics },
    Veth {
        /// The index of the outer end in the carrier's namespace.
        outer_index: u32,
        /// The kernel's counters of dropped frames in both directions, at the inner end.
        statistics: DeviceStatistics,
    },
}

impl Device {
    /// Makes the device of an interface, which stays down.
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
        // Before the inner end: the end that goes up last can send at once.
        sides.outer_requests.apply(&[NetlinkRequest::Up { index: outer_index }])?;
        kernel::finish_checksums(&interface.name)?;
        Ok(Self::Veth { outer_index, statistics: DeviceStatistics::open(&interface.name)? })
    }

    /// Opens the carrier's end; call it in the carrier's namespace.
    pub(crate) fn connect(self) -> io::Result<CarrierEnd> {
        match self {
            Self::Tap { fd, statistics } => Ok(CarrierEnd { fd, statistics }),
            Self::Veth { outer_index, statistics } => {
                Ok(CarrierEnd { fd: kernel::open_packet_socket(outer_index, RECEIVE_BUFFER_BYTES)?, statistics })
            }
        }
    }
}

#[derive(Debug)]
pub(crate) struct CarrierEnd {
    /// Each read or write moves one frame.
    pub(crate) fd: OwnedFd,
    pub(crate) statistics: DeviceStatistics,
}
