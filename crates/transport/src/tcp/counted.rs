//! A TCP stream that counts the bytes it carries.

use std::io::{self, IoSlice};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;

use crate::connection::LiveConnectionCounters;
use crate::counters::LiveSchemeCounters;

/// Adds to the counts of one connection and to those of all of TCP.
pub(super) struct Counted {
    stream: TcpStream,
    tally: Arc<LiveConnectionCounters>,
    live: Arc<LiveSchemeCounters>,
}

impl Counted {
    pub(super) fn new(stream: TcpStream, tally: Arc<LiveConnectionCounters>, live: Arc<LiveSchemeCounters>) -> Self {
        Self { stream, tally, live }
    }

    fn wrote(&self, bytes: usize) {
        LiveConnectionCounters::add(&self.tally.bytes_sent, bytes as u64);
        LiveSchemeCounters::add(&self.live.bytes_sent, bytes as u64);
        LiveSchemeCounters::add(&self.live.datagrams_sent, 1);
    }
}

impl AsyncRead for Counted {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let before = buf.filled().len();
        ready!(Pin::new(&mut self.stream).poll_read(cx, buf))?;
        let bytes = (buf.filled().len() - before) as u64;
        LiveConnectionCounters::add(&self.tally.bytes_received, bytes);
        LiveSchemeCounters::add(&self.live.bytes_received, bytes);
        LiveSchemeCounters::add(&self.live.datagrams_received, u64::from(bytes > 0));
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for Counted {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        let bytes = ready!(Pin::new(&mut self.stream).poll_write(cx, buf))?;
        self.wrote(bytes);
        Poll::Ready(Ok(bytes))
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let bytes = ready!(Pin::new(&mut self.stream).poll_write_vectored(cx, bufs))?;
        self.wrote(bytes);
        Poll::Ready(Ok(bytes))
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}
