//! The data of a request, as it comes.

use std::path::{Path, PathBuf};

use bytes::{Bytes, BytesMut};
use futures_util::{Stream, stream};
use roost_api::{Accepted, Client, Code, Frame, Progress, RequestEvent, RequestStream, Trace, TransferSummary};
use sha2::{Digest, Sha256};
use tokio::io::AsyncWriteExt;

use crate::Error;

/// The data of a request that a provider has accepted. Dropping it cancels the request.
///
/// The daemon holds the provider back while nobody reads; a stream that is not read for 30 s ends.
#[derive(Debug)]
pub struct Transfer {
    client: Client,
    events: RequestStream,
    accepted: Accepted,
    progress: Progress,
    trace: Option<Trace>,
    summary: Option<TransferSummary>,
}

impl Transfer {
    pub(crate) async fn begin(client: Client, mut events: RequestStream) -> Result<Self, Error> {
        loop {
            match events.next().await? {
                Some(Frame::Event(RequestEvent::Accepted(accepted))) => {
                    let progress = Progress::default();
                    return Ok(Self { client, events, accepted, progress, trace: None, summary: None });
                }
                Some(Frame::Event(RequestEvent::Failed { error, summary })) => {
                    return Err(Error::Incomplete { error, summary: summary.map(Box::new) });
                }
                Some(_) => {}
                None => return Err(Error::broken_off()),
            }
        }
    }

    /// The acceptance: the provider, its cell, the transport and the format of the data.
    pub const fn accepted(&self) -> &Accepted {
        &self.accepted
    }

    /// The last report of progress; the daemon sends one a second.
    pub const fn progress(&self) -> Progress {
        self.progress
    }

    /// The way of a request that was to be traced, once all has been read.
    pub const fn trace(&self) -> Option<&Trace> {
        self.trace.as_ref()
    }

    /// The end of the transfer, once all has been read.
    pub const fn summary(&self) -> Option<&TransferSummary> {
        self.summary.as_ref()
    }

    /// Returns the next datagram of a stream or piece of an object; `None` after the last one.
    ///
    /// # Errors
    /// [`Error::Incomplete`] if the transfer ends early. Nothing more comes then.
    pub async fn next(&mut self) -> Result<Option<Bytes>, Error> {
        if self.summary.is_some() {
            return Ok(None);
        }
        loop {
            match self.events.next().await.map_err(|_| Error::broken_off())? {
                Some(Frame::Data(data)) => return Ok(Some(data)),
                Some(Frame::Event(event)) => {
                    self.apply(event)?;
                    if self.summary.is_some() {
                        return Ok(None);
                    }
                }
                None => return Err(Error::broken_off()),
            }
        }
    }

    fn apply(&mut self, event: RequestEvent) -> Result<(), Error> {
        match event {
            // Another provider has taken over before any data came.
            RequestEvent::Accepted(accepted) => self.accepted = accepted,
            RequestEvent::Progress(progress) => self.progress = progress,
            RequestEvent::Traced(trace) => self.trace = Some(trace),
            RequestEvent::Finished(summary) => self.summary = Some(summary),
            RequestEvent::Failed { error, summary } => {
                return Err(Error::Incomplete { error, summary: summary.map(Box::new) });
            }
            // A later daemon may tell more.
            _ => {}
        }
        Ok(())
    }

    /// The data as a stream, which ends after an error.
    pub fn into_stream(self) -> impl Stream<Item = Result<Bytes, Error>> {
        stream::unfold(Some(self), |transfer| async {
            let mut transfer = transfer?;
            match transfer.next().await {
                Ok(data) => data.map(|data| (Ok(data), Some(transfer))),
                Err(error) => Some((Err(error), None)),
            }
        })
    }

    /// Reads all that is left into memory, at most `limit` bytes.
    ///
    /// # Errors
    /// [`Error::TooLong`] beyond the limit, and the errors of [`Self::next`].
    pub async fn read_all(&mut self, limit: usize) -> Result<Bytes, Error> {
        let mut all = BytesMut::new();
        while let Some(data) = self.next().await? {
            if all.len() + data.len() > limit {
                return Err(Error::TooLong(limit));
            }
            all.extend_from_slice(&data);
        }
        Ok(all.freeze())
    }

    /// Writes all data to a file. The file gets its name when it is complete and its digest is right; until then, and
    /// never after an error, it is `NAME.part`.
    ///
    /// # Errors
    /// [`Error::File`] if it cannot be written, and the errors of [`Self::next`].
    pub async fn save(mut self, path: impl AsRef<Path>) -> Result<TransferSummary, Error> {
        let path = path.as_ref();
        let mut name = path.as_os_str().to_owned();
        name.push(".part");
        let part = PathBuf::from(name);
        let saved = match self.write_to(&part).await {
            Ok(()) => tokio::fs::rename(&part, path).await.map_err(|source| unwritten(path, source)),
            failed => failed,
        };
        if saved.is_err() {
            // The file may never have been made.
            let _ = tokio::fs::remove_file(&part).await;
        }
        saved?;
        self.summary.ok_or_else(Error::broken_off)
    }

    async fn write_to(&mut self, part: &Path) -> Result<(), Error> {
        let mut file = tokio::fs::File::create(part).await.map_err(|source| unwritten(part, source))?;
        let mut digest = Sha256::new();
        while let Some(data) = self.next().await? {
            digest.update(&data);
            file.write_all(&data).await.map_err(|source| unwritten(part, source))?;
        }
        file.sync_all().await.map_err(|source| unwritten(part, source))?;
        let digest = roost_wire::object::digest_text(&digest.finalize().into());
        match &self.accepted.sha256 {
            Some(told) if *told != digest => {
                let message = "the data does not have the provider's digest; ask again";
                Err(Error::Incomplete { error: roost_api::Error::new(Code::Incomplete, message), summary: None })
            }
            _ => Ok(()),
        }
    }

    /// Ends a reflected stream early, in order: the rest of its data and its summary follow.
    ///
    /// # Errors
    /// The daemon's refusal of a stream that is not reflected.
    pub async fn end(&self) -> Result<(), Error> {
        let number = self.accepted.request.ok_or_else(|| {
            let message = "the daemon is too old to end a stream: drop the transfer instead";
            Error::Incomplete { error: roost_api::Error::new(Code::Usage, message), summary: None }
        })?;
        Ok(self.client.end_request(number).await?)
    }
}

fn unwritten(path: &Path, source: std::io::Error) -> Error {
    Error::File { path: path.display().to_string(), source }
}
