//! Streams on their way: one machine for the provider, the hubs, and the subscriber.
//!
//! At every hop it is the same relation. A *downstream* has a stream from an *upstream* by soft
//! state: the upstream [offers](crate::control::ControlPacket::Offer) it under a tag that the downstream
//! has drawn, the downstream answers from the address where it wants the packets, and
//! keeps its lease by a report each second. Nothing else is needed between two hubs. Who may watch,
//! under which tags, and with which keys, is told by the control plane.
//!
//! | host | what it calls |
//! |---|---|
//! | provider | [`publish`](Relay::publish), [`offer`](Relay::offer), [`push`](Relay::push), [`unpublish`](Relay::unpublish) |
//! | hub | [`grant`](Relay::grant) |
//! | subscriber | [`expect_offer`](Relay::expect_offer), [`punch_hole`](Relay::punch_hole), [`release_stream`](Relay::release_stream), [`request_key_frame`](Relay::request_key_frame) |
//! | all | [`leave`](Relay::leave), and the loop |
//!
//! ```text
//! loop {
//!     wait until datagrams come, the socket has room, or poll_deadline
//!     handle_datagram for each that is there (up to some ten): what it delivers goes to a Subscriber
//!     handle_timeout, if the deadline has passed
//!     push what the publisher has sealed
//!     end_batch
//!     while poll_transmit is something { send it; settle; leave off if the socket is full, or after a while }
//!     while poll_event is something { act on it }
//! }
//! ```
//!
//! A way is changed make-before-break: a downstream that is offered a stream by a second upstream takes
//! packets from both, each once, and leaves the first when the second has carried live packets for 200 ms.

mod addresses;
mod downstream;
mod downstream_state;
mod hole_punch;
mod packets;
mod pause;
mod secret_rng;
mod status;
mod stream;
mod stream_eviction;
mod tags;
mod timers;
mod upstream;
mod upstream_state;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::net::SocketAddr;
use std::time::Duration;

use roost_wire::reflection::{DownstreamKind, StartCondition};
use roost_wire::{ReflectionGrant, StreamId, StreamTag, Time};

use crate::admission::{AdmissionError, MAX_STREAMS};
use crate::control::{ControlPacket, PathToken};
use crate::fanout;
use crate::transmit::Transmit;
use addresses::{DepartedUpstreams, LocalAddresses, OfferAddresses, ValidatedAddresses};
use secret_rng::SecretRng;
pub use status::{DownstreamStatus, StreamStatus, UpstreamStatus};
use stream::RelayStream;
pub use stream::StreamName;
use tags::{EXPECTED, ExpectedOffers, GRANTED, GrantRenewal, StreamUse};
use timers::{Timer, Timers};

/// Within which time downstreams are told, one after the other, to find another way while what they
/// have goes on. Three super nodes one after the other take three times as long, of the ten seconds
/// that one stays which leaves.
const SPREAD: Duration = Duration::from_secs(1);
/// The most words that wait to be sent; more are as good as lost, and said again.
const MAX_CONTROL_PACKETS: usize = 8192;

#[derive(Clone, Copy, Debug)]
pub struct RelayConfig {
    pub fanout: fanout::FanoutConfig,
    /// The most of the host's uplink that all streams together take, bits per second; by default all there is.
    pub uplink: Option<u64>,
    /// A stream without subscribers goes on for this time; by default 5 s, so that a subscriber that comes
    /// back, or changes its way, finds it.
    pub linger: Duration,
}

impl RelayConfig {
    /// A hub's relay in a mesh of so many layers of super nodes, each of which sends on once more.
    pub fn for_layers(layers: u8) -> Self {
        let fanout = fanout::FanoutConfig { max_hops: 1 + layers, ..fanout::FanoutConfig::default() };
        Self { fanout, ..Self::default() }
    }
}

impl Default for RelayConfig {
    fn default() -> Self {
        Self { fanout: fanout::FanoutConfig::default(), uplink: None, linger: Duration::from_secs(5) }
    }
}

/// News of the relay, for the owner to act on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RelayEvent {
    /// The stream that was [expected](Relay::expect_offer) under this tag comes. Another one may replace it
    /// later, which is told in the same way.
    Began { tag: StreamTag, stream: StreamId },
    /// Nothing was offered under an expected tag for 5 s; it is not expected any more.
    OfferTimedOut { tag: StreamTag },
    /// A stream that is watched here comes from nobody any more: ask for it again.
    Lost { stream: StreamId },
    /// The stream still comes, but will not for long: ask for it again.
    UpstreamLeaving { stream: StreamId },
    /// A downstream of a published stream has not reported when it should: it may be gone, and with it its host.
    DownstreamSilent { stream: StreamId },
    /// A published stream has its first downstream.
    Subscribed { stream: StreamId },
    /// Nobody has wanted a published stream for the linger.
    Idle { stream: StreamId },
    /// Somebody needs a key frame of a published stream; no more often than once a second.
    KeyFrameRequested { stream: StreamId },
}

