//! The relay of a super node: it sends on what the machine grants, and tells
//! the machine what room is left.

use std::time::Duration;

use roost_proto::Time;
use roost_proto::hub::{Carried, Command, Hub};
use roost_proto::reflection::{Grant, Kind, StreamId};
use roost_reflector::Relay;
use roost_reflector::relay::{Event, StreamStatus};

use crate::driver::Mailbox;
use crate::media::Ends;
use crate::pace::Pace;

/// How often the machine is told what the relay carries, and what room it has.
const TELL: Duration = Duration::from_secs(1);

/// What a hub asks of its relay.
pub(super) enum Order {
    /// Send something on.
    Grant(Grant),
    /// The hub leaves: all are to find another way.
    Leave,
}

/// A hub neither publishes nor watches.
pub(super) struct HubEnds {
    mailbox: Mailbox<Hub>,
    next: Time,
    /// What the machine was told last.
    room: Option<(u32, u32)>,
    carried: Vec<Carried>,
    refused: Pace,
}

impl HubEnds {
    pub(super) fn new(mailbox: Mailbox<Hub>) -> Self {
        Self { mailbox, next: Time::ZERO, room: None, carried: Vec::new(), refused: Pace::default() }
    }

    /// Tells the machine what has changed.
    fn tell(&mut self, now: Time, relay: &Relay) {
        let residual = relay.residual().map_or(u32::MAX, kbps);
        let (mut subscribers, mut streams) = (0, Vec::new());
        for status in relay.streams(now) {
            let nodes = status.members.iter().filter(|member| member.kind == Kind::Subscriber).count();
            subscribers += u32::try_from(nodes).unwrap_or(u32::MAX);
            streams.extend(carried(&status));
        }
        if self.carried != streams {
            self.carried.clone_from(&streams);
            self.mailbox.post(Command::Carries { streams });
        }
        // The machine takes off what it grants; where that came to nothing it has to be told again.
        if self.room != Some((residual, subscribers)) || residual != u32::MAX {
            self.room = Some((residual, subscribers));
            self.mailbox.post(Command::Reflecting { residual_kbps: residual, subscribers });
        }
    }
}

impl Ends for HubEnds {
    type Order = Order;

    fn order(&mut self, now: Time, relay: &mut Relay, order: Order) {
        match order {
            Order::Grant(grant) => {
                if let Err(reason) = relay.grant(now, grant)
                    && let Some(suppressed) = self.refused.admit()
                {
                    tracing::warn!(%reason, suppressed, "a stream is not sent on");
                }
            }
            Order::Leave => relay.leave(now),
        }
    }

    fn deliver(&mut self, _: Time, _: StreamId, _: &[u8]) {}

    fn event(&mut self, _: Time, _: &mut Relay, event: Event) {
        tracing::debug!(?event, "a reflected stream");
    }

    fn poll_deadline(&self) -> Option<Time> {
        Some(self.next)
    }

    fn handle_timeout(&mut self, now: Time, relay: &mut Relay) {
        if now >= self.next {
            self.next = now + TELL;
            self.tell(now, relay);
        }
    }
}

/// What the machine prefers, by every name that the stream has here.
fn carried(status: &StreamStatus) -> impl Iterator<Item = Carried> {
    let kbps = kbps(status.bits_per_second);
    let comes = !status.legs.is_empty();
    let named = status.names.iter().filter(move |_| comes);
    let to: Vec<_> = status.members.iter().map(|member| member.address).collect();
    named.map(move |name| {
        let (service, cell, provider, to) = (name.service, name.cell, name.provider, to.clone());
        Carried { service, cell, provider, kbps, to }
    })
}

fn kbps(bits_per_second: u64) -> u32 {
    u32::try_from(bits_per_second / 1000).unwrap_or(u32::MAX)
}
