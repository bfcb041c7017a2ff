//! The daemon's side of the local API: the socket, its permissions, and how
//! errors and queries look. Which endpoints there are is the daemon's business.

use std::fs::Permissions;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::fs::{FileTypeExt, PermissionsExt};
use std::path::{Path, PathBuf};

use axum::Router;
use axum::extract::{FromRequest, FromRequestParts, Query, Request};
use axum::http::request::Parts;
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use rustix::fs::Mode;
use serde::Serialize;
use serde::de::DeserializeOwned;
use socket2::{Domain, SockAddr, Type};
use tokio::net::{UnixListener, UnixStream};

use crate::SCHEMA;
use crate::error::{Code, Error, ErrorBody};
use crate::query::QueryError;
use crate::serving::LOCAL_CONNECTIONS;
pub use crate::serving::{PUBLIC_CONNECTIONS, serve};

/// Owner and group may use the socket, and nobody else at any moment: who may open it may command the daemon.
const ACCESS: u32 = 0o660;

/// Connections that wait to be accepted: as many as the system allows.
const BACKLOG: i32 = -1;

/// The longest path that the system gives to a socket, bytes.
pub const MAX_SOCKET_PATH: usize = 107;

/// Why there is no control socket. Nothing has changed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SocketError {
    /// A daemon answers there.
    #[error("another daemon already answers on {}: stop it, or choose another socket", .0.display())]
    InUse(PathBuf),
    /// The path is taken by something that is no socket.
    #[error("{} is there already and is no socket: choose another path", .0.display())]
    NotASocket(PathBuf),
    /// The path does not fit into what the system has for it.
    #[error("the control socket's path has {} bytes and may have {MAX_SOCKET_PATH}: choose a shorter one than {}", .0.as_os_str().len(), .0.display())]
    TooLong(PathBuf),
    /// The system refused.
    #[error("cannot make the control socket {}: {source}{}", .path.display(), hint(path, source))]
    Refused {
        /// The path.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
}

/// Advice if a socket below `/run` is refused: the default path lies there if a session has no folder of its own.
fn hint(path: &Path, source: &io::Error) -> &'static str {
    let is_systems = path.starts_with("/run") && !path.starts_with("/run/user");
    if source.kind() == io::ErrorKind::PermissionDenied && is_systems {
        "; a user may not write there: set XDG_RUNTIME_DIR, or choose another path with --socket PATH"
    } else {
        ""
    }
}

/// A control socket that is listened on. Its file goes when it is dropped.
#[derive(Debug)]
pub struct Socket {
    // Dropped first, while this daemon still listens.
    file: SocketFile,
    listener: UnixListener,
}

/// Socket file of this process, removed on drop.
#[derive(Debug)]
struct SocketFile(PathBuf);

impl Drop for SocketFile {
    fn drop(&mut self) {
        // An absent file is what is wanted.
        let _ = std::fs::remove_file(&self.0);
    }
}

impl Socket {
    /// Listens on `path`, making its folder if need be. A socket that a dead
    /// daemon left behind is replaced; one that answers is left alone.
    ///
    /// # Errors
    /// See [`SocketError`].
    pub async fn bind(path: &Path) -> Result<Self, SocketError> {
        if path.as_os_str().len() > MAX_SOCKET_PATH {
            return Err(SocketError::TooLong(path.to_owned()));
        }
        let refused = |source| SocketError::Refused { path: path.to_owned(), source };
        if let Some(folder) = path.parent().filter(|folder| !folder.as_os_str().is_empty()) {
            std::fs::create_dir_all(folder).map_err(refused)?;
        }
        match std::fs::symlink_metadata(path) {
            Ok(found) if !found.file_type().is_socket() => return Err(SocketError::NotASocket(path.to_owned())),
            Ok(_) if !is_stale(path).await.map_err(refused)? => return Err(SocketError::InUse(path.to_owned())),
            Ok(_) => remove(path).map_err(refused)?,
            Err(_) => {}
        }
        let listener = listen(path).map_err(refused)?;
        Ok(Self { file: SocketFile(path.to_owned()), listener })
    }

    /// Answers with `router` until `stop` is done, then finishes what is under way; see [`serve`].
    pub async fn serve(self, router: Router, stop: impl Future<Output = ()> + Send + 'static) {
        let Self { file, listener } = self;
        // The file goes while this daemon still listens: later it may be another daemon's.
        let stop = async move {
            stop.await;
            drop(file);
        };
        serve(listener, router, LOCAL_CONNECTIONS, stop).await;
    }
}

