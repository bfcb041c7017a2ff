//! Watches the local addresses that come and go.
//!
//! The system does not tell a socket that its address has disappeared or appeared again. So each address to listen on
//! is tried every second: a socket can be bound to an address that exists, whatever else uses it. An address that did
//! not exist at the start is listened on once it appears. The address from which the system sends to a UDP remote is
//! also looked up each time.

use std::io::ErrorKind;
use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::sync::atomic::Ordering;
use std::sync::{Arc, Weak};
use std::time::Duration;

use roost_wire::{Congestion, Scheme};

use crate::event::{Event, EventSource};
use crate::transport::Shared;
use crate::udp::UdpEndpoint;

/// The time between two looks at all addresses.
const PAUSE: Duration = Duration::from_secs(1);

/// An address to listen on. There are as many as hosts in the configuration.
#[derive(Debug)]
pub(crate) struct ListenAddress {
    pub(crate) scheme: Scheme,
    pub(crate) at: SocketAddr,
    /// The congestion control of QUIC connections at this address.
    pub(crate) congestion: Congestion,
    /// False while the address does not exist, so that no socket could be bound.
    pub(crate) is_open: bool,
    /// True if the address existed at the last look.
    pub(crate) is_there: bool,
}

/// True if the system has this address; `None` if the attempt to bind it does not tell.
pub(crate) fn is_local_address(ip: IpAddr) -> Option<bool> {
    match UdpSocket::bind((ip, 0)) {
        Ok(_) => Some(true),
        Err(error) if error.kind() == ErrorKind::AddrNotAvailable => Some(false),
        Err(_) => None,
    }
}

/// Watches the listen addresses, and the addresses from which UDP sends, until the transport is dropped or shut down.
pub(crate) async fn monitor_addresses(shared: Weak<Shared>, mut places: Vec<ListenAddress>) {
    places.retain(|place| !place.at.ip().is_unspecified());
    if let Some(shared) = shared.upgrade() {
        places.iter().filter(|place| !place.is_there).for_each(|place| place.report_presence(&shared));
    }
    loop {
        tokio::time::sleep(PAUSE).await;
        let Some(shared) = shared.upgrade() else { return };
        if shared.context.closing.load(Ordering::Relaxed) {
            return;
        }
        places.iter_mut().for_each(|place| place.look(&shared));
        shared.udp.endpoints().iter().for_each(UdpEndpoint::update_sources);
    }
}

impl ListenAddress {
    fn report_presence(&self, shared: &Shared) {
        let Self { scheme, at, is_there, .. } = *self;
        shared.context.queue.push(EventSource::Host, Event::Presence { scheme, at, is_there });
    }

    fn look(&mut self, shared: &Arc<Shared>) {
        let Some(is_there) = is_local_address(self.at.ip()).filter(|is_there| *is_there != self.is_there) else {
            return;
        };
        let (scheme, at) = (self.scheme, self.at);
        if is_there && !self.is_open {
            match shared.listen_at(scheme, at, self.congestion) {
                Ok(_) => self.is_open = true,
                Err(error) => {
                    return tracing::debug!(%scheme, %at, %error, "cannot listen on a new local address");
                }
            }
        }
        self.is_there = is_there;
        self.report_presence(shared);
        let what = if is_there { "a local address appeared" } else { "a local address disappeared" };
        tracing::info!(%scheme, %at, "{what}");
        if scheme == Scheme::Quic {
            shared.quic.note_presence(at, is_there);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn local_addresses_are_recognized() {
        assert_eq!(is_local_address([127, 0, 0, 1].into()), Some(true));
        // An address of a network for documentation (RFC 5737).
        assert_eq!(is_local_address([192, 0, 2, 77].into()), Some(false));
    }
}
