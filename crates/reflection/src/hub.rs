//! A hub's part of reflection: it sends on the streams that its machine grants, and tells the machine which
//! streams it carries and what room is left. No stream begins or ends here.

use std::collections::VecDeque;
use std::time::Duration;

use roost_core::hub::{HubCommand, MAX_RECEIVERS, MAX_REFLECTED_STREAMS, ReflectedStream};
use roost_wire::reflection::DownstreamKind;
use roost_wire::{ReflectionGrant, Time};

use crate::admission_error::AdmissionError;
use crate::datagram_path::DatagramPath;
use crate::fanout::{SendOutcome, Transmit};
use crate::machine::ReflectionMachine;
use crate::relay::{Relay, RelayConfig, RelayEvent, StreamStatus};

/// Time between two reports to the machine of the relay's streams and room, if they have changed.
const REPORT_PAUSE: Duration = Duration::from_secs(1);

/// The number of reports after which streams are reported also though nothing but rates has changed:
/// the machine then forgets what it granted in vain.
const REFRESH: u32 = 10;

/// A command to a hub's part of reflection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HubInput {
    Grant(ReflectionGrant),
    /// The hub leaves: all receivers are to find another way.
    Leave,
}

/// A consequence for a hub.
#[derive(Clone, Debug)]
pub enum HubOutput {
    /// The hub's machine is to hear this.
    Command(HubCommand),
    /// A stream is not sent on.
    GrantRefused(AdmissionError),
    Event(RelayEvent),
}

/// A hub's part of reflection, a machine without I/O.
pub struct HubReflection {
    relay: Relay,
    next_report: Time,
    /// The residual capacity and the subscribers that were reported last.
    room: Option<(Option<u32>, u32)>,
    reported: ReportedStreams,
    /// Drained by the owner after each input.
    outputs: VecDeque<HubOutput>,
}

impl HubReflection {
    /// A hub without streams. The seed is secret.
    pub fn new(config: RelayConfig, seed: [u8; 32]) -> Self {
        Self {
            relay: Relay::new(config, seed),
            next_report: Time::ZERO,
            room: None,
            reported: ReportedStreams::default(),
            outputs: VecDeque::new(),
        }
    }

    /// Tells the machine what has changed.
    fn report(&mut self, now: Time) {
        let residual_kbps = self.relay.residual_capacity().map(kbps);
        let (mut subscribers, mut streams, mut receivers) = (0, Vec::new(), MAX_RECEIVERS);
        for status in self.relay.streams(now) {
            let nodes = status.downstreams.iter().filter(|member| member.kind == DownstreamKind::Subscriber).count();
            subscribers += u32::try_from(nodes).unwrap_or(u32::MAX);
            let left = MAX_REFLECTED_STREAMS - streams.len();
            streams.extend(reflected_streams(&status, &mut receivers).take(left));
        }
        // First the room without the copies that have begun, then these: in between a copy counts twice
        // rather than not at all. The machine takes off each copy that it grants; where that came to nothing
        // it has to be told again.
        if self.room != Some((residual_kbps, subscribers)) || residual_kbps.is_some() {
            self.room = Some((residual_kbps, subscribers));
            let command = HubCommand::ReflectionCapacity { residual_kbps, subscribers };
            self.outputs.push_back(HubOutput::Command(command));
        }
        if self.reported.is_news(&streams) {
            self.outputs.push_back(HubOutput::Command(HubCommand::ReflectedStreams { streams }));
        }
    }
}

impl ReflectionMachine for HubReflection {
    type Input = HubInput;
    type Output = HubOutput;

    fn relay(&self) -> &Relay {
        &self.relay
    }

    fn handle_input(&mut self, now: Time, input: HubInput) {
        match input {
            HubInput::Grant(grant) => {
                if let Err(reason) = self.relay.grant(now, grant) {
                    self.outputs.push_back(HubOutput::GrantRefused(reason));
                }
            }
            HubInput::Leave => self.relay.leave(now),
        }
    }

