//! The side of a device that joins, and of a member that renews its certificate.

use std::error::Error;
use std::io;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use bytes::Bytes;
use data_encoding::BASE64;
use http_body_util::{BodyExt, Full, Limited};
use hyper::client::conn::http1;
use hyper::{Method, Request, StatusCode, header};
use hyper_util::rt::TokioIo;
use roost_identity::group::Joined;
use roost_identity::tls::{AuthorityFault, ConfigError, SERVICE_NAME, authority_client, authority_fault, service_name};
use roost_identity::{Answer, Document, Enrolment, EnrolmentError, Fingerprint, Identity, RenewalKey, Token};
use serde::Serialize;
use serde::de::DeserializeOwned;
use tokio::net::TcpStream;
use tokio::time::timeout;
use tokio_rustls::TlsConnector;
use tokio_rustls::rustls::pki_types::ServerName;

use crate::messages::{DocumentsBody, ErrorBody, Holdings, JoinBody, MAX_ANSWER, RenewBody, WaitingBody};

const CONNECT: Duration = Duration::from_secs(15);

/// Longest time for an answer that the authority gives at once.
const ANSWER: Duration = Duration::from_secs(30);

/// Longest time for an answer for which the authority may wait a minute.
const LONG_ANSWER: Duration = Duration::from_secs(90);

/// The authority was not reached, or it refused. Nothing has changed on this side.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ClientError {
    #[error("the authority at {authority} cannot be reached: {source}")]
    Unreachable { authority: String, source: io::Error },
    #[error("the authority at {0} did not answer in time")]
    TimedOut(String),
    #[error("the server at {0} is not this group's authority: check the address, or ask for a new invitation")]
    OtherAuthority(String),
    #[error(
        "the certificate of the authority at {0} has ended by this host's clock: set the clock of this host or of the authority"
    )]
    Ended(String),
    #[error(
        "the certificate of the authority at {0} is not valid yet by this host's clock: set the clock of this host or of the authority"
    )]
    NotBegun(String),
    #[error("the authority at {authority} refused our certificate because {refusal}")]
    Certificate { authority: String, refusal: roost_identity::Refusal },
    #[error("{error}")]
    Refused { code: String, error: String },
    #[error("the authority at {0} gave an answer that cannot be read: it may be of another version")]
    Garbled(String),
    #[error(transparent)]
    Tls(#[from] ConfigError),
}

impl ClientError {
    /// True if the same request may succeed a little later.
    pub fn is_temporary(&self) -> bool {
        match self {
            Self::Unreachable { .. } | Self::TimedOut(_) => true,
            Self::Refused { code, .. } => ["busy", "internal", "timed-out"].contains(&code.as_str()),
            _ => false,
        }
    }
}