/// Counts of the datagrams that were refused so far, by reason.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RejectedCounts {
    /// Datagrams that are neither packets nor words.
    pub malformed: u64,
    /// Packets of no stream here, or not from one of its upstreams.
    pub foreign: u64,
    /// Words of somebody who was not told them.
    pub unknown: u64,
    /// Ends of what is not, or no longer, between the two hosts.
    pub ended: u64,
}

/// The machine. It does no I/O: time, datagrams and a seed come in.
///
/// The owner calls any of its methods, then goes on as the loop above says.
pub struct Relay {
    config: RelayConfig,
    random: SecretRng,
    streams: BTreeMap<StreamId, RelayStream>,
    tags: ExpectedOffers,
    routable: ValidatedAddresses,
    locals: LocalAddresses,
    doors: OfferAddresses,
    parted: DepartedUpstreams,
    timers: Timers,
    words: VecDeque<Transmit>,
    events: VecDeque<RelayEvent>,
    /// Streams that may have something to send: what the others have costs nothing.
    busy: BTreeSet<StreamId>,
    /// Streams for whose targets the system had no room.
    full: BTreeSet<StreamId>,
    /// The stream after which the next turn begins.
    turn: Option<StreamId>,
    rejected: RejectedCounts,
    is_leaving: bool,
}

impl Relay {
    /// A relay without streams. The seed is secret: from it come the words that downstreams are known by.
    pub fn new(config: RelayConfig, seed: [u8; 32]) -> Self {
        Self {
            config,
            random: SecretRng::new(seed),
            streams: BTreeMap::new(),
            tags: ExpectedOffers::default(),
            routable: ValidatedAddresses::default(),
            locals: LocalAddresses::default(),
            doors: OfferAddresses::default(),
            parted: DepartedUpstreams::default(),
            timers: Timers::default(),
            words: VecDeque::new(),
            events: VecDeque::new(),
            busy: BTreeSet::new(),
            full: BTreeSet::new(),
            turn: None,
            rejected: RejectedCounts::default(),
            is_leaving: false,
        }
    }

    /// Begins a stream of this host. If nobody wants it for the linger, it is [`RelayEvent::Idle`].
    ///
    /// # Errors
    /// [`AdmissionError::TooManyStreams`].
    pub fn publish(&mut self, now: Time, stream: StreamId) -> Result<(), AdmissionError> {
        let published = self.stream_or_new(stream).ok_or(AdmissionError::TooManyStreams)?;
        published.is_published = true;
        published.is_watched = true;
        published.reflector.sends_on = true;
        self.update_demand(now, stream);
        Ok(())
    }

    /// Sends a packet of a published stream, as its [`Publisher`](crate::Publisher) has sealed it.
    /// What is none of such a stream is dropped.
    pub fn push(&mut self, now: Time, stream: StreamId, packet: &[u8]) {
        let published = self.streams.get_mut(&stream).filter(|known| known.is_published);
        let is_pushed = published.is_some_and(|known| known.push(now, packet));
        if is_pushed {
            self.busy.insert(stream);
        } else {
            self.rejected.foreign += 1;
        }
    }

    pub fn unpublish(&mut self, now: Time, stream: StreamId) {
        self.remove_stream(now, stream);
    }

    /// Offers a published stream to the media address of a hub, which has asked under this tag.
    ///
    /// # Errors
    /// Any [`AdmissionError`], but for [`TooManyTags`](AdmissionError::TooManyTags).
    pub fn offer(&mut self, now: Time, stream: StreamId, to: SocketAddr, tag: StreamTag) -> Result<(), AdmissionError> {
        self.add_downstream(now, stream, to, StartCondition::Answered, tag, DownstreamKind::Reflector)
    }

