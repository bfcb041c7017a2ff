//! Network namespaces, held by a descriptor and never bound to a name.

use std::fs::{self, File};
use std::io;
use std::os::fd::{AsFd, AsRawFd, OwnedFd, RawFd};

use rustix::thread::{LinkNameSpaceType, UnshareFlags, move_into_link_name_space};

use super::kernel;

/// A network namespace; it goes with the last process, socket or descriptor in it.
#[derive(Debug)]
pub(crate) struct Namespace(OwnedFd);

impl Namespace {
    /// The calling thread's.
    pub(crate) fn current() -> io::Result<Self> {
        Ok(Self(File::open("/proc/thread-self/ns/net")?.into()))
    }

    /// Makes one and moves the calling thread into it.
    pub(crate) fn create() -> io::Result<Self> {
        kernel::unshare(UnshareFlags::NEWNET)?;
        Self::current()
    }

    /// Moves the calling thread into it: what the thread then opens or starts is there.
    pub(crate) fn enter(&self) -> io::Result<()> {
        Ok(move_into_link_name_space(self.0.as_fd(), Some(LinkNameSpaceType::Network))?)
    }

    /// Its descriptor, to name it to the kernel.
    pub(crate) fn raw(&self) -> RawFd {
        self.0.as_raw_fd()
    }
}

/// Prepares the calling thread's namespace for interfaces that are yet to be
/// made: no IPv6, no packets that nobody asked for, none dropped for where
/// they come from, none withheld to save rate.
pub(crate) fn configure(forwards: bool) -> io::Result<()> {
    // Without IPv6 in the kernel there is nothing to switch off. `lo` keeps
    // it: to change an interface that is there takes the kernel's network
    // lock, for which a write to such a file waits by trying again and again.
    let _ = set("ipv6/conf/default/disable_ipv6", "1");
    for place in ["all", "default"] {
        set(&format!("ipv4/conf/{place}/rp_filter"), "0")?;
        set(&format!("ipv4/conf/{place}/send_redirects"), "0")?;
    }
    set("ipv4/icmp_ratelimit", "0")?;
    set("ipv4/icmp_ratemask", "0")?;
    set("ipv4/ip_forward", if forwards { "1" } else { "0" })
}

/// The file of the calling thread's namespace that names its congestion control.
const TCP: &str = "ipv4/tcp_congestion_control";

/// Gives TCP in the calling thread's namespace this congestion control.
pub(crate) fn set_tcp(name: &str) -> io::Result<()> {
    set(TCP, name)
}

/// Which congestion control TCP has in the calling thread's namespace.
pub(crate) fn tcp() -> io::Result<String> {
    Ok(fs::read_to_string(format!("/proc/sys/net/{TCP}"))?.trim().to_owned())
}

fn set(name: &str, value: &str) -> io::Result<()> {
    let path = format!("/proc/sys/net/{name}");
    fs::write(&path, value).map_err(|error| io::Error::new(error.kind(), format!("{path}: {error}")))
}