    fn handle_datagram(&mut self, now: Time, path: DatagramPath, datagram: &[u8]) {
        self.relay.handle_datagram(now, path, datagram, |_, _| {});
    }

    fn handle_timeout(&mut self, now: Time) {
        if self.relay.poll_deadline().is_some_and(|due| due <= now) {
            self.relay.handle_timeout(now);
        }
        if now >= self.next_report {
            self.next_report = now + REPORT_PAUSE;
            self.report(now);
        }
    }

    fn end_batch(&mut self, now: Time) {
        self.relay.end_batch(now);
    }

    fn poll_transmit(&mut self, now: Time) -> Option<Transmit> {
        self.relay.poll_transmit(now)
    }

    fn record_outcome(&mut self, now: Time, transmit: &Transmit, outcome: SendOutcome) {
        self.relay.record_outcome(now, transmit, outcome);
    }

    fn poll_output(&mut self, _: Time) -> Option<HubOutput> {
        self.outputs.pop_front().or_else(|| self.relay.poll_event().map(HubOutput::Event))
    }

    fn poll_deadline(&self) -> Option<Time> {
        [self.relay.poll_deadline(), Some(self.next_report)].into_iter().flatten().min()
    }
}

/// The streams of which the machine was told last.
#[derive(Default)]
struct ReportedStreams {
    streams: Vec<ReflectedStream>,
    left_out: u32,
}

impl ReportedStreams {
    /// Whether the machine is to be told of these streams, which it then is. Rates are never twice
    /// the same, so they alone are told now and then.
    fn is_news(&mut self, streams: &[ReflectedStream]) -> bool {
        fn but_for_rates(streams: &[ReflectedStream]) -> impl Iterator<Item = impl PartialEq> {
            streams.iter().map(|one| (one.service, one.cell, one.provider, &one.to))
        }
        self.left_out += 1;
        let is_news = self.left_out >= REFRESH || !but_for_rates(&self.streams).eq(but_for_rates(streams));
        if is_news {
            self.streams = streams.to_vec();
            self.left_out = 0;
        }
        is_news
    }
}

/// A stream by every name that it has here, with no more than so many `receivers`, from which they are
/// subtracted.
fn reflected_streams(status: &StreamStatus, receivers: &mut usize) -> impl Iterator<Item = ReflectedStream> {
    let kbps = kbps(status.bits_per_second);
    let comes = !status.upstreams.is_empty();
    let named = status.names.iter().filter(move |_| comes);
    let members: Vec<_> = status.downstreams.iter().map(|member| member.address).collect();
    named.map(move |name| {
        let to = members[..members.len().min(*receivers)].to_vec();
        *receivers -= to.len();
        ReflectedStream { service: name.service, cell: name.cell, provider: name.provider, kbps, to }
    })
}

fn kbps(bits_per_second: u64) -> u32 {
    u32::try_from(bits_per_second / 1000).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests {
    use roost_wire::{NodeId, Service};

    use super::*;

    fn stream(kbps: u32, receivers: u16) -> ReflectedStream {
        let to = (0..receivers).map(|port| ([127, 0, 0, 1], port).into()).collect();
        ReflectedStream { service: Service::Video, cell: None, provider: Some(NodeId::from_bytes([1; 16])), kbps, to }
    }

    #[test]
    fn changes_reported_at_once_rates_rarely() {
        let mut reported = ReportedStreams::default();
        assert!(reported.is_news(&[stream(700, 1)]));
        let rates = (701..721).filter(|kbps| reported.is_news(&[stream(*kbps, 1)]));
        assert_eq!(rates.count(), 2);
        assert!(reported.is_news(&[stream(700, 2)]));
        assert!(!reported.is_news(&[stream(700, 2)]));
        assert!(reported.is_news(&[]));
    }
}
