//! Two hosts joined by a veth pair, without the lab's carrier, which is slower than the reflectors.

use std::io;
use std::net::Ipv4Addr;
use std::process::{Child, Command};
use std::thread;

use roost_lab::LOOPBACK;
use roost_lab::namespace::{self, Namespace};
use roost_lab::netlink::{Netlink, NetlinkRequest};
use rustix::process::Pid;
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

use crate::join;

pub(super) const NEAR: Ipv4Addr = Ipv4Addr::new(10, 78, 0, 1);
pub(super) const FAR: Ipv4Addr = Ipv4Addr::new(10, 78, 0, 2);
const PREFIX: u8 = 24;
/// The index of the interface in each namespace, above those that the system makes.
const INDEX: u32 = 100;
const QUEUE_PACKETS: u32 = 20_000;

/// Segments of a message that an interface takes uncut, if it has segmentation offload: any number.
const ANY_SEGMENTS: u32 = 65_535;

pub(super) struct VethPair {
    near: Namespace,
    far: Namespace,
    /// The processor of the reflector, and that of everything else, if there are two.
    processors: Option<[usize; 2]>,
}

impl VethPair {
    pub(super) fn make() -> io::Result<Self> {
        // The thread changes its namespace for good.
        let make = || -> io::Result<(Namespace, Namespace)> {
            let far = Namespace::create()?;
            namespace::configure()?;
            let mut far_requests = Netlink::open()?;
            let near = Namespace::create()?;
            namespace::configure()?;
            let mut near_requests = Netlink::open()?;
            let name = || "eth0".to_owned();
            let (outer_index, outer_namespace) = (INDEX, far.raw());
            let pair =
                NetlinkRequest::Pair { name: name(), index: INDEX, outer_name: name(), outer_index, outer_namespace };
            near_requests.apply(&[pair])?;
            far_requests.apply(&host(FAR, 2))?;
            near_requests.apply(&host(NEAR, 1))?;
            Ok((near, far))
        };
        let (near, far) = thread::scope(|scope| join(scope.spawn(make)))?;
        let allowed = sched_getaffinity(None).unwrap_or_default();
        let mut processors = (0..CpuSet::MAX_CPU).filter(|cpu| allowed.is_set(*cpu));
        let processors = processors.next().zip(processors.next()).map(|(first, second)| [first, second]);
        Ok(Self { near, far, processors })
    }

    /// Moves the calling thread to the near host, and to its processor.
    pub(super) fn enter_near(&self) -> io::Result<()> {
        self.near.enter()?;
        // With a single processor all share it.
        self.processors.map_or(Ok(()), |[_, second]| sched_setaffinity(None, &only(second)).map_err(Into::into))
    }

    /// Sets the segmentation offload of the far host's interface. Without it the kernel cuts messages of
    /// several segments, as for a network card that cannot.
    pub(super) fn set_offload(&self, offload: bool) -> io::Result<()> {
        let most = if offload { ANY_SEGMENTS } else { 1 };
        self.on_far(|| Netlink::open()?.apply(&[NetlinkRequest::Segments { index: INDEX, most }]))
    }

    /// Starts a program on the far host, on a processor of its own.
    pub(super) fn start_far(&self, mut command: Command) -> io::Result<Child> {
        self.on_far(|| {
            let child = command.spawn()?;
            if let Some([first, _]) = self.processors {
                sched_setaffinity(Some(Pid::from_child(&child)), &only(first))?;
            }
            Ok(child)
        })
    }

    /// Runs `what` on the far host, in a thread that stays there.
    fn on_far<T: Send>(&self, what: impl FnOnce() -> io::Result<T> + Send) -> io::Result<T> {
        thread::scope(|scope| {
            let body = || self.far.enter().and_then(|()| what());
            join(scope.spawn(body))
        })
    }
}

fn only(cpu: usize) -> CpuSet {
    let mut set = CpuSet::new();
    set.set(cpu);
    set
}

fn host(address: Ipv4Addr, last: u8) -> [NetlinkRequest; 3] {
    let mac = [2, 0, 0, 0, 78, last];
    [
        NetlinkRequest::Up { index: LOOPBACK },
        NetlinkRequest::Ready { index: INDEX, mac, queue_packets: QUEUE_PACKETS },
        NetlinkRequest::Address { index: INDEX, address, prefix: PREFIX },
    ]
}
