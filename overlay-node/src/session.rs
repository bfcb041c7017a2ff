//! Sessions that the node provides: one task per session feeds the machine from the service's source.

use std::collections::HashMap;
use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard};
use std::time::{SystemTime, UNIX_EPOCH};

use roost_core::flow::MAX_STREAM_DURATION;
use roost_core::node::{Node, NodeCommand, SessionId, SourceOutput};
use roost_reflection::NodeInput;
use roost_reflection::keys::{AnnouncedKey, draw_stream};
use roost_reflection::publication::NewPublication;
use roost_runtime::driver::{DriverStopped, Mailbox};
use roost_runtime::media::{RelayMailbox, RelayStopped};
use roost_runtime::{DaemonContext, LogLimiter};
use roost_services::{Feed, OpenedSource, SourceError, Sources, StoredFile};
use roost_wire::{self as wire, Service, StreamId};
use tokio::sync::{mpsc, oneshot};
use tokio::task::AbortHandle;

use crate::config::Offer;
use crate::media::{NodeRelayHandler, RelayCommand, marker_of};
use crate::offers::{OfferError, ProgramOffer, ProgramOffers, RequestGuard, Wanted};

/// The offers of the node: those of its settings, which a reload replaces, and those of programs.
#[derive(Clone, Debug)]
pub(crate) struct SourceRegistry {
    configured: Arc<RwLock<Offer>>,
    programs: ProgramOffers,
}

impl SourceRegistry {
    pub(crate) fn new(offer: Offer) -> Self {
        Self { configured: Arc::new(RwLock::new(offer)), programs: ProgramOffers::default() }
    }

    /// Replaces the offers of the settings; sessions under way keep their sources.
    pub(crate) fn replace(&self, offer: Offer) {
        let mut configured = self.configured.write().unwrap_or_else(PoisonError::into_inner);
        let Offer { sources, max_streams, uplink_kbps } = offer;
        configured.sources.replace(sources);
        (configured.max_streams, configured.uplink_kbps) = (max_streams, uplink_kbps);
    }

    pub(crate) fn sources(&self) -> Sources {
        self.read().sources.clone()
    }

    pub(crate) fn programs(&self) -> &ProgramOffers {
        &self.programs
    }

    /// Takes the offer of a program; see [`ProgramOffers::insert`].
    pub(crate) fn insert_program(&self, offer: wire::Offer) -> Result<ProgramOffer, OfferError> {
        self.programs.insert(offer, self.sources().services())
    }

    pub(crate) fn publish(&self, mailbox: &Mailbox<Node>) {
        self.programs.publish(self.sources().services(), |services| {
            let Offer { max_streams, uplink_kbps, .. } = *self.read();
            mailbox.post(NodeCommand::Reconfigure { services, max_streams, uplink_kbps });
        });
    }

    /// Prepares the sources, so that the first requesters do not wait.
    pub(crate) fn prepare(&self) {
        let sources = self.sources();
        tokio::spawn(async move {
            for source in sources.iter() {
                source.prepare().await;
            }
        });
    }

    fn read(&self) -> RwLockReadGuard<'_, Offer> {
        self.configured.read().unwrap_or_else(PoisonError::into_inner)
    }

    /// Opens the source of a service, or asks the program that offers it. The program's request ends with the guard.
    async fn open(&self, wanted: &Wanted) -> Result<(OpenedSource, Option<RequestGuard>), SourceError> {
        let source = self.read().sources.get(wanted.request.service).cloned();
        match source {
            Some(source) => Ok((source.open(&wanted.request).await?, None)),
            None => self.programs.open(wanted).await.map(|(opened, guard)| (opened, Some(guard))),
        }
    }
}

/// The sessions under way. There are as many as the machine admits.
pub(crate) struct Sessions {
    registry: SourceRegistry,
    mailbox: Mailbox<Node>,
    shared: Arc<DaemonContext>,
    media: Option<RelayMailbox<NodeRelayHandler>>,
    failures: Arc<LogLimiter>,
    tasks: HashMap<SessionId, Task>,
}

/// The task that feeds a session.
struct Task {
    service: Service,
    handle: AbortHandle,
    /// Offset and length of the next chunk to read, one at a time.
    reads: mpsc::Sender<(u64, u64)>,
}

