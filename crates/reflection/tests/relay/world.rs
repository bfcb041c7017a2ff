//! A small world: hosts, connections, and what the control plane would do.

use crate::*;

pub(crate) const STREAM: StreamId = StreamId(77);

pub(crate) fn owner() -> NodeId {
    let owner = NodeId::from_bytes([0; 16]);
    assert!(STREAM.is_of(owner));
    owner
}

const EPOCH: Epoch = Epoch(1);
pub(crate) const FRAME: Duration = Duration::from_millis(40);
/// Frames in a group of pictures, and packets in a frame.
pub(crate) const GROUP: u64 = 10;
pub(crate) const PACKETS: u64 = 4;

/// A packet that a subscriber's program has got.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Got {
    pub(crate) at: Time,
    /// The packet's number, from 0.
    pub(crate) counter: u64,
    pub(crate) catch_up: bool,
    pub(crate) flags: Flags,
}

pub(crate) struct RelayWorld {
    pub(crate) now: Time,
    pub(crate) network: VirtualNetwork,
    pub(crate) hosts: BTreeMap<u8, Relay>,
    config: RelayConfig,
    /// From one frame to the next, and packets in each.
    pub(crate) frames: (Duration, u64),
    pub(crate) has_keys: bool,
    publisher: Publisher,
    frame: u64,
    next_frame: Option<Time>,
    pub(crate) publishes: BTreeSet<u8>,
    /// Hosts whose way takes nothing.
    pub(crate) stalled: BTreeSet<u8>,
    pub(crate) events: Vec<(Time, u8, RelayEvent)>,
    pub(crate) got: BTreeMap<u8, Vec<Got>>,
    /// Packets on each connection.
    pub(crate) carried: BTreeMap<(u8, u8), u64>,
    /// Control packets on each connection.
    pub(crate) said: BTreeMap<(u8, u8), Vec<ControlPacket>>,
    tag: u64,
}

impl RelayWorld {
    pub(crate) fn new(seed: u64) -> Self {
        Self::with(seed, RelayConfig::default())
    }

    pub(crate) fn with(seed: u64, config: RelayConfig) -> Self {
        let secret = EpochSecret::from_bytes([1; 32]);
        Self {
            now: Time::from_nanos(1_000_000_000),
            network: VirtualNetwork::new(seed),
            hosts: BTreeMap::new(),
            config,
            frames: (FRAME, PACKETS),
            has_keys: true,
            publisher: Publisher::new(Time::ZERO, STREAM, EPOCH, &secret, EpochLimits::default()).unwrap(),
            frame: 0,
            next_frame: None,
            publishes: BTreeSet::new(),
            stalled: BTreeSet::new(),
            events: Vec::new(),
            got: BTreeMap::new(),
            carried: BTreeMap::new(),
            said: BTreeMap::new(),
            tag: 0,
        }
    }

    pub(crate) fn below(&mut self, limit: u64) -> u64 {
        self.network.below(limit)
    }

    pub(crate) fn relay(&mut self, host: u8) -> &mut Relay {
        let config = self.config;
        self.hosts.entry(host).or_insert_with(|| Relay::new(config, [host; 32]))
    }

    /// The host's state is gone, and it says nothing any more.
    pub(crate) fn dies(&mut self, host: u8) {
        self.hosts.remove(&host);
        self.publishes.remove(&host);
    }

    pub(crate) fn all_connections(&mut self, connection: Connection) {
        self.network.connection = connection;
    }

    pub(crate) fn connection(&mut self, one: u8, other: u8, connection: Connection) {
        self.one_way(one, other, connection);
        self.one_way(other, one, connection);
    }

    pub(crate) fn one_way(&mut self, from: u8, to: u8, connection: Connection) {
        self.network.set_one_way(from, to, connection);
    }

    /// All that a host sends goes through a connection of this rate, with a queue of this length.
    pub(crate) fn uplink(&mut self, host: u8, bits_per_second: u64, queue: Duration) {
        self.network.set_uplink(self.now, host, bits_per_second, queue);
    }

    pub(crate) fn publish(&mut self, host: u8) {
        let now = self.now;
        self.relay(host).publish(now, STREAM).unwrap();
        self.publishes.insert(host);
        self.next_frame = self.next_frame.or(Some(now));
    }

    fn new_tag(&mut self) -> StreamTag {
        self.tag += 1;
        StreamTag(self.tag)
    }

