//! The three kinds of output: a pipe, a file in the making, datagrams.

use std::io::ErrorKind;
use std::net::SocketAddr;
use std::path::Path;

use tokio::fs::File;
use tokio::io::{AsyncWriteExt, Stdout};
use tokio::net::UdpSocket;

use super::part::PartialFile;
use super::{Draft, Finished, SinkSpec, SinkState, TransferEnd};
use crate::SinkError;

#[derive(Debug)]
pub(super) enum Output {
    Stdout(Stdout),
    /// An existing path that is no regular file: a device or a named pipe. It is written to and never replaced.
    Device(String, File),
    Draft(Draft),
    /// A large object in progress; `None` while a task writes to it.
    Part(Option<PartialFile>),
    /// A player's port, and the next one if it takes RTCP.
    Udp(SocketAddr, UdpSocket, Option<SocketAddr>),
}

impl Output {
    pub(super) async fn open(spec: &SinkSpec, keep_part: bool) -> Result<Self, SinkError> {
        match spec {
            SinkSpec::Stdout => Ok(Self::Stdout(tokio::io::stdout())),
            SinkSpec::File(path) => open_path(path, keep_part).await,
            SinkSpec::Udp(address) | SinkSpec::Rtp(address) => {
                let unwritable = |error: &std::io::Error| SinkError::unwritable(spec.to_string(), error);
                let target = crate::net::resolve(address).await.map_err(|error| unwritable(&error))?;
                let local: SocketAddr = if target.is_ipv4() { ([0; 4], 0).into() } else { ([0_u16; 8], 0).into() };
                let socket = UdpSocket::bind(local).await.map_err(|error| unwritable(&error))?;
                let after = target.port().checked_add(1).filter(|_| matches!(spec, SinkSpec::Rtp(_)));
                Ok(Self::Udp(target, socket, after.map(|port| SocketAddr::new(target.ip(), port))))
            }
        }
    }

    /// True if the output appears only when it is complete.
    pub(super) const fn is_draft(&self) -> bool {
        matches!(self, Self::Draft(_) | Self::Part(_))
    }

    /// Writes, and flushes if a reader may be waiting.
    pub(super) async fn put(&mut self, bytes: &[u8]) -> Result<SinkState, SinkError> {
        let (name, result) = match self {
            Self::Stdout(stdout) => ("standard output", write_through(stdout, bytes).await),
            Self::Device(name, file) => (name.as_str(), write_through(file, bytes).await),
            Self::Draft(draft) => return draft.write(bytes).await.map(|()| SinkState::Open),
            Self::Part(part) => return PartialFile::add(part, bytes).await.map(|()| SinkState::Open),
            Self::Udp(target, socket, _) => return send(socket, bytes, *target).await,
        };
        match result {
            Ok(()) => Ok(SinkState::Open),
            Err(error) if error.kind() == ErrorKind::BrokenPipe => Ok(SinkState::Closed),
            Err(error) => Err(SinkError::unwritable(name, &error)),
        }
    }

    /// Writes the gathered bytes once they have waited long enough.
    pub(super) async fn flush_if_due(&mut self) -> Result<(), SinkError> {
        match self {
            Self::Draft(draft) => draft.flush_if_due().await,
            _ => Ok(()),
        }
    }

    /// Sends RTCP to the port at which a player takes it.
    pub(super) async fn send_rtcp(&mut self, bytes: &[u8]) -> Result<SinkState, SinkError> {
        match self {
            Self::Udp(_, socket, Some(after)) => send(socket, bytes, *after).await,
            _ => Ok(SinkState::Open),
        }
    }

    pub(super) async fn finish(self, end: TransferEnd, bytes: u64) -> Result<Finished, SinkError> {
        match self {
            Self::Draft(draft) => draft.finish(end, bytes).await,
            Self::Part(Some(part)) => blocking(move || part.finish()).await,
            Self::Part(None) => Ok(Finished::Discarded),
            Self::Stdout(_) | Self::Device(..) | Self::Udp(..) => Ok(Finished::Written { bytes, path: None }),
        }
    }
}

/// Runs blocking work on a thread that may block.
pub(super) async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, SinkError> + Send + 'static,
) -> Result<T, SinkError> {
    let done = tokio::task::spawn_blocking(work).await;
    done.unwrap_or_else(|error| Err(SinkError::unwritable("the output", &std::io::Error::other(error))))
}

async fn send(socket: &UdpSocket, bytes: &[u8], to: SocketAddr) -> Result<SinkState, SinkError> {
    match socket.send_to(bytes, to).await {
        // The player may not listen yet, or any more. One that starts later gets the rest.
        Err(error) if error.kind() != ErrorKind::ConnectionRefused => {
            Err(SinkError::unwritable(to.to_string(), &error))
        }
        _ => Ok(SinkState::Open),
    }
}

async fn write_through(output: &mut (impl AsyncWriteExt + Unpin), bytes: &[u8]) -> std::io::Result<()> {
    output.write_all(bytes).await?;
    output.flush().await
}

async fn open_path(path: &Path, keep_part: bool) -> Result<Output, SinkError> {
    let name = path.display().to_string();
    match tokio::fs::metadata(path).await {
        Ok(found) if found.is_dir() => Err(SinkError::Folder { path: name }),
        Ok(found) if !found.is_file() => {
            let file = tokio::fs::OpenOptions::new().write(true).open(path).await;
            Ok(Output::Device(name.clone(), file.map_err(|error| SinkError::unwritable(name, &error))?))
        }
        _ => Ok(Output::Draft(Draft::create(path, keep_part).await?)),
    }
}
