//! The reaction of a connection to addresses of either side that appear and disappear.

use std::net::IpAddr;
use std::sync::PoisonError;
use std::sync::atomic::Ordering::Relaxed;

use quinn::Connection;

use super::address_update::{AddressUpdate, path_name};
use super::connection::{GIVEN_UP, QuicConnection};
use super::hello::send_stream;
use crate::multipath::PathId;

impl QuicConnection {
    /// Gives up the paths from one of our addresses that has disappeared, and tells the remote. A connection's only
    /// path stays, since the address may come back.
    pub(super) fn leave(&self, ip: IpAddr) {
        let gone = self.lock().at(ip);
        for quinn_connection in gone.into_iter().filter_map(|path| self.give_up(path, "an address of it is gone")) {
            let name = path_name(&quinn_connection);
            name.into_iter().for_each(|name| self.send_address_update(&AddressUpdate::Gone(name)));
        }
    }

    /// Ends a path, unless it is the only one. Returns its QUIC connection.
    pub(super) fn give_up(&self, id: PathId, why: &'static str) -> Option<Connection> {
        // Removed at once, since another path may be given up at the same time.
        let quinn_connection = self.apply(|state, now| {
            let path = state.paths.get(&id).filter(|_| state.paths.len() > 1)?;
            let quinn_connection = path.quinn_connection.clone();
            state.remove_path(now, id);
            Some(quinn_connection)
        })?;
        let (remote, address) = (&self.identified.remote.name, quinn_connection.remote_address());
        tracing::info!(remote, %address, why, "a path is given up");
        quinn_connection.close(GIVEN_UP, why.as_bytes());
        Some(quinn_connection)
    }

    /// Tells the remote that we listen at other addresses now, at the port that it dialed.
    pub(super) fn tell_hosts(&self, port: u16, hosts: &[IpAddr]) {
        if self.port == Some(port) {
            let number = self.told.fetch_add(1, Relaxed);
            self.send_address_update(&AddressUpdate::Hosts { number, hosts: hosts.to_vec() });
        }
    }

    /// Sends a notice on every path, since any of them may be lost.
    fn send_address_update(&self, notice: &AddressUpdate) {
        let connections: Vec<_> = self.lock().paths.values().map(|path| path.quinn_connection.clone()).collect();
        for quinn_connection in connections {
            let bytes = notice.write();
            // The task ends when the stream is open, or the QUIC connection over.
            tokio::spawn(async move { send_stream(&quinn_connection, &bytes).await });
        }
    }

    /// Handles a notice of the remote about its addresses.
    pub(super) fn handle_address_update(&self, notice: AddressUpdate) {
        match notice {
            AddressUpdate::Gone(name) => {
                let named = self.lock().named(name);
                named.and_then(|path| self.give_up(path, "an address of it is gone"));
            }
            AddressUpdate::Hosts { number, hosts } => {
                let mut heard = self.hosts.lock().unwrap_or_else(PoisonError::into_inner);
                if heard.as_ref().is_none_or(|(before, _)| *before < number) {
                    *heard = Some((number, hosts));
                }
            }
        }
        self.changed.notify_one();
    }

    /// The addresses at which the remote listens, if it has reported a change.
    pub(super) fn hosts(&self) -> Option<Vec<IpAddr>> {
        self.hosts.lock().unwrap_or_else(PoisonError::into_inner).as_ref().map(|(_, hosts)| hosts.clone())
    }
}