impl Sessions {
    pub(crate) fn new(
        registry: SourceRegistry,
        mailbox: Mailbox<Node>,
        shared: Arc<DaemonContext>,
        media: Option<RelayMailbox<NodeRelayHandler>>,
    ) -> Self {
        Self { registry, mailbox, shared, media, failures: Arc::default(), tasks: HashMap::new() }
    }

    /// Starts a session's source; a `reflected` one feeds the relay.
    pub(crate) fn open(&mut self, session: SessionId, wanted: Wanted, reflected: bool) {
        let service = wanted.request.service;
        let (shared, failures) = (Arc::clone(&self.shared), Arc::clone(&self.failures));
        let (reads, asked) = mpsc::channel(1);
        let (registry, mailbox) = (self.registry.clone(), self.mailbox.clone());
        let feeder = Feeder { session, registry, mailbox, shared, failures, reads: asked };
        let media = self.media.clone().filter(|_| reflected);
        let task = tokio::spawn(async move {
            // The machine is gone when the daemon ends; then so is the session.
            let _ = match media {
                Some(media) => feeder.publish(wanted, &media).await,
                None => feeder.run(wanted).await,
            };
        });
        self.tasks.insert(session, Task { service, handle: task.abort_handle(), reads });
    }

    /// Asks a session's task for a chunk of its object.
    pub(crate) fn read(&self, session: SessionId, offset: u64, length: u64) {
        if let Some(task) = self.tasks.get(&session) {
            // There is room: the machine asks for one chunk at a time.
            let _ = task.reads.try_send((offset, length));
        }
    }

    /// Stops a session's source. Returns the session's service, if there was a session.
    pub(crate) fn close(&mut self, session: SessionId) -> Option<Service> {
        let task = self.tasks.remove(&session)?;
        task.handle.abort();
        Some(task.service)
    }
}

/// Ends a stream at the relay when its task ends. The task itself posts both commands, so that the end is never ahead
/// of the beginning.
struct UnpublishGuard<'a> {
    session: SessionId,
    media: &'a RelayMailbox<NodeRelayHandler>,
}

impl Drop for UnpublishGuard<'_> {
    fn drop(&mut self) {
        self.media.post(RelayCommand::Input(NodeInput::Unpublish { session: self.session }));
    }
}

struct Feeder {
    session: SessionId,
    registry: SourceRegistry,
    mailbox: Mailbox<Node>,
    shared: Arc<DaemonContext>,
    failures: Arc<LogLimiter>,
    reads: mpsc::Receiver<(u64, u64)>,
}

impl Feeder {
    async fn run(self, wanted: Wanted) -> Result<(), DriverStopped> {
        let (session, service) = (self.session, wanted.request.service);
        let (opened, _guard) = match self.registry.open(&wanted).await {
            Ok(opened) => opened,
            Err(error) => return self.break_off(service, &error).await,
        };
        match opened {
            OpenedSource::Object { bytes, format } => {
                let whole = bytes.clone();
                let digest = tokio::task::spawn_blocking(move || roost_wire::object::digest(&whole)).await;
                let Ok(digest) = digest else { return Err(DriverStopped) };
                let opened = SourceOutput::Object { bytes, digest, format };
                self.mailbox.command(NodeCommand::SourceOpened { session, opened }).await
            }
            OpenedSource::Stored { file, format } => {
                let opened = SourceOutput::Stored { length: file.length(), digest: file.digest(), format };
                self.mailbox.command(NodeCommand::SourceOpened { session, opened }).await?;
                self.read(service, &file).await
            }
            OpenedSource::Stream { bits_per_second, format, feed } => {
                let opened = SourceOutput::Stream { bits_per_second, format };
                self.mailbox.command(NodeCommand::SourceOpened { session, opened }).await?;
                self.feed(service, feed).await
            }
        }
    }

