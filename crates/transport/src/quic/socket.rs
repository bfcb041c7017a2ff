//! A UDP socket for quinn that counts the traffic through it.

use std::fmt;
use std::io::{self, IoSliceMut};
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use quinn::udp::{RecvMeta, Transmit};
use quinn::{AsyncUdpSocket, UdpPoller};

use crate::counters::LiveSchemeCounters;

/// The shortest datagram of QUIC: a stateless reset (RFC 9000, section 10.3).
const SHORTEST: usize = 21;

/// True if a datagram cannot be of QUIC, version 1. One with a short header may be; only quinn knows if it belongs to a
/// QUIC connection.
fn is_noise(datagram: &[u8]) -> bool {
    let is_long = datagram.first().is_some_and(|first| first & 0x80 != 0);
    let of_version = |version: u32| datagram[1..5] == version.to_be_bytes();
    // Version 0 marks a version negotiation.
    datagram.len() < SHORTEST || is_long && !of_version(1) && !of_version(0)
}

/// Adds to the counts of all of QUIC.
pub(super) struct CountedSocket {
    inner: Arc<dyn AsyncUdpSocket>,
    live: Arc<LiveSchemeCounters>,
}

impl CountedSocket {
    pub(super) fn new(inner: Arc<dyn AsyncUdpSocket>, live: Arc<LiveSchemeCounters>) -> Self {
        Self { inner, live }
    }
}

impl fmt::Debug for CountedSocket {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.inner.fmt(f)
    }
}

impl AsyncUdpSocket for CountedSocket {
    fn create_io_poller(self: Arc<Self>) -> Pin<Box<dyn UdpPoller>> {
        Arc::clone(&self.inner).create_io_poller()
    }

    fn try_send(&self, transmit: &Transmit<'_>) -> io::Result<()> {
        self.inner.try_send(transmit)?;
        let bytes = transmit.contents.len();
        LiveSchemeCounters::add(&self.live.bytes_sent, bytes as u64);
        LiveSchemeCounters::add(
            &self.live.datagrams_sent,
            bytes.div_ceil(transmit.segment_size.unwrap_or(bytes).max(1)) as u64,
        );
        Ok(())
    }

    fn poll_recv(
        &self,
        cx: &mut Context<'_>,
        bufs: &mut [IoSliceMut<'_>],
        meta: &mut [RecvMeta],
    ) -> Poll<io::Result<usize>> {
        let count = ready!(self.inner.poll_recv(cx, bufs, meta))?;
        for (buffer, meta) in bufs.iter().zip(&meta[..count]) {
            let datagrams = buffer[..meta.len].chunks(meta.stride.max(1));
            LiveSchemeCounters::add(
                &self.live.malformed,
                datagrams.filter(|datagram| is_noise(datagram)).count() as u64,
            );
            LiveSchemeCounters::add(&self.live.bytes_received, meta.len as u64);
            LiveSchemeCounters::add(&self.live.datagrams_received, meta.len.div_ceil(meta.stride.max(1)) as u64);
        }
        Poll::Ready(Ok(count))
    }

    fn local_addr(&self) -> io::Result<SocketAddr> {
        self.inner.local_addr()
    }

    fn max_transmit_segments(&self) -> usize {
        self.inner.max_transmit_segments()
    }

    fn max_receive_segments(&self) -> usize {
        self.inner.max_receive_segments()
    }

    fn may_fragment(&self) -> bool {
        self.inner.may_fragment()
    }
}