    /// Sends on what is offered under the grant's tag. A stream that the grant names and that is
    /// carried already is offered at once. The same grant again changes nothing, but for saying
    /// more of whose the stream is.
    ///
    /// # Errors
    /// Any [`AdmissionError`], but for [`NoStream`](AdmissionError::NoStream).
    pub fn grant(&mut self, now: Time, grant: ReflectionGrant) -> Result<(), AdmissionError> {
        if self.is_leaving {
            return Err(AdmissionError::Leaving);
        }
        self.tags.wait(grant.tag, StreamUse::Forwarded(grant))?;
        self.timers.set(Timer::Tag(grant.tag), now + GRANTED);
        let name = StreamName::from(&grant);
        match self.tags.renew(grant) {
            GrantRenewal::Unoffered => {}
            GrantRenewal::Offered(stream) => {
                self.streams.get_mut(&stream).into_iter().for_each(|stream| stream.call(name))
            }
            GrantRenewal::OfAnother(stream) => self.withdraw(now, stream, grant.their_tag),
        }
        let carried = self.streams.iter().find(|(_, stream)| stream.is_called(&name) && !stream.upstreams.is_empty());
        if let Some(stream) = carried.map(|(stream, _)| *stream) {
            self.add_downstream(now, stream, grant.to, grant.begin, grant.their_tag, grant.kind)?;
        }
        Ok(())
    }

    /// Takes what is offered under this tag for whoever watches here: [`RelayEvent::Began`] says which
    /// stream it is, or [`RelayEvent::OfferTimedOut`] that there is none.
    ///
    /// # Errors
    /// [`AdmissionError::TooManyTags`].
    pub fn expect_offer(&mut self, now: Time, tag: StreamTag) -> Result<(), AdmissionError> {
        self.tags.wait(tag, StreamUse::Local)?;
        if self.tags.get_mut(tag).is_some_and(|asked| asked.stream.is_none()) {
            self.timers.set(Timer::Tag(tag), now + EXPECTED);
        }
        Ok(())
    }

    /// Nobody watches a stream here any more.
    pub fn release_stream(&mut self, now: Time, stream: StreamId) {
        for tag in self.tags.release(stream) {
            self.timers.clear(Timer::Tag(tag));
        }
        let Some(known) = self.streams.get_mut(&stream) else { return };
        (known.is_local, known.watchers) = (false, 0);
        if known.downstreams.is_empty() && !known.is_published {
            self.remove_stream(now, stream);
        }
    }

    /// Whoever watches here needs a key frame: a decoder that has lost its way.
    pub fn request_key_frame(&mut self, now: Time, stream: StreamId) {
        let Some(known) = self.streams.get_mut(&stream) else { return };
        if !known.asks_key_frame(now) {
            return;
        }
        if known.is_published {
            self.events.push_back(RelayEvent::KeyFrameRequested { stream });
        } else if let Some(leg) = known.upstreams.iter().max_by_key(|leg| leg.heard) {
            let (to, word) = (leg.address, leg.word);
            self.send_control(to, stream, word, &ControlPacket::KeyFrameRequest);
        }
    }

    /// Tells all downstreams to find another way within a second, because this host leaves. What it
    /// has goes on until they have gone, or it stops; it takes no more grants.
    pub fn leave(&mut self, now: Time) {
        self.is_leaving = true;
        for stream in self.streams.keys().copied().collect::<Vec<_>>() {
            self.schedule_leaving(now, stream);
        }
    }

    fn stream_or_new(&mut self, stream: StreamId) -> Option<&mut RelayStream> {
        if self.streams.len() >= MAX_STREAMS && !self.streams.contains_key(&stream) {
            return None;
        }
        Some(self.streams.entry(stream).or_insert_with(|| RelayStream::new(stream, self.config.fanout)))
    }

    fn send_control(&mut self, to: SocketAddr, stream: StreamId, word: PathToken, said: &ControlPacket) {
        if self.words.len() < MAX_CONTROL_PACKETS {
            let from = self.locals.local_address(to);
            self.words.push_back(Transmit::control_packet(to, stream, said.encode(stream, word)).leaving(from));
        }
    }

    fn remove_stream(&mut self, now: Time, stream: StreamId) {
        let Some(known) = self.streams.remove(&stream) else { return };
        for leg in known.upstreams {
            self.leave_upstream(now, stream, leg.address, leg.word);
        }
        for (address, member) in known.downstreams {
            self.timers.clear(Timer::Downstream(stream, address));
            self.send_control(address, stream, member.word, &ControlPacket::Bye);
        }
        for timer in [Timer::Upstreams, Timer::Repair, Timer::Pause, Timer::Pace, Timer::Idle] {
            self.timers.clear(timer(stream));
        }
        self.busy.remove(&stream);
        self.full.remove(&stream);
    }
}
