use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use prometheus::{Error, IntCounterVec, IntGauge, IntGaugeVec, Opts};
use roost_reflection::relay::{DownstreamStatus, RejectedCounts, StreamStatus};
use roost_reflection::{ReflectionMachine as _, Relay};
use roost_wire::Time;
use roost_wire::reflection::DownstreamKind;

use super::{RelayHandler, RelayMailbox};
use crate::metrics::{Metrics, follow};

#[derive(Clone)]
pub struct MediaMetrics {
    up: IntGauge,
    streams: IntGauge,
    receivers: IntGaugeVec,
    rate: IntGaugeVec,
    packets: IntGaugeVec,
    datagrams: IntCounterVec,
    rejected: IntCounterVec,
}

/// The datagrams of the socket. The relay's thread counts them, others read.
#[derive(Debug, Default)]
pub(super) struct Passed {
    received: AtomicU64,
    sent: AtomicU64,
}

impl Passed {
    pub(super) fn receive(&self, datagrams: usize) {
        self.received.fetch_add(datagrams as u64, Ordering::Relaxed);
    }

    pub(super) fn send(&self, datagrams: u32) {
        self.sent.fetch_add(datagrams.into(), Ordering::Relaxed);
    }
}

/// The present sums over all streams of a relay.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Sums {
    streams: u64,
    subscribers: u64,
    reflectors: u64,
    bits_per_second_in: u64,
    bits_per_second_out: u64,
    skipped: u64,
    nacked: u64,
    repaired: u64,
    lost: u64,
    rejected: RejectedCounts,
}

impl Sums {
    fn from_relay(relay: &Relay, now: Time) -> Self {
        let mut sums = Self { rejected: relay.rejected(), ..Self::default() };
        relay.streams(now).for_each(|stream| sums.add(&stream));
        sums
    }

    fn add(&mut self, stream: &StreamStatus) {
        self.streams += 1;
        if !stream.is_published {
            self.bits_per_second_in += stream.bits_per_second;
        }
        stream.downstreams.iter().for_each(|member| self.add_receiver(member));
    }

    fn add_receiver(&mut self, member: &DownstreamStatus) {
        match member.kind {
            DownstreamKind::Subscriber => self.subscribers += 1,
            DownstreamKind::Reflector => self.reflectors += 1,
        }
        self.bits_per_second_out += member.statistics.bits_per_second;
        self.skipped += member.statistics.dropped;
        self.nacked += member.statistics.nacked;
        self.repaired += member.statistics.repaired;
        // A receiver may report any number.
        self.lost = self.lost.saturating_add(member.reported.lost);
    }
}

impl MediaMetrics {
    /// # Errors
    /// Fails if a name is taken.
    pub fn register(metrics: &Metrics) -> Result<Self, Error> {
        let gauges =
            |name: &str, help: &str, label: &str| metrics.register(IntGaugeVec::new(Opts::new(name, help), &[label])?);
        let counters = |name: &str, help: &str, label: &str| {
            metrics.register(IntCounterVec::new(Opts::new(name, help), &[label])?)
        };
        Ok(Self {
            up: metrics.register(IntGauge::new("roost_media_up", "1 while the relay runs; 0 once it has stopped.")?)?,
            streams: metrics.register(IntGauge::new("roost_media_streams", "Reflected streams at the moment.")?)?,
            receivers: gauges("roost_media_receivers", "Receivers that streams are sent to.", "kind")?,
            rate: gauges("roost_media_bits_per_second", "What streams take of the network.", "direction")?,
            packets: gauges(
                "roost_media_receivers_packets",
                "Packets of the current receivers; the count drops when a receiver leaves.",
                "fate",
            )?,
            datagrams: counters("roost_media_datagrams_total", "Datagrams of the relay.", "direction")?,
            rejected: counters("roost_media_rejected_total", "Datagrams that the relay did not take.", "reason")?,
        })
    }

    /// Reads the counts of a relay; a relay that has stopped has none.
    pub async fn update<H: RelayHandler>(&self, media: &RelayMailbox<H>) {
        let sums = media.inspect(|machine, now| Sums::from_relay(machine.relay(), now)).await;
        self.up.set(i64::from(sums.is_some()));
        match sums {
            Some(sums) => self.set(&sums, &media.passed),
            None => [&self.receivers, &self.rate, &self.packets].iter().for_each(|gauges| gauges.reset()),
        }
    }

    fn set(&self, sums: &Sums, passed: &Arc<Passed>) {
        self.streams.set(gauge(sums.streams));
        let RejectedCounts { malformed, foreign, unknown, ended } = sums.rejected;
        let gauges = [
            (&self.receivers, "subscriber", sums.subscribers),
            (&self.receivers, "reflector", sums.reflectors),
            (&self.rate, "received", sums.bits_per_second_in),
            (&self.rate, "sent", sums.bits_per_second_out),
            (&self.packets, "skipped", sums.skipped),
            (&self.packets, "nacked", sums.nacked),
            (&self.packets, "repaired", sums.repaired),
            (&self.packets, "lost", sums.lost),
        ];
        for (family, label, value) in gauges {
            family.with_label_values(&[label]).set(gauge(value));
        }
        let counters = [
            (&self.datagrams, "received", passed.received.load(Ordering::Relaxed)),
            (&self.datagrams, "sent", passed.sent.load(Ordering::Relaxed)),
            (&self.rejected, "malformed", malformed),
            (&self.rejected, "foreign", foreign),
            (&self.rejected, "unknown", unknown),
            (&self.rejected, "ended", ended),
        ];
        for (family, label, total) in counters {
            follow(&family.with_label_values(&[label]), total);
        }
    }
}

fn gauge(value: u64) -> i64 {
    i64::try_from(value).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use roost_reflection::relay::RelayConfig;
    use roost_wire::reflection::StreamId;

    #[test]
    fn relay_metrics_are_labeled() {
        let mut relay = Relay::new(RelayConfig::default(), [7; 32]);
        relay.publish(Time::ZERO, StreamId(1)).unwrap();
        relay.handle_datagram(Time::ZERO, std::net::SocketAddr::from(([127, 0, 0, 1], 9)), b"rubbish", |_, _| {});
        let (metrics, passed) = (Metrics::default(), Arc::<Passed>::default());
        passed.receive(1);
        let media = MediaMetrics::register(&metrics).unwrap();
        let sums = Sums { subscribers: 3, lost: 4, ..Sums::from_relay(&relay, Time::ZERO) };
        media.set(&sums, &passed);
        let text = String::from_utf8(metrics.text().unwrap()).unwrap();
        for line in [
            "roost_media_streams 1",
            "roost_media_receivers{kind=\"subscriber\"} 3",
            "roost_media_receivers_packets{fate=\"lost\"} 4",
            "roost_media_datagrams_total{direction=\"received\"} 1",
            "roost_media_rejected_total{reason=\"malformed\"} 1",
        ] {
            assert!(text.lines().any(|other| other == line), "{line} is not in:\n{text}");
        }
    }
}
