//! The places of clients: some for each address, and those that say nothing give way to others.

use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use tokio::sync::oneshot;

use crate::contacts::ConnectionId;

/// More clients than this belong at a server.
const MAX_CLIENTS: usize = 32;
const MAX_CLIENTS_OF_ADDRESS: usize = 16;

/// A client without an event for this time gives its place to another; devices ping more often.
const IDLE: Duration = Duration::from_secs(300);

#[derive(Clone, Default)]
pub(super) struct Clients(Arc<Mutex<Vec<Client>>>);

struct Client {
    id: ConnectionId,
    address: IpAddr,
    /// The time of its last event, if it has sent one.
    spoke: Option<Instant>,
    close: oneshot::Sender<()>,
}

/// A client's place, until it is dropped.
pub(super) struct Place {
    clients: Clients,
    id: ConnectionId,
    /// Ends when another client needs the place.
    pub(super) closed: oneshot::Receiver<()>,
}

impl Clients {
    fn list(&self) -> MutexGuard<'_, Vec<Client>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A place for a client, perhaps that of a silent one, which is closed.
    pub(super) fn admit(&self, id: ConnectionId, address: IpAddr, now: Instant) -> Option<Place> {
        let mut list = self.list();
        let same = list.iter().filter(|client| client.address == address).count();
        let leaving = if same >= MAX_CLIENTS_OF_ADDRESS {
            Some(most_silent(&list, now, |client| client.address == address)?)
        } else if list.len() >= MAX_CLIENTS {
            Some(most_silent(&list, now, |_| true)?)
        } else {
            None
        };
        if let Some(at) = leaving {
            // The client may be going by itself.
            let _ = list.remove(at).close.send(());
        }
        let (close, closed) = oneshot::channel();
        list.push(Client { id, address, spoke: None, close });
        Some(Place { clients: self.clone(), id, closed })
    }

    /// Keeps the time at which a client has sent an event.
    pub(super) fn spoke(&self, id: ConnectionId, now: Instant) {
        if let Some(client) = self.list().iter_mut().find(|client| client.id == id) {
            client.spoke = Some(now);
        }
    }
}

/// The place of a client that never spoke, the oldest first, or of the one that is idle for longest.
fn most_silent(list: &[Client], now: Instant, fits: impl Fn(&Client) -> bool) -> Option<usize> {
    let is_silent = |client: &Client| client.spoke.is_none_or(|spoke| spoke + IDLE <= now);
    let silent = list.iter().enumerate().filter(|(_, client)| fits(client) && is_silent(client));
    silent.min_by_key(|(_, client)| client.spoke).map(|(at, _)| at)
}

impl Drop for Place {
    fn drop(&mut self) {
        self.clients.list().retain(|client| client.id != self.id);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Admission {
        clients: Clients,
        now: Instant,
        next: u32,
    }

    impl Admission {
        fn new() -> Self {
            Self { clients: Clients::default(), now: Instant::now(), next: 0 }
        }

        fn admit(&mut self, last: u8) -> Option<Place> {
            self.next += 1;
            self.clients.admit(ConnectionId(self.next), IpAddr::from([192, 0, 2, last]), self.now)
        }

        fn admit_speaker(&mut self, last: u8) -> Option<Place> {
            let place = self.admit(last)?;
            self.clients.spoke(place.id, self.now);
            Some(place)
        }
    }

    fn is_closed(place: &mut Place) -> bool {
        place.closed.try_recv().is_ok()
    }

    #[test]
    fn one_address_leaves_room_for_others() {
        let mut admission = Admission::new();
        let places: Vec<Place> = std::iter::from_fn(|| admission.admit_speaker(1)).collect();
        assert_eq!(places.len(), MAX_CLIENTS_OF_ADDRESS);
        let others: Vec<Place> = (2..).map_while(|last| admission.admit_speaker(last)).collect();
        assert_eq!(others.len(), MAX_CLIENTS - MAX_CLIENTS_OF_ADDRESS);
        drop(places);
        assert!(admission.admit(1).is_some());
    }

    #[test]
    fn oldest_silent_client_gives_way() {
        let mut admission = Admission::new();
        let mut places: Vec<Place> = (0..MAX_CLIENTS_OF_ADDRESS).map(|_| admission.admit(1).unwrap()).collect();
        let others: Vec<Place> = (2..18).map(|last| admission.admit_speaker(last).unwrap()).collect();
        admission.clients.spoke(places[0].id, admission.now);
        let newcomer = admission.admit(1).unwrap();
        let elsewhere = admission.admit(99).unwrap();
        let closed: Vec<bool> = places.iter_mut().map(is_closed).collect();
        assert_eq!(closed.iter().position(|closed| *closed), Some(1));
        assert_eq!(closed.iter().filter(|closed| **closed).count(), 2);
        // A client that is closed leaves the places of others alone.
        drop(places);
        assert_eq!(admission.clients.list().len(), others.len() + 2);
        drop((newcomer, elsewhere));
    }

    #[test]
    fn idle_client_gives_way() {
        let mut admission = Admission::new();
        let mut places: Vec<Place> = std::iter::from_fn(|| admission.admit_speaker(1)).collect();
        admission.now += IDLE;
        admission.clients.spoke(places[0].id, admission.now);
        assert!(admission.admit(1).is_some());
        assert_eq!(places.iter_mut().position(is_closed), Some(1));
    }
}