    /// Feeds a stream that is sealed once and reflected, until the session is closed.
    async fn publish(self, mut wanted: Wanted, media: &RelayMailbox<NodeRelayHandler>) -> Result<(), DriverStopped> {
        let (session, service) = (self.session, wanted.request.service);
        wanted.request.duration = Some(MAX_STREAM_DURATION);
        let (bits_per_second, format, feed, _guard) = match self.registry.open(&wanted).await {
            Ok((OpenedSource::Stream { bits_per_second, format, feed }, guard)) => {
                (bits_per_second, format, feed, guard)
            }
            Ok(_) => return self.fail(service, "it is no stream".to_owned()).await,
            Err(error) => return self.break_off(service, &error).await,
        };
        let mut secrets = |bytes: &mut [u8]| roost_runtime::random_bytes(bytes).is_ok();
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let Some((stream, key)) = draw_stream(&mut secrets, self.shared.node(), since.as_secs()) else {
            return self.fail(service, "the system gives no randomness for a key".to_owned()).await;
        };
        let _published = UnpublishGuard { session, media };
        let (begun, begins) = oneshot::channel();
        let publication = NewPublication { session, stream, key: key.clone(), marker: marker_of(&format) };
        let publish = RelayCommand::Publish { publication, key_frames: feed.key_frames(), begun };
        let begins = match media.command(publish).await {
            Ok(()) => match begins.await {
                Ok(begun) => begun.map_err(|error| error.to_string()),
                Err(_) => Err(RelayStopped.to_string()),
            },
            Err(stopped) => Err(stopped.to_string()),
        };
        if let Err(reason) = begins {
            return self.fail(service, reason).await;
        }
        let AnnouncedKey { epoch, secret } = key;
        let opened = SourceOutput::Reflected { bits_per_second, format, stream, epoch, secret };
        self.mailbox.command(NodeCommand::SourceOpened { session, opened }).await?;
        self.feed_relay(service, feed, stream, media).await?;
        // The relay may have something left to send; the machine closes the session.
        std::future::pending().await
    }

    async fn feed_relay(
        self,
        service: Service,
        mut feed: Feed,
        stream: StreamId,
        media: &RelayMailbox<NodeRelayHandler>,
    ) -> Result<(), DriverStopped> {
        while let Some(item) = feed.next().await {
            match item {
                // An empty payload is a sign of life, which the relay gives by itself.
                Ok(payload) if payload.is_empty() => {}
                Ok(payload) => {
                    if let Err(stopped) =
                        media.command(RelayCommand::Input(NodeInput::Payload { stream, payload })).await
                    {
                        return self.fail(service, stopped.to_string()).await;
                    }
                }
                Err(error) => return self.break_off(service, &error).await,
            }
        }
        self.mailbox.command(NodeCommand::SourceEnded { session: self.session }).await
    }

    /// Reads the chunks that the machine asks for, until the session is closed.
    async fn read(mut self, service: Service, file: &StoredFile) -> Result<(), DriverStopped> {
        let session = self.session;
        while let Some((offset, length)) = self.reads.recv().await {
            match file.read(offset, length).await {
                Ok(bytes) => self.mailbox.command(NodeCommand::ObjectRead { session, offset, bytes }).await?,
                Err(error) => return self.break_off(service, &error).await,
            }
        }
        Ok(())
    }

    /// Hands datagrams on as they come due. A full mailbox holds the source back.
    async fn feed(self, service: Service, mut feed: Feed) -> Result<(), DriverStopped> {
        let session = self.session;
        while let Some(item) = feed.next().await {
            match item {
                Ok(payload) => self.mailbox.command(NodeCommand::Data { session, payload }).await?,
                Err(error) => return self.break_off(service, &error).await,
            }
        }
        self.mailbox.command(NodeCommand::SourceEnded { session }).await
    }

    /// Ends a session whose source gives nothing, or nothing more.
    async fn break_off(self, service: Service, error: &SourceError) -> Result<(), DriverStopped> {
        let session = self.session;
        match error {
            SourceError::Declined { sentence: Some(sentence) } => {
                let sentence = sentence.clone();
                self.note_failure(service, &error.to_string());
                self.mailbox.command(NodeCommand::SourceDeclined { session, sentence }).await
            }
            _ => self.fail(service, error.to_string()).await,
        }
    }

    async fn fail(self, service: Service, reason: String) -> Result<(), DriverStopped> {
        self.note_failure(service, &reason);
        self.mailbox.command(NodeCommand::SourceFailed { session: self.session, reason }).await
    }

    fn note_failure(&self, service: Service, reason: &str) {
        if let Some(suppressed) = self.failures.admit() {
            tracing::warn!(%service, reason, suppressed, "the source gives nothing");
        }
        self.shared.set_last_error(format!("the {service} source gives nothing: {reason}"));
    }
}
