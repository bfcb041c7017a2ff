//! A UDP socket for quinn that counts what passes through it.

use std::fmt;
use std::io::{self, IoSliceMut};
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use quinn::udp::{RecvMeta, Transmit};
use quinn::{AsyncUdpSocket, UdpPoller};

use crate::counters::Live;

/// A socket and the counts of all of QUIC.
pub(super) struct CountedSocket {
    inner: Arc<dyn AsyncUdpSocket>,
    live: Arc<Live>,
}

impl CountedSocket {
    pub(super) fn new(inner: Arc<dyn AsyncUdpSocket>, live: Arc<Live>) -> Self {
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
        Live::add(&self.live.bytes_sent, bytes as u64);
        Live::add(&self.live.datagrams_sent, bytes.div_ceil(transmit.segment_size.unwrap_or(bytes).max(1)) as u64);
        Ok(())
    }

    fn poll_recv(
        &self,
        cx: &mut Context<'_>,
        bufs: &mut [IoSliceMut<'_>],
        meta: &mut [RecvMeta],
    ) -> Poll<io::Result<usize>> {
        let count = ready!(self.inner.poll_recv(cx, bufs, meta))?;
        for meta in &meta[..count] {
            Live::add(&self.live.bytes_received, meta.len as u64);
            Live::add(&self.live.datagrams_received, meta.len.div_ceil(meta.stride.max(1)) as u64);
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