/// A renewal failed. The identity is as it was.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RenewError {
    #[error(transparent)]
    Client(#[from] ClientError),
    #[error(transparent)]
    Enrolment(#[from] EnrolmentError),
}

/// An authority to ask. Each request has a connection of its own.
pub struct Client {
    authority: String,
    /// The name of the service of the authority that is expected there.
    name: ServerName<'static>,
    connector: TlsConnector,
}

impl Client {
    /// For a device that has an invitation to the group whose authority's certificate has this fingerprint.
    ///
    /// # Errors
    /// TLS accepts no configuration.
    pub fn for_device(authority: &str, fingerprint: Fingerprint) -> Result<Self, ClientError> {
        Self::new(authority, fingerprint, None)
    }

    /// For a member, which shows its certificate.
    ///
    /// # Errors
    /// TLS does not accept the identity.
    pub fn for_member(authority: &str, identity: &Arc<Identity>) -> Result<Self, ClientError> {
        Self::new(authority, identity.authority_fingerprint(), Some(identity))
    }

    fn new(authority: &str, fingerprint: Fingerprint, member: Option<&Arc<Identity>>) -> Result<Self, ClientError> {
        let (name, connector) = (service_name(fingerprint)?, authority_client(fingerprint, member)?.into());
        Ok(Self { authority: authority.to_owned(), name, connector })
    }

    /// Asks to join with a signing request, DER.
    ///
    /// # Errors
    /// The authority was not reached, or refuses. The same request may be sent again.
    pub async fn join(&self, token: &Token, request: &[u8], host: &str) -> Result<Joined, ClientError> {
        let body = JoinBody { token: token.to_string(), request: BASE64.encode(request), host: host.to_owned() };
        match self.post("/v1/join", &body).await? {
            (StatusCode::ACCEPTED, body) => Ok(Joined::Waiting { ticket: self.parse::<WaitingBody>(&body)?.ticket }),
            (_, body) => Ok(Joined::Issued(Box::new(self.parse(&body)?))),
        }
    }

    /// Waits about a minute for the operator's approval; `None` if nobody has decided until then.
    ///
    /// # Errors
    /// The authority was not reached, or the operator has denied the request.
    pub async fn wait(&self, ticket: &str) -> Result<Option<Answer>, ClientError> {
        match self.get(&format!("/v1/join/{ticket}")).await? {
            (StatusCode::ACCEPTED, _) => Ok(None),
            (_, body) => self.parse(&body).map(Some),
        }
    }

    /// Renews the certificate that the connection shows, for the key of this signing request, DER.
    ///
    /// # Errors
    /// The authority was not reached, or refuses.
    pub async fn renew(&self, request: &[u8]) -> Result<Answer, ClientError> {
        let (_, body) = self.post("/v1/renew", &RenewBody { request: BASE64.encode(request) }).await?;
        self.parse(&body)
    }

    /// Waits about a minute for documents that are newer than these; none if there are none until then.
    ///
    /// # Errors
    /// The authority was not reached, or refuses.
    pub async fn documents(&self, held: Holdings) -> Result<Vec<Document>, ClientError> {
        let Holdings { revocations, policy, trust, waits } = held;
        let path = format!("/v1/documents?revocations={revocations}&policy={policy}&trust={trust}&waits={waits}");
        let (_, body) = self.get(&path).await?;
        Ok(self.parse::<DocumentsBody>(&body)?.documents)
    }

    async fn post(&self, path: &str, body: &impl Serialize) -> Result<(StatusCode, Bytes), ClientError> {
        let body = serde_json::to_vec(body).unwrap_or_default();
        self.exchange(Method::POST, path, body, ANSWER).await
    }

    async fn get(&self, path: &str) -> Result<(StatusCode, Bytes), ClientError> {
        self.exchange(Method::GET, path, Vec::new(), LONG_ANSWER).await
    }

    async fn exchange(
        &self,
        method: Method,
        path: &str,
        body: Vec<u8>,
        within: Duration,
    ) -> Result<(StatusCode, Bytes), ClientError> {
        let request = Request::builder().method(method).uri(path).header(header::HOST, SERVICE_NAME);
        let request = request.header(header::CONTENT_TYPE, "application/json").body(Full::new(Bytes::from(body)));
        let request = request.map_err(|_| ClientError::Garbled(self.authority.clone()))?;
        let late = |_| ClientError::TimedOut(self.authority.clone());
        let stream = timeout(CONNECT, self.connect()).await.map_err(late)??;
        let (status, body) = timeout(within, self.send(stream, request)).await.map_err(late)??;
        if status.is_success() {
            return Ok((status, body));
        }
        let ErrorBody { error, code } = self.parse(&body)?;
        Err(ClientError::Refused { code, error: error.chars().filter(|c| !c.is_control()).collect() })
    }

    async fn connect(&self) -> Result<TokioIo<tokio_rustls::client::TlsStream<TcpStream>>, ClientError> {
        let stream = TcpStream::connect(&self.authority).await.map_err(|error| self.explain(error))?;
        let stream = self.connector.connect(self.name.clone(), stream).await.map_err(|error| self.explain(error))?;
        Ok(TokioIo::new(stream))
    }

    async fn send(
        &self,
        stream: TokioIo<tokio_rustls::client::TlsStream<TcpStream>>,
        request: Request<Full<Bytes>>,
    ) -> Result<(StatusCode, Bytes), ClientError> {
        let (mut sender, connection) = http1::handshake(stream).await.map_err(|error| self.explain(error))?;
        let exchange = async {
            let response = sender.send_request(request).await.map_err(|error| self.explain(error))?;
            let status = response.status();
            let body = Limited::new(response.into_body(), MAX_ANSWER).collect().await;
            Ok((status, body.map_err(|_| ClientError::Garbled(self.authority.clone()))?.to_bytes()))
        };
        tokio::pin!(exchange, connection);
        tokio::select! {
            done = &mut exchange => done,
            // A refusal of our certificate shows here: the handshake of TLS 1.3 has ended for us before it.
            Err(error) = &mut connection => Err(self.explain(error)),
        }
    }

    fn explain(&self, error: impl Error + 'static) -> ClientError {
        let authority = self.authority.clone();
        match authority_fault(&error) {
            Some(AuthorityFault::OtherAuthority) => ClientError::OtherAuthority(authority),
            Some(AuthorityFault::Ended) => ClientError::Ended(authority),
            Some(AuthorityFault::NotBegun) => ClientError::NotBegun(authority),
            Some(AuthorityFault::Refused(refusal)) => ClientError::Certificate { authority, refusal },
            None => ClientError::Unreachable { authority, source: io::Error::other(error.to_string()) },
        }
    }

    fn parse<T: DeserializeOwned>(&self, body: &[u8]) -> Result<T, ClientError> {
        serde_json::from_slice(body).map_err(|_| ClientError::Garbled(self.authority.clone()))
    }
}

/// Renews `held`, which was loaded from `dir`, at the authority, and puts the new identity there in one step.
///
/// # Errors
/// The authority was not reached or refuses, or the folder cannot be written. The identity is as it was.
pub async fn renew(dir: &Path, held: &Arc<Identity>, authority: &str, key: RenewalKey) -> Result<Identity, RenewError> {
    let (path, current) = (dir.to_owned(), Arc::clone(held));
    let enrolment = blocking(dir, move || Enrolment::renew(&path, &current, key)).await?;
    let request = enrolment.request(None, None)?;
    let answer = Client::for_member(authority, held)?.renew(&request).await?;
    let fingerprint = held.authority_fingerprint();
    Ok(blocking(dir, move || enrolment.finish(&answer, Some(fingerprint), None, SystemTime::now())).await?)
}

/// Runs work on the folder beside the daemon's own threads: a slow disk holds up no packet.
async fn blocking<T: Send + 'static>(
    dir: &Path,
    action: impl FnOnce() -> Result<T, EnrolmentError> + Send + 'static,
) -> Result<T, EnrolmentError> {
    let failed = |error| EnrolmentError::Write { path: dir.to_owned(), source: io::Error::other(error) };
    tokio::task::spawn_blocking(action).await.map_err(failed)?
}
