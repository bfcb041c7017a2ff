//! Answers that come as long as the caller listens.

use std::ops::RangeInclusive;
use std::time::Duration;

use bytes::Bytes;
use http_body_util::BodyExt;
use hyper::Response;
use hyper::body::Incoming;
use serde::de::DeserializeOwned;

use super::ClientError;
use crate::error::ErrorBody;
use crate::error::{Code, Error};
use crate::frame::{Frame, Frames};
use crate::types::{OfferEvent, RequestEvent, RequestLine, Roster, SendEvent, Trace, TransferSummary, WatchEvent};

const MAX_LINE_BYTES: usize = 1 << 20;

/// The answer to a request as it comes. Dropping it cancels the request.
#[derive(Debug)]
pub struct RequestStream {
    body: Incoming,
    frames: Frames,
}

impl RequestStream {
    pub(super) fn new(response: Response<Incoming>) -> Self {
        Self { body: response.into_body(), frames: Frames::default() }
    }

    /// Returns the next event or piece of data; `None` after the last event.
    ///
    /// # Errors
    /// Fails if the daemon goes away or its answer is malformed.
    pub async fn next(&mut self) -> Result<Option<Frame>, ClientError> {
        loop {
            if let Some(frame) = self.frames.next_frame()? {
                return Ok(Some(frame));
            }
            match next_data(&mut self.body).await? {
                Some(data) => self.frames.push(&data),
                None => {
                    self.frames.finish()?;
                    return Ok(None);
                }
            }
        }
    }
}

/// The way of a request, and its end.
#[derive(Clone, Debug, Default)]
pub struct TraceOutcome {
    pub trace: Trace,
    pub summary: Option<TransferSummary>,
    pub error: Option<Error>,
}

impl RequestStream {
    /// Reads the answer to a request that is traced to its end, without its data.
    ///
    /// # Errors
    /// Fails if the daemon goes away or its answer is malformed. An error of the request is in the outcome.
    pub async fn trace(mut self) -> Result<TraceOutcome, ClientError> {
        let mut traced = TraceOutcome::default();
        while let Some(frame) = self.next().await? {
            match frame {
                Frame::Event(RequestEvent::Traced(trace)) => traced.trace = trace,
                Frame::Event(RequestEvent::Finished(summary)) => {
                    traced.summary = Some(summary);
                    return Ok(traced);
                }
                Frame::Event(RequestEvent::Failed { error, summary }) => {
                    (traced.error, traced.summary) = (Some(error), summary);
                    return Ok(traced);
                }
                _ => {}
            }
        }
        let gone = "the daemon went away before the request was over; try again";
        Err(ClientError::Api(Error::new(Code::Incomplete, gone)))
    }
}

/// Changes in an area as they happen. Dropping the stream ends the watch.
#[derive(Debug)]
pub struct WatchStream(pub(super) Lines);

impl WatchStream {
    /// Returns the next change; `None` when the daemon has ended the watch.
    ///
    /// # Errors
    /// Fails with the daemon's reason for the end, or if the daemon goes away or its answer is malformed.
    pub async fn next(&mut self) -> Result<Option<WatchEvent>, ClientError> {
        self.0.next().await?.map(|line| read_line(&line)).transpose()
    }
}

/// The pause before a member of a room requests a stream that has failed again: twice as long each time, until the
/// stream comes.
pub const STREAM_PAUSES: RangeInclusive<Duration> = Duration::from_secs(1)..=Duration::from_secs(30);

/// The members of a room, with every change. Dropping the stream leaves the room.
#[derive(Debug)]
pub struct RoomStream(pub(super) Lines);

impl RoomStream {
    /// Returns the next list; `None` when the daemon has ended the stream.
    ///
    /// # Errors
    /// Fails with the daemon's reason for the end, or if the daemon goes away or its answer is malformed.
    pub async fn next(&mut self) -> Result<Option<Roster>, ClientError> {
        self.0.next().await?.map(|line| read_line(&line)).transpose()
    }
}

/// The requests of a node as they begin and end.
#[derive(Debug)]
pub struct RequestFeed(pub(super) Lines);

impl RequestFeed {
    /// Returns the next line; `None` when the daemon has ended the feed.
    ///
    /// # Errors
    /// Fails if the daemon goes away or its answer is malformed.
    pub async fn next(&mut self) -> Result<Option<RequestLine>, ClientError> {
        self.0.next().await?.map(|line| read_line(&line)).transpose()
    }
}

/// The events of a file that is sent. Dropping the stream ends the transfer.
#[derive(Debug)]
pub struct SendStream(pub(super) Lines);

impl SendStream {
    /// Returns the next event; `None` after the last one.
    ///
    /// # Errors
    /// Fails if the daemon goes away or its answer is malformed.
    pub async fn next(&mut self) -> Result<Option<SendEvent>, ClientError> {
        let malformed = |error: serde_json::Error| ClientError::Malformed(error.to_string());
        self.0.next().await?.map(|line| serde_json::from_slice(&line).map_err(malformed)).transpose()
    }
}

/// The requests for an offer. Dropping the stream withdraws the offer.
#[derive(Debug)]
pub struct OfferStream(pub(super) Lines);

impl OfferStream {
    /// Returns the next event; `None` when the daemon has ended the offer.
    ///
    /// # Errors
    /// Fails with the daemon's reason for the end, or if the daemon goes away or its answer is malformed.
    pub async fn next(&mut self) -> Result<Option<OfferEvent>, ClientError> {
        self.0.next().await?.map(|line| read_line(&line)).transpose()
    }
}

#[derive(Debug)]
pub(super) struct Lines {
    body: Incoming,
    buffer: Vec<u8>,
}

impl Lines {
    pub(super) fn new(response: Response<Incoming>) -> Self {
        Self { body: response.into_body(), buffer: Vec::new() }
    }

    async fn next(&mut self) -> Result<Option<Vec<u8>>, ClientError> {
        loop {
            if let Some(end) = self.buffer.iter().position(|byte| *byte == b'\n') {
                return Ok(Some(self.buffer.drain(..=end).collect()));
            }
            if self.buffer.len() > MAX_LINE_BYTES {
                return Err(ClientError::Malformed("a line is longer than it may be".to_owned()));
            }
            match next_data(&mut self.body).await? {
                Some(data) => self.buffer.extend_from_slice(&data),
                None => return Ok(None),
            }
        }
    }
}

/// Reads a line of an endless answer. Its last line may be an error instead.
fn read_line<T: DeserializeOwned>(line: &[u8]) -> Result<T, ClientError> {
    if let Ok(ErrorBody { error, .. }) = serde_json::from_slice(line) {
        return Err(error.into());
    }
    serde_json::from_slice(line).map_err(|error| ClientError::Malformed(error.to_string()))
}

async fn next_data(body: &mut Incoming) -> Result<Option<Bytes>, ClientError> {
    while let Some(frame) = body.frame().await {
        if let Ok(data) = frame?.into_data() {
            return Ok(Some(data));
        }
    }
    Ok(None)
}
