//! The service: accepts connections and serves each for a limited time.

use std::fs::File;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use roost_audit::{AuditEvent, AuditKind, AuditRecorder, Limits};
use roost_identity::group::{Group, GroupError};
use roost_identity::tls::{ConfigError, authority_server};
use tokio::net::{TcpListener, TcpStream};
use tokio::time::{sleep, timeout};
use tokio_rustls::TlsAcceptor;
use tracing::{debug, warn};

use crate::connections::Connections;
use crate::desk::Desk;
use crate::jobs::Jobs;
use crate::routes::Caller;

/// Most connections at once. A member that waits for documents has one.
const MAX_CONNECTIONS: usize = 1024;

const HANDSHAKE: Duration = Duration::from_secs(10);

/// Longest time between two requests of a connection, and for the head of one.
const HEAD: Duration = Duration::from_secs(20);

/// Longest life of a connection, which a slow reader or writer cannot prolong: a head, a body, a minute's wait and half
/// a minute for the answer.
const LIFE: Duration = Duration::from_secs(120);

/// The longest wait for the disk at the end.
const LAST_RECORDS: Duration = Duration::from_secs(1);

/// The pause after the system could not accept a connection.
const ACCEPT_PAUSE: Duration = Duration::from_millis(200);

#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ServerError {
    #[error("cannot listen on {address}: {source}")]
    Bind { address: SocketAddr, source: io::Error },
    #[error("cannot keep audit records in {}: {source}", path.display())]
    Audit { path: PathBuf, source: io::Error },
    #[error(transparent)]
    Group(#[from] GroupError),
    #[error(transparent)]
    Tls(#[from] ConfigError),
}

pub struct Server {
    listener: TcpListener,
    acceptor: TlsAcceptor,
    desk: Arc<Desk>,
    jobs: Jobs,
    audit: AuditRecorder,
    clock: fn() -> SystemTime,
    /// Two authorities would each give a ticket, and count guesses, that the other does not know.
    _claim: File,
}

impl Server {
    /// Listens on `address` for the group whose key is open.
    ///
    /// # Errors
    /// The address is taken, or the group's folder cannot be used.
    pub async fn bind(address: SocketAddr, group: Group) -> Result<Self, ServerError> {
        Self::bind_with_clock(address, group, SystemTime::now).await
    }

    /// Like [`Self::bind`], with another clock, for tests.
    ///
    /// # Errors
    /// As for [`Self::bind`].
    pub async fn bind_with_clock(
        address: SocketAddr,
        group: Group,
        clock: fn() -> SystemTime,
    ) -> Result<Self, ServerError> {
        let claim = group.claim_service()?;
        let policy = group.policy()?;
        let path = group.audit_path();
        let group = Arc::new(group);
        let audit = AuditRecorder::start(&path, Limits::default());
        let audit = audit.map_err(|source| ServerError::Audit { path, source })?;
        let acceptor = TlsAcceptor::from(authority_server(&group, &policy, clock)?);
        let listener = TcpListener::bind(address).await.map_err(|source| ServerError::Bind { address, source })?;
        audit.record(AuditEvent::new(AuditKind::Started).with("listen", address.to_string()));
        let desk = Arc::new(Desk::new(group, policy, audit.clone()));
        Ok(Self { listener, acceptor, desk, jobs: Jobs::new(), audit, clock, _claim: claim })
    }

    /// The address that it listens on, with the port that the system chose.
    ///
    /// # Errors
    /// The system does not tell it.
    pub fn address(&self) -> io::Result<SocketAddr> {
        self.listener.local_addr()
    }

    /// Serves until `stop` is done. Connections then end at once: their callers ask again.
    pub async fn serve(self, stop: impl Future<Output = ()>) {
        let mut connections = Connections::new(MAX_CONNECTIONS);
        tokio::pin!(stop);
        loop {
            let accepted = tokio::select! {
                accepted = self.listener.accept() => accepted,
                () = connections.reap() => continue,
                () = stop.as_mut() => break,
            };
            match accepted {
                Ok((stream, from)) => connections.add(from.ip(), self.serve_connection(stream, from.ip())),
                Err(error) => {
                    warn!(%error, "cannot accept a connection");
                    sleep(ACCEPT_PAUSE).await;
                }
            }
        }
        self.audit.record(AuditEvent::new(AuditKind::Stopped));
        self.audit.finish(LAST_RECORDS);
    }

    fn serve_connection(&self, stream: TcpStream, from: IpAddr) -> impl Future<Output = ()> + Send + 'static {
        let (acceptor, desk, jobs, clock) =
            (self.acceptor.clone(), Arc::clone(&self.desk), self.jobs.clone(), self.clock);
        async move {
            let list = Arc::clone(&desk);
            // A list that was signed meanwhile counts in this handshake.
            let reloaded = jobs.run(move || list.reload_documents()).await;
            let stream = match timeout(HANDSHAKE, acceptor.accept(stream)).await {
                Ok(Ok(stream)) if reloaded.is_some() => stream,
                Ok(Err(error)) => return debug!(%from, %error, "a handshake failed"),
                _ => return debug!(%from, "a handshake took too long"),
            };
            let shown = stream.get_ref().1.peer_certificates().and_then(<[_]>::first);
            let caller = Caller { desk, jobs, clock, from, member: shown.map(|leaf| Arc::from(leaf.as_ref())) };
            let service = TowerToHyperService::new(caller.routes());
            let mut http = http1::Builder::new();
            http.timer(TokioTimer::new()).header_read_timeout(HEAD);
            let served = timeout(LIFE, http.serve_connection(TokioIo::new(stream), service)).await;
            if let Ok(Err(error)) = served {
                debug!(%from, %error, "a connection broke");
            }
        }
    }
}
