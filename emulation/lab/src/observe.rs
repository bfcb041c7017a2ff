//! Observations of a running lab, on all its machines.

use roost_results::record;

use super::carrier::{Lateness, WireCounts};
use super::machines::{self, AgentCall, Spread};
use super::{Lab, LabError, trunk};

impl Lab {
    /// The counters of every direction of every link and LAN until now.
    ///
    /// # Errors
    /// Fails when the carrier has ended.
    pub fn counters(&self) -> Result<Vec<record::LinkRecord>, LabError> {
        let pending = self.spread.as_ref().map(|spread| spread.send_all(|| AgentCall::Counters)).transpose()?;
        let own = self.carrier.counters()?;
        match (&self.spread, pending) {
            (Some(spread), Some(pending)) => Ok(spread.merge(own, spread.links(pending)?)),
            _ => Ok(own),
        }
    }

    /// Reads the state of other machines, from which [`lateness`](Self::lateness), [`unread`](Self::unread),
    /// [`wires`](Self::wires) and the usage of programs there come.
    ///
    /// # Errors
    /// Fails when one of them does not answer.
    pub fn observe(&self) -> Result<(), LabError> {
        self.spread.as_ref().map_or(Ok(()), |spread| spread.observe().map(drop))
    }

    /// The lateness of deliveries on all machines.
    pub fn lateness(&self) -> Lateness {
        let mut sum = self.carrier.lateness();
        self.others().iter().for_each(|other| sum.add(&other.lateness));
        sum
    }

    fn others(&self) -> Vec<machines::Observation> {
        self.spread.as_ref().map(Spread::latest).unwrap_or_default()
    }

    /// The time that packets may have waited in the hosts before the carrier read them, until now: see
    /// [`Carrier::unread`].
    pub fn unread(&self) -> Lateness {
        let mut sum = self.carrier.unread();
        self.others().iter().for_each(|other| sum.add(&other.unread));
        sum
    }

    /// Packets lost until now because this machine was too slow, or because the core's limits were exceeded. If
    /// there are any, the run does not show the network described.
    ///
    /// # Errors
    /// Fails when the carrier has ended.
    pub fn overruns(&self) -> Result<u64, LabError> {
        let others = self.spread.as_ref().map_or_else(|| Ok(Vec::new()), Spread::observe)?;
        Ok(self.own_overruns()? + others.iter().map(|other| other.overruns).sum::<u64>())
    }

    /// Packets lost by this machine, or on their way to it from others.
    pub(crate) fn own_overruns(&self) -> Result<u64, LabError> {
        let on_trunk = self.carrier.lines()?.iter().map(trunk::LineCounts::lost).sum::<u64>();
        Ok(self.carrier.overruns() + self.carrier.overflows()? + on_trunk)
    }

    /// Sentences about losses between this program and others on other machines, because a queue was full, until the
    /// latest observation. With any, requests failed that would not have failed on one machine.
    pub fn queue_losses(&self) -> Vec<String> {
        self.spread.as_ref().map(Spread::queue_losses).unwrap_or_default()
    }

    /// The frame counters of each interface, in the order of hosts and their interfaces.
    pub fn wires(&self) -> Vec<WireCounts> {
        let others = self.others().into_iter().flat_map(|other| other.wires);
        self.carrier.wires().into_iter().chain(others).collect()
    }
}
