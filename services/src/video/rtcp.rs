//! RTCP (RFC 3550, section 6) at the port after that of RTP. The sender of the stream receives requests for key
//! frames, and its reports on this stream pass with the stream. Reports on other streams or from other hosts
//! are dropped.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use tokio::net::UdpSocket;
use tokio::time::Instant;

use super::{Packing, rtp};
use crate::net::Port;
use crate::shared_reader::Outlet;

/// The least time between two requests to a sender.
const PAUSE: Duration = Duration::from_secs(1);

/// The least time between two reports that pass; senders report far less often.
pub(super) const REPORT_PAUSE: Duration = Duration::from_millis(100);

const MAX_REPORT_BYTES: usize = 1200;

/// The SSRC of this side, which sends no stream and is the only receiver.
const RECEIVER: u32 = 1;

/// The packet type of a sender report (RFC 3550, section 6.4.1), the first in a compound packet.
const SENDER_REPORT: u8 = 200;

/// Requests a key frame of the stream with this SSRC: a picture loss indication (PLI, RFC 4585, section 6.3.1)
/// after the empty receiver report that has to come first.
pub fn picture_loss(stream: u32) -> [u8; 20] {
    let mut packet = [0; 20];
    packet[..4].copy_from_slice(&[0x80, 201, 0, 1]);
    packet[4..8].copy_from_slice(&RECEIVER.to_be_bytes());
    packet[8..12].copy_from_slice(&[0x81, 206, 0, 2]);
    packet[12..16].copy_from_slice(&RECEIVER.to_be_bytes());
    packet[16..].copy_from_slice(&stream.to_be_bytes());
    packet
}

/// True if a datagram is RTCP: with version 2 the second byte tells (RFC 5761, section 4).
pub(crate) fn is_control(datagram: &[u8]) -> bool {
    matches!(datagram, [first, 192..=223, ..] if first >> 6 == 2)
}

#[derive(Clone, Debug, Default)]
pub(super) struct RtpSender(Arc<Mutex<Option<(SocketAddr, u32)>>>);

impl RtpSender {
    pub(super) fn record_sender(&self, from: SocketAddr, packet: &rtp::Packet<'_>) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some((from, packet.source));
    }

    fn get(&self) -> Option<(SocketAddr, u32)> {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// True if the sender of the stream sent this RTCP about the stream: a host may send several. The SSRC
    /// follows a header of four bytes.
    fn is_of(&self, from: SocketAddr, said: &[u8]) -> bool {
        self.get().is_some_and(|(sender, number)| {
            sender.ip() == from.ip() && said.get(4..8) == Some(&number.to_be_bytes()[..])
        })
    }
}

pub(super) struct Control {
    socket: UdpSocket,
    stream: RtpSender,
    /// True if reports pass with the stream.
    passes: bool,
    sender: Option<SocketAddr>,
    asked: Option<Instant>,
    passed: Option<Instant>,
}

impl Control {
    /// Listens at the port after `port`. A source works without it, so a failure is only logged.
    pub(super) async fn start(port: &Port, stream: RtpSender, packing: Packing) -> Option<Self> {
        let next = port.next()?;
        match next.listen().await {
            // A transport stream has its own clock in its packets, and loses its RTP header.
            Ok(socket) => Some(Self {
                socket,
                stream,
                passes: packing == Packing::RtpH264,
                sender: None,
                asked: None,
                passed: None,
            }),
            Err(error) => {
                tracing::info!(%error, "a source of RTP is not asked for key frames");
                None
            }
        }
    }

    pub(super) async fn run(mut self, outlet: Outlet) -> Infallible {
        let mut buffer = [0; MAX_REPORT_BYTES + 1];
        let wanted = outlet.key_frames();
        loop {
            tokio::select! {
                heard = self.socket.recv_from(&mut buffer) => match heard {
                    Ok((length, from)) => self.handle_rtcp(from, &buffer[..length], &outlet),
                    // An ICMP error for an earlier request, for instance.
                    Err(_) => tokio::time::sleep(PAUSE).await,
                },
                () = wanted.wait_for_request() => self.ask().await,
            }
        }
    }

    fn handle_rtcp(&mut self, from: SocketAddr, datagram: &[u8], outlet: &Outlet) {
        if !is_control(datagram) || !self.stream.is_of(from, datagram) {
            return;
        }
        self.sender = Some(from);
        let is_soon = self.passed.is_some_and(|passed| passed.elapsed() < REPORT_PAUSE);
        if self.passes && datagram[1] == SENDER_REPORT && datagram.len() <= MAX_REPORT_BYTES && !is_soon {
            self.passed = Some(Instant::now());
            outlet.put(Bytes::copy_from_slice(datagram));
        }
    }

    async fn ask(&mut self) {
        let Some((from, number)) = self.stream.get() else { return };
        if self.asked.is_some_and(|asked| asked.elapsed() < PAUSE) {
            return;
        }
        // A sender from which no RTCP came yet takes it at the port after its own (RFC 3550, section 11).
        let heard = self.sender.filter(|sender| sender.ip() == from.ip());
        let sender = heard.unwrap_or(SocketAddr::new(from.ip(), from.port().saturating_add(1)));
        self.asked = Some(Instant::now());
        if let Err(error) = self.socket.send_to(&picture_loss(number), sender).await {
            tracing::debug!(%error, "a sender cannot be asked for a key frame");
        }
    }
}
