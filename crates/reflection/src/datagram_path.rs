//! The addresses of a datagram.

use std::net::{IpAddr, SocketAddr};

/// A pair of addresses: that of a remote, and the one here at which its datagrams come in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DatagramPath {
    /// An IPv4 address is one, also on a socket for both families.
    pub remote: SocketAddr,
    /// Not known of a socket that has one address only.
    pub local: Option<IpAddr>,
}

impl From<SocketAddr> for DatagramPath {
    fn from(remote: SocketAddr) -> Self {
        Self { remote: canonical(remote), local: None }
    }
}

/// The address itself, or the IPv4 address that it maps.
pub(crate) fn canonical(address: SocketAddr) -> SocketAddr {
    match address {
        SocketAddr::V6(v6) if v6.ip().to_ipv4_mapped().is_some() => {
            SocketAddr::new(address.ip().to_canonical(), address.port())
        }
        _ => address,
    }
}