    /// Does what a request along these hosts does: the first publishes, the last watches. Returns the tag by
    /// which the last one knows the stream.
    pub(crate) fn subscribe(&mut self, way: &[u8]) -> StreamTag {
        let now = self.now;
        let (subscriber, hubs) = way.split_last().unwrap();
        let (publisher, hubs) = hubs.split_first().unwrap();
        let tag = self.new_tag();
        self.relay(*subscriber).expect_offer(now, tag).unwrap();
        let (mut to, mut their_tag, mut kind) = (*subscriber, tag, DownstreamKind::Subscriber);
        for hub in hubs.iter().rev() {
            let tag = self.new_tag();
            let grant = self.grant_of(tag, to, their_tag, kind);
            // Grants without room are refused, as by the control plane.
            let _ = self.relay(*hub).grant(now, grant);
            (to, their_tag, kind) = (*hub, tag, DownstreamKind::Reflector);
        }
        let _ = self.relay(*publisher).offer(now, STREAM, at(to), their_tag);
        tag
    }

    pub(crate) fn grant_of(
        &self,
        tag: StreamTag,
        to: u8,
        their_tag: StreamTag,
        kind: DownstreamKind,
    ) -> ReflectionGrant {
        let service = Service::Video;
        ReflectionGrant {
            tag,
            to: at(to),
            their_tag,
            kind,
            service,
            cell: None,
            provider: None,
            begin: StartCondition::Answered,
        }
    }

    pub(crate) fn passes(&mut self, time: Duration) {
        let end = self.now + time;
        loop {
            self.exchange();
            let flight = self.network.next();
            let frame = self.next_frame.filter(|_| !self.publishes.is_empty());
            let due = self.hosts.values().filter_map(Relay::poll_deadline).min();
            let Some(next) = [flight, frame, due].into_iter().flatten().min().filter(|next| *next <= end) else {
                break;
            };
            self.now = next.max(self.now);
            self.step();
        }
        self.now = end;
    }

    fn step(&mut self) {
        let now = self.now;
        if self.next_frame.is_some_and(|next| next <= now) && !self.publishes.is_empty() {
            self.publish_frame();
        }
        while let Some(flight) = self.network.poll(now) {
            self.arrives(&flight);
        }
        for relay in self.hosts.values_mut() {
            let mut turns = 0;
            while relay.poll_deadline().is_some_and(|due| due <= now) {
                relay.handle_timeout(now);
                turns += 1;
                assert!(turns < 100, "a timer that is due for ever");
            }
        }
    }

    fn publish_frame(&mut self) {
        let (spacing, packets) = self.frames;
        for packet in 0..packets {
            let flags = match packet {
                0 if self.has_keys && self.frame.is_multiple_of(GROUP) => Flags::KEY_FRAME,
                _ if packet + 1 == packets => Flags::FRAME_END,
                _ => Flags::default(),
            };
            let mut out = BytesMut::new();
            // Wraps around by design.
            self.publisher.seal(self.now, self.frame as u16, flags, &[7; 1000], &mut out).unwrap();
            for host in self.publishes.clone() {
                let now = self.now;
                self.relay(host).push(now, STREAM, &out);
            }
        }
        self.frame += 1;
        self.next_frame = Some(self.now + spacing);
    }

    /// The counter of the next packet, from 0.
    pub(crate) fn published(&self) -> u64 {
        self.frame * self.frames.1
    }

    fn arrives(&mut self, flight: &Flight) {
        let now = self.now;
        let Some(relay) = self.hosts.get_mut(&flight.to) else { return };
        let got = self.got.entry(flight.to).or_default();
        relay.handle_datagram(now, at(flight.from), &flight.datagram, |_, packet| {
            let (hop, header) = Header::decode(packet).unwrap();
            if header.epoch != EPOCH {
                // Forged: it does not open.
                return;
            }
            let counter = header.counter & 0xffff_ffff;
            got.push(Got { at: now, counter, catch_up: hop.catch_up, flags: header.flags });
        });
    }

    /// Somebody sends a datagram, from whatever address.
    pub(crate) fn sends(&mut self, from: u8, to: u8, datagram: impl AsRef<[u8]>) {
        self.network.send(self.now, (from, to), datagram.as_ref());
    }

