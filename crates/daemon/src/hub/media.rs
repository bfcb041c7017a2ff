//! The relay of a super node: it sends on what the machine grants, and tells
//! the machine what room is left.

use std::time::Duration;

use roost_proto::Time;
use roost_proto::hub::{Hub, HubCommand, MAX_RECEIVERS, MAX_REFLECTED_STREAMS, ReflectedStream};
use roost_proto::reflection::{DownstreamKind, ReflectionGrant, StreamId};
use roost_reflection::Relay;
use roost_reflection::relay::{RelayEvent, StreamStatus};

use crate::driver::Mailbox;
use crate::log_limiter::LogLimiter;
use crate::media::RelayHandler;

/// How often the machine is told what the relay carries, and what room it has, if that has changed.
const TELL: Duration = Duration::from_secs(1);

/// After so many of these it is told what the relay carries also though nothing but rates has changed:
/// it then forgets what it granted in vain.
const REFRESH: u32 = 10;

/// What a hub asks of its relay.
pub(super) enum RelayCommand {
    /// Send something on.
    Grant(ReflectionGrant),
    /// The hub leaves: all are to find another way.
    Leave,
}

/// A hub neither publishes nor watches.
pub(super) struct HubRelayHandler {
    mailbox: Mailbox<Hub>,
    next: Time,
    /// What the machine was told last.
    room: Option<(u32, u32)>,
    told: Told,
    refused: LogLimiter,
}

impl HubRelayHandler {
    pub(super) fn new(mailbox: Mailbox<Hub>) -> Self {
        Self { mailbox, next: Time::ZERO, room: None, told: Told::default(), refused: LogLimiter::default() }
    }

    /// Tells the machine what has changed.
    fn report_streams(&mut self, now: Time, relay: &Relay) {
        let residual = relay.residual_capacity().map_or(u32::MAX, kbps);
        let (mut subscribers, mut streams, mut receivers) = (0, Vec::new(), MAX_RECEIVERS);
        for status in relay.streams(now) {
            let nodes = status.downstreams.iter().filter(|member| member.kind == DownstreamKind::Subscriber).count();
            subscribers += u32::try_from(nodes).unwrap_or(u32::MAX);
            let left = MAX_REFLECTED_STREAMS - streams.len();
            streams.extend(carried(&status, &mut receivers).take(left));
        }
        // First what is left without what has begun, then what has: in between a copy counts twice
        // rather than not at all. The machine takes off what it grants; where that came to nothing
        // it has to be told again.
        if self.room != Some((residual, subscribers)) || residual != u32::MAX {
            self.room = Some((residual, subscribers));
            self.mailbox.post(HubCommand::ReflectionCapacity { residual_kbps: residual, subscribers });
        }
        if self.told.is_news(&streams) {
            self.mailbox.post(HubCommand::ReflectedStreams { streams });
        }
    }
}

/// Of which streams the machine was told last.
#[derive(Default)]
struct Told {
    streams: Vec<ReflectedStream>,
    /// How often it was not told since.
    untold: u32,
}

impl Told {
    /// Whether the machine is to be told of these streams, which it then is. Rates are never twice
    /// the same, so they alone are told now and then.
    fn is_news(&mut self, streams: &[ReflectedStream]) -> bool {
        fn but_for_rates(streams: &[ReflectedStream]) -> impl Iterator<Item = impl PartialEq> {
            streams.iter().map(|one| (one.service, one.cell, one.provider, &one.to))
        }
        self.untold += 1;
        let is_news = self.untold >= REFRESH || !but_for_rates(&self.streams).eq(but_for_rates(streams));
        if is_news {
            self.streams = streams.to_vec();
            self.untold = 0;
        }
        is_news
    }
}

impl RelayHandler for HubRelayHandler {
    type RelayCommand = RelayCommand;

    fn handle_command(&mut self, now: Time, relay: &mut Relay, order: RelayCommand) {
        match order {
            RelayCommand::Grant(grant) => {
                if let Err(reason) = relay.grant(now, grant)
                    && let Some(suppressed) = self.refused.admit()
                {
                    tracing::warn!(%reason, suppressed, "a stream is not sent on");
                }
            }
            RelayCommand::Leave => relay.leave(now),
        }
    }

    fn deliver(&mut self, _: Time, _: StreamId, _: &[u8]) {}

    fn event(&mut self, _: Time, _: &mut Relay, event: RelayEvent) {
        tracing::debug!(?event, "a reflected stream");
    }

    fn poll_deadline(&self) -> Option<Time> {
        Some(self.next)
    }

    fn handle_timeout(&mut self, now: Time, relay: &mut Relay) {
        if now >= self.next {
            self.next = now + TELL;
            self.report_streams(now, relay);
        }
    }
}

/// What the machine prefers, by every name that the stream has here, with no more than so many
/// `receivers`, from which they are taken.
fn carried(status: &StreamStatus, receivers: &mut usize) -> impl Iterator<Item = ReflectedStream> {
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
    use roost_proto::{NodeId, Service};

    use super::*;

    fn stream(kbps: u32, receivers: u16) -> ReflectedStream {
        let to = (0..receivers).map(|port| ([127, 0, 0, 1], port).into()).collect();
        ReflectedStream { service: Service::Video, cell: None, provider: Some(NodeId::from_bytes([1; 16])), kbps, to }
    }

    #[test]
    fn changes_reported_at_once_rates_rarely() {
        let mut told = Told::default();
        assert!(told.is_news(&[stream(700, 1)]));
        let rates = (701..721).filter(|kbps| told.is_news(&[stream(*kbps, 1)]));
        assert_eq!(rates.count(), 2);
        assert!(told.is_news(&[stream(700, 2)]));
        assert!(!told.is_news(&[stream(700, 2)]));
        assert!(told.is_news(&[]));
    }
}
