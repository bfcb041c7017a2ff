//! Video for players by RTSP: `rtsp://HOST:8554/video/27,92` for ffplay, VLC, and clients of TAK.
//!
//! Packets go as the provider made them: an MPEG transport stream in RTP (RFC 2250), with all that is in it, or RTP with
//! H.264. So each codec passes through, and sound and metadata come along.

mod address;
mod conversation;
mod player;

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use tokio::net::TcpListener;

use crate::SharedStreams;

/// The most players at once.
const MAX_PLAYERS: usize = 32;

/// Serves players.
#[derive(Clone, Debug)]
pub struct Rtsp {
    streams: SharedStreams,
    /// The password that players give; the user's name does not matter.
    token: Option<Arc<str>>,
    players: Arc<AtomicUsize>,
}

/// A player's place among those that are served.
struct Place(Arc<AtomicUsize>);

impl Drop for Place {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Rtsp {
    pub fn new(streams: SharedStreams, token: Option<String>) -> Self {
        Self { streams, token: token.map(Arc::from), players: Arc::default() }
    }

    /// Serves the players that connect, until the listener fails.
    ///
    /// # Errors
    /// That of the listener.
    pub async fn serve(self, listener: TcpListener) -> std::io::Result<()> {
        loop {
            let (socket, remote) = listener.accept().await?;
            let place = Place(Arc::clone(&self.players));
            // One beyond the limit is closed at once.
            if self.players.fetch_add(1, Ordering::Relaxed) >= MAX_PLAYERS {
                tracing::warn!(%remote, "a player is refused: {MAX_PLAYERS} are served already");
                continue;
            }
            let (streams, token) = (self.streams.clone(), self.token.as_deref().map(str::to_owned));
            tokio::spawn(async move {
                let served = player::serve(socket, streams, token).await;
                log_end(remote, &served);
                drop(place);
            });
        }
    }
}

fn log_end(remote: SocketAddr, served: &std::io::Result<()>) {
    match served {
        Ok(()) => tracing::debug!(%remote, "a player has gone"),
        Err(error) => tracing::debug!(%remote, %error, "a player has broken off"),
    }
}