    /// Everything that is to be sent leaves.
    pub(crate) fn exchange(&mut self) {
        let now = self.now;
        let mut sent = Vec::new();
        for (host, relay) in &mut self.hosts {
            relay.end_batch(now);
            while let Some(transmit) = relay.poll_transmit(now) {
                let to = host_at(transmit.to);
                let packets: Vec<Vec<u8>> = transmit.contents.chunks(transmit.segment).map(<[u8]>::to_vec).collect();
                let is_full = self.stalled.contains(&to);
                let outcome = SendOutcome { sent: packets.len() as u32, ..SendOutcome::default() };
                let outcome = if is_full { SendOutcome { sent: 0, is_full, ..outcome } } else { outcome };
                relay.record_outcome(now, &transmit, outcome);
                if !is_full {
                    sent.extend(packets.into_iter().map(|packet| (*host, to, packet)));
                }
            }
            while let Some(event) = relay.poll_event() {
                self.events.push((now, *host, event));
            }
        }
        for (from, to, packet) in sent {
            match ControlPacket::decode(&packet) {
                Ok((_, _, said)) => self.said.entry((from, to)).or_default().push(said),
                Err(_) => *self.carried.entry((from, to)).or_default() += 1,
            }
            self.sends(from, to, &packet);
        }
    }

    pub(crate) fn forget_traffic(&mut self) {
        self.carried.clear();
        self.said.clear();
        self.got.clear();
    }

    pub(crate) fn carried(&self, from: u8, to: u8) -> u64 {
        self.carried.get(&(from, to)).copied().unwrap_or_default()
    }

    pub(crate) fn counters(&self, host: u8) -> Vec<u64> {
        self.got.get(&host).into_iter().flatten().map(|got| got.counter).collect()
    }

    /// The counters that came, in order; each once, or the test fails.
    pub(crate) fn once_each(&self, host: u8) -> Vec<u64> {
        let mut counters = self.counters(host);
        counters.sort_unstable();
        assert!(counters.windows(2).all(|pair| pair[0] < pair[1]), "something came twice at {host}");
        counters
    }

    /// The number of packets for an application that puts them in order, and waits 300 ms for missing ones.
    pub(crate) fn in_order(&self, host: u8) -> u64 {
        let mut sequence = ReorderBuffer::new(Duration::from_millis(300));
        let mut handed = 0;
        for got in self.got.get(&host).into_iter().flatten() {
            handed += std::iter::from_fn(|| sequence.poll(got.at)).count() as u64;
            let header = Header { flags: got.flags, frame: 0, stream: STREAM, epoch: EPOCH, counter: got.counter };
            sequence.push(got.at, &header, got.catch_up, Bytes::new());
        }
        handed + std::iter::from_fn(|| sequence.poll(self.now + Duration::from_secs(1))).count() as u64
    }

    /// Asserts that a host got everything from its first group of pictures on, each once. In that
    /// one, what has overtaken the key frame may be missing.
    pub(crate) fn assert_whole(&self, host: u8) {
        let counters = self.once_each(host);
        let first = *counters.first().expect("something came") + GROUP * PACKETS;
        let last = *counters.last().unwrap();
        let missing: Vec<u64> = (first..last.saturating_sub(10 * PACKETS))
            .filter(|counter| counters.binary_search(counter).is_err())
            .collect();
        assert!(missing.is_empty(), "{host} misses {missing:?} of {} packets", counters.len());
        // Less than half a second.
        assert!(last + 10 * PACKETS >= self.published(), "{host} is behind");
    }

    pub(crate) fn status(&self, host: u8) -> Option<StreamStatus> {
        self.hosts.get(&host)?.streams(self.now).find(|stream| stream.stream == STREAM)
    }

    pub(crate) fn events_of(&self, host: u8) -> Vec<RelayEvent> {
        self.events.iter().filter(|(_, at, _)| *at == host).map(|(.., event)| *event).collect()
    }
}

#[expect(clippy::disallowed_methods, reason = "a test takes more seeds on demand")]
pub(crate) fn for_seeds(seeds: u64, run: impl Fn(u64)) {
    let seeds = std::env::var("ROOST_SEEDS").ok().and_then(|seeds| seeds.parse().ok()).unwrap_or(seeds);
    for seed in 0..seeds {
        let failed = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| run(seed))).is_err();
        assert!(!failed, "with seed {seed}");
    }
}