/// Listens on `path` with [`ACCESS`]. The socket has its mode before it has a path: the umask belongs to the whole
/// process, and other threads make files meanwhile. It can only have taken rights away, which are given back.
fn listen(path: &Path) -> io::Result<UnixListener> {
    let socket = socket2::Socket::new(Domain::UNIX, Type::STREAM, None)?;
    rustix::fs::fchmod(&socket, Mode::from_raw_mode(ACCESS))?;
    socket.bind(&SockAddr::unix(path)?)?;
    socket.listen(BACKLOG)?;
    std::fs::set_permissions(path, Permissions::from_mode(ACCESS))?;
    socket.set_nonblocking(true)?;
    UnixListener::from_std(OwnedFd::from(socket).into())
}

/// True if no process listens on a socket. A full accept queue counts as listening, a daemon that ends meanwhile does
/// not: it resets the connection, and its file may have gone.
async fn is_stale(path: &Path) -> io::Result<bool> {
    use io::ErrorKind::{ConnectionRefused, ConnectionReset, NotFound, WouldBlock};
    match UnixStream::connect(path).await {
        Ok(_) => Ok(false),
        Err(error) => match error.kind() {
            ConnectionRefused | ConnectionReset | NotFound => Ok(true),
            WouldBlock => Ok(false),
            _ => Err(error),
        },
    }
}

/// Removes a stale socket, unless its daemon did so.
fn remove(path: &Path) -> io::Result<()> {
    match std::fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

/// An [`Error`] as an answer.
#[derive(Debug)]
pub struct ApiError(pub Error);

impl ApiError {
    /// An error with a code and a sentence.
    pub fn new(code: Code, message: impl Into<String>) -> Self {
        Self(Error::new(code, message))
    }

    /// It as it stands on the wire.
    pub fn body(self) -> ErrorBody {
        ErrorBody { schema: SCHEMA, error: self.0 }
    }
}

impl From<QueryError> for ApiError {
    fn from(error: QueryError) -> Self {
        Self::new(Code::Usage, error.to_string())
    }
}

impl IntoResponse for ApiError {
    fn into_response(self) -> Response {
        let status = StatusCode::from_u16(self.0.code.http_status()).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
        (status, json(&self.body())).into_response()
    }
}

/// A value as an answer.
pub fn json<T: Serialize>(value: &T) -> Response {
    ([(header::CONTENT_TYPE, "application/json")], json_line(value)).into_response()
}

/// A value as JSON and a line feed, so that it ends well on a terminal.
pub fn json_line<T: Serialize>(value: &T) -> String {
    // The types of this API hold texts and numbers, which always have a JSON form.
    serde_json::to_string(value).unwrap_or_default() + "\n"
}

/// The parameters of a query, in their order.
#[derive(Debug)]
pub struct Pairs(pub Vec<(String, String)>);

impl<S: Send + Sync> FromRequestParts<S> for Pairs {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, ApiError> {
        match Query::<Vec<(String, String)>>::from_request_parts(parts, state).await {
            Ok(Query(pairs)) => Ok(Self(pairs)),
            Err(rejection) => Err(ApiError::new(Code::Usage, rejection.body_text())),
        }
    }
}

/// The longest JSON body, bytes.
const MAX_JSON_BYTES: usize = 64 * 1024;

/// A JSON body, whatever media type its sender names.
#[derive(Debug)]
pub struct JsonBody<T>(pub T);

impl<T: DeserializeOwned, S: Send + Sync> FromRequest<S> for JsonBody<T> {
    type Rejection = ApiError;

    async fn from_request(request: Request, _: &S) -> Result<Self, ApiError> {
        let wrong =
            |why: String| ApiError::new(Code::Usage, format!("the body is no JSON object of this endpoint: {why}"));
        let body = axum::body::to_bytes(request.into_body(), MAX_JSON_BYTES).await;
        let body = body.map_err(|error| wrong(error.to_string()))?;
        serde_json::from_slice(&body).map(Self).map_err(|error| wrong(error.to_string()))
    }
}

/// The router with an error in the form of all errors wherever there is no such endpoint.
pub fn with_fallback(router: Router) -> Router {
    router.fallback(no_such_endpoint).method_not_allowed_fallback(no_such_endpoint)
}

async fn no_such_endpoint(request: Request) -> ApiError {
    let message = format!("this daemon has no {} {}", request.method(), request.uri().path());
    ApiError::new(Code::NoSuchEndpoint, message)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn user_without_a_folder_is_told() {
        let refused = |path: &str, kind: io::ErrorKind| SocketError::Refused { path: path.into(), source: kind.into() };
        let denied = io::ErrorKind::PermissionDenied;
        assert!(refused("/run/roost/overlay-node.sock", denied).to_string().contains("XDG_RUNTIME_DIR"));
        assert!(!refused("/run/user/1000/roost/a.sock", denied).to_string().contains("XDG_RUNTIME_DIR"));
        assert!(!refused("/run/roost/a.sock", io::ErrorKind::NotFound).to_string().contains("XDG_RUNTIME_DIR"));
    }
}
