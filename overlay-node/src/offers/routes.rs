//! The endpoints of programs that offer services.

use std::time::Duration;

use bytes::Bytes;
use futures_util::{StreamExt, stream};
use roost_api::query::Params;
use roost_api::server::{ApiError, JsonBody, QueryPairs, json_line, json_response};
use roost_api::{Code, Given, JSON_LINES, OfferEvent, SCHEMA};
use roost_runtime::http::{Body, BodyDataStream, IntoResponse, Response, State, header};
use roost_wire::messages::{InvalidSentence, MAX_SENTENCE_BYTES, Sentence};
use roost_wire::{Offer, Service};
use tokio::sync::mpsc;

use super::data::{self, Passed};
use super::{Answer, ProgramOffer};
use crate::node::NodeService;

/// Pieces of a program's data that wait for their turn.
const BACKLOG: usize = 4;

/// The format of data whose program names none.
const BYTES: &str = "application/octet-stream";

/// The longest name of a format, bytes.
const MAX_FORMAT_BYTES: usize = 64;

/// A program that has its answer stops sending within this time.
const LAST_WORDS: Duration = Duration::from_secs(5);

/// `POST /v1/offer`: offers a service until the connection ends. Each line of the answer is an event.
pub(crate) async fn offer(
    State(node): State<NodeService>,
    JsonBody(offer): JsonBody<Offer>,
) -> Result<Response, ApiError> {
    let service = offer.service;
    let inserted = node.registry.insert_program(offer);
    let ProgramOffer { number, events } = inserted.map_err(|error| ApiError::new(Code::Usage, error.to_string()))?;
    let guard = OfferGuard { service, number, node };
    guard.node.publish();
    tracing::info!(%service, "a program offers a service");
    let first = json_line(&OfferEvent::Offered { service });
    let lines = stream::unfold((Some(first), events, guard), |(first, mut events, guard)| async move {
        let line = match first {
            Some(first) => first,
            None => json_line(&events.recv().await?),
        };
        Some((Ok::<_, std::convert::Infallible>(line), (None, events, guard)))
    });
    Ok(([(header::CONTENT_TYPE, JSON_LINES)], Body::from_stream(lines)).into_response())
}

/// Withdraws an offer when its connection ends.
struct OfferGuard {
    service: Service,
    number: u64,
    node: NodeService,
}

impl Drop for OfferGuard {
    fn drop(&mut self) {
        self.node.registry.programs().remove(self.service, self.number);
        self.node.publish();
        tracing::info!(service = %self.service, "a program no longer offers a service");
    }
}

fn no_request(request: u64) -> ApiError {
    ApiError::new(Code::NotFound, format!("no request {request} waits for its program: it is over, or has its answer"))
}

/// `GET /v1/offer/body`: the body of a call.
pub(crate) async fn body(State(node): State<NodeService>, pairs: QueryPairs) -> Result<Response, ApiError> {
    let request: u64 = Params::new(&pairs, &["request"])?.required("request")?;
    let none = || ApiError::new(Code::NotFound, format!("{request} is no call under way: it is over, or has no body"));
    let body = node.registry.programs().body(request).ok_or_else(none)?;
    Ok(([(header::CONTENT_TYPE, BYTES)], body).into_response())
}

/// `POST /v1/offer/data`: the data of a request, a frame for each datagram or the bytes of an object.
pub(crate) async fn give(State(node): State<NodeService>, pairs: QueryPairs, body: Body) -> Result<Response, ApiError> {
    let params = Params::new(&pairs, &["request", "format"])?;
    let request: u64 = params.required("request")?;
    let format = params.get("format").unwrap_or(BYTES);
    if format.len() > MAX_FORMAT_BYTES || format.chars().any(char::is_control) {
        return Err(ApiError::new(
            Code::Usage,
            format!("a format is a media type of at most {MAX_FORMAT_BYTES} bytes"),
        ));
    }
    let waiting = node.registry.programs().take_waiting(request).ok_or_else(|| no_request(request))?;
    let (give, items) = mpsc::channel(BACKLOG);
    let answer = Answer::Data { format: format.to_owned(), items };
    waiting.answer.send(answer).map_err(|_| no_request(request))?;
    let mut data = body.into_data_stream();
    let passed = data::pass_on(&waiting.offer, &mut data, &give).await;
    let answer = match passed {
        Ok(passed) => json_response(&Given { schema: SCHEMA, enough: passed == Passed::Enough }),
        Err(error) => ApiError::new(Code::Refused, error.to_string()).into_response(),
    };
    Ok(with_rest(answer, data))
}

/// An answer that ends when its caller has stopped sending. A connection that is closed before loses the answer.
fn with_rest(answer: Response, mut data: BodyDataStream) -> Response {
    let (parts, body) = answer.into_parts();
    let rest = stream::once(async move {
        let unread = async { while data.next().await.is_some_and(|piece| piece.is_ok()) {} };
        // A caller that goes on sending loses its connection.
        let _ = tokio::time::timeout(LAST_WORDS, unread).await;
        Ok(Bytes::new())
    });
    Response::from_parts(parts, Body::from_stream(body.into_data_stream().chain(rest)))
}

/// `POST /v1/offer/decline`: a request that the program does not serve.
pub(crate) async fn decline(State(node): State<NodeService>, pairs: QueryPairs) -> Result<(), ApiError> {
    let params = Params::new(&pairs, &["request", "reason"])?;
    let request: u64 = params.required("request")?;
    let sentence = read_reason(params.get("reason").unwrap_or_default())?;
    let waiting = node.registry.programs().take_waiting(request).ok_or_else(|| no_request(request))?;
    waiting.answer.send(Answer::Declined { sentence }).map_err(|_| no_request(request))
}

/// The words of a program on one line; `None` if there are none.
fn read_reason(text: &str) -> Result<Option<Sentence>, ApiError> {
    let lines = text.split(char::is_control).map(str::trim).filter(|line| !line.is_empty());
    let words = lines.collect::<Vec<_>>().join(" ");
    let too_long = || ApiError::new(Code::Usage, format!("a reason has at most {MAX_SENTENCE_BYTES} bytes"));
    if words.is_empty() { Ok(None) } else { words.parse().map(Some).map_err(|InvalidSentence| too_long()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reasons_are_put_on_one_line() {
        let read = |text: &str| read_reason(text).ok().flatten().map(|sentence| sentence.to_string());
        assert_eq!(read("no map of there").as_deref(), Some("no map of there"));
        assert_eq!(read("no map\r\n  of there\u{1b}[2J\n").as_deref(), Some("no map of there [2J"));
        assert!(["", " ", "\n\0"].into_iter().all(|text| matches!(read_reason(text), Ok(None))));
        assert!(read_reason(&"x".repeat(MAX_SENTENCE_BYTES)).is_ok());
        let ApiError(error) = read_reason(&"x".repeat(MAX_SENTENCE_BYTES + 1)).unwrap_err();
        assert_eq!((error.code, error.message.as_str()), (Code::Usage, "a reason has at most 200 bytes"));
    }
}
