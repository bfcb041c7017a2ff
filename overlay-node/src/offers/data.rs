//! The data of a program, read no faster than it is sent on.

use bytes::Bytes;
use futures_util::{Stream, StreamExt};
use roost_api::{Frame, Frames, OfferedRate};
use roost_services::{FeedItem, MAX_DATAGRAM_BYTES, SourceError};
use roost_wire::{FlowKind, Offer};
use tokio::sync::mpsc;
use tokio::time::Instant;

use super::max_bytes;

/// The part of a program's data that was taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Passed {
    All,
    /// The requester has enough, or has gone.
    Enough,
}

/// Reads a program's data until its end, or until nobody takes it. An error breaks the transfer off.
pub(super) async fn pass_on<E>(
    offer: &Offer,
    body: impl Stream<Item = Result<Bytes, E>> + Unpin,
    give: &mpsc::Sender<FeedItem>,
) -> Result<Passed, SourceError> {
    let passed = match offer.flow_kind() {
        FlowKind::Stream { bits_per_second, .. } => pass_stream(bits_per_second, body, give).await,
        FlowKind::Object { .. } => pass_object(max_bytes(offer), body, give).await,
    };
    let last = match &passed {
        Ok(Passed::Enough) => return passed,
        Ok(Passed::All) => FeedItem::End,
        Err(error) => FeedItem::Failed(error.clone()),
    };
    match (passed, give.send(last).await) {
        (Ok(_), Err(_)) => Ok(Passed::Enough),
        (passed, _) => passed,
    }
}

fn failed(reason: impl Into<String>) -> SourceError {
    SourceError::Program { reason: reason.into() }
}

async fn pass_object<E>(
    limit_bytes: usize,
    mut body: impl Stream<Item = Result<Bytes, E>> + Unpin,
    give: &mpsc::Sender<FeedItem>,
) -> Result<Passed, SourceError> {
    let mut left = limit_bytes;
    loop {
        let piece = tokio::select! {
            piece = body.next() => piece,
            () = give.closed() => return Ok(Passed::Enough),
        };
        let Some(piece) = piece else { return Ok(Passed::All) };
        let piece = piece.map_err(|_| failed("broke off"))?;
        left = left
            .checked_sub(piece.len())
            .ok_or_else(|| failed(format!("gave more than the {limit_bytes} bytes of its offer")))?;
        if give.send(FeedItem::Payload(piece)).await.is_err() {
            return Ok(Passed::Enough);
        }
    }
}

/// Datagrams, each a frame of kind 1, at the rate of the offer.
async fn pass_stream<E>(
    bits_per_second: u32,
    mut body: impl Stream<Item = Result<Bytes, E>> + Unpin,
    give: &mpsc::Sender<FeedItem>,
) -> Result<Passed, SourceError> {
    let (mut frames, mut rate, began) = (Frames::default(), OfferedRate::new(bits_per_second), Instant::now());
    let malformed = |why: String| failed(format!("gave no frames of datagrams: {why}"));
    loop {
        while let Some(frame) = frames.next_frame().map_err(|error| malformed(error.to_string()))? {
            let Frame::Data(payload) = frame else { continue };
            if payload.is_empty() {
                continue;
            }
            if payload.len() > MAX_DATAGRAM_BYTES {
                return Err(failed(format!("gave a datagram of more than {MAX_DATAGRAM_BYTES} bytes")));
            }
            let due = began + rate.count(began.elapsed(), payload.len());
            tokio::select! {
                () = tokio::time::sleep_until(due) => {}
                () = give.closed() => return Ok(Passed::Enough),
            }
            if give.send(FeedItem::Payload(payload)).await.is_err() {
                return Ok(Passed::Enough);
            }
        }
        let piece = tokio::select! {
            piece = body.next() => piece,
            () = give.closed() => return Ok(Passed::Enough),
        };
        match piece {
            Some(Ok(piece)) => frames.push(&piece),
            Some(Err(_)) => return Err(failed("broke off")),
            None => return frames.finish().map(|()| Passed::All).map_err(|error| malformed(error.to_string())),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use futures_util::stream;

    use super::*;

    fn offer(service: &str, kbps: Option<u32>, max_bytes: Option<u32>) -> Offer {
        Offer { kbps, max_bytes, ..Offer::new(service.parse().unwrap()) }
    }

    /// The outcome for the program, and the payloads with the last item.
    async fn pass(offer: &Offer, pieces: Vec<Result<Bytes, ()>>) -> (Result<Passed, SourceError>, Vec<FeedItem>) {
        let (give, mut items) = mpsc::channel(1000);
        let passed = pass_on(offer, stream::iter(pieces), &give).await;
        drop(give);
        let mut taken = Vec::new();
        while let Some(item) = items.recv().await {
            taken.push(item);
        }
        (passed, taken)
    }

    #[tokio::test(start_paused = true)]
    async fn stream_keeps_its_rate() {
        let datagram = Frame::Data(Bytes::from(vec![7; 1250])).encode();
        let began = Instant::now();
        let (passed, items) = pass(&offer("acme/lidar:stream", Some(100), None), vec![Ok(datagram); 50]).await;
        assert_eq!(passed, Ok(Passed::All));
        // 516 kbit with headers at 120 kbit/s, less what may come ahead.
        let took = began.elapsed();
        assert!(took > Duration::from_millis(4000) && took < Duration::from_millis(4300), "{took:?}");
        assert_eq!(items.len(), 51);
        assert!(matches!(items.last(), Some(FeedItem::End)));
    }

    #[tokio::test]
    async fn object_has_its_size() {
        let map = offer("acme/map:object", None, Some(10));
        let (passed, items) = pass(&map, vec![Ok(Bytes::from_static(b"0123456789"))]).await;
        assert!(passed.is_ok() && matches!(items[..], [FeedItem::Payload(_), FeedItem::End]));
        let (passed, items) =
            pass(&map, vec![Ok(Bytes::from_static(b"0123456789")), Ok(Bytes::from_static(b"a"))]).await;
        assert_eq!(
            passed.unwrap_err().to_string(),
            "the program that offers it gave more than the 10 bytes of its offer"
        );
        assert!(matches!(items.last(), Some(FeedItem::Failed(_))));
    }

    #[tokio::test]
    async fn requester_that_has_enough_is_no_fault() {
        let datagram = Frame::Data(Bytes::from_static(b"d")).encode();
        for (service, piece) in [("acme/lidar:stream", datagram), ("acme/map:object", Bytes::from_static(b"m"))] {
            let (give, items) = mpsc::channel(1);
            drop(items);
            let pieces = stream::iter([Ok::<_, ()>(piece)]);
            assert_eq!(pass_on(&offer(service, None, None), pieces, &give).await, Ok(Passed::Enough), "{service}");
        }
    }

    #[tokio::test]
    async fn malformed_data_breaks_off() {
        let lidar = offer("acme/lidar:stream", None, None);
        let long = Frame::Data(Bytes::from(vec![0; MAX_DATAGRAM_BYTES + 1])).encode();
        for pieces in [vec![Ok(long)], vec![Ok(Bytes::from_static(&[1, 0, 0]))], vec![Err(())]] {
            let (passed, items) = pass(&lidar, pieces).await;
            assert!(passed.is_err());
            assert!(matches!(items.last(), Some(FeedItem::Failed(_))));
        }
    }
}
