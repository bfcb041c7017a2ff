//! RTCP (RFC 3550, section 6) at the port after that of RTP: what senders say is
//! taken, so that nothing tells them that nobody listens, and ignored; a sender
//! that is heard there is asked for key frames.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tokio::net::UdpSocket;
use tokio::time::Instant;

use super::rtp;
use crate::net::Port;
use crate::upstream::KeyFrames;

/// A sender is asked no more often.
const PAUSE: Duration = Duration::from_secs(1);

/// The number by which this side calls itself: it sends no stream, and there is no other one.
const RECEIVER: u32 = 1;

/// A request for a key frame of the stream of this number: a picture was lost
/// (PLI, RFC 4585, section 6.3.1), after the empty report that has to come first.
pub fn picture_loss(stream: u32) -> [u8; 20] {
    let mut packet = [0; 20];
    packet[..4].copy_from_slice(&[0x80, 201, 0, 1]);
    packet[4..8].copy_from_slice(&RECEIVER.to_be_bytes());
    packet[8..12].copy_from_slice(&[0x81, 206, 0, 2]);
    packet[12..16].copy_from_slice(&RECEIVER.to_be_bytes());
    packet[16..].copy_from_slice(&stream.to_be_bytes());
    packet
}

/// The number of the stream that comes, which its packets say.
#[derive(Clone, Debug, Default)]
pub(super) struct Stream(Arc<AtomicU64>);

impl Stream {
    const KNOWN: u64 = 1 << 32;

    pub(super) fn note(&self, packet: &rtp::Packet<'_>) {
        self.0.store(Self::KNOWN | u64::from(packet.source), Ordering::Relaxed);
    }

    fn number(&self) -> Option<u32> {
        let number = self.0.load(Ordering::Relaxed);
        (number & Self::KNOWN != 0).then_some(number as u32)
    }
}

/// The RTCP of one source.
pub(super) struct Control {
    socket: UdpSocket,
    stream: Stream,
    sender: Option<SocketAddr>,
    asked: Option<Instant>,
}

impl Control {
    /// Listens at the port after `port`; without it a source does as well.
    pub(super) async fn start(port: &Port, stream: Stream) -> Option<Self> {
        let next = port.next()?;
        match next.listen().await {
            Ok(socket) => Some(Self { socket, stream, sender: None, asked: None }),
            Err(error) => {
                tracing::info!(%error, "a source of RTP is not asked for key frames");
                None
            }
        }
    }

    pub(super) async fn run(mut self, wanted: KeyFrames) -> Infallible {
        let mut buffer = [0; 1500];
        loop {
            tokio::select! {
                heard = self.socket.recv_from(&mut buffer) => match heard {
                    Ok((_, from)) => self.sender = Some(from),
                    // Such as that an earlier request came to nobody.
                    Err(_) => tokio::time::sleep(PAUSE).await,
                },
                () = wanted.asked() => self.ask().await,
            }
        }
    }

    async fn ask(&mut self) {
        let (Some(sender), Some(stream)) = (self.sender, self.stream.number()) else { return };
        if self.asked.is_some_and(|asked| asked.elapsed() < PAUSE) {
            return;
        }
        self.asked = Some(Instant::now());
        if let Err(error) = self.socket.send_to(&picture_loss(stream), sender).await {
            tracing::debug!(%error, "a sender cannot be asked for a key frame");
        }
    }
}
