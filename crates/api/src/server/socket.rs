//! The socket of the local API, its permissions and its file.

use std::fs::Permissions;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::fs::{FileTypeExt, PermissionsExt};
use std::path::{Path, PathBuf};

use axum::Router;
use rustix::fs::Mode;
use socket2::{Domain, SockAddr, Type};
use tokio::net::{UnixListener, UnixStream};

use crate::serving::{CallerLimits, serve};

/// Mode of the socket: owner and group may command the daemon, and nobody else at any moment.
const ACCESS: u32 = 0o660;

/// Accept queue: -1 is the system's maximum.
const BACKLOG: i32 = -1;

/// Longest path of a Unix socket, bytes (`sun_path` less its terminator).
pub const MAX_SOCKET_PATH_BYTES: usize = 107;

/// Error of binding the control socket. An existing daemon is not affected.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SocketError {
    #[error("another daemon already answers on {}: stop it, or choose another socket", .0.display())]
    InUse(PathBuf),
    #[error("{} is there already and is no socket: choose another path", .0.display())]
    NotASocket(PathBuf),
    #[error("the control socket's path has {} bytes and may have {MAX_SOCKET_PATH_BYTES}: choose a shorter one than {}", .0.as_os_str().len(), .0.display())]
    TooLong(PathBuf),
    #[error("cannot make the control socket {}: {source}{}", .path.display(), permission_hint(path, source))]
    Refused { path: PathBuf, source: io::Error },
}

/// A control socket that is listened on. Its file goes when it is dropped.
#[derive(Debug)]
pub struct ControlSocket {
    // Dropped first, while this daemon still listens.
    file: SocketFile,
    listener: UnixListener,
}

/// The file of this process's socket, removed on drop.
#[derive(Debug)]
struct SocketFile(PathBuf);

impl Drop for SocketFile {
    fn drop(&mut self) {
        // Another process may have removed the file.
        let _ = std::fs::remove_file(&self.0);
    }
}

impl ControlSocket {
    /// Listens on `path` and makes its folder if there is none. A socket that a dead daemon left behind is replaced;
    /// one that answers is left alone. Two daemons that start at the same moment may both replace it: only a lock file
    /// would prevent that.
    ///
    /// # Errors
    /// Returns an error if a daemon answers there, or the path is too long, taken or refused; see [`SocketError`].
    pub async fn bind(path: &Path) -> Result<Self, SocketError> {
        if path.as_os_str().len() > MAX_SOCKET_PATH_BYTES {
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
            // No file, or an unreadable folder, of which `listen` reports the error.
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
        serve(listener, router, CallerLimits::LOCAL, stop).await;
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

/// Advice if a socket below `/run` is refused: the default path lies there if a session has no folder of its own.
fn permission_hint(path: &Path, source: &io::Error) -> &'static str {
    let is_system_folder = path.starts_with("/run") && !path.starts_with("/run/user");
    if source.kind() == io::ErrorKind::PermissionDenied && is_system_folder {
        "; a user may not write there: set XDG_RUNTIME_DIR, or choose another path with --socket PATH"
    } else {
        ""
    }
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
