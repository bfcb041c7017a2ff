//! Services that a program offers, and the requests for them.

use std::collections::BTreeMap;

use bytes::Bytes;
use roost_api::{Client, ClientError, Frame, Given, OfferData, OfferEvent, OfferRequest, OfferStream};
use tokio::sync::{mpsc, watch};
use tokio::task::{AbortHandle, JoinHandle};

use crate::Error;

/// Requests that wait until the program takes them. The daemon holds back none: it declines them after 10 s.
const BACKLOG: usize = 64;

/// Parts of the data that wait for the daemon.
const PARTS: usize = 8;

/// A service that this program offers. Dropping it withdraws the offer.
#[derive(Debug)]
pub struct Offering {
    incoming: mpsc::Receiver<Result<IncomingRequest, ClientError>>,
    reader: AbortHandle,
}

/// A request for the offer. Dropping it without an answer declines it.
#[derive(Debug)]
pub struct IncomingRequest {
    request: OfferRequest,
    client: Client,
    gone: watch::Receiver<bool>,
    is_answered: bool,
}

/// The data of an answer, on its way to the requester. Dropping it before [`Self::finish`] breaks the data off, so that
/// the requester's transfer fails.
#[derive(Debug)]
pub struct Answer {
    data: Option<mpsc::Sender<OfferData>>,
    given: JoinHandle<Result<Given, ClientError>>,
    framing: Framing,
}

#[derive(Clone, Copy, Debug)]
enum Framing {
    Datagrams,
    Bytes,
}

impl Offering {
    pub(crate) async fn begin(client: Client, mut events: OfferStream) -> Result<Self, Error> {
        // A refusal is an error of the call, not of the first request.
        events.next().await?;
        let (give, incoming) = mpsc::channel(BACKLOG);
        let reader = tokio::spawn(async move {
            let mut waiting = BTreeMap::new();
            loop {
                match events.next().await {
                    Ok(Some(OfferEvent::Request(request))) => {
                        let (tell, gone) = watch::channel(false);
                        waiting.insert(request.request, tell);
                        let incoming = IncomingRequest { request, client: client.clone(), gone, is_answered: false };
                        // Without a place for it the request is dropped, and so declined.
                        if let Err(mpsc::error::TrySendError::Closed(_)) = give.try_send(Ok(incoming)) {
                            return;
                        }
                    }
                    Ok(Some(OfferEvent::Gone { request })) => {
                        if let Some(tell) = waiting.remove(&request) {
                            // The program may have dropped the request.
                            let _ = tell.send(true);
                        }
                    }
                    Ok(Some(_)) => {}
                    Ok(None) => return,
                    Err(error) => return drop(give.send(Err(error)).await),
                }
            }
        });
        Ok(Self { incoming, reader: reader.abort_handle() })
    }

    /// Waits for the next request; `None` when the daemon has ended the offer.
    ///
    /// # Errors
    /// The daemon's reason for the end of the offer.
    pub async fn next(&mut self) -> Result<Option<IncomingRequest>, Error> {
        Ok(self.incoming.recv().await.transpose()?)
    }
}

impl Drop for Offering {
    fn drop(&mut self) {
        self.reader.abort();
    }
}

impl IncomingRequest {
    /// The requester, the metadata it asks for and the length of the stream.
    pub const fn request(&self) -> &OfferRequest {
        &self.request
    }

    /// Waits until the request needs no more data.
    pub async fn gone(&self) {
        let mut gone = self.gone.clone();
        // An offer that has ended serves nobody either.
        let _ = gone.wait_for(|gone| *gone).await;
    }

    /// Reads the body of a call.
    ///
    /// # Errors
    /// Fails if the request is no call, or its requester has gone.
    pub async fn body(&self) -> Result<Bytes, Error> {
        Ok(self.client.offer_body(self.request.request).await?)
    }

    /// Answers with datagrams, at most 8192 bytes each. `format` is their media type.
    pub fn stream(&mut self, format: &str) -> Answer {
        self.give(format, Framing::Datagrams)
    }

    /// Answers with an object, in parts. `format` is its media type.
    pub fn object(&mut self, format: &str) -> Answer {
        self.give(format, Framing::Bytes)
    }

    /// Answers with an object that is in memory. Returns false if the requester has gone or needs no more.
    ///
    /// # Errors
    /// Fails if the object is longer than its offer says.
    pub async fn answer(mut self, format: &str, object: impl Into<Bytes>) -> Result<bool, Error> {
        let mut answer = self.object(format);
        Ok(answer.send(object).await? && answer.finish().await?)
    }

    /// Declines the request with a reason of at most 200 bytes, which the requester gets to read.
    ///
    /// # Errors
    /// Fails if the requester has gone.
    pub async fn decline(mut self, reason: &str) -> Result<(), Error> {
        self.is_answered = true;
        Ok(self.client.decline(self.request.request, reason).await?)
    }

    fn give(&mut self, format: &str, framing: Framing) -> Answer {
        self.is_answered = true;
        let (data, parts) = mpsc::channel(PARTS);
        let (client, number, format) = (self.client.clone(), self.request.request, format.to_owned());
        let given = tokio::spawn(async move { client.give(number, &format, parts).await });
        Answer { data: Some(data), given, framing }
    }
}

impl Drop for IncomingRequest {
    fn drop(&mut self) {
        if self.is_answered {
            return;
        }
        let (client, number) = (self.client.clone(), self.request.request);
        // Outside a runtime the daemon declines after 10 s by itself.
        if let Ok(runtime) = tokio::runtime::Handle::try_current() {
            runtime.spawn(async move { client.decline(number, "its program does not answer").await });
        }
    }
}

impl Answer {
    /// Sends a datagram, or the next part of an object. It waits while the requester takes no more. Returns false once
    /// the requester has gone or has enough.
    ///
    /// # Errors
    /// Fails with the daemon's reason if the offer allows no more.
    pub async fn send(&mut self, data: impl Into<Bytes>) -> Result<bool, Error> {
        let data = match self.framing {
            Framing::Datagrams => Frame::Data(data.into()).encode(),
            Framing::Bytes => data.into(),
        };
        let Some(sender) = &self.data else { return Ok(false) };
        if sender.send(OfferData::Part(data)).await.is_err() {
            self.ended().await?;
            return Ok(false);
        }
        Ok(true)
    }

    /// Ends the data in order, and waits until the daemon has taken all of it. Returns false if the requester has gone or
    /// needs no more.
    ///
    /// # Errors
    /// As [`Self::send`].
    pub async fn finish(mut self) -> Result<bool, Error> {
        let Some(data) = &self.data else { return Ok(false) };
        // A daemon that takes no more says why below.
        let _ = data.send(OfferData::End).await;
        self.ended().await
    }

    /// False if the daemon had enough before the end.
    async fn ended(&mut self) -> Result<bool, Error> {
        self.data = None;
        let given = (&mut self.given).await.map_err(|_| Error::broken_off())?;
        Ok(!given.map_err(Error::from)?.enough)
    }
}
