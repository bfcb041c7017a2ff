//! Video for players by RTSP: `rtsp://HOST:8554/video/27,92` for ffplay, VLC, and clients of TAK.
//!
//! Packets go as the provider made them: an MPEG transport stream in RTP (RFC 2250), with all that is in it, or RTP with
//! H.264. So each codec passes through, and sound and metadata come along.

mod address;
mod conversation;
mod player;

use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::net::TcpListener;

use crate::SharedStreams;

/// The pause after the system could not accept a connection.
const PAUSE: Duration = Duration::from_millis(200);

/// The most players at once, and of one address.
const MAX_PLAYERS: usize = 32;
const MAX_PLAYERS_OF_ADDRESS: usize = 16;

#[derive(Clone, Debug)]
pub struct Rtsp {
    streams: SharedStreams,
    /// The password that players give; the user's name does not matter.
    token: Option<Arc<str>>,
    players: Players,
}

/// The players that are served, by their address.
#[derive(Clone, Debug, Default)]
struct Players(Arc<Mutex<Vec<IpAddr>>>);

/// A player's place among those that are served.
struct Place {
    players: Players,
    address: IpAddr,
}

impl Players {
    fn list(&self) -> MutexGuard<'_, Vec<IpAddr>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A place for a player of this address, if there is one left.
    fn admit(&self, address: IpAddr) -> Option<Place> {
        let mut list = self.list();
        let same = list.iter().filter(|other| **other == address).count();
        if list.len() >= MAX_PLAYERS || same >= MAX_PLAYERS_OF_ADDRESS {
            return None;
        }
        list.push(address);
        Some(Place { players: self.clone(), address })
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut list = self.players.list();
        if let Some(at) = list.iter().position(|address| *address == self.address) {
            list.swap_remove(at);
        }
    }
}

impl Rtsp {
    pub fn new(streams: SharedStreams, token: Option<String>) -> Self {
        Self { streams, token: token.map(Arc::from), players: Players::default() }
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
            let Some(place) = self.players.admit(remote.ip()) else {
                tracing::debug!(%remote, "a player is refused: too many are served already");
                continue;
            };
            let (streams, token) = (self.streams.clone(), self.token.as_deref().map(str::to_owned));
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_address_leaves_room_for_others() {
        let players = Players::default();
        let address = |last| IpAddr::from([192, 0, 2, last]);
        let places: Vec<Place> = std::iter::from_fn(|| players.admit(address(1))).collect();
        assert_eq!(places.len(), MAX_PLAYERS_OF_ADDRESS);
        let others: Vec<Place> = (2..).map_while(|last| players.admit(address(last))).collect();
        assert_eq!(others.len(), MAX_PLAYERS - MAX_PLAYERS_OF_ADDRESS);
        drop(places);
        assert!(players.admit(address(1)).is_some());
    }
}
