//! Once a second how a run is going, and at its end what each link carried.

use std::collections::BTreeSet;
use std::sync::Arc;

use super::error::RunError;
use super::journal::Tally;
use crate::lab::Lab;
use crate::lab::carrier::Lateness;
use crate::report::record::{Link, Sample};
use crate::scenario::topology::NetKind;

/// Counters as they were when the workload began, and at the last look.
pub(super) struct Sampler {
    lans: BTreeSet<String>,
    before: Vec<Link>,
    overruns: u64,
    first: Lateness,
    unread: Lateness,
    last: Lateness,
}

impl Sampler {
    /// Begins to count.
    pub(super) fn begin(lab: &Lab) -> Result<Self, RunError> {
        let nets = &lab.topology().nets;
        let lans = nets.iter().filter(|net| net.kind == NetKind::Lan).map(|net| net.name.clone()).collect();
        let (first, unread) = (lab.lateness(), lab.unread());
        Ok(Self { lans, before: lab.counters()?, overruns: lab.overruns()?, last: first.clone(), first, unread })
    }

    /// What each direction has carried since the beginning. The carrier is asked
    /// on a thread of its own: whoever waits for an answer here is not kept from it.
    pub(super) async fn links(&self, lab: &Arc<Lab>) -> Result<Vec<Link>, RunError> {
        let lab = Arc::clone(lab);
        let counted = tokio::task::spawn_blocking(move || lab.counters()).await;
        let now = counted.map_err(|error| RunError::Failed(format!("cannot count packets: {error}")))??;
        Ok(now.into_iter().zip(&self.before).map(|(now, before)| since(now, before)).collect())
    }

    /// How late packets were since the beginning.
    pub(super) fn lateness(&self, lab: &Lab) -> Lateness {
        lab.lateness().since(&self.first)
    }

    /// How long packets stood unread since the beginning.
    pub(super) fn unread(&self, lab: &Lab) -> Lateness {
        lab.unread().since(&self.unread)
    }

    /// Packets that the emulation lost since the beginning.
    pub(super) fn overruns(&self, lab: &Lab) -> Result<u64, RunError> {
        Ok(lab.overruns()?.saturating_sub(self.overruns))
    }

    /// How it is going, `t` seconds after the beginning.
    pub(super) async fn sample(
        &mut self,
        lab: &Arc<Lab>,
        t: f64,
        active: u32,
        tally: Tally,
    ) -> Result<Sample, RunError> {
        let lateness = lab.lateness();
        let late = lateness.since(&self.last).quantile(0.99);
        self.last = lateness;
        let links = self.links(lab).await?;
        let (offered_bytes, delivered_bytes) = self.totals(&links);
        Ok(Sample {
            t,
            offered_bytes,
            delivered_bytes,
            active,
            completed: tally.completed,
            failed: tally.failed,
            lateness_p99_ms: late.as_secs_f64() * 1e3,
        })
    }

    /// Bytes from hosts into links, and out of links to hosts. A link has its
    /// traffic under `to-net`, a LAN what it delivers under `from-net`.
    fn totals(&self, links: &[Link]) -> (u64, u64) {
        let to_net = || links.iter().filter(|link| link.direction == "to-net");
        let offered = to_net().map(|link| link.bytes_in).sum();
        let crossed = to_net().filter(|link| !self.lans.contains(&link.link)).map(|link| link.bytes_out).sum::<u64>();
        let out = links.iter().filter(|link| link.direction == "from-net" && self.lans.contains(&link.link));
        (offered, crossed + out.map(|link| link.bytes_out).sum::<u64>())
    }
}

/// What a direction has carried since it was counted as `before`.
pub(crate) fn since(now: Link, before: &Link) -> Link {
    Link {
        // What was inside at the beginning left later: it came in as well.
        packets_in: now.packets_in - before.packets_in + before.in_flight,
        bytes_in: now.bytes_in - before.bytes_in,
        packets_out: now.packets_out - before.packets_out,
        bytes_out: now.bytes_out - before.bytes_out,
        multicast_bytes_in: now.multicast_bytes_in - before.multicast_bytes_in,
        dropped_queue: now.dropped_queue - before.dropped_queue,
        dropped_loss: now.dropped_loss - before.dropped_loss,
        dropped_down: now.dropped_down - before.dropped_down,
        ..now
    }
}
