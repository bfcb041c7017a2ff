//! The answer to a request: frames for programs, the bare bytes for curl.

use std::time::Duration;

use bytes::Bytes;
use futures_util::stream;
use roost_api::server::ApiError;
use roost_api::{self as control, Code, FRAMES, Frame, Progress, RequestEvent};
use roost_runtime::http::{Body, HeaderValue, IntoResponse, Response, header};
use roost_runtime::shared::millis;
use roost_wire::NodeSelector;
use roost_wire::messages::FlowDescription;
use tokio::time::{Instant, Interval};

use crate::node::NodeService;
use crate::rows;
use crate::tickets::{Replies, Reply};

/// The time between two reports of progress to a program.
const PROGRESS: Duration = Duration::from_secs(1);

/// Events and data as they come, in frames. Ends after the last event.
pub(crate) fn framed(replies: Replies, node: NodeService, named: Option<NodeSelector>) -> Response {
    let mut progress = tokio::time::interval_at(Instant::now() + PROGRESS, PROGRESS);
    progress.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Skip);
    let state = Framing { replies, node, named, progress, began: Instant::now(), bytes: 0 };
    let frames = stream::unfold(state, |mut state| async move {
        let frame = state.next().await?;
        Some((Ok::<_, std::convert::Infallible>(frame.encode()), state))
    });
    ([(header::CONTENT_TYPE, FRAMES)], Body::from_stream(frames)).into_response()
}

struct Framing {
    replies: Replies,
    node: NodeService,
    /// The provider's id or name in the query, checked against its certificate.
    named: Option<NodeSelector>,
    progress: Interval,
    began: Instant,
    bytes: u64,
}

impl Framing {
    async fn next(&mut self) -> Option<Frame> {
        loop {
            tokio::select! {
                biased;
                reply = self.replies.next() => {
                    let frame = self.frame(reply?);
                    if frame.is_some() {
                        return frame;
                    }
                }
                _ = self.progress.tick() => {
                    let elapsed_ms = millis(self.began.elapsed());
                    let lost = self.node.receptions.lost(self.replies.ticket());
                    return Some(Frame::Event(RequestEvent::Progress(Progress { bytes: self.bytes, elapsed_ms, lost })));
                }
            }
        }
    }

    fn frame(&mut self, reply: Reply) -> Option<Frame> {
        let event = match reply {
            // A stream without data at the moment.
            Reply::Data(data) if data.is_empty() => return None,
            Reply::Data(data) => {
                self.bytes += data.len() as u64;
                return Some(Frame::Data(data));
            }
            Reply::Accepted(accepted) => {
                if let Err(ApiError(error)) = self.node.check_name(self.named, accepted.provider) {
                    self.replies.give_up();
                    return Some(Frame::Event(RequestEvent::Failed { error, summary: None }));
                }
                let provider_name = self.node.name(accepted.provider);
                RequestEvent::Accepted(control::Accepted {
                    provider_name,
                    place: self.node.middle(accepted.cell).map(Box::new),
                    ..rows::accepted(self.replies.ticket(), &accepted)
                })
            }
            Reply::Traced(trace) => RequestEvent::Traced(rows::trace(&trace)),
            Reply::Finished(summary) => {
                let provider_name = self.node.name(summary.provider);
                let place = self.node.middle(summary.cell).map(Box::new);
                let summed = rows::summary(&summary, self.replies.unread());
                let row = control::TransferSummary { provider_name, place, ..summed };
                match rows::damage(&summary) {
                    None => RequestEvent::Finished(row),
                    Some(error) => RequestEvent::Failed { error, summary: Some(row) },
                }
            }
            Reply::Failed(failure) => RequestEvent::Failed { error: rows::failure(failure), summary: None },
            _ => return None,
        };
        Some(Frame::Event(event))
    }
}

/// The bare bytes, once a provider has accepted. An incomplete transfer breaks the connection off, so that no tool
/// takes it for whole.
pub(crate) async fn raw(
    mut replies: Replies,
    node: &NodeService,
    named: Option<NodeSelector>,
) -> Result<Response, ApiError> {
    let accepted = loop {
        match replies.next().await {
            Some(Reply::Accepted(accepted)) => break accepted,
            Some(Reply::Failed(failure)) => return Err(ApiError(rows::failure(failure))),
            Some(_) => {}
            None => return Err(ApiError::new(Code::Leaving, "the daemon is shutting down")),
        }
    };
    node.check_name(named, accepted.provider)?;
    let (format, length) = match accepted.flow {
        FlowDescription::Stream { format, .. } => (format, None),
        FlowDescription::Object { format, bytes, offset, .. } => (format, Some(bytes - offset.unwrap_or(0))),
    };
    let bytes = stream::unfold(Some(replies), |state| async move {
        let mut replies = state?;
        match next_bytes(&mut replies).await {
            Ok(Some(data)) => Some((Ok(data), Some(replies))),
            Ok(None) => None,
            Err(error) => Some((Err(error), None)),
        }
    });
    let mut response = ([(header::CONTENT_TYPE, content_type(&format))], Body::from_stream(bytes)).into_response();
    if let Some(length) = length {
        response.headers_mut().insert(header::CONTENT_LENGTH, length.into());
    }
    Ok(response)
}

/// The next bytes; `None` at the end of a whole transfer.
async fn next_bytes(replies: &mut Replies) -> Result<Option<Bytes>, std::io::Error> {
    loop {
        match replies.next().await {
            Some(Reply::Data(data)) if data.is_empty() => {}
            Some(Reply::Data(data)) => return Ok(Some(data)),
            Some(Reply::Finished(summary)) => {
                return rows::damage(&summary).map_or(Ok(None), |error| Err(std::io::Error::other(error)));
            }
            Some(Reply::Failed(failure)) => return Err(std::io::Error::other(failure.detail)),
            Some(_) => {}
            None => return Err(std::io::Error::other("the daemon is shutting down")),
        }
    }
}

/// The provider names the format; a format that is no media type does not go into a header.
fn content_type(format: &str) -> HeaderValue {
    let known = Some(format).filter(|format| format.contains('/'));
    known
        .and_then(|format| HeaderValue::from_str(format).ok())
        .unwrap_or(HeaderValue::from_static("application/octet-stream"))
}
