//! Network namespaces, held by a descriptor and never bound to a name.

use std::fs::{self, File};
use std::io;
use std::os::fd::{AsFd, AsRawFd, OwnedFd, RawFd};

use rustix::thread::{LinkNameSpaceType, UnshareFlags, move_into_link_name_space};

use super::kernel;

/// A network namespace, which ends with the last process, socket or descriptor in it.
#[derive(Debug)]
pub struct Namespace(OwnedFd);

impl Namespace {
    /// The calling thread's namespace.
    pub fn current() -> io::Result<Self> {
        Ok(Self(File::open("/proc/thread-self/ns/net")?.into()))
    }

    /// Makes a namespace and moves the calling thread into it.
    pub fn create() -> io::Result<Self> {
        kernel::unshare(UnshareFlags::NEWNET)?;
        Self::current()
    }

    /// Moves the calling thread into it; sockets and processes made later belong to it.
    pub fn enter(&self) -> io::Result<()> {
        Ok(move_into_link_name_space(self.0.as_fd(), Some(LinkNameSpaceType::Network))?)
    }

    /// The raw descriptor, for requests to the kernel.
    pub fn raw(&self) -> RawFd {
        self.0.as_raw_fd()
    }
}

/// Prepares the calling thread's namespace for future interfaces: no IPv6, no unsolicited packets, no packets
/// dropped for their source, and no rate limit of ICMP.
pub fn configure() -> io::Result<()> {
    // Without IPv6 in the kernel there is nothing to switch off. `lo` keeps it: changing an existing interface
    // takes the kernel's network lock, for which a write to such a file retries in a loop.
    let _ = set("ipv6/conf/default/disable_ipv6", "1");
    for place in ["all", "default"] {
        set(&format!("ipv4/conf/{place}/rp_filter"), "0")?;
        set(&format!("ipv4/conf/{place}/send_redirects"), "0")?;
    }
    set("ipv4/icmp_ratelimit", "0")?;
    set("ipv4/icmp_ratemask", "0")?;
    set("ipv4/ip_forward", "0")
}

/// Lets the calling thread's namespace pass on packets of others.
pub fn forward_packets() -> io::Result<()> {
    set("ipv4/ip_forward", "1")
}

/// The file that sets the congestion control of the calling thread's namespace.
const TCP: &str = "ipv4/tcp_congestion_control";

/// Sets the congestion control of TCP in the calling thread's namespace.
pub fn set_tcp(name: &str) -> io::Result<()> {
    set(TCP, name)
}

/// The congestion control of TCP in the calling thread's namespace.
pub fn tcp() -> io::Result<String> {
    Ok(fs::read_to_string(format!("/proc/sys/net/{TCP}"))?.trim().to_owned())
}

fn set(name: &str, value: &str) -> io::Result<()> {
    let path = format!("/proc/sys/net/{name}");
    fs::write(&path, value).map_err(|error| io::Error::new(error.kind(), format!("{path}: {error}")))
}
