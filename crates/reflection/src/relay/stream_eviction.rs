//! The streams of a relay are shared by those who publish them and those who watch: when there are as many
//! as there may be, one of whoever has most gives way. The id of a stream names its publisher, and its sender
//! writes the id: the stream counts as the publisher's once a request has named that one, and as the sending
//! host's until then.

use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};

use roost_wire::reflection::DownstreamKind;
use roost_wire::{StreamId, Time};

use super::Relay;
use super::stream::RelayStream;
use super::tags::StreamUse;
use crate::admission::MAX_STREAMS;

/// The most streams of one publisher: one of each service, and those before them that have not ended yet.
pub(crate) const MAX_OF_PUBLISHER: usize = 16;

/// The ends of a stream, which are behind it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum StreamHolder {
    /// The node whose id begins so.
    Publisher(u32),
    /// The host that offers it, while nobody knows the publisher.
    Offerer(IpAddr),
    /// The only host that watches it.
    Subscriber(IpAddr),
}

impl Relay {
    /// True if there may be one more stream, which is for `whom` and offered from there; another one may
    /// end for that.
    pub(super) fn makes_room(&mut self, now: Time, stream: StreamId, whom: &StreamUse, from: SocketAddr) -> bool {
        if self.streams.contains_key(&stream) {
            return true;
        }
        let held = self.held();
        let count = |party: &StreamHolder| held.get(party).copied().unwrap_or(0);
        let source = match whom {
            StreamUse::Forwarded(grant) if grant.provider.is_some() => publisher_of(stream),
            StreamUse::Forwarded(_) | StreamUse::Local => offerer(from),
        };
        if matches!(source, StreamHolder::Publisher(_)) && count(&source) >= MAX_OF_PUBLISHER {
            return false;
        }
        if self.streams.len() < MAX_STREAMS {
            return true;
        }
        let own = [Some(source), subscriber_of(whom)];
        let would_hold = own.iter().flatten().map(|party| count(party) + 1).max().unwrap_or(1);
        let holder = |(stream, known): (&StreamId, &RelayStream)| {
            let most = parties(*stream, known).into_iter().flatten().map(|party| count(&party)).max().unwrap_or(0);
            // A stream that begins or is watched here is not for others to end.
            let may_end = !known.is_published && !known.is_local && most > would_hold;
            may_end.then_some((most, *stream))
        };
        let Some((_, loser)) = self.streams.iter().filter_map(holder).max() else { return false };
        self.remove_stream(now, loser);
        true
    }

    fn held(&self) -> BTreeMap<StreamHolder, usize> {
        let mut held = BTreeMap::new();
        for (stream, known) in &self.streams {
            for party in parties(*stream, known).into_iter().flatten() {
                *held.entry(party).or_default() += 1;
            }
        }
        held
    }
}

fn parties(stream: StreamId, known: &RelayStream) -> [Option<StreamHolder>; 2] {
    let mut hosts = known.downstreams.iter().map(|(to, member)| (to.ip().to_canonical(), member.kind));
    // Behind another hub there may be anybody.
    let first = hosts.next().filter(|(_, kind)| *kind == DownstreamKind::Subscriber);
    let only = first.filter(|first| hosts.all(|other| other == *first));
    let source = if known.has_known_publisher(stream) {
        Some(publisher_of(stream))
    } else {
        known.upstreams.first().map(|leg| offerer(leg.address))
    };
    [source, only.map(|(host, _)| StreamHolder::Subscriber(host))]
}

fn offerer(address: SocketAddr) -> StreamHolder {
    StreamHolder::Offerer(address.ip().to_canonical())
}

fn publisher_of(stream: StreamId) -> StreamHolder {
    StreamHolder::Publisher((stream.0 >> 32) as u32)
}

fn subscriber_of(whom: &StreamUse) -> Option<StreamHolder> {
    match whom {
        StreamUse::Forwarded(grant) if grant.kind == DownstreamKind::Subscriber => {
            Some(StreamHolder::Subscriber(grant.to.ip().to_canonical()))
        }
        _ => None,
    }
}
