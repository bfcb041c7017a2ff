//! Addresses of ours that come and go.
//!
//! The system does not tell a socket that its address is gone, or there again.
//! So those that we are to listen on are tried all the time: a socket can be
//! bound to an address that is there, whatever else uses it. One that was not
//! there at the start is listened on when it has come. And the address that the
//! system sends from to a UDP peer is looked up each time.

use std::io::ErrorKind;
use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::sync::atomic::Ordering;
use std::sync::{Arc, Weak};
use std::time::Duration;

use roost_proto::{Congestion, Scheme};

use crate::event::{Event, EventSource};
use crate::transport::Shared;
use crate::udp::Endpoint;

/// Between two looks.
const PAUSE: Duration = Duration::from_secs(1);

/// An address to listen on. There are as many as hosts in the configuration.
#[derive(Debug)]
pub(crate) struct ListenAddress {
    pub(crate) scheme: Scheme,
    pub(crate) at: SocketAddr,
    /// Of QUIC there.
    pub(crate) congestion: Congestion,
    /// Whether it is listened on.
    pub(crate) is_open: bool,
    /// Whether the address was there when it was looked for last.
    pub(crate) is_there: bool,
}

/// Whether the system has an address; `None` if it cannot be told.
pub(crate) fn is_local_address(ip: IpAddr) -> Option<bool> {
    match UdpSocket::bind((ip, 0)) {
        Ok(_) => Some(true),
        Err(error) if error.kind() == ErrorKind::AddrNotAvailable => Some(false),
        Err(_) => None,
    }
}

/// Looks after the places, and after what UDP sends from, for as long as there
/// is a transport.
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
        shared.udp.endpoints().iter().for_each(Endpoint::look_around);
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
        // A network for documentation (RFC 5737).
        assert_eq!(is_local_address([192, 0, 2, 77].into()), Some(false));
    }
}
