//! The data of an answer to a request for an offer, on its way to the daemon.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use hyper::body::{Body, Frame};
use tokio::sync::{mpsc, oneshot};

/// A part of the answer to a request for an offer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum OfferData {
    /// The next bytes of an object, or an encoded [`Frame`](crate::Frame) with a datagram.
    Part(Bytes),
    /// The end. Data that ends without it has broken off.
    End,
}

/// The body of a call that gives data as it comes.
pub(super) struct OfferBody {
    pub(super) data: mpsc::Receiver<OfferData>,
    /// The daemon has answered, and needs no more.
    pub(super) ended: Option<oneshot::Receiver<()>>,
}

impl Body for OfferBody {
    type Data = Bytes;
    type Error = io::Error;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<io::Result<Frame<Bytes>>>> {
        match self.ended.as_mut().map(|ended| Pin::new(ended).poll(cx)) {
            Some(Poll::Ready(Ok(()))) => return Poll::Ready(None),
            // A caller that goes away in the middle ends nothing in order.
            Some(Poll::Ready(Err(_))) => self.ended = None,
            Some(Poll::Pending) | None => {}
        }
        self.data.poll_recv(cx).map(|data| match data {
            Some(OfferData::Part(piece)) => Some(Ok(Frame::data(piece))),
            Some(OfferData::End) => None,
            None => Some(Err(io::Error::other("the program has given no end"))),
        })
    }
}
