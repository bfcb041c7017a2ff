//! Counts and outcome of a flow.

use std::time::Duration;

use roost_wire::Time;
use roost_wire::messages::Reason;

use super::IncomingFlow;
use crate::flow::StreamStatistics;
use crate::node::api::RequestSummary;
use crate::node::requests::flow_receiver::FlowReceiver;
use crate::node::requests::pace::Pace;

/// The shortest time by which the pace of a stream is told: packets come in bursts.
const LEAST_SPAN: Duration = Duration::from_secs(1);

impl IncomingFlow {
    /// The counts of a stream, whoever sent it.
    pub(super) fn counted(&self) -> StreamStatistics {
        let (past, now) = (&self.past, self.flow.statistics());
        StreamStatistics {
            bytes: past.bytes + now.bytes,
            packets: past.packets + now.packets,
            lost: past.lost + now.lost,
            late: past.late + now.late,
            reordered: past.reordered + now.reordered,
            duplicates: past.duplicates + now.duplicates,
            jitter: now.jitter,
        }
    }

    pub(crate) fn measured_pace(&self) -> Option<Pace> {
        let (counted, span) = (self.counted(), self.last.since(self.first?));
        let packets = (counted.packets + counted.lost).checked_sub(1)?;
        (matches!(self.flow, FlowReceiver::Stream(_)) && span >= LEAST_SPAN).then_some(Pace { packets, span })
    }

    /// The outcome if it ends now.
    pub(crate) fn summary(&self, commanded: Time, now: Time, reason: Option<Reason>) -> RequestSummary {
        let (counted, digest_ok, ended) = match &self.flow {
            // The data of several flows has no digest.
            FlowReceiver::Stream(stream) => {
                let digest_ok = stream.digest_ok().filter(|_| self.past == StreamStatistics::default());
                let is_over = reason.is_none() && self.over_at.is_some_and(|over_at| now >= over_at);
                (self.counted(), digest_ok, stream.has_ended() || is_over)
            }
            FlowReceiver::Object(object) => (Default::default(), object.digest_ok(), object.has_everything()),
            FlowReceiver::Reflected(subscription) => (Default::default(), None, subscription.ended),
        };
        let complete = ended && digest_ok != Some(false);
        let damaged = (digest_ok == Some(false)).then_some(Reason::Protocol);
        let first = self.first.unwrap_or(now);
        let bytes = self.bytes();
        RequestSummary {
            provider: self.provider,
            cell: self.cell,
            scheme: self.scheme,
            relayed: self.relayed,
            reflected: self.is_reflected(),
            bytes,
            packets: counted.packets,
            lost: counted.lost,
            late: counted.late,
            reordered: counted.reordered,
            duplicates: counted.duplicates,
            jitter: counted.jitter,
            first_byte: first.since(commanded),
            elapsed: now.since(commanded),
            bits_per_second: rate(bytes, self.last.since(first)),
            interruptions: self.gaps.0,
            interrupted: self.gaps.1,
            stalled: reason == Some(Reason::TimedOut) && self.lost.is_none() && now < self.heard + self.silence,
            digest_ok,
            complete,
            reason: if complete { None } else { reason.or(damaged) },
            broken: self.broken.clone().filter(|_| !complete),
        }
    }
}

/// Bits per second of `bytes` within `span`; 0 if there was none.
fn rate(bytes: u64, span: Duration) -> u64 {
    let rate = (u128::from(bytes) * 8_000_000).checked_div(span.as_micros()).unwrap_or(0);
    u64::try_from(rate).unwrap_or(u64::MAX)
}
