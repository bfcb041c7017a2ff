//! The addresses of remotes: those that have answered and at which address here, upstreams that this host has
//! left, and the destinations of offers.

use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use roost_wire::{StreamId, StreamTag, Time};

use crate::admission::MAX_TAGS;
use crate::control::PathToken;
use crate::datagram_path::DatagramPath;

/// The most addresses, and the most upstreams, that are remembered; then the oldest go.
const MAX_REMEMBERED: usize = 4096;
/// An address that has answered is known for this time to receive datagrams.
const ROUTABLE: Duration = Duration::from_secs(600);
/// An upstream that has lost the message that ends it goes on until its lease is over. This host repeats the
/// message at most so often.
const PARTED: Duration = Duration::from_secs(6);
const DONE_AGAIN: Duration = Duration::from_millis(200);

/// Addresses that have answered an offer lately.
#[derive(Debug, Default)]
pub(super) struct ValidatedAddresses(BTreeMap<SocketAddr, Time>);

impl ValidatedAddresses {
    pub(super) fn record_answer(&mut self, now: Time, address: SocketAddr) {
        self.0.insert(address, now);
        if self.0.len() > MAX_REMEMBERED {
            let oldest = self.0.iter().min_by_key(|(_, at)| **at).map(|(address, _)| *address);
            oldest.map(|oldest| self.0.remove(&oldest));
        }
    }

    pub(super) fn forget(&mut self, address: SocketAddr) {
        self.0.remove(&address);
    }

    pub(super) fn knows(&self, now: Time, address: SocketAddr) -> bool {
        self.0.get(&address).is_some_and(|at| now.since(*at) < ROUTABLE)
    }
}

/// The address of this host at which a remote's datagrams come in: what goes there leaves from it, because
/// the remote, and translators of addresses in between, know no other one.
#[derive(Debug, Default)]
pub(super) struct LocalAddresses {
    /// Of those only who have shown that they mean this host.
    known: BTreeMap<SocketAddr, (IpAddr, Time)>,
    /// The remote whose datagram is being taken.
    present: Option<(SocketAddr, IpAddr)>,
}

impl LocalAddresses {
    pub(super) fn begin(&mut self, DatagramPath { remote, local }: DatagramPath) {
        self.present = local.map(|local| (remote, local));
    }

    /// The remote of the present datagram is an upstream or a downstream.
    pub(super) fn record_current(&mut self, now: Time) {
        let Some((remote, local)) = self.present else { return };
        self.known.insert(remote, (local, now));
        if self.known.len() > MAX_REMEMBERED {
            let oldest = self.known.iter().min_by_key(|(_, (_, at))| *at).map(|(remote, _)| *remote);
            oldest.map(|oldest| self.known.remove(&oldest));
        }
    }

    pub(super) fn local_address(&self, remote: SocketAddr) -> Option<IpAddr> {
        let present = self.present.filter(|(present, _)| *present == remote).map(|(_, local)| local);
        present.or_else(|| self.known.get(&remote).map(|(local, _)| *local))
    }
}

#[derive(Debug)]
struct Left {
    word: PathToken,
    since: Time,
    told: Time,
}

/// Upstreams that were left: who goes on sending did not hear it.
#[derive(Debug, Default)]
pub(super) struct DepartedUpstreams(BTreeMap<(StreamId, SocketAddr), Left>);

impl DepartedUpstreams {
    pub(super) fn record_departure(&mut self, now: Time, stream: StreamId, address: SocketAddr, word: PathToken) {
        if self.0.len() >= MAX_REMEMBERED {
            self.0.retain(|_, left| now.since(left.since) < PARTED);
        }
        if self.0.len() < MAX_REMEMBERED {
            self.0.insert((stream, address), Left { word, since: now, told: now });
        }
    }

    pub(super) fn forget(&mut self, stream: StreamId, address: SocketAddr) {
        self.0.remove(&(stream, address));
    }

    /// The word with which it is to be told once more, if it is.
    pub(super) fn tell_again(&mut self, now: Time, stream: StreamId, address: SocketAddr) -> Option<PathToken> {
        let left = self.0.get_mut(&(stream, address))?;
        if now.since(left.since) >= PARTED {
            self.0.remove(&(stream, address));
            return None;
        }
        if now.since(left.told) < DONE_AGAIN {
            return None;
        }
        left.told = now;
        Some(left.word)
    }
}

/// The addresses at which subscribers are offered streams, by the tags under which they asked.
#[derive(Debug, Default)]
pub(super) struct OfferAddresses(BTreeMap<StreamTag, (StreamId, SocketAddr)>);

impl OfferAddresses {
    /// A stream is offered under a tag. If there are too many tags, any one goes: they are random.
    pub(super) fn record_offer(&mut self, tag: StreamTag, stream: StreamId, to: SocketAddr) {
        self.0.insert(tag, (stream, to));
        if self.0.len() > MAX_TAGS {
            self.0.pop_first();
        }
    }

    /// The address at which a stream is offered under a tag, if it is this stream.
    pub(super) fn offered_address(&self, tag: StreamTag, stream: StreamId) -> Option<SocketAddr> {
        self.0.get(&tag).filter(|(offered, _)| *offered == stream).map(|(_, to)| *to)
    }

    pub(super) fn get(&self, tag: StreamTag) -> Option<(StreamId, SocketAddr)> {
        self.0.get(&tag).copied()
    }

    pub(super) fn forget(&mut self, tag: StreamTag) {
        self.0.remove(&tag);
    }
}
