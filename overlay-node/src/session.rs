//! Sessions that the node provides: one task per session feeds the machine
//! from the service's source.

use std::collections::HashMap;
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

use roost_daemon::driver::{Gone, Mailbox};
use roost_daemon::{Pace, Shared};
use roost_proto::Service;
use roost_proto::peer::{Command, Opened, Peer, SessionId};
use roost_services::{SourceError, SourceSpec, Sources};
use tokio::task::AbortHandle;

/// The sources as they are now: a reload replaces them.
#[derive(Clone, Debug)]
pub(crate) struct Shelf(Arc<RwLock<Sources>>);

impl Shelf {
    pub(crate) fn new(sources: Sources) -> Self {
        Self(Arc::new(RwLock::new(sources)))
    }

    /// Replaces the sources; sessions under way keep theirs.
    pub(crate) fn replace(&self, sources: Sources) {
        self.0.write().unwrap_or_else(PoisonError::into_inner).replace(sources);
    }

    /// The sources.
    pub(crate) fn sources(&self) -> Sources {
        self.0.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn get(&self, service: Service) -> Option<SourceSpec> {
        self.0.read().unwrap_or_else(PoisonError::into_inner).get(service).cloned()
    }
}

/// The sessions under way. There are as many as the machine admits.
pub(crate) struct Sessions {
    shelf: Shelf,
    mailbox: Mailbox<Peer>,
    shared: Arc<Shared>,
    failures: Arc<Pace>,
    tasks: HashMap<SessionId, (Service, AbortHandle)>,
}

impl Sessions {
    pub(crate) fn new(shelf: Shelf, mailbox: Mailbox<Peer>, shared: Arc<Shared>) -> Self {
        Self { shelf, mailbox, shared, failures: Arc::default(), tasks: HashMap::new() }
    }

    /// Starts a session's source.
    pub(crate) fn open(&mut self, session: SessionId, service: Service, duration: Option<Duration>) {
        let (shared, failures) = (Arc::clone(&self.shared), Arc::clone(&self.failures));
        let feeder = Feeder { session, mailbox: self.mailbox.clone(), shared, failures };
        let spec = self.shelf.get(service);
        let task = tokio::spawn(async move {
            // The machine is gone when the daemon ends; then so is the session.
            let _ = feeder.run(service, spec, duration).await;
        });
        self.tasks.insert(session, (service, task.abort_handle()));
    }

    /// Stops a session's source; the session's service, if it was there.
    pub(crate) fn close(&mut self, session: SessionId) -> Option<Service> {
        let (service, task) = self.tasks.remove(&session)?;
        task.abort();
        Some(service)
    }
}

/// Feeds one session.
struct Feeder {
    session: SessionId,
    mailbox: Mailbox<Peer>,
    shared: Arc<Shared>,
    failures: Arc<Pace>,
}

impl Feeder {
    async fn run(self, service: Service, spec: Option<SourceSpec>, duration: Option<Duration>) -> Result<(), Gone> {
        let session = self.session;
        let Some(spec) = spec else {
            return self.fail(service, "the service is no longer offered".to_owned()).await;
        };
        match spec.open(duration).await {
            Ok(roost_services::Opened::Object { bytes, format }) => {
                let opened = Opened::Object { bytes, format };
                self.mailbox.command(Command::Opened { session, opened }).await
            }
            Ok(roost_services::Opened::Stream { bits_per_second, format, feed }) => {
                let opened = Opened::Stream { bits_per_second, format };
                self.mailbox.command(Command::Opened { session, opened }).await?;
                self.feed(service, feed).await
            }
            Err(error) => self.fail(service, error.to_string()).await,
        }
    }

    /// Hands datagrams on as they come due. A full mailbox holds the source back.
    async fn feed(self, service: Service, mut feed: roost_services::Feed) -> Result<(), Gone> {
        let session = self.session;
        while let Some(item) = feed.next().await {
            match item {
                Ok(payload) => self.mailbox.command(Command::Data { session, payload }).await?,
                Err(error) => return self.break_off(service, &error).await,
            }
        }
        self.mailbox.command(Command::Ended { session }).await
    }

    /// A source that fails in the middle: the stream does not end well.
    async fn break_off(self, service: Service, error: &SourceError) -> Result<(), Gone> {
        self.fail(service, error.to_string()).await
    }

    async fn fail(self, service: Service, reason: String) -> Result<(), Gone> {
        if let Some(suppressed) = self.failures.admit() {
            tracing::warn!(%service, reason, suppressed, "the source gives nothing");
        }
        self.shared.note_error(format!("the {service} source gives nothing: {reason}"));
        self.mailbox.command(Command::OpenFailed { session: self.session, reason }).await
    }
}
