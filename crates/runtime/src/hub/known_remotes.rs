//! The file with the remotes that a hub tells after a restart that their connections are gone.

use std::fs::{self, File, OpenOptions};
use std::io::{self, ErrorKind, Read as _, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use roost_transport::{RestartNotifier, Transport};
use tokio::task::spawn_blocking;
use tokio_util::sync::CancellationToken;

use crate::program::state_directory;

/// Time between two looks for remotes to tell and changes to write.
const STEP: Duration = Duration::from_millis(100);
/// The most bytes that are read: room for all remotes that are kept.
const MAX_BYTES: u64 = 8 << 20;

/// The file of the daemon with this control socket: in the folder to which a service may write, else beside the socket.
pub(super) fn file_path(socket: &Path) -> PathBuf {
    let mut name = socket.as_os_str().to_owned();
    name.push(".links");
    let beside = PathBuf::from(name);
    match (state_directory(), beside.file_name()) {
        (Some(state), Some(name)) => state.join(name),
        _ => beside,
    }
}

/// Tells the remotes of the last run, and keeps those of this one until it is stopped, since a daemon that stops tells
/// all its remotes.
pub(super) async fn remember(path: PathBuf, transport: Transport, stop: CancellationToken) {
    let mut memory = RestartNotifier::new(&read(&path).unwrap_or_default(), Instant::now());
    let mut is_kept = true;
    while !stop.is_cancelled() {
        notify_forgotten(&mut memory, &transport);
        let (now, changes) = (Instant::now(), transport.changes());
        let fresh =
            memory.is_due(now, changes).then(|| memory.review(now, changes, transport.known_remotes())).flatten();
        if let Some(text) = fresh {
            let (path, text) = (path.clone(), text.to_owned());
            let written = spawn_blocking(move || replace(&path, &text)).await;
            is_kept = complain(is_kept, written.unwrap_or_else(|error| Err(io::Error::other(error))));
        }
        let _ = tokio::time::timeout(STEP, stop.cancelled()).await;
    }
    // Without the file nobody is told, which is right.
    let _ = fs::remove_file(&path);
}

fn notify_forgotten(memory: &mut RestartNotifier, transport: &Transport) {
    while let Some(known) = memory.next(Instant::now()) {
        if !transport.send_reset(&known) {
            return memory.put_back(known);
        }
    }
}

/// Warns once of a file that cannot be written. Returns true if it was written.
fn complain(was_kept: bool, written: io::Result<()>) -> bool {
    if let Err(error) = &written
        && was_kept
    {
        tracing::warn!(%error, "the hub cannot write its list of connections: idle nodes will not learn of a restart");
    }
    written.is_ok()
}

/// Reads the list that the last run has written.
fn read(path: &Path) -> io::Result<String> {
    let mut text = String::new();
    File::open(path)?.take(MAX_BYTES).read_to_string(&mut text)?;
    Ok(text)
}

/// Writes the file in one step, for its owner alone.
fn replace(path: &Path, text: &str) -> io::Result<()> {
    let next = path.with_extension("links.next");
    match fs::remove_file(&next) {
        Err(error) if error.kind() != ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&next)?;
    file.write_all(text.as_bytes())?;
    fs::rename(&next, path)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    #[test]
    fn the_file_is_never_the_socket() {
        for socket in ["/run/roost/supernode.sock", "/run/hub", "/run/hub.links"] {
            let file = file_path(Path::new(socket));
            assert_eq!(
                file.file_name().unwrap().to_str(),
                Some(&*format!("{}.links", socket.rsplit('/').next().unwrap()))
            );
        }
    }

    #[test]
    fn the_file_is_replaced_and_private() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("supernode.links");
        assert!(read(&path).is_err());
        for text in ["one\n", "two\n", ""] {
            replace(&path, text).unwrap();
            assert_eq!(read(&path).unwrap(), text);
            assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        }
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
    }
}
