//! The link test of a running lab.

use std::io;
use std::net::UdpSocket;
use std::num::NonZeroU64;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Instant;

use roost_topology::Topology;

use super::flow::{LinktestFlow, LinktestTrace};
use super::probe::{self, Prober};
use super::remote::SpreadProbeCarrier;
use super::{LinktestOptions, LinktestReport, ProbeCarrier, measure};
use crate::{Lab, LabError};

/// The carrier's priority. Both threads sleep most of the time.
const PRIORITY: u8 = 1;

/// Measures a running lab against a description of the same hosts and nets, which is usually [`Lab::topology`];
/// addresses are the lab's. `watch` gets the name of each test when it begins. When `stop` is set it ends
/// within 0.1 s, with the results so far.
///
/// # Errors
/// Fails when a host's namespace cannot be entered, sockets cannot be opened there, or the carrier has ended.
pub fn run(
    lab: &Lab,
    described: &Topology,
    options: &LinktestOptions,
    stop: &AtomicBool,
    watch: &mut (dyn FnMut(&'static str) + Send),
) -> Result<LinktestReport, LabError> {
    let began = Instant::now();
    let (overruns, lateness) = (lab.overruns()?, lab.lateness());
    let described = with_addresses(described, lab.topology());
    let sockets = open_sockets(lab)?;
    let priority = ProbePriority::for_lab(lab);
    let body = || {
        priority.apply();
        let prober = Prober::new(sockets, lab.carrier.origin())?;
        match &lab.spread {
            Some(spread) => {
                let mut wire = SpreadProbeCarrier::open(prober, lab, spread, stop).map_err(io::Error::other)?;
                measure(&described, options, &mut wire, watch)
            }
            None => measure(&described, options, &mut LabProbeCarrier { prober, stop }, watch),
        }
    };
    // A separate thread, since its priority ends with it.
    let result = thread::scope(|scope| {
        let thread = thread::Builder::new().name("linktest".to_owned()).spawn_scoped(scope, body)?;
        thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    });
    let mut report = result.map_err(|error: io::Error| LabError::kernel("send probes", error))?;
    report.seconds = began.elapsed().as_secs_f64();
    report.overruns = lab.overruns()?.saturating_sub(overruns);
    report.lateness_p99_ms = lab.lateness().since(&lateness).quantile(0.99).as_secs_f64() * 1e3;
    Ok(report)
}

/// The priority of a thread of probes: that of the carrier.
pub(crate) struct ProbePriority {
    realtime: bool,
}

impl ProbePriority {
    pub(crate) fn for_lab(lab: &Lab) -> Self {
        Self { realtime: lab.facts().get("realtime").is_some_and(|text| text.starts_with("yes")) }
    }

    /// Sets the calling thread up, as well as the system allows: without it probes are sent and read a little late.
    pub(crate) fn apply(&self) {
        let _ = rustix::thread::set_current_timer_slack(NonZeroU64::new(1));
        if self.realtime {
            let _ = crate::kernel::become_realtime(PRIORITY);
        }
    }
}

/// Sockets for the probes of all hosts of this machine.
pub(super) fn open_sockets(lab: &Lab) -> Result<Vec<Option<UdpSocket>>, LabError> {
    let open = |host: usize| {
        let failed = |error| LabError::kernel(format!("open a socket in {}", lab.topology.hosts[host].name), error);
        lab.is_here(host).then(|| lab.run_in(host, probe::open)?.map_err(failed)).transpose()
    };
    (0..lab.topology.hosts.len()).map(open).collect()
}

fn with_addresses(described: &Topology, lab: &Topology) -> Topology {
    let mut described = described.clone();
    for (net, real) in described.nets.iter_mut().zip(&lab.nets) {
        for (member, real) in net.members.iter_mut().zip(&real.members) {
            member.address = real.address;
        }
    }
    described
}

struct LabProbeCarrier<'a> {
    prober: Prober,
    stop: &'a AtomicBool,
}

impl ProbeCarrier for LabProbeCarrier<'_> {
    type Error = io::Error;

    fn send_flows(&mut self, flows: &[LinktestFlow]) -> io::Result<Vec<LinktestTrace>> {
        self.prober.carry(flows, self.stop)
    }

    fn stopped(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }
}
