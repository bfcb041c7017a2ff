//! A provider that lies, and the watchers of its stream.

use std::net::UdpSocket;
use std::time::{Duration, Instant};

use bytes::BytesMut;
use roost_reflection::control::{ControlPacket, PathToken};
use roost_reflection::{EpochLimits, Flags, Publisher};
use roost_tests::adversary::Adversary;
use roost_tests::network::{Daemon, Network};
use roost_tests::streams::Watcher;
use roost_wire::messages::{
    Accept, CopyTarget, FlowDescription, Message, RegistrationMessage, Request, RequestMessage, Route, StreamKeys,
};
use roost_wire::{Cell, ConnectionId, Epoch, EpochSecret, ServiceSet, StreamId, Time};

const CELL: Cell = Cell { x: 5, y: 5 };
const EPOCH: Epoch = Epoch(5);
/// The secret that opens the packets, and the one that the provider names.
const TRUE: [u8; 32] = [1; 32];
const TOLD: [u8; 32] = [2; 32];
/// Between two packets.
const PACE: Duration = Duration::from_millis(20);
/// The watcher gives up after half a minute in which nothing opened, of which it notices each three seconds.
const PATIENCE: Duration = Duration::from_secs(45);

/// A provider that sends all who ask a stream that does not open.
struct Swindler {
    liar: Adversary,
    stream: StreamId,
    publisher: Publisher,
    socket: UdpSocket,
    /// The requester, the address to which the stream is to go, and whether it was answered there.
    requester: Option<ConnectionId>,
    leg: Option<CopyTarget>,
    flows: bool,
    /// Number of requests that came, and of packets that it has sent.
    asked: usize,
    sent: usize,
}

impl Swindler {
    fn at(network: &Network, hub: &Daemon) -> Self {
        let address = hub.endpoint("udp").strip_prefix("udp://").unwrap().parse().unwrap();
        let liar = Adversary::at(&network.identity("liar", "node"), address);
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        socket.set_nonblocking(true).unwrap();
        liar.say(&Message::Registration(RegistrationMessage::Publish(liar.record(
            CELL,
            ServiceSet::ALL,
            socket.local_addr().unwrap(),
        ))));
        let stream = StreamId::from_publisher(liar.node, 1);
        let publisher =
            Publisher::new(Time::ZERO, stream, EPOCH, &EpochSecret::from_bytes(TRUE), EpochLimits::default()).unwrap();
        let (requester, leg, flows, asked, sent) = (None, None, false, 0, 0);
        Self { liar, stream, publisher, socket, requester, leg, flows, asked, sent }
    }

    fn accept(&mut self, request: Request) {
        let Request { id, nonce, route: Some(Route { reply_to, .. }), copy_target, .. } = request else { return };
        let requester = *self.requester.get_or_insert_with(|| self.liar.reach(reply_to));
        let offer =
            FlowDescription::Stream { duration_ms: 60_000, bits_per_second: 100_000, format: "video/mp2t".to_owned() };
        let secret = EpochSecret::from_bytes(TOLD);
        let reflected = Some(StreamKeys { stream: self.stream, epoch: EPOCH, secret, next: None });
        self.liar.say_to(
            requester,
            &Message::Request(RequestMessage::Accept(Accept {
                id,
                nonce,
                flow: offer,
                cell: CELL,
                provider: None,
                stream_keys: reflected,
            })),
        );
        (self.leg, self.flows) = (copy_target, false);
        self.asked += 1;
    }

    /// Offers the stream where it is wanted, and sends it there once that is answered.
    fn send(&mut self) {
        let mut buffer = [0; 2000];
        while let Ok(length) = self.socket.recv(&mut buffer) {
            match ControlPacket::decode(&buffer[..length]) {
                Ok((_, _, ControlPacket::Answer { .. })) => self.flows = true,
                Ok((_, _, ControlPacket::Bye)) => self.flows = false,
                _ => {}
            }
        }
        let Some(CopyTarget { to, tag, .. }) = self.leg else { return };
        let mut packet = BytesMut::new();
        if self.flows {
            self.publisher.seal(Time::ZERO, 0, Flags::default(), &[0; 188], &mut packet).unwrap();
            self.sent += 1;
        } else {
            packet.extend_from_slice(&ControlPacket::Offer(tag).encode(self.stream, PathToken(7)));
        }
        self.socket.send_to(&packet, to).unwrap();
    }

    /// Deceives whoever asks, until a watcher has had enough.
    fn deceive(&mut self, watcher: &mut Watcher) {
        let end = Instant::now() + PATIENCE;
        while !watcher.has_ended() {
            assert!(Instant::now() < end, "it still watches: asked {} times, {} packets", self.asked, self.sent);
            for message in self.liar.receive_messages(PACE) {
                if let Message::Request(RequestMessage::Request(request)) = message {
                    self.accept(request);
                }
            }
            self.send();
        }
    }
}

#[test]
fn wrong_stream_keys_end_with_reason() {
    let network = Network::new();
    let hub = network.supernode("sn1", &[]);
    let node = network.node("a", "1,1", &["--super", &hub.endpoint("udp")]);
    let mut swindler = Swindler::at(&network, &hub);
    let mut watcher = Watcher::start(&network, &node, "file", "subscribe", "120s");
    swindler.deceive(&mut watcher);
    assert!(swindler.asked > 5 && swindler.sent > 1000, "asked {} times, {} packets", swindler.asked, swindler.sent);
    let (code, said) = watcher.fails();
    assert!(said.contains("has not opened for 30 seconds"), "{code:?}: {said}");
    assert_eq!(code, Some(6), "{said}");
}
