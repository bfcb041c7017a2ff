//! Video for players by RTSP: `rtsp://HOST:8554/video/27,92` for ffplay, VLC, and clients of TAK.
//!
//! Packets go as the provider made them: an MPEG transport stream in RTP (RFC 2250), with all that is in it, or RTP with
//! H.264. So each codec passes through, and sound and metadata come along.

mod address;
mod conversation;
mod player;

use std::time::Duration;

use tokio::net::TcpListener;

use crate::places::Places;
use crate::{SharedStreams, Token};

/// The pause after the system could not accept a connection.
const PAUSE: Duration = Duration::from_millis(200);

/// The most players at once, and of one address.
const MAX_PLAYERS: usize = 32;
const MAX_PLAYERS_OF_ADDRESS: usize = 16;

#[derive(Clone, Debug)]
pub struct Rtsp {
    streams: SharedStreams,
    /// The password that players give; the user's name does not matter.
    token: Option<Token>,
    places: Places,
}

impl Rtsp {
    pub fn new(streams: SharedStreams, token: Option<Token>) -> Self {
        Self { streams, token, places: Places::new(MAX_PLAYERS, MAX_PLAYERS_OF_ADDRESS) }
    }

    /// Serves the players that connect, for ever.
    pub async fn serve(self, listener: TcpListener) {
        loop {
            let (socket, remote) = match listener.accept().await {
                Ok(accepted) => accepted,
                Err(error) => {
                    tracing::warn!(%error, "a player cannot be accepted");
                    tokio::time::sleep(PAUSE).await;
                    continue;
                }
            };
            let Some(place) = self.places.admit(remote.ip()) else {
                tracing::debug!(%remote, "a player is refused: too many are served already");
                continue;
            };
            let (streams, token) = (self.streams.clone(), self.token.clone());
            tokio::spawn(async move {
                match player::serve(socket, streams, token).await {
                    Ok(()) => tracing::debug!(%remote, "a player has gone"),
                    Err(error) => tracing::debug!(%remote, %error, "a player has broken off"),
                }
                drop(place);
            });
        }
    }
}
