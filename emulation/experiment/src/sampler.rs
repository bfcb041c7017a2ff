//! Samples of a run's progress each second, and link counters at its end.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Instant;

use roost_lab::Lab;
use roost_lab::carrier::{Lateness, ScheduleStart, WireCounts};
use roost_results::LoadMeter;
use roost_results::metrics::RequestCounts;
use roost_results::record::{LinkRecord, LoadRecord, SampleRecord};
use roost_topology::model::NetKind;

use super::error::RunError;
use super::fleet::Fleet;
use super::programs::ProgramWait;
use super::verdict::{LateSeconds, Observed};
use super::windows::Windows;
use crate::host_facts::Processors;

/// The interval, in seconds, at which daemons' waiting times are read: each reading takes some files of `/proc`
/// for each of their threads.
const LOOK_AT_DAEMONS: f64 = 2.0;

/// Counters at the start of the workload, and at the last sample.
pub(super) struct Sampler {
    lans: BTreeSet<String>,
    before: Vec<LinkRecord>,
    overruns: u64,
    first: Lateness,
    unread: Lateness,
    last: Last,
    seconds: LateSeconds,
    windows: Windows,
    /// Programs whose waits are in the windows.
    programs: BTreeSet<String>,
    load: LoadMeter,
}

struct Last {
    lateness: Lateness,
    processors: Option<Processors>,
    /// Time of the last reading of daemons.
    daemons: f64,
}

impl Sampler {
    /// Makes now the time 0 of the run and starts to count; returns that time. Slow readings come before it,
    /// and links count from exactly that time.
    pub(super) fn begin(lab: &Lab, fleet: &mut Fleet) -> Result<(Self, Instant), RunError> {
        let nets = &lab.topology().nets;
        let lans = nets.iter().filter(|net| net.kind == NetKind::Lan).map(|net| net.name.clone()).collect();
        // First: it observes the other machines, as the rest needs.
        let overruns = lab.overruns()?;
        let (waited, processors) = (fleet.processor_waits(), Processors::now());
        let (first, unread, seconds) = (lab.lateness(), lab.unread(), LateSeconds::default());
        let ScheduleStart { at, links: before, .. } = lab.begin()?;
        let mut windows = Windows::default();
        windows.add_sample(0.0, processors, waited);
        let last = Last { lateness: first.clone(), processors, daemons: 0.0 };
        let load = LoadMeter::default();
        Ok((
            Self { lans, before, overruns, first, unread, last, seconds, windows, programs: BTreeSet::new(), load },
            at,
        ))
    }

    /// The counters of each direction since the beginning, and a new observation of all machines. They are queried on
    /// another thread, so that tasks here are not blocked.
    pub(super) async fn links(&self, lab: &Arc<Lab>) -> Result<Vec<LinkRecord>, RunError> {
        let lab = Arc::clone(lab);
        let counted = tokio::task::spawn_blocking(move || lab.observe().and_then(|()| lab.counters())).await;
        let now = counted.map_err(|error| RunError::Failed(format!("cannot count packets: {error}")))??;
        Ok(now.into_iter().zip(&self.before).map(|(now, before)| since(now, before)).collect())
    }

    /// Observations of the emulation itself over the run's `t` seconds.
    pub(super) fn end(mut self, lab: &Lab, fleet: &mut Fleet, t: f64) -> Result<Observed, RunError> {
        let overruns = lab.overruns()?.saturating_sub(self.overruns);
        self.windows.add_sample(t, Processors::now(), fleet.processor_waits());
        let wires = lab.wires();
        let named = |is: fn(&WireCounts) -> bool| {
            let both = lab.interfaces().iter().zip(&wires).filter(|(_, counts)| is(counts));
            both.map(|(name, _)| name.clone()).collect()
        };
        Ok(Observed {
            broken: named(|counts| counts.broken),
            uncounted: named(|counts| counts.uncounted),
            lateness: lab.lateness().since(&self.first),
            unread: lab.unread().since(&self.unread),
            overruns,
            seconds: self.seconds,
            windows: self.windows,
            ..Observed::default()
        })
    }

    /// Samples the progress, `t` seconds after the beginning, and the load of links.
    pub(super) async fn sample(
        &mut self,
        lab: &Arc<Lab>,
        fleet: &mut Fleet,
        t: f64,
        (active, tally): (u32, RequestCounts),
    ) -> Result<(SampleRecord, Option<LoadRecord>), RunError> {
        let links = self.links(lab).await?;
        let lateness = lab.lateness();
        let second = lateness.since(&self.last.lateness);
        self.seconds.add_second(&second);
        self.last.lateness = lateness;
        let cpu_busy = self.look_at_processors(fleet, t);
        let (offered_bytes, delivered_bytes) = self.totals(&links);
        let sample = SampleRecord {
            t,
            offered_bytes,
            delivered_bytes,
            active,
            completed: tally.completed,
            failed: tally.failed + tally.timed_out,
            lateness_p99_ms: second.quantile(0.99).as_secs_f64() * 1e3,
            cpu_busy,
        };
        Ok((sample, self.load.measure(t, links)))
    }

    pub(super) fn add_program_waits(&mut self, t: f64, waits: Vec<ProgramWait>) {
        for ProgramWait { program, began, waited } in waits {
            if self.programs.insert(program.clone()) {
                self.windows.add_sample(began, None, vec![(program.clone(), Some(0.0))]);
            }
            self.windows.add_sample(t, None, vec![(program, Some(waited))]);
        }
    }

    /// The fraction of the processors in use since the last sample.
    fn look_at_processors(&mut self, fleet: &mut Fleet, t: f64) -> Option<f64> {
        let processors = Processors::now();
        let waited = if t - self.last.daemons >= LOOK_AT_DAEMONS {
            self.last.daemons = t;
            fleet.processor_waits()
        } else {
            Vec::new()
        };
        self.windows.add_sample(t, processors, waited);
        let earlier = std::mem::replace(&mut self.last.processors, processors);
        processors.zip(earlier).and_then(|(now, earlier)| now.busy_since(&earlier))
    }

    /// Bytes from hosts into links, and from links to hosts. A link records its traffic under `to-net`; a LAN
    /// records deliveries under `from-net`.
    fn totals(&self, links: &[LinkRecord]) -> (u64, u64) {
        let to_net = || links.iter().filter(|link| link.direction == "to-net");
        let offered = to_net().map(|link| link.bytes_in).sum();
        let crossed = to_net().filter(|link| !self.lans.contains(&link.link)).map(|link| link.bytes_out).sum::<u64>();
        let out = links.iter().filter(|link| link.direction == "from-net" && self.lans.contains(&link.link));
        (offered, crossed + out.map(|link| link.bytes_out).sum::<u64>())
    }
}

/// The counters of a direction since `before`.
pub fn since(now: LinkRecord, before: &LinkRecord) -> LinkRecord {
    LinkRecord {
        // Packets inside at the beginning left later, so they count as having entered.
        packets_in: now.packets_in - before.packets_in + before.in_flight,
        bytes_in: now.bytes_in - before.bytes_in + before.in_flight_bytes,
        packets_out: now.packets_out - before.packets_out,
        bytes_out: now.bytes_out - before.bytes_out,
        multicast_bytes_in: now.multicast_bytes_in - before.multicast_bytes_in,
        dropped_queue: now.dropped_queue - before.dropped_queue,
        dropped_loss: now.dropped_loss - before.dropped_loss,
        dropped_down: now.dropped_down - before.dropped_down,
        capacity_bytes: now.capacity_bytes.map(|bytes| bytes - before.capacity_bytes.unwrap_or(0)),
        ..now
    }
}
