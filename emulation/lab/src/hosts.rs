//! Creation of all hosts, in parallel.

use std::io;
use std::num::NonZero;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed};
use std::thread;

use super::device::{CarrierEnd, Device, DeviceBackend, DeviceNamespaces};
use super::namespace::{self, Namespace};
use super::netlink::{Netlink, NetlinkRequest};
use super::plan::{HostPlan, InterfacePlan, LOOPBACK};
use super::{Interrupt, LabError};

/// More threads do not help: the kernel holds its network lock for most of the work.
const MAX_THREADS: usize = 4;

#[derive(Debug)]
pub(crate) struct LabHost {
    pub(crate) namespace: Namespace,
    pub(crate) interfaces: Vec<CarrierEnd>,
}

#[derive(Clone, Copy)]
pub(crate) struct HostSettings<'a> {
    pub(crate) backend: DeviceBackend,
    /// The congestion control of TCP; `None` for the system's own.
    pub(crate) tcp: Option<&'a str>,
    pub(crate) interrupt: Option<&'a Interrupt>,
}

/// Makes all hosts, in the order of the plans. The outer ends of veth pairs go into the calling thread's namespace.
///
/// # Errors
/// The kernel's first refusal, or an interrupt; all hosts are removed then.
pub(crate) fn make(plans: &[HostPlan], settings: &HostSettings<'_>) -> Result<Vec<LabHost>, LabError> {
    let outer = Namespace::current().map_err(|error| LabError::kernel("find its network namespace", error))?;
    if settings.backend == DeviceBackend::Veth {
        namespace::configure().map_err(|error| LabError::kernel("prepare the carrier's namespace", error))?;
    }
    let line = HostBuildQueue {
        plans,
        settings: *settings,
        outer: &outer,
        next: AtomicUsize::new(0),
        failed: AtomicBool::new(false),
    };
    let processors = thread::available_parallelism().map_or(1, NonZero::get);
    let threads = processors.min(MAX_THREADS).min(plans.len());
    let made = thread::scope(|scope| {
        let workers: Vec<_> =
            (0..threads).map(|_| thread::Builder::new().spawn_scoped(scope, || line.work())).collect();
        workers.into_iter().map(join).collect::<Result<Vec<_>, _>>()
    })?;
    let mut made: Vec<(usize, LabHost)> = made.into_iter().flatten().collect();
    made.sort_unstable_by_key(|(place, _)| *place);
    Ok(made.into_iter().map(|(_, host)| host).collect())
}

fn join<T>(worker: io::Result<thread::ScopedJoinHandle<'_, Result<T, LabError>>>) -> Result<T, LabError> {
    let worker = worker.map_err(|error| LabError::kernel("start a thread", error))?;
    worker.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
}

/// The plans, which idle threads take one by one.
struct HostBuildQueue<'a> {
    plans: &'a [HostPlan],
    settings: HostSettings<'a>,
    outer: &'a Namespace,
    next: AtomicUsize,
    failed: AtomicBool,
}

impl HostBuildQueue<'_> {
    fn work(&self) -> Result<Vec<(usize, LabHost)>, LabError> {
        let mut made = Vec::new();
        let mut outer = Netlink::open().map_err(|error| LabError::kernel("ask for interfaces", error))?;
        while !self.failed.load(Relaxed) {
            let place = self.next.fetch_add(1, Relaxed);
            let Some(plan) = self.plans.get(place) else { break };
            if self.settings.interrupt.is_some_and(Interrupt::is_set) {
                self.failed.store(true, Relaxed);
                return Err(LabError::Interrupted);
            }
            let host = self.make(plan, &mut outer).map_err(|error| {
                self.failed.store(true, Relaxed);
                refused(plan, error)
            })?;
            made.push((place, host));
        }
        Ok(made)
    }

    /// Makes one host. It leaves the calling thread in the carrier's namespace, even if it fails.
    fn make(&self, plan: &HostPlan, outer_requests: &mut Netlink) -> io::Result<LabHost> {
        let namespace = Namespace::create()?;
        let devices = self.create_devices(plan, outer_requests);
        self.outer.enter()?;
        let interfaces = devices?.into_iter().map(Device::connect).collect::<io::Result<_>>()?;
        Ok(LabHost { namespace, interfaces })
    }

    fn create_devices(&self, plan: &HostPlan, outer_requests: &mut Netlink) -> io::Result<Vec<Device>> {
        namespace::configure()?;
        if plan.forwards {
            namespace::forward_packets()?;
        }
        self.settings.tcp.map_or(Ok(()), namespace::set_tcp)?;
        let mut inner = Netlink::open()?;
        let mut sides = DeviceNamespaces { outer: self.outer, outer_requests, inner_requests: &mut inner };
        let make = |interface| Device::make(self.settings.backend, interface, &mut sides);
        let devices = plan.interfaces.iter().map(make).collect::<io::Result<_>>()?;
        let mut requests = vec![NetlinkRequest::Up { index: LOOPBACK }];
        requests.extend(plan.interfaces.iter().flat_map(InterfacePlan::requests));
        requests.extend(plan.routes.iter().cloned());
        inner.apply(&requests)?;
        Ok(devices)
    }
}

fn refused(plan: &HostPlan, error: io::Error) -> LabError {
    match error.raw_os_error() {
        Some(libc::ENOSPC) => LabError::System(
            "there are too many network namespaces: raise user.max_net_namespaces with `sudo sysctl -w`".to_owned(),
        ),
        Some(libc::EMFILE | libc::ENFILE) => LabError::System(
            "there are too many open files: raise the limit with `ulimit -n`, or fs.file-max".to_owned(),
        ),
        _ => LabError::kernel(format!("set up host {}", plan.name), error),
    }
}
